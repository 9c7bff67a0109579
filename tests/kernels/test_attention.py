"""The attention kernel against NumPy, on odd sizes, for every vector width that runs here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.driver.model.model import Model
from tessella.kernels import load
from tessella.kernels.registry import kernels_of, registered
from tests.native import EVERYWHERE, Array, GraphBuilder, check_op

widths = pytest.mark.parametrize("target", EVERYWHERE)


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


# ** by blocks of keys **


@pytest.fixture
def by_keys() -> Iterator[None]:
    """Blocks of keys cost nothing."""
    load()
    x = GraphBuilder(x=np.zeros((2, 2), np.float32)).inputs["x"]
    op = nn.AttentionOp.make(
        [x, x, x], scale=1.0, transposed_k=False, causal=False, past=0, nan_as_zero=False
    )
    kernel = next(k for k in kernels_of(op) if k.name == "attention_by_keys")
    with registered(replace(kernel, name="cheap", cost=lambda _, __: 1e-12)):
        yield


def check_blocks(operands: list[Array], *, target: str | None = None, **settings: Any) -> Model:
    settings = {"scale": 0.3, "transposed_k": False, "causal": False, "past": 0} | settings
    settings = {"nan_as_zero": False} | settings
    model = check_op(nn.AttentionOp, operands, target=target, **settings)
    assert [op["kernel"] for op in model.explain().ops] == ["cheap"]
    return model


@widths
@pytest.mark.parametrize("transposed_k", [False, True])
@pytest.mark.parametrize("m, n, k, d", [(1, 1024, 3, 1), (7, 1065, 9, 3), (33, 1536, 16, 17)])
def test_blocks_of_keys(
    m: int, n: int, k: int, d: int, transposed_k: bool, target: str, by_keys: None
) -> None:
    key = normal(1, 2, k, n) if transposed_k else normal(1, 2, n, k)
    operands = [normal(0, 2, m, k), key, normal(2, 1, n, d), normal(3, m, n)]
    check_blocks(operands, target=target, transposed_k=transposed_k)


@pytest.mark.sweep
@pytest.mark.parametrize("past", [0, 3, 1000, 5000])
@pytest.mark.parametrize("m, n", [(1, 1024), (1030, 1024), (40, 1536)])
def test_blocks_of_causal_attention(m: int, n: int, past: int, by_keys: None) -> None:
    check_blocks([normal(0, m, 8), normal(1, n, 8), normal(2, n, 20)], causal=True, past=past)


@pytest.mark.parametrize("nan_as_zero", [False, True])
def test_blocks_that_are_masked(nan_as_zero: bool, by_keys: None) -> None:
    """A row of which one block is masked has a result; one of which all are has none."""
    mask = np.zeros((1, 9, 1024), np.float32)
    mask[:, 2], mask[:, 4] = -np.inf, np.finfo(np.float32).min
    mask[:, 5, :512], mask[:, 6, 512:], mask[:, 7, 1:] = -np.inf, -np.inf, -np.inf
    operands = [normal(0, 2, 9, 8), normal(1, 2, 1024, 8), normal(2, 2, 1024, 8), mask]
    operands[0][1, 8, 3] = np.nan
    check_blocks(operands, nan_as_zero=nan_as_zero)


def test_a_mask_for_all_keys(by_keys: None) -> None:
    operands = [normal(0, 9, 8), normal(1, 1024, 8), normal(2, 1024, 8), normal(3, 9, 1)]
    check_blocks(operands)


@pytest.mark.parametrize("causal", [False, True])
def test_rows_of_scores_that_no_cache_holds(causal: bool) -> None:
    """Steps of rows and blocks of keys, of which those beyond the diagonal are left out."""
    m, n = 300, 20480
    operands = [normal(0, m, 16), normal(1, n, 16), normal(2, n, 16)]
    model = check_op(
        nn.AttentionOp, operands, scale=0.3, transposed_k=False, causal=causal, past=n // 2,
        nan_as_zero=False,
    )  # fmt: skip
    assert [op["kernel"] for op in model.explain().ops] == ["attention_by_keys"]
    assert re.search(r"nest<\[300 by \d+( parallel \d+)?, \d+ by 1\]", model.as_text("tile"))
