"""Attention against ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tests.dialects.oracle import assert_close, reference, run, sample

F32, F64 = np.float32, np.float64


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("transposed_k", [False, True])
@pytest.mark.parametrize("mask", [None, (5, 7), (2, 1, 5, 7), (1, 3, 5, 7)])
def test_attention(mask: tuple[int, ...] | None, transposed_k: bool, dtype: Any) -> None:
    q, k, v = (sample(i, (2, 3, n, 4), dtype) for i, n in enumerate((5, 7, 7)))
    masks = [] if mask is None else [sample(3, mask, dtype)]
    given = np.ascontiguousarray(np.swapaxes(k, 2, 3)) if transposed_k else k
    found = run(
        nn.AttentionOp, q, given, v, *masks,
        scale=0.25, transposed_k=transposed_k, causal=False, past=0, nan_as_zero=False,
    )  # fmt: skip
    expected = reference("Attention", q, k, v, *masks, opset=23, scale=0.25)
    assert_close([y.astype(F32) for y in found], [y.astype(F32) for y in expected])


@pytest.mark.parametrize("sizes", [(5, 7), (7, 5), (6, 6)])
def test_causal(sizes: tuple[int, int]) -> None:
    rows, columns = sizes
    q, k, v = (sample(i, (2, 3, n, 4)) for i, n in enumerate((rows, columns, columns)))
    [y] = run(
        nn.AttentionOp, q, k, v,
        scale=0.25, transposed_k=False, causal=True, past=0, nan_as_zero=False,
    )  # fmt: skip
    assert_close([y], reference("Attention", q, k, v, opset=23, scale=0.25, is_causal=1))
    [y] = run(
        nn.AttentionOp, q, k, v,
        scale=0.25, transposed_k=False, causal=True, past=2, nan_as_zero=False,
    )  # fmt: skip
    mask = np.tri(rows, columns, 2, dtype=np.bool_)
    assert_close([y], reference("Attention", q, k, v, mask, opset=23, scale=0.25))


def test_of_matrices() -> None:
    q, k, v = (sample(i, shape) for i, shape in enumerate([(5, 4), (7, 4), (7, 6)]))
    found = run(
        nn.AttentionOp, q, k, v,
        scale=1.0, transposed_k=False, causal=False, past=0, nan_as_zero=False,
    )  # fmt: skip
    expected = reference("Attention", *(x[None, None] for x in (q, k, v)), opset=23, scale=1.0)
    assert_close(found, [expected[0][0, 0]])


@pytest.mark.parametrize("nan_as_zero", [False, True])
def test_a_row_that_is_masked(nan_as_zero: bool) -> None:
    """NaN or 0 where all scores are -inf; the mean of v where they are equal by rounding."""
    q, k, v = (sample(i, shape) for i, shape in enumerate([(3, 4), (7, 4), (7, 6)]))
    mask = np.zeros((3, 7), F32)
    mask[1], mask[2] = -np.inf, np.finfo(F32).min
    [y] = run(
        nn.AttentionOp, q, k, v, mask,
        scale=1.0, transposed_k=False, causal=False, past=0, nan_as_zero=nan_as_zero,
    )  # fmt: skip
    assert np.all(y[1] == 0 if nan_as_zero else np.isnan(y[1]))
    np.testing.assert_allclose(y[2], v.mean(axis=0), rtol=1e-5)
