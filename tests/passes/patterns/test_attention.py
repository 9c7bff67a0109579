"""Scaled dot-product attention as exporters and people spell it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.native import Array
from tests.passes.patterns.spelling import check, kernels_of, sample

HEADS, ROWS, COLUMNS, SIZE = 3, 6, 10, 16
INPUTS = {
    "q": sample(0, 2, HEADS, ROWS, SIZE),
    "k": sample(1, 2, HEADS, COLUMNS, SIZE),
    "v": sample(2, 2, HEADS, COLUMNS, 8),
}
MASK = {"mask": 2 * sample(3, 2, 1, ROWS, COLUMNS)}
ALLOWED = {"allowed": np.tri(ROWS, COLUMNS, 2) > 0}

# torch.onnx.export(dynamo=True), opset 18: k is transposed in batches of matrices.
DYNAMO = (
    f"s1 = Constant <value_ints = [{2 * HEADS}, {COLUMNS}, {SIZE}]> () "
    f"s2 = Constant <value_ints = [2, {HEADS}, {SIZE}, {COLUMNS}]> () "
    "k1 = Reshape(k, s1) k2 = Transpose <perm = [0, 2, 1]> (k1) k3 = Reshape(k2, s2) "
    "qs = Mul(q, 0.5f) ks = Mul(k3, 0.5f) "
)
# torch.onnx.export(dynamo=False), opset 14.
SCRIPT = "k1 = Transpose <perm = [0, 1, 3, 2]> (k) qs = Mul(q, 0.5f) ks = Mul(k1, 0.5f) "
SAFE = "n = IsNaN(p) z = Where(n, 0.0f, p) y = MatMul(z, v)"
SOFTMAX = "p = Softmax <axis = -1> (m) "
PIECES = (
    "p1 = ReduceMax <axes = [-1], keepdims = 1> (m) p2 = Sub(m, p1) p3 = Exp(p2) "
    "last = Constant <value_ints = [-1]> () p4 = ReduceSum <keepdims = 1> (p3, last) "
    "p = Div(p3, p4) "
)
SPELLINGS = {
    "dynamo": DYNAMO + "m = MatMul(qs, ks) " + SOFTMAX + "y = MatMul(p, v)",
    "dynamo, mask": DYNAMO + "s = MatMul(qs, ks) m = Add(s, mask) " + SOFTMAX + "y = MatMul(p, v)",
    "dynamo, safe": DYNAMO + "s = MatMul(qs, ks) m = Add(s, mask) " + SOFTMAX + SAFE,
    "script": SCRIPT + "m = MatMul(qs, ks) " + SOFTMAX + "y = MatMul(p, v)",
    "script, mask": SCRIPT + "s = MatMul(qs, ks) m = Add(s, mask) " + SOFTMAX + "y = MatMul(p, v)",
    "script, safe": SCRIPT + "s = MatMul(qs, ks) m = Add(s, mask) " + SOFTMAX + SAFE,
    "by hand, divided scores": "k1 = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, k1) "
    "d = Div(s, 4.0f) m = Add(d, mask) " + SOFTMAX + "y = MatMul(p, v)",
    "by hand, divided q": "k1 = Transpose <perm = [0, 1, 3, 2]> (k) d = Div(q, 4.0f) "
    "s = MatMul(d, k1) m = Add(mask, s) " + SOFTMAX + "y = MatMul(p, v)",
    "by hand, pieces": "k1 = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, k1) "
    "d = Mul(s, 0.25f) m = Add(d, mask) " + PIECES + "y = MatMul(p, v)",
    "unscaled": "k1 = Transpose <perm = [0, 1, 3, 2]> (k) m = MatMul(q, k1) "
    + SOFTMAX
    + "y = MatMul(p, v)",
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    body = SPELLINGS[name]
    inputs = INPUTS | MASK if "mask" in body else INPUTS
    model = check(body, ["attention"], inputs, tolerance=1e-4)
    assert sum(kernel.startswith("attention") for kernel in kernels_of(model)) == 1


def hidden(row: int, low: float) -> Array:
    """A mask that hides all columns from one row, by a number."""
    mask = np.zeros((2, 1, ROWS, COLUMNS), np.float32)
    mask[:, :, row] = low
    return mask


@pytest.mark.parametrize("low", [-np.inf, float(np.finfo(np.float32).min), -1e4])
@pytest.mark.parametrize("name", ["dynamo, safe", "dynamo, mask", "by hand, divided scores"])
def test_rows_that_see_nothing(name: str, low: float) -> None:
    """NaN, or 0 where NaN is removed; all columns alike, if the mask is large but finite."""
    model = check(SPELLINGS[name], ["attention"], INPUTS | {"mask": hidden(2, low)}, tolerance=1e-4)
    [y] = model.run(None, INPUTS | {"mask": hidden(2, low)})
    if low == -np.inf:
        assert np.all(y[:, :, 2] == 0) if "safe" in name else np.all(np.isnan(y[:, :, 2]))
    elif low < -1e30:
        np.testing.assert_allclose(y[:, :, 2], INPUTS["v"].mean(axis=2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [np.nan, np.inf])
def test_scores_that_are_no_numbers(k: float) -> None:
    inputs = INPUTS | MASK | {"k": INPUTS["k"].copy()}
    inputs["k"][0, 1, 3] = k
    check(SPELLINGS["dynamo, safe"], ["attention"], inputs, tolerance=1e-4)


@pytest.mark.parametrize("name", ["dynamo, safe", "script, safe"])
def test_mask_of_booleans(name: str) -> None:
    body = "mask = Where(allowed, 0.0f, -3.4028235e38f) " + SPELLINGS[name]
    check(body, ["where", "attention"], INPUTS | ALLOWED, tolerance=1e-4)


def test_shared_keys() -> None:
    """All heads of q share one head of k and v."""
    shared = {name: INPUTS[name][:, :1] for name in ("k", "v")}
    body = SPELLINGS["by hand, divided q"]
    check(body, ["attention"], INPUTS | MASK | shared, tolerance=1e-4)


def test_probabilities_that_are_read_stay() -> None:
    body = SPELLINGS["unscaled"].replace("y = MatMul(p, v)", "r = MatMul(p, v) o = MatMul(p, v2) ")
    inputs = INPUTS | {"v2": sample(9, 2, HEADS, COLUMNS, 8)}
    check(body + "y = Add(r, o)", ["matmul", "softmax", "matmul", "matmul", "add"], inputs)


def padded(low: float) -> Array:
    """The mask of two prompts, of which the second one has three places of padding before it."""
    mask = np.zeros((2, 1, 1, COLUMNS), np.float32)
    mask[1, ..., :3] = low
    return mask


LEAST = float(np.finfo(np.float32).min)


@pytest.mark.parametrize("low", [-1e9, LEAST, -np.inf, 2e9])
@pytest.mark.parametrize(
    "fill, ops",
    [
        (-1e9, ["matmul", "mul", "where", "add", "softmax", "matmul"]),
        (LEAST, ["add", "where", "attention"]),
        (-np.inf, ["attention"]),
    ],
)
def test_masks_of_prompts_that_are_padded(fill: float, ops: list[str], low: float) -> None:
    """Rows of padding see no key but hidden ones."""
    body = CAUSAL.format("c = Where(visible, d, low) m = Add(c, mask)")
    weights = {"visible": np.tri(ROWS, COLUMNS, dtype=np.bool_), "low": np.array(fill, np.float32)}
    check(body, ops, INPUTS | {"mask": padded(low)}, weights, tolerance=1e-4)


CAUSAL = (
    "k1 = Transpose <perm = [0, 1, 3, 2]> (k) s = MatMul(q, k1) d = Div(s, 4.0f) {} "
    + SOFTMAX
    + "y = MatMul(p, v)"
)
VISIBLE = np.tri(ROWS, COLUMNS, 2, dtype=np.bool_)


@pytest.mark.parametrize("low", [-np.inf, -1e9, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("batch", [(), (1, 1)])
def test_constant_triangles_are_causal(batch: tuple[int, ...], low: float) -> None:
    mask = np.where(VISIBLE, 0, low).astype(np.float32).reshape(*batch, ROWS, COLUMNS)
    body = CAUSAL.format("m = Add(d, mask)")
    model = check(body, ["attention"], INPUTS, {"mask": mask}, tolerance=1e-4)
    assert "causal true past 2" in model.as_text("placed")


def test_chosen_scores_are_causal() -> None:
    """GPT-2 has this form. An added mask stays if the fill value is hidden under any mask."""
    plain = CAUSAL.format("m = Where(visible, d, -3.4028235e38f)")
    masked = CAUSAL.format("w = Where(visible, d, low) m = Add(w, mask)")
    weights = {"visible": VISIBLE, "low": np.array(-np.inf, np.float32)}
    for body, inputs in ((plain, INPUTS), (masked, INPUTS | MASK)):
        model = check(body, ["attention"], inputs, weights, tolerance=1e-4)
        assert "causal true past 2" in model.as_text("placed")


def _other(change: str) -> Array:
    mask = np.where(VISIBLE, 0, -np.inf).astype(np.float32)
    if change == "one more":
        mask[3, 7] = 0
    elif change == "not hidden":
        mask[mask < 0] = -2
    elif change == "not 0":
        mask[mask == 0] = 1
    elif change == "upper":
        mask = mask[::-1].copy()
    return np.broadcast_to(mask, (2, 1, ROWS, COLUMNS)).copy() if change == "batch" else mask


@pytest.mark.parametrize("change", ["one more", "not hidden", "not 0", "upper", "batch"])
def test_other_masks_are_not_causal(change: str) -> None:
    body = CAUSAL.format("m = Add(d, mask)")
    model = check(body, ["attention"], INPUTS, {"mask": _other(change)}, tolerance=1e-4)
    assert "causal" not in model.as_text("placed")


@pytest.mark.parametrize("rows", [1, ROWS])
def test_masks_of_one_row_are_not_causal(rows: int) -> None:
    """They hide the same keys from all queries, as padding is hidden."""
    mask = np.where(np.arange(COLUMNS) < 7, 0, -np.inf).astype(np.float32)
    weights = {"mask": np.broadcast_to(mask, (rows, COLUMNS)).copy()}
    added = check(CAUSAL.format("m = Add(d, mask)"), ["attention"], INPUTS, weights, tolerance=1e-4)
    body = CAUSAL.format("m = Where(visible, d, -1e30f)")
    chosen = {"visible": weights["mask"] == 0}
    assert "causal" not in added.as_text("placed")
    expected = ["matmul", "mul", "where", "softmax", "matmul"]
    check(body, expected, INPUTS, chosen, tolerance=1e-4)


GROUPED = (
    f"s1 = Constant <value_ints = [2, {HEADS}, 1, {COLUMNS}, {{}}]> () "
    f"s2 = Constant <value_ints = [2, {HEADS}, 4, {COLUMNS}, {{}}]> () "
    f"s3 = Constant <value_ints = [2, {4 * HEADS}, {COLUMNS}, {{}}]> () "
    "u1 = Reshape({0}, s1) u2 = Expand(u1, s2) {0}r = Reshape(u2, s3) "
)
"""Heads of k or v, repeated for those of q."""


def _grouped(name: str, size: int) -> str:
    text = GROUPED.replace("{0}", name).replace("{}", str(size))
    return re.sub(r"\b([su]\d)\b", rf"{name}\1", text)


@pytest.mark.parametrize("mask", [None, (ROWS, COLUMNS), (2, 1, 1, COLUMNS), (4 * HEADS, 1, 1)])
def test_grouped_heads(mask: tuple[int, ...] | None) -> None:
    """Heads of k and v are read where they are, once for each of q in their group."""
    inputs = INPUTS | {"q": sample(5, 2, 4 * HEADS, ROWS, SIZE)}
    body = _grouped("k", SIZE) + _grouped("v", 8)
    body += "k1 = Transpose <perm = [0, 1, 3, 2]> (kr) m0 = MatMul(q, k1) "
    if mask is None:
        body += "m = Mul(m0, 0.25f) "
    else:
        inputs |= {"mask": sample(6, *mask)}
        body += "m = Add(m0, mask) "
    model = check(body + SOFTMAX + "y = MatMul(p, vr)", ["attention"], inputs, tolerance=1e-4)
    assert "nn.expand" not in model.as_text("placed").replace("nn.expand@", "")
