"""How much of a program is native code, and which ops NumPy runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tessella.runtime.explain_types import Conversion, OpEntry, PythonStep, duration
from tessella.support.columns import aligned

RUNS = {True: "native", False: "NumPy"}
"""The words for how an op runs: as native code (True), or in NumPy (False)."""

COLUMNS = ("op", "count", "estimate", "share")


@dataclass(frozen=True)
class InNumpy:
    """The ops of one kind that NumPy runs."""

    op: str
    count: int
    seconds: float | None
    """The estimated time of these ops in seconds; None without an estimate, as for steps after a
    graph break."""


@dataclass(frozen=True)
class Coverage:
    """The number of ops of a program, and the kinds of ops that NumPy runs instead of native
    code."""

    ops: int
    in_numpy: Sequence[InNumpy]
    """The kinds of ops that NumPy runs: the longest estimated time first, kinds without an estimate
    last."""
    seconds: float
    """The estimated time of all ops and conversions, in seconds."""

    @property
    def native(self) -> int:
        """The number of native ops."""
        return self.ops - sum(each.count for each in self.in_numpy)

    @property
    def share(self) -> float:
        """The fraction of the estimated time that NumPy takes."""
        return math.fsum(each.seconds or 0.0 for each in self.in_numpy) / (self.seconds or 1.0)

    def headline(self) -> str:
        """Return a one-line summary: the number of ops, and how many of them NumPy runs."""
        ops = f"{self.ops} op" if self.ops == 1 else f"{self.ops} ops"
        if not self.in_numpy:
            return f"{ops}, all native"
        run = "runs" if self.ops - self.native == 1 else "run"
        share = f", {self.share:.0%} of the estimated time" if self.seconds else ""
        return f"{self.ops - self.native} of {ops} {run} in NumPy (reference kernels){share}"

    def lines(self) -> list[str]:
        """Return a table of the ops that NumPy runs."""
        rows = [
            (
                each.op,
                str(each.count),
                "unknown" if each.seconds is None else duration(each.seconds),
                "" if each.seconds is None else f"{each.seconds / (self.seconds or 1.0):.0%}",
            )
            for each in self.in_numpy
        ]
        return list(aligned([COLUMNS, *rows])) if rows else []


def coverage(
    ops: Iterable[OpEntry], conversions: Iterable[Conversion], steps: Iterable[PythonStep]
) -> Coverage:
    """Return the coverage of a program's ops, conversions and steps after graph breaks."""
    entries, called = list(ops), [step for step in steps if not step["native"]]
    found: dict[str, list[float | None]] = {}
    for entry in entries:
        if not entry["native"]:
            found.setdefault(entry["op"], []).append(entry["estimate"])
    for step in called:
        found.setdefault(step["op"], []).append(None)
    shares = [InNumpy(op, len(costs), _total(costs)) for op, costs in found.items()]
    total = math.fsum((entry["estimate"] or 0.0) - entry["saved"] for entry in entries)
    total += math.fsum(conversion["estimate"] for conversion in conversions)
    ordered = sorted(shares, key=lambda each: -1.0 if each.seconds is None else each.seconds)
    return Coverage(len(entries) + len(called), ordered[::-1], total)


def _total(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known else None
