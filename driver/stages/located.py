"""Parsing IR with the line of every op, so that errors can give locations. xDSL records no lines,
and stops at the first error."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError

from tessella.dialects.sizes import SizeParser
from tessella.dialects.verify import misplaced
from tessella.support.errors import TessellaError
from tessella.support.foreign import is_foreign

REPORTED = (DiagnosticException, TessellaError)
"""Errors that ops raise if the IR, not the compiler, is at fault."""


def reason(error: Exception) -> str:
    """Return the message for an error that a text caused.

    Parsers and verifiers of single ops, including those of xDSL, raise arbitrary exceptions on
    malformed text.
    """
    return str(error) if isinstance(error, REPORTED) else f"the text is broken: {error!r}"


@dataclass(frozen=True)
class LocatedError:
    """An error in a text."""

    line: int | None
    """The number of the line, from 1; None if it is unknown."""

    message: str


class LocatedParser(SizeParser):
    """A parser that records the line on which each op starts."""

    def __init__(self, ctx: Context, text: str, name: str, first_line: int = 1) -> None:
        self.lines: dict[Operation, int] = {}
        self.symbols = {}
        self._first_line = first_line
        self._text = text
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._problem = self._unreadable()
        try:
            super().__init__(ctx, "" if self._problem else text, name)
        except ParseError as error:  # the constructor parses the first word
            self._problem = LocatedError(self._line_of_error(error), error.msg)
            super().__init__(ctx, "", name)

    def line_of(self, position: int) -> int:
        """Return the line of a position in the text."""
        return self._first_line + bisect_left(self._newlines, position)

    def at_end(self) -> bool:
        """Return whether only whitespace and comments are left."""
        return self._problem is None and self.pos == len(self._text)

    def parse_operation(self) -> Operation:
        """Parse an op and record its line: that of its first result, or of its name if it has no
        results."""
        line = self.line_of(self.pos)
        op = super().parse_operation()
        self.lines[op] = line
        return op

    def parse_optional_str_literal(self) -> str | None:
        """Parse a string. xDSL parses its own output as bytes if a string is not ASCII."""
        text = super().parse_optional_str_literal()
        start = self.pos
        if text is not None or (data := self.parse_optional_bytes_literal()) is None:
            return text
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            self._resume_from(start)
            return None

    def parse(self, *, implicit_module: bool = True) -> ModuleOp | LocatedError:
        """Return the module, or the error in the text."""
        if self._problem is not None:
            return self._problem
        try:
            return self.parse_module(implicit_module)
        except ParseError as error:
            return LocatedError(self._line_of_error(error), error.msg)
        except Exception as error:
            if is_foreign(error):
                raise
            return LocatedError(self.line_of(self.pos), reason(error))

    def _unreadable(self) -> LocatedError | None:
        """Return an error for the first string that does not end on its line, or has an invalid
        escape; None if all strings are valid.

        xDSL also detects the error, but takes twice the time for each further character of the
        string.
        """
        starts = (m.start() for m in _STRINGS.finditer(self._text) if m[0] == '"')
        start = next(starts, None)
        return (
            None if start is None else LocatedError(self.line_of(start), "a string is not closed")
        )

    def _line_of_error(self, error: ParseError) -> int:
        """Return the line of an error: the previous token's line if a token is missing."""
        line = self.line_of(error.span.start)
        if _MISSING.search(error.msg) is None:
            return line
        start = error.span.input.get_start_of_line(error.span.start)
        if self._text[start : error.span.start].strip():
            return line
        above = self._text[:start].split("\n")[:-1]
        while above and not above[-1].partition("//")[0].strip():
            above.pop()
        return self._first_line + len(above) - 1 if above else line


_STRINGS = re.compile(r'''//[^\n]*|"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"|"''')
"""A pattern for comments and strings. It matches a quote alone where a string is not closed or has
an invalid escape."""


_MISSING = re.compile(r"[Ee]xpected|is not registered$")
"""A pattern for the parser's messages that another token was expected. The position of these errors
is that of the token found."""


def verify_each(module: ModuleOp) -> Iterator[tuple[Operation, Exception]]:
    """Yield every op that does not verify, in text order, with the reason."""
    late = dict(misplaced(module))
    for op in module.walk():
        if op in late:
            yield op, late[op]
        try:
            op.verify(verify_nested_ops=False)
            for block in _empty_blocks(op):
                block.verify()
        except Exception as error:
            if is_foreign(error):
                raise
            yield op, error


def _empty_blocks(op: Operation) -> Iterator[Block]:
    """Yield the op's own blocks without ops, which no verifier reports."""
    for region in op.regions:
        yield from (block for block in region.blocks if block.is_empty)
