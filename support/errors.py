"""Every error that a user can cause: what was expected, what was found, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


class TessellaError(Exception):
    """Base of all errors that tessella raises on purpose.

    The message is ``what``, followed by one indented line for each part that is known.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.where = where
        self.expected = expected
        self.found = found
        self.hint = hint
        self._tell()

    def _tell(self) -> None:
        where, expected, found, hint = self.where, self.expected, self.found, self.hint
        parts = (("where", where), ("expected", expected), ("found", found), ("hint", hint))
        lines = [self.what, *(f"  {name}: {text}" for name, text in parts if text is not None)]
        super().__init__("\n".join(lines))

    def at(self, where: str) -> Self:
        """Set the location of the error, and return the error itself."""
        self.where = where
        self._tell()
        return self


class InvalidModelError(TessellaError):
    """A model's file or graph is broken: it cannot be read, or violates the format's rules."""


class ShapeError(TessellaError):
    """Shapes or element types do not match, or a shape cannot be determined."""


class UnknownValueError(ShapeError):
    """A quantity that is needed at compile time depends on unknown values of inputs.

    ``names`` are the inputs that determine it; they are empty if no inputs do.
    """

    def __init__(self, what: str, names: Sequence[str], *, where: str | None = None) -> None:
        self.names = tuple(names)
        shown = ", ".join(map(repr, names))
        fixed = ", ".join(f"{name!r}: ..." for name in names)
        fix = f"fix it: tessella.compile(..., values={{{fixed}}})"
        super().__init__(
            f"{what} has to be known when the model is imported",
            where=where,
            expected="a value that constants and the shapes of inputs determine",
            found=f"one that depends on the values of {shown or 'inputs'}",
            hint=f"{fix}; on the command line: --value {names[0]}=.." if names else None,
        )


class InputError(TessellaError):
    """A call has wrong names, shapes, element types or number of arrays."""


class UnknownAttributeError(TessellaError, AttributeError):
    """An attribute that an object lacks, although similar objects have it. hasattr() is False."""


class OptionError(TessellaError):
    """An option, target, place or stage does not exist or does not apply."""


class ResourceError(TessellaError):
    """An operation needs more memory or work than allowed or available."""


class CompileTimeoutError(TessellaError):
    """A compilation exceeds `timeout`, or a worker process does not answer."""


class ExecutionError(TessellaError):
    """A compiled model met values that it cannot compute with, such as an index out of range."""


class TileError(TessellaError):
    """A program in the Tile language is wrong, or does not match its arguments.

    ``line`` and ``column`` count from 1; the message shows the line with a caret under the column.
    """

    def __init__(
        self,
        what: str,
        *,
        line: int,
        column: int,
        excerpt: str,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.line = line
        self.column = column
        where = f"{line}:{column}\n{excerpt}"
        super().__init__(what, where=where, expected=expected, found=found, hint=hint)


class UnboundedIndexError(TessellaError):
    """Indices of a contraction, ``names``, that neither tensors nor constraints bound."""

    def __init__(self, names: Sequence[str], *, where: str | None = None) -> None:
        self.names = tuple(names)
        super().__init__(
            f"{'an index has' if len(self.names) == 1 else 'indices have'} no bounds",
            where=where,
            expected="dimensions or constraints that leave each index a finite range",
            found=f"none for {', '.join(self.names)}",
            hint=f"add a constraint, such as `{self.names[0]} < 10`",
        )


class LibraryError(TessellaError):
    """A shared library or its function is missing, or does not take the given arguments."""


class PluginError(TessellaError):
    """An installed package that adds to tessella is broken; the message names its entry point."""


class InternalError(TessellaError):
    """An invariant of the compiler does not hold: a bug in tessella."""


@dataclass(frozen=True)
class Unsupported:
    """An op, attribute or type in a model that tessella cannot run."""

    op: str
    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op} (node {self.node!r}): {self.reason}"


_LISTED = "`tessella check MODEL` prints this list; docs/operators.md has what is supported"


class UnsupportedError(TessellaError):
    """Ops, attributes or types that are not supported; ``issues`` lists all of them at once."""

    def __init__(
        self,
        issues: Sequence[Unsupported],
        *,
        where: str | None = None,
        hint: str = _LISTED,
    ) -> None:
        self.issues = tuple(issues)
        count = len(self.issues)
        listed = "\n".join(f"  - {issue}" for issue in self.issues)
        super().__init__(
            f"{count} unsupported {'thing' if count == 1 else 'things'} in the model\n{listed}",
            where=where,
            hint=hint,
        )
