"""Compilations that happen inside calls, which then take longer than the caller may expect."""

from __future__ import annotations

from dataclasses import dataclass, field

from tessella.support.logs import info, warning


@dataclass
class CompilesInCalls:
    """Counts the compilations of a model with its subprograms, or of a function."""

    expected: int
    """The number of compilations that is expected: none of a model, which can be compiled ahead of
    calls; a few kinds of arguments of a function."""
    _count: int = field(default=0, init=False)
    _has_warned: bool = field(default=False, init=False)

    def tell(self, what: str, seconds: float, why: str, hint: str) -> None:
        """Log a compilation. The first one beyond those expected is a warning."""
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
