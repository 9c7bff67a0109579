"""Recurrences and attention, of no steps, of no batch, and of saturated gates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case, runtime
from tests.native import normal

HIDDEN = 3


def no_steps(x: Array, w: Array, r: Array) -> tuple[Array, Array]:
    """The results of a sequence without steps: no outputs, and the initial state 0."""
    directions, batch = len(w), x.shape[1]
    outputs = np.zeros((0, directions, batch, HIDDEN), x.dtype)
    return outputs, np.zeros((directions, batch, HIDDEN), x.dtype)


def _layers() -> Iterator[Case]:
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        settings = {"hidden_size": HIDDEN}
        w, r = normal(1, gates * HIDDEN, 2), normal(1, gates * HIDDEN, HIDDEN)
        yield Case(op, [normal(0, 2, 2), w, r], settings, outputs=2, wanted=no_steps)
        yield Case(op, [normal(3, 0, 2), w, r], settings, outputs=2)
        infinite = normal(3, 2, 2)
        infinite[0, 0, 0], infinite[1, 1, 0] = np.inf, -np.inf
        for x in (normal(1, 1, 2) * 100, infinite):
            yield Case(op, [x, w, r], settings, outputs=2)
        clipped = {**settings, "clip": 0.5}
        yield Case(op, [normal(3, 2, 2) * 100, w, r], clipped, outputs=2, wanted=runtime)
        both = [normal(2, gates * HIDDEN, 2), normal(2, gates * HIDDEN, HIDDEN)]
        lengths, twice = np.array([0, 3], np.int32), {**settings, "direction": "bidirectional"}
        operands = [normal(3, 2, 2), *both, None, lengths]
        yield Case(op, operands, twice, outputs=2, wanted=runtime)


def cases() -> Iterator[Case]:
    """All recurrences and attentions."""
    yield from _layers()
    k = normal(1, 2, 3, 4)
    for causal in (0, 1):
        for queries in (0, 2):
            operands = [normal(1, 2, queries, 4), k, k]
            yield Case("Attention", operands, {"is_causal": causal})
    q = normal(1, 2, 2, 4)
    bias = np.array([[-np.inf] * 3, [0, -np.inf, 0]], np.float32)
    for mask in (bias, np.isfinite(bias)):
        yield Case("Attention", [q, k, k, mask])
    tables = [normal(5, 2), normal(5, 2)]
    yield Case("RotaryEmbedding", [normal(1, 2, 3, 4), *tables, np.array([[0, 4, 2]])])
    yield Case("RotaryEmbedding", [normal(0, 2, 3, 4), *tables, np.zeros((0, 3), np.int64)])
