"""The text of a Tile program, and positions in it for errors."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.support.errors import TileError

MAX_LENGTH = 1 << 16
"""The maximum number of characters of a program."""
_SHOWN = 80
"""The maximum number of characters of a line that an error shows."""
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Span:
    """A range of the program's text, as offsets of its start and end."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the range from the start of this range to the end of ``other``."""
        return Span(self.start, other.end)


@dataclass(frozen=True)
class TileText:
    """The text of a program."""

    text: str

    def error(
        self,
        what: str,
        span: Span,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> TileError:
        """Return an error that points at the beginning of a span."""
        begin = self.text.rfind("\n", 0, span.start) + 1
        line = self.text.count("\n", 0, span.start) + 1
        column = span.start - begin + 1
        return TileError(
            what,
            line=line,
            column=column,
            excerpt=self._excerpt(begin, span.start),
            expected=expected,
            found=found,
            hint=hint,
        )

    def _excerpt(self, begin: int, at: int) -> str:
        """Return the line that begins at the offset ``begin``, shortened if it is long, with a
        caret below the character at the offset ``at``."""
        end = self.text.find("\n", begin)
        end = len(self.text) if end < 0 else end
        first = max(begin, min(at - _SHOWN // 2, end - _SHOWN))
        shown = "".join(map(_printable, self.text[first : min(end, first + _SHOWN)].rstrip()))
        before = "".join("\t" if c == "\t" else " " for c in self.text[first:at])
        return f"{_INDENT}{shown}\n{_INDENT}{before}^"


def _printable(character: str) -> str:
    return (
        character if character.isprintable() or character == "\t" else "\N{REPLACEMENT CHARACTER}"
    )
