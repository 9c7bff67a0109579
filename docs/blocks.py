"""The code blocks of the documentation, and the commands, links and paths that pages name.

A page's Python blocks run one after another in one scope, in an empty folder with the link
``examples``. Two comments, which readers do not see, belong to them:

    <!-- hidden          Python that runs before the blocks below it
    model = ...
    -->

    <!-- run -->         the commands of the next block run, too
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
OURS = ("tessella", "tessella-opt")
"""The commands of this project."""

HIDDEN = "hidden"
SHELLS = ("sh", "console", "text", "dockerfile", "")
"""The languages of blocks that may have commands."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^ *```$"
    r"|^<!-- hidden\n(?P<hidden>.*?)^-->$"
    r"|(?<=\n\n)(?P<indented>(?:(?:    [^\n]*)?\n)*    [^\n]*\n)",
    re.MULTILINE | re.DOTALL,
)
_PROMPT = re.compile(r"^(?:\$|RUN) |^// RUN: ")
_ASSIGNMENT = re.compile(r"^[A-Z_]+=\S*$")
_NESTED = re.compile(r"\$\(([^()]*)\)")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:[a-z_]+/)+[\w.-]+\.(?:py|md|onnx|json|yml))`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of a page: what it shows, and the comment before it."""

    line: int
    language: str
    """As the page has it; ``hidden`` for Python in a comment, empty for an indented block."""
    text: str
    comment: str = ""


def pages() -> list[Path]:
    """All pages: those of the site, the readme, and what contributors read."""
    return [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if (hidden := found["hidden"]) is not None:
            yield Block(line, HIDDEN, hidden)
        elif (indented := found["indented"]) is not None:
            yield Block(line, "", _dedented(indented, 4))
        else:
            body = _dedented(found["body"], len(found["indent"]))
            yield Block(line, found["language"], body, found["comment"] or "")


def _dedented(text: str, columns: int) -> str:
    return "".join(line[columns:] or "\n" for line in text.splitlines(keepends=True))


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command of a block, without variables, pipes and redirections.

    In a block of output, commands follow a prompt.
    """
    for line in block.text.replace("\\\n", " ").splitlines():
        prompt = _PROMPT.match(line)
        if prompt is None and block.language in ("console", "text", "dockerfile"):
            continue
        yield from _commands(line[prompt.end() :] if prompt else line)


def _commands(line: str) -> Iterator[list[str]]:
    for nested in _NESTED.findall(line):
        yield from _commands(nested)
    try:
        words = shlex.split(_NESTED.sub("", line), comments=True)
    except ValueError:  # a line of output, or of another language
        return
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]
    end = next((i for i, word in enumerate(words) if word in ("|", ">", "&&", ";")), len(words))
    if words:
        yield words[:end]


def links(text: str) -> Iterator[str]:
    """The relative links of a page."""
    return (link for link in _LINK.findall(_prose(text)) if "://" not in link)


def named_paths(text: str) -> Iterator[str]:
    """The files of the tree that a page names, as `driver/build/pipeline.py`."""
    return iter(_PATH.findall(_prose(text)))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    return {_anchor(title) for title in _HEADING.findall(_prose(text))}


def _prose(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchor(title: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", title.replace("`", "")).strip().lower()
    return re.sub(r"[ -]+", "-", plain)
