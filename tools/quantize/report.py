"""What quantising does to each op: its errors, and its time in float32 and narrow."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tessella.runtime.profile import Profile
from tessella.support.columns import aligned

_COLUMNS = ("node", "op", "runs in", "own error", "error", "f32 us", "narrow us", "ratio")
_LEFT = 3
"""Columns of text, which are aligned to the left."""


@dataclass(frozen=True)
class Row:
    """A node of the model. Figures are None where they are not known."""

    node: str
    op: str
    precision: str
    """``int8`` or ``f32``."""
    own_error: float | None
    """Of its value, where all that it reads is exact."""
    error: float | None
    """Of its value in the quantised model."""
    wide: float | None
    """Seconds of the kernels that begin with this node, in float32; None where the node is part of
    another's kernel."""
    narrow: float | None
    """Likewise in the quantised model, with the conversions of what it reads and writes."""


@dataclass(frozen=True)
class Report:
    """All nodes, and the whole model. An error is the norm of the difference over the norm of the
    value in float32."""

    rows: tuple[Row, ...]
    """In the order of the model."""
    error: float
    """The largest of an output."""
    wide: float
    """Seconds of a run in float32."""
    narrow: float
    """Seconds of a run of the quantised model."""
    conversions: float
    """Seconds of those kernels of the quantised model that no row has."""
    threads: int
    samples: int
    """That errors were measured on."""

    def to_json(self) -> str:
        """All of it as JSON; times are in seconds."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        return "\n".join(
            [
                *aligned([_COLUMNS, *map(_cells, self.rows)], _LEFT),
                "",
                f"error of the output {self.error:.2e}, on {self.samples} "
                f"sample{'s' * (self.samples != 1)}",
                f"a run takes {self.wide * 1e6:.1f} us in f32 and {self.narrow * 1e6:.1f} us "
                f"narrow on {self.threads} thread{'s' * (self.threads != 1)}; "
                f"{self.conversions * 1e6:.1f} us of it belong to no node",
            ]
        )


def _cells(row: Row) -> tuple[str, ...]:
    ratio = None if row.wide is None or not row.narrow else row.wide / row.narrow
    return (
        row.node,
        row.op,
        row.precision,
        _shown(row.own_error, ".1e"),
        _shown(row.error, ".1e"),
        _shown(row.wide, ".1f", 1e6),
        _shown(row.narrow, ".1f", 1e6),
        _shown(ratio, ".2f"),
    )


def _shown(value: float | None, form: str, scale: float = 1) -> str:
    return "-" if value is None else format(value * scale, form)


def seconds_by_node(profile: Profile, names: Sequence[str]) -> tuple[Mapping[str, float], float]:
    """The seconds of kernels by the node that each begins with, and those of all other kernels.

    The nodes of a quantised model that stand for one node have names that begin with its own.
    """
    found: dict[str, float] = defaultdict(float)
    rest = 0.0
    longest_first = sorted(names, key=len, reverse=True)
    for row in profile.rows:
        if row.kind == "barrier":
            continue
        owner = next(_owners(row.nodes, set(names), longest_first), None)
        if owner is None:
            rest += row.seconds
        else:
            found[owner] += row.seconds
    return found, rest


def _owners(nodes: Sequence[str], names: set[str], longest_first: Sequence[str]) -> Iterator[str]:
    """The known nodes that a kernel computes: those by their own names first."""
    yield from (node for node in nodes if node in names)
    for node in nodes:
        yield from (name for name in longest_first if node.startswith(name))
