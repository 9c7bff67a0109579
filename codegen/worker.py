"""The worker process that runs LLVM: it receives modules as text, and returns objects.

``workers`` starts it with a socket as its standard input. A message is its length in 8 bytes,
followed by that many bytes. A request is a line of JSON with the machine, followed by the module's
text. A reply is one byte, the outcome, followed by the object or by a line of JSON with the error.
The process ends when its socket is closed, even while LLVM runs, and after an idle period.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NoReturn

from tessella.codegen.llvm import Machine, emit_object, initialize
from tessella.support.errors import InternalError

READY = b"tessella"
"""The first message: sent once LLVM is loaded."""

OBJECT, REFUSED, NO_MEMORY = b"o", b"r", b"m"
"""The outcomes in replies: an object, a text that LLVM rejects, and a lack of memory."""

LENGTH = 8
"""Bytes of the length before each message."""

_SOCKET = 0
"""The file descriptor of the socket to the parent: standard input."""
_CHUNK = 1 << 20
"""Bytes read at once; Python allocates room for all of them."""
_KILLED_FIRST = "1000"
"""The score that makes the system's out-of-memory killer choose this process rather than its
parent."""


def main(idle_seconds: float) -> NoReturn:
    """Serve requests until none has arrived for ``idle_seconds``."""
    serve(answer, idle_seconds, initialize)


def serve(
    answer: Callable[[bytes], bytes], idle_seconds: float, load: Callable[[], object]
) -> NoReturn:
    """Call ``load``, then answer requests until none has arrived for ``idle_seconds``."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent gets the signal too, and ends this process if it wants to
    os.set_blocking(
        2, False
    )  # writes to stderr must not block: the parent reads them only after this process has ended
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_KILLED_FIRST)
    requests = SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    load()
    _send(READY)
    while True:
        try:
            request = requests.get(timeout=idle_seconds)
        except Empty:
            os._exit(0)
        _send(answer(request))


def answer(request: bytes) -> bytes:
    """Return the reply to a request."""
    machine, _, text = request.partition(b"\n")
    try:
        return OBJECT + emit_object(text.decode(), Machine(*json.loads(machine)))
    except MemoryError:
        return NO_MEMORY
    except InternalError as error:
        return REFUSED + json.dumps([error.what, error.where]).encode()


def _receive(requests: SimpleQueue[bytes]) -> NoReturn:
    with contextlib.suppress(OSError):
        while (size := _read(LENGTH)) and (request := _read(int.from_bytes(size))):
            requests.put(request)
    os._exit(0)


def _read(size: int) -> bytes:
    """Read ``size`` bytes; none if the socket is closed before all have arrived."""
    parts: list[bytes] = []
    while size and (part := os.read(_SOCKET, min(size, _CHUNK))):
        parts.append(part)
        size -= len(part)
    return b"" if size else b"".join(parts)


def _send(message: bytes) -> None:
    data = memoryview(len(message).to_bytes(LENGTH) + message)
    try:
        while data:
            data = data[os.write(_SOCKET, data) :]
    except OSError:
        os._exit(0)
