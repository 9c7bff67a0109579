"""Ops along axes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.fuzz.elements import Array
from tests.fuzz.graphs import Draft, Row, has_large, has_nan
from tests.fuzz.rows.movement import axis_of, pick

FLAG = (0, 1)


def reduce(d: Draft) -> None:
    x = pick(d, 0)
    _axes(d, x)


def of_positive(d: Draft) -> None:
    x = d.pick(lambda a: bool(np.all(a > 0)), numbers=lambda a: np.abs(a) + a.dtype.type(1))
    _axes(d, x)


def of_some(d: Draft) -> None:
    """Products get large."""
    x = d.pick(lambda a: a.size <= 60, lambda: d.shape(d.between(0, 2)))
    _axes(d, x)


def _axes(d: Draft, x: Array) -> None:
    if d.chance(15):
        return
    axes = d.random.sample(range(x.ndim), d.between(0 if d.coin() else min(1, x.ndim), x.ndim))
    d.require(bool(axes) or "axes" not in d.schema.attributes)
    d.listed("axes", [i - x.ndim * d.between(0, d.opset >= 11) for i in axes])


def along(d: Draft) -> None:
    x = pick(d)
    if d.chance(80):
        d.set("axis", axis_of(d, x) if d.opset >= 11 else d.between(0, x.ndim - 1))


def scan(d: Draft) -> None:
    x = pick(d)
    d.constant(np.asarray(axis_of(d, x)), d.one_of(TensorProto.INT64, TensorProto.INT32))


def scan_few(d: Draft) -> None:
    x = d.pick(lambda a: a.ndim > 0 and a.size <= 60, lambda: d.shape(d.between(1, 2)))
    d.constant(np.asarray(axis_of(d, x)), d.one_of(TensorProto.INT64, TensorProto.INT32))


def top(d: Draft) -> None:
    x = pick(d)
    axis = axis_of(d, x) if d.opset >= 11 else d.between(0, x.ndim - 1)
    d.set("axis", axis)
    k = d.between(0, x.shape[axis])
    if "k" in d.schema.attributes:
        d.set("k", k)
    else:
        d.constant(np.asarray([k], np.int64))


def has_no_mean(a: Array) -> bool:
    """Return whether the mean of integers is none, or the sums may leave the range."""
    return has_large(a) or (a.dtype.kind in "iu" and not a.size)


KEEP = {"keepdims": FLAG, "noop_with_empty_axes": FLAG}
SUMS = ("ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare", "ReduceLogSumExp")

ROWS = (
    *(Row(op, reduce, KEEP) for op in SUMS),
    Row("ReduceMean", reduce, KEEP, unclear=has_no_mean),
    *(Row(op, reduce, KEEP, exact=True, unclear=has_nan) for op in ("ReduceMax", "ReduceMin")),
    Row("ReduceLogSum", of_positive, KEEP),
    Row("ReduceProd", of_some, KEEP),
    *(
        Row(op, along, {"keepdims": FLAG, "select_last_index": FLAG}, exact=True, unclear=has_nan)
        for op in ("ArgMax", "ArgMin")
    ),
    Row("Softmax", along),
    Row("LogSoftmax", along),
    Row("Hardmax", along, exact=True),
    Row("CumSum", scan, {"exclusive": FLAG, "reverse": FLAG}),
    Row("CumProd", scan_few, {"exclusive": FLAG, "reverse": FLAG}),
    Row("TopK", top, {"largest": FLAG}, outputs=2, exact=True, unclear=has_nan),
    # onnx.reference takes the sum of numbers for that of magnitudes
    Row("LpNormalization", along, {"p": (2,)}),
)
