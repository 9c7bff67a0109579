"""Tokens of the Tile language."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tessella.frontends.tile.source import MAX_LENGTH, Span, TileText

KEYWORDS = ("function", "default", "no_defract")

_TOKEN = re.compile(
    r"""
    (?P<space>  [ \t\r\n]+ )
  | (?P<float>  [0-9]+ (?: \.[0-9]+ (?:[eE][-+]?[0-9]+)? | [eE][-+]?[0-9]+ ) )
  | (?P<int>    [0-9]+ )
  | (?P<name>   [A-Z][A-Za-z0-9_]*'? | \#[A-Za-z][A-Za-z0-9_]*'? )
  | (?P<index>  [a-z][A-Za-z0-9_]*'? | \$[A-Za-z][A-Za-z0-9_]*'? )
  | (?P<mark>   \[\[ | \]\] | -> | == | != | <= | >= | << | >> | [-+*/=<>()\[\]{},&|^~:;?] )
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a Tile program. ``kind`` is `name` (of a tensor or dimension), `index`, `int`,
    `float`, `end`, or the keyword or punctuation mark itself."""

    kind: str
    text: str
    span: Span

    def __str__(self) -> str:
        return repr(self.text) if self.text else "end of the program"


def tokens(source: TileText) -> list[Token]:
    """Return the tokens of a program; the last one has the kind `end`. Raises TileError."""
    length = len(source.text)
    if length > MAX_LENGTH:
        raise source.error(
            "the program is too long",
            Span(0, 0),
            expected=f"at most {MAX_LENGTH} characters",
            found=str(length),
        )
    return [*_tokens(source), Token("end", "", Span(length, length))]


def _tokens(source: TileText) -> Iterator[Token]:
    at = 0
    while at < len(source.text):
        match = _TOKEN.match(source.text, at)
        if match is None:
            raise source.error(f"unexpected character {source.text[at]!r}", Span(at, at + 1))
        at = match.end()
        kind, text, span = str(match.lastgroup), match.group(), Span(*match.span())
        if kind == "mark" or text in KEYWORDS:
            yield Token(text, text, span)
        elif kind != "space":
            yield Token(kind, text.lstrip("#$"), span)
