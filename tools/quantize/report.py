"""The effect of quantisation on each op: its error, and its time in float32 and in 8 bits."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tessella.runtime.profile import Profile
from tessella.support.columns import aligned

_COLUMNS = ("node", "op", "runs in", "own error", "error", "f32 us", "narrow us", "ratio")
_LEFT = 3
"""The number of leading columns that contain text, and are aligned to the left."""


@dataclass(frozen=True)
class NodeReport:
    """A node of the model. Unknown figures are None."""

    node: str
    op: str
    precision: str
    """``int8`` or ``f32``."""
    own_error: float | None
    """The error of the node's value if its operands are those of the float32 model."""
    error: float | None
    """The error of the node's value in the quantised model."""
    wide: float | None
    """Seconds in float32 of the kernels that begin with this node; None if another node's kernel
    includes it."""
    narrow: float | None
    """Seconds of the node's kernels in the quantised model, conversions of operands and results
    included."""


@dataclass(frozen=True)
class QuantizeReport:
    """The effect of quantisation on all nodes, and on the whole model.

    An error is the norm of the difference over the norm of the float32 value.
    """

    rows: tuple[NodeReport, ...]
    """The nodes in model order."""
    error: float
    """The largest error of an output."""
    wide: float
    """Seconds of a run in float32."""
    narrow: float
    """Seconds of a run of the quantised model."""
    conversions: float
    """Seconds of the quantised model's kernels that belong to no row."""
    threads: int
    samples: int
    """The number of samples that errors were measured on."""

    def to_json(self) -> str:
        """Return the report as JSON; times are in seconds."""
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


def _cells(row: NodeReport) -> tuple[str, ...]:
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
    """Return the seconds of kernels by the first of the nodes ``names`` that they compute, and the
    seconds of all other kernels.

    The names of quantised nodes begin with the name of the node they replace.
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
    """Yield those of ``names`` that a kernel with these ``nodes`` computes: exact names first, then
    names with which a node's name begins."""
    yield from (node for node in nodes if node in names)
    for node in nodes:
        yield from (name for name in longest_first if node.startswith(name))
