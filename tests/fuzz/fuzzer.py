"""The interface of a fuzzer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tessella.targets import can_run, get

Case = TypeVar("Case")

TARGETS = [name for name in ("avx512", "avx2", "sse", "neon") if can_run(get(name))]
"""The targets whose code this machine runs."""


class WrongError(Exception):
    """An answer is wrong."""


def first_failing(check: Callable[[Case], str], cases: Iterable[Case], otherwise: Case) -> Case:
    """The first of the cases for which the check raises."""
    for case in cases:
        try:
            check(case)
        except Exception:  # whatever it is
            return case
    return otherwise


def _same(case: Any) -> Any:
    return case


@dataclass(frozen=True)
class Fuzzer:
    """Random cases, and what must hold for each. A case is made anew from its seed."""

    name: str
    doc: str
    draw: Callable[[Random], Any]
    """A case."""
    check: Callable[[Any], str]
    """Raises what is wrong with the case; else, says in a word what became of it."""
    save: Callable[[Any, Path], None]
    """Write the case into a folder."""
    reduce: Callable[[Any], Any] = _same
    """A smaller case, for one that fails: mostly it fails too."""
    sample: int = 8
    """So many cases take about four seconds."""
    seconds: float = 60.0
    """What takes longer hangs."""

    def case(self, seed: int) -> Any:
        """The case of a seed."""
        return self.draw(Random(f"{self.name} {seed}"))
