"""Kernels that select along an axis: the first elements in order, with their positions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import shape_of
from tessella.kernels.builder import KernelBuilder
from tessella.kernels.elements import NATIVE, Table, rows
from tessella.kernels.reduction import first
from tessella.kernels.registry import native
from tessella.support.conditions import always

SELECTED: Table = rows(NATIVE, writes=("T", "i64"))


def _selects(op: nn.TopkOp) -> str | None:
    """Return the reason why the kernel cannot select elements; None if it can."""
    return None if always(op.settings["k"] >= 1) else "k may be 0"


@native(nn.TopkOp, "topk", NCHW, elements=SELECTED, applies=_selects)
def topk(k: KernelBuilder, op: nn.TopkOp, x: SSAValue) -> Sequence[SSAValue]:
    """Emit a sort along the axis. The key of an element is the element itself."""
    settings = op.settings
    return k.sort(
        shape_of(x),
        settings["axis"],
        settings["k"],
        [x],
        [k.result_type(op, i) for i in range(2)],
        first,
        descending=settings["largest"],
    )
