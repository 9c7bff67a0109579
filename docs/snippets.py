"""Blocks of code in the documentation that commands make: check them, or write them anew.

    python -m docs.snippets            # exit code 1 where a block is not what its command prints
    python -m docs.snippets --write

A comment before a block names its command, and the lines of the output that are shown:

    <!-- $ tessella compile conv.onnx --to tile -o - | show "tile.kernel @conv" .. "^  }" -->

``show`` takes ranges, separated by commas: from the first line that matches a regular expression
to the next one that matches the other. A single expression is one line. Without it, all is shown.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tessella.tools import cli, opt

DOCS = Path(__file__).parent

COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "tessella": cli.main,
    "tessella-opt": opt.main,
}

_BLOCK = re.compile(
    r"(?P<head><!-- \$ (?P<command>[^|\n]*?)(?: \| show (?P<ranges>[^\n]*?))? -->\n```\w*\n)"
    r"(?P<body>.*?)(?P<tail>^```$)",
    re.MULTILINE | re.DOTALL,
)
_RANGE = re.compile(r'"(?P<first>[^"]*)"(?: \.\. "(?P<last>[^"]*)")?(?:, |$)')


@dataclass(frozen=True)
class Stale:
    """A block that is not what its command prints."""

    page: Path
    line: int
    command: str


def run(command: str) -> str:
    """What a command prints. Raises ValueError where there is none of its name, or it fails."""
    name, *arguments = shlex.split(command)
    if name not in COMMANDS:
        raise ValueError(f"no command {name!r}; there are {', '.join(COMMANDS)}")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = COMMANDS[name](arguments)
    if status:
        raise ValueError(f"{command} ends with status {status}")
    return output.getvalue()


def show(text: str, ranges: str | None) -> str:
    """The lines in the ranges, with an ellipsis for what is left out between them."""
    if ranges is None:
        return text
    lines, shown, start = text.splitlines(), list[str](), 0
    for match in _RANGE.finditer(ranges):
        first = _find(lines, match["first"], start)
        last = first if match["last"] is None else _find(lines, match["last"], first + 1)
        if shown and first > start:
            shown.append(f"{_indent(lines[first])}...")
        shown += lines[first : last + 1]
        start = last + 1
    return "".join(f"{line}\n" for line in shown)


def _find(lines: Sequence[str], pattern: str, start: int) -> int:
    found = (i for i in range(start, len(lines)) if re.search(pattern, lines[i]))
    if (line := next(found, None)) is None:
        raise ValueError(f"no line after line {start} matches {pattern!r}")
    return line


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def renewed(text: str) -> str:
    """A page with its blocks made anew."""

    def renew(block: re.Match[str]) -> str:
        return block["head"] + show(run(block["command"]), block["ranges"]) + block["tail"]

    return _BLOCK.sub(renew, text)


def stale(page: Path) -> Iterator[Stale]:
    """The blocks of a page that are not what their commands print."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        if show(run(block["command"]), block["ranges"]) != block["body"]:
            yield Stale(page, text.count("\n", 0, block.start()) + 1, block["command"])


def pages() -> list[Path]:
    """The pages that have such blocks."""
    listed = (*sorted(DOCS.glob("*.md")), DOCS.parent / "README.md")
    return [page for page in listed if _BLOCK.search(page.read_text(encoding="utf-8"))]


def main(arguments: Sequence[str]) -> int:
    """Check the pages, or write them anew."""
    if list(arguments) == ["--write"]:
        for page in pages():
            page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    found = [block for page in pages() for block in stale(page)]
    for block in found:
        print(f"{block.page}:{block.line}: not what this prints: {block.command}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
