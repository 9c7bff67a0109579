"""Warnings about compiled programs, each issued once.

They concern compilations inside calls, which delay the caller, and time spent in NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tessella.runtime.explain_native import Coverage
from tessella.runtime.explain_types import duration
from tessella.support.logs import info, warning

NUMPY_SHARE = 0.1
"""The fraction of the estimated time from which a warning names the ops that NumPy runs."""


@dataclass
class CompilesInCalls:
    """A counter of compilations inside calls: of a model and its subprograms, or of a function."""

    expected: int
    """The number of compilations inside calls that are expected, and cause no warning.

    The number is 0 for a model, which can be compiled ahead of calls. A function needs a few
    compilations, one for each kind of arguments.
    """
    tells_numpy: bool = False
    """True if a warning names the ops that NumPy runs."""
    _count: int = field(default=0, init=False)
    _has_warned: bool = field(default=False, init=False)
    _has_told_numpy: bool = field(default=False, init=False)

    def tell(self, what: str, seconds: float, why: str, hint: str) -> None:
        """Log that ``what`` was compiled inside a call, in how many seconds and why. The first
        unexpected compilation is a warning, which includes ``hint``."""
        self._count += 1
        if self._count <= self.expected or self._has_warned:
            info("compile", "%s was compiled inside a call, in %.2f s: %s", what, seconds, why)
            return
        self._has_warned = True
        warning(
            "compile",
            "%s was compiled inside a call, which took %.2f s: %s. %s. "
            "(This is told once; tessella.compile logs each as INFO.)",
            *(what, seconds, why, hint),
        )

    @property
    def wants_coverage(self) -> bool:
        """True if a warning about NumPy may still be issued."""
        return self.tells_numpy and not self._has_told_numpy

    def tell_coverage(self, coverage: Coverage) -> None:
        """Warn about the ops that NumPy runs, if they take much of the estimated time."""
        if not self.wants_coverage or coverage.share <= NUMPY_SHARE:
            return
        self._has_told_numpy = True
        ops = ", ".join(
            f"{each.op} ({each.count}, {duration(each.seconds)})"
            for each in coverage.in_numpy
            if each.seconds is not None
        )
        warning(
            "compile",
            "%d of %d ops have no native code here, and NumPy takes %.0f%% of the estimated time: "
            "%s. `tessella check` tells why, op by op: often another element type, constant or "
            'shape is native; fallback="error" refuses such ops. (This is told once.)',
            *(coverage.ops - coverage.native, coverage.ops, 100 * coverage.share, ops),
        )
