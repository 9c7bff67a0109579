"""A headless Chromium, over its debugging pipe: two file descriptors, and JSON with a zero between.

No package is needed for it, and no port is opened.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""The command of an installed Chromium; None without one."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-pipe",
)


class Page:
    """A page of the browser: what it logs, and what it tries to load."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        """Errors, warnings and logged texts."""
        self.requests: list[str] = []
        """The addresses that the page loads."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of Chromium's DevTools protocol."""
        self._number += 1
        session = {} if self._session is None else {"sessionId": self._session}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        self._write.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._read.read(1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        match event.get("method"):
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded":
                self.problems.append(json.dumps(event["params"]))
            case "Network.requestWillBeSent":
                self.requests.append(event["params"]["request"]["url"])
            case _:
                pass

    def open(self, path: Path, *, dark: bool = False) -> None:
        """Open a report, and wait until it is drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=path.as_uri())
        self.wait("document.body && document.body.dataset.ready === 'true'")

    def eval(self, text: str) -> Any:
        """Return the value of a JavaScript expression."""
        done = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        poll = f"new Promise((done) => {{ const poll = () => ({condition}) ? done(true) : "
        found = self.eval(
            poll + "setTimeout(poll, 20); poll(); setTimeout(() => done(false), 20000); })"
        )
        assert found, condition

    def press(self, key: str, text: str = "") -> None:
        """Press a key."""
        code = {"Enter": 13, "ArrowDown": 40, "ArrowRight": 39, "Escape": 27, "Tab": 9}
        facts: dict[str, Any] = {"key": key, "text": text or ("\r" if key == "Enter" else "")}
        if key in code:
            facts["windowsVirtualKeyCode"] = code[key]
        self.call("Input.dispatchKeyEvent", type="keyDown", **facts)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        """Type a text."""
        for letter in text:
            self.press(letter, letter)

    def click(self, selector: str) -> None:
        """Click the middle of the first element that a selector finds."""
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        x, y = self.eval(f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({box})")
        place = {"x": x, "y": y, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **place)

    def close(self) -> None:
        """Close the pipe."""
        self._read.close()
        self._write.close()

    def picture(self) -> bytes:
        """Return a PNG of the page."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])


@contextmanager
def chromium(folder: Path) -> Generator[Page]:
    """Run Chromium with an own profile in a folder."""
    assert COMMAND is not None
    to_read, to_write = os.pipe(), os.pipe()
    # Chromium reads from descriptor 3, and writes to 4
    shell = f'exec "$0" "$@" 3<&{to_read[0]} 4>&{to_write[1]}'
    profile = f"--user-data-dir={folder}"
    process = subprocess.Popen(
        ["bash", "-c", shell, COMMAND, *_FLAGS, profile],
        pass_fds=(to_read[0], to_write[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read[0])
    os.close(to_write[1])
    page = Page(to_write[0], to_read[1])
    try:
        yield page
    finally:
        process.terminate()
        process.wait(30)
        page.close()
