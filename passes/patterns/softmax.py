"""Softmax and its logarithm from their pieces, and softmax along another axis.

    e = exp(x - max x);  e / sum e                     ->  softmax x
    s = x - max x;  s - log(sum(exp s))                ->  log_softmax x
    transpose(softmax(transpose x))                    ->  softmax x, if that is the inverse

The maximum and the sum must be along one axis. Without the maximum, the expression is another
function, which overflows.
"""

from __future__ import annotations

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.movement import TransposeOp
from tessella.dialects.nn.reduction import (
    LogSoftmaxOp,
    ReduceMaxOp,
    ReduceOp,
    ReduceSumOp,
    SoftmaxOp,
)
from tessella.passes.patterns.nodes import AnyValue, Product, op
from tessella.passes.patterns.pattern import Match, Pattern, Rewrite


def _is_along_axis(reduction: ReduceOp) -> bool:
    return len(reduction.settings["axes"]) == 1 and reduction.settings["keepdims"]


x = AnyValue("x")
_SHIFTED = op(ew.SubOp, x, op(ReduceMaxOp, x, name="max", where=_is_along_axis))
_POWERS = op(ew.ExpOp, _SHIFTED)
_SUM = op(ReduceSumOp, _POWERS, name="sum", where=_is_along_axis)


def _along_axis(kind: type[NnOp]) -> Rewrite:
    def rewrite(m: Match) -> NnOp | None:
        axes = m.op("max").settings["axes"]
        return m.make(kind, m["x"], axis=axes[0]) if axes == m.op("sum").settings["axes"] else None

    return rewrite


def _transposed(m: Match) -> NnOp | None:
    before, after = (m.op(name).settings["perm"] for name in ("before", "after"))
    if [before[d] for d in after] != list(range(len(before))):
        return None
    return m.make(SoftmaxOp, m["x"], axis=before[m.op("softmax").settings["axis"]])


PATTERNS = (
    Pattern("softmax", Product((_POWERS,), over=(_SUM,)), _along_axis(SoftmaxOp)),
    Pattern("log-softmax", op(ew.SubOp, _SHIFTED, op(ew.LogOp, _SUM)), _along_axis(LogSoftmaxOp)),
    Pattern(
        "transpose-softmax-transpose",
        op(
            TransposeOp,
            op(SoftmaxOp, op(TransposeOp, x, name="before"), name="softmax"),
            name="after",
        ),
        _transposed,
    ),
)
