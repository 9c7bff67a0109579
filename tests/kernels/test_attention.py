"""The attention kernel against NumPy, on odd sizes, for every vector width that runs here."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects import nn
from tests.native import RUNNABLE, Array, check_op

widths = pytest.mark.parametrize("target", RUNNABLE)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.sweep
@widths
@pytest.mark.parametrize("transposed_k", [False, True])
@pytest.mark.parametrize("m, n, k, d", [(1, 1, 1, 1), (5, 7, 9, 3), (33, 40, 16, 17)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_sizes(
    batch: tuple[int, ...], m: int, n: int, k: int, d: int, transposed_k: bool, target: str
) -> None:
    key = normal(1, *batch, k, n) if transposed_k else normal(1, *batch, n, k)
    check_op(
        nn.AttentionOp,
        [normal(0, *batch, m, k), key, normal(2, *batch, n, d), normal(3, m, n)],
        target=target,
        scale=0.3,
        transposed_k=transposed_k,
        causal=False,
        past=0,
        nan_as_zero=False,
    )


@pytest.mark.sweep
@widths
@pytest.mark.parametrize("past", [0, 3, 50])
@pytest.mark.parametrize("m, n", [(1, 1), (7, 5), (33, 40)])
def test_causal(m: int, n: int, past: int, target: str) -> None:
    check_op(
        nn.AttentionOp,
        [normal(0, 2, m, 8), normal(1, 2, n, 8), normal(2, 2, n, 20)],
        target=target,
        scale=0.3,
        transposed_k=False,
        causal=True,
        past=past,
        nan_as_zero=False,
    )


@widths
@pytest.mark.parametrize("nan_as_zero", [False, True])
def test_masked_rows(nan_as_zero: bool, target: str) -> None:
    mask = np.zeros((1, 9, 20), np.float32)
    mask[:, 2], mask[:, 4], mask[:, 6, :19] = -np.inf, np.finfo(np.float32).min, -np.inf
    check_op(
        nn.AttentionOp,
        [normal(0, 2, 9, 8), normal(1, 2, 20, 8), normal(2, 2, 20, 8), mask],
        target=target,
        scale=0.3,
        transposed_k=False,
        causal=False,
        past=0,
        nan_as_zero=nan_as_zero,
    )


@pytest.mark.parametrize("shapes", [[(2, 3), (1, 1), (1,)], [(1, 3), (2, 1), (2, 1)]])
def test_batches_that_broadcast(shapes: list[tuple[int, ...]]) -> None:
    q, k, v = shapes
    operands = [normal(0, *q, 5, 8), normal(1, *k, 7, 8), normal(2, *v, 7, 4)]
    check_op(
        nn.AttentionOp,
        operands,
        scale=1.0,
        transposed_k=False,
        causal=False,
        past=0,
        nan_as_zero=False,
    )


def test_weights() -> None:
    """Keys and values that are known, as of a layer with learned ones."""
    operands = [normal(0, 2, 5, 8), normal(1, 2, 17, 8), normal(2, 2, 17, 24), normal(3, 5, 17)]
    check_op(
        nn.AttentionOp,
        operands,
        constants=[1, 2, 3],
        scale=0.5,
        transposed_k=False,
        causal=False,
        past=0,
        nan_as_zero=False,
    )


def test_double_precision() -> None:
    operands = [normal(i, 5, 5).astype(np.float64) for i in range(3)]
    check_op(
        nn.AttentionOp, operands, rtol=1e-12, atol=1e-12, native=False,
        scale=0.5, transposed_k=True, causal=False, past=0, nan_as_zero=True,
    )  # fmt: skip
