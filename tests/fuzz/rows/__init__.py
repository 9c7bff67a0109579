"""The table of ONNX ops that random graphs are made of: one row for each op."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.graphs import Row
from tests.fuzz.rows import (
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    recurrent,
    reduction,
    windows,
)

ROWS: Sequence[Row] = (
    *elementwise.ROWS,
    *indexing.ROWS,
    *linear.ROWS,
    *movement.ROWS,
    *normalization.ROWS,
    *recurrent.ROWS,
    *reduction.ROWS,
    *windows.ROWS,
)

LEFT_OUT = {
    "Bernoulli": "random",
    "CausalConvWithState": "no oracle has it",
    "Constant": "weights are initializers, which are imported alike",
    "GlobalLpPool": "onnx.reference has none",
    "If": "it has graphs of its own; tests/driver/test_subprograms.py has some",
    "LRN": "onnx.reference leaves out the last channel of a window",
    "LinearAttention": "no oracle has it",
    "Loop": "it has a graph of its own; tests/frontends/onnx/test_loop.py has some",
    "NonMaxSuppression": "its size varies; tests/driver/test_subprograms.py draws some",
    "NonZero": "the size of its result varies; tests/driver/test_subprograms.py has some",
    "OptionalGetElement": "of a tensor it is the identity, and ONNX Runtime has it for optionals",
    "OptionalHasElement": "of a tensor it is a constant, and ONNX Runtime has it for optionals",
    "Scan": "it has a graph of its own; tests/frontends/onnx/test_scan.py draws some",
    "Scatter": "another name of ScatterElements",
    "SequenceMap": "sequences are not supported",
    "Unique": "the size of its result varies; tests/driver/test_subprograms.py draws some",
    "Upsample": "deprecated in op set 10, before those that are drawn",
}
"""Ops that are supported and have no row, each with the reason."""
