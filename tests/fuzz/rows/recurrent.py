"""Networks with steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from tests.fuzz.graphs import Draft, Row


def cells(gates: int, states: int) -> Callable[[Draft], None]:
    """x [n, b, i], w [d, gates * h, i], r [d, gates * h, h], and what may be left out."""

    def draw(d: Draft) -> None:
        direction = d.attributes.get("direction", "forward")
        count = 2 if direction == "bidirectional" else 1
        n, b, i, h = d.between(1, 9), d.between(1, 3), d.one_of(1, 3, 5), d.one_of(1, 2, 5, 8)
        d.set("hidden_size", h)
        d.new((n, b, i))
        d.new((count, gates * h, i))
        d.new((count, gates * h, h))
        if d.coin():
            d.new((count, 2 * gates * h))
        else:
            d.skip()
        if d.chance(30):
            lengths = np.asarray([d.between(1, n) for _ in range(b)], np.int32)
            d.constant(lengths, TensorProto.INT32)
        else:
            d.skip()
        for _ in range(states if d.coin() else 0):
            d.new((count, b, h))
        d.outputs = d.between(1, 1 + states)

    return draw


DIRECTIONS = {"direction": ("forward", "reverse", "bidirectional")}

ROWS = (
    Row("RNN", cells(1, 1), DIRECTIONS),
    Row("GRU", cells(3, 1), {**DIRECTIONS, "linear_before_reset": (0, 1)}),
    Row("LSTM", cells(4, 2), DIRECTIONS),
)
