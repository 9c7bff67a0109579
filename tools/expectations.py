"""Comments `// expected-error@+1 {{text}}`, compared with the errors that occurred.

As in MLIR, a comment expects an error on its own line; with `@+N` or `@-N`, N lines after or before
it; with `@above` or `@below`, on the nearest line without an expectation; with `@unknown`, without
a known line. The text is a part of the error's message, in which line breaks count as spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tessella.driver.stages.located import LocatedError

_MARK = re.compile(r"//.*?expected-(?:error|warning|note|remark)")
_EXPECTED = re.compile(r"expected-error(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}")
_ANY = re.compile(r"expected-(?:error|warning|note|remark)")
UNKNOWN = "\n  hint: no line is known for it, which is what expected-error@unknown expects"


@dataclass(frozen=True)
class Expected:
    """One comment that expects an error."""

    line: int | None
    """The line on which the error is expected; None for an error of unknown line."""

    text: str
    comment_line: int

    def matches(self, problem: LocatedError) -> bool:
        """Return whether ``problem``, an error that occurred, is the expected one: its line is the
        same, and its message contains the text."""
        return self.line == problem.line and self.text in " ".join(problem.message.split())


@dataclass
class Expectations:
    """The comments of one chunk of a file that expect errors."""

    expected: list[Expected] = field(default_factory=list[Expected])
    complaints: list[LocatedError] = field(default_factory=list[LocatedError])
    """Comments that cannot be parsed."""

    def compare(self, problems: Sequence[LocatedError]) -> list[LocatedError]:
        """Compare the errors that occurred with the expected ones. Returns an error for each that
        was not expected, each that did not occur, and each comment that cannot be parsed."""
        missing = list(self.expected)
        wrong = list(self.complaints)
        for problem in problems:
            match = next((e for e in missing if e.matches(problem)), None)
            if match is None:
                hint = UNKNOWN if problem.line is None else ""
                wrong.append(
                    LocatedError(problem.line, f"unexpected error: {problem.message}{hint}")
                )
            else:
                missing.remove(match)
        wrong += [
            LocatedError(e.comment_line, f'expected error "{e.text}" was not produced')
            for e in missing
        ]
        return wrong


def read_expectations(text: str, first_line: int) -> Expectations:
    """Return the expectations in the comments of a chunk, which starts at ``first_line`` of its
    file."""
    lines = text.split("\n")
    marked = [_MARK.search(line) is not None for line in lines]
    result = Expectations()
    for i, line in enumerate(lines):
        if not marked[i]:
            continue
        found = list(_EXPECTED.finditer(line))
        for match in found:
            at = _line(match[1], i, marked)
            here = first_line + i
            expected = None if at is None else first_line + at
            result.expected.append(Expected(expected, " ".join(match[2].split()), here))
        if len(found) != len(_ANY.findall(line)):
            result.complaints.append(
                LocatedError(
                    first_line + i,
                    "cannot read the expectation: write // expected-error@+1 {{text}}",
                )
            )
    return result


def _line(where: str | None, here: int, marked: Sequence[bool]) -> int | None:
    """Return the index of the line that a comment on line ``here`` refers to; None for an unknown
    line."""
    match where:
        case None:
            return here
        case "unknown":
            return None
        case "above":
            return next((i for i in range(here - 1, -1, -1) if not marked[i]), here)
        case "below":
            return next(_unmarked_below(here, marked), here)
        case offset:
            return here + int(offset)


def _unmarked_below(here: int, marked: Sequence[bool]) -> Iterator[int]:
    return (i for i in range(here + 1, len(marked)) if not marked[i])
