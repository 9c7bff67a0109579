"""Kernels whose statements share loops, on sizes that do not fit into the nearest cache."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest

import tessella
from tessella.dialects import nn
from tessella.passes.tile import nest
from tessella.support.errors import InvalidModelError
from tests.native import RUNNABLE, Array, check_op
from tests.sampling import sample, sampled

widths = pytest.mark.parametrize("target", RUNNABLE)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@widths
@pytest.mark.parametrize("shape", [(70, 301), (3, 41, 257), (2, 9000), (257, 64), (2600, 257)])
def test_softmax(target: str, shape: tuple[int, ...]) -> None:
    check_op(nn.SoftmaxOp, [normal(0, *shape)], target=target, axis=len(shape) - 1)


@widths
@pytest.mark.parametrize("shape", [(5, 61, 70), (2, 1500, 90), (1, 9000, 37)])
def test_softmax_along_another_axis(shape: tuple[int, ...], target: str) -> None:
    check_op(nn.SoftmaxOp, [normal(0, *shape)], target=target, axis=1)


@widths
@pytest.mark.parametrize("shape", [(97, 200), (3, 50, 129)])
def test_layer_norm(target: str, shape: tuple[int, ...]) -> None:
    operands = [normal(0, *shape), normal(1, shape[-1]), normal(2, shape[-1])]
    check_op(nn.LayerNormOp, operands, target=target, axis=len(shape) - 1, epsilon=1e-5)


@widths
@pytest.mark.parametrize("transposed_k", [False, True])
@pytest.mark.parametrize("queries, keys", [(331, 331), (100, 1500)][: sampled(2)])
def test_attention(target: str, transposed_k: bool, queries: int, keys: int) -> None:
    k = normal(1, 3, 24, keys) if transposed_k else normal(1, 3, keys, 24)
    check_op(
        nn.AttentionOp,
        [normal(0, 3, queries, 24), k, normal(2, 3, keys, 40), normal(3, queries, keys)],
        target=target,
        scale=0.2,
        transposed_k=transposed_k,
        causal=False,
        past=0,
        nan_as_zero=False,
    )


@widths
@pytest.mark.parametrize("queries, keys, past", [(331, 331, 0), (100, 1500, 1400), (700, 290, 5)])
def test_causal_attention(queries: int, keys: int, past: int, target: str) -> None:
    """Keys beyond the last one of a step are not computed."""
    model = check_op(
        nn.AttentionOp,
        [normal(0, 3, queries, 24), normal(1, 3, keys, 24), normal(2, 3, keys, 40)],
        target=target,
        scale=0.2,
        transposed_k=False,
        causal=True,
        past=past,
        nan_as_zero=False,
    )
    assert "nest" in model.as_text("tile")
    assert "floordiv 128" in model.as_text("loops")


@widths
@pytest.mark.parametrize("seed", sample(range(16)))
def test_causal_attention_in_any_steps(
    seed: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against NumPy, which knows no steps: sizes, and rows of a step, are drawn."""
    random = Random(seed)
    monkeypatch.setattr(nest, "LEAST_ROWS", 1)
    monkeypatch.setitem(nest.SHARES, "L2", random.choice([0.05, 0.1, 0.2, 0.4]))
    queries, keys = random.randrange(60, 500), random.randrange(60, 700)
    k, v, d = random.randrange(1, 40), random.randrange(1, 40), random.randrange(1, 3)
    check_op(
        nn.AttentionOp,
        [normal(0, d, queries, k), normal(1, d, keys, k), normal(2, d, keys, v)],
        target=target,
        scale=0.2,
        transposed_k=False,
        causal=True,
        past=random.choice([0, 1, random.randrange(keys)]),
        nan_as_zero=False,
    )


def stencils(a: Array) -> Array:
    """Apply a stencil three times; each application reads neighbours in the previous result."""
    for _ in range(3):
        middle = a[1:-1, 1:-1]
        around = a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2]
        a = middle + 0.1 * (around - 4 * middle)
    return a


@pytest.mark.sweep
@widths
@pytest.mark.parametrize("shape", [(1200, 1100), (2500, 500), (600, 3001)][: sampled(3)])
def test_stencils_in_a_row(
    shape: tuple[int, int], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against NumPy, and to the bit against kernels one after the other."""
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    x = normal(0, *shape)
    strips = tessella.jit(stencils, target=target)
    text = strips.lower(x).as_text("tile")
    assert re.search(r"at \[\w+: step by \d+\]", text)
    found = strips(x)
    np.testing.assert_allclose(found, stencils(x), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(nest, "WRITTEN", 0)
    apart = tessella.jit(lambda a: stencils(a), target=target)
    assert "step by" not in apart.lower(x).as_text("tile")
    np.testing.assert_array_equal(apart(x), found)


@pytest.mark.parametrize("step, threads", [(5, 1), (7, 2), (333, 1)])
def test_a_nest_written_by_hand(tmp_path: Path, step: int, threads: int) -> None:
    """A program whose steps were edited in its text, of any size and divided or not."""
    x = normal(0, 1200, 1100)
    text = tessella.jit(stencils).lower(x).as_text("tile")
    sizes = [int(n) for n in re.findall(r"step by (\d+)", text)]
    (whole, old), *_ = re.findall(r"#tile.nest<\[(\d+) by (\d+)", text)
    parallel = f" parallel {step}" if threads > 1 else ""
    edited = re.sub(r"#tile.nest<\[[^\]]*\]", f"#tile.nest<[{whole} by {step}{parallel}]", text)
    for size in sizes:
        window = size - int(old) + step
        edited = re.sub(
            rf"step by {size}\] in a step of (\w+): {size}\b",
            rf"step by {window}] in a step of \1: {window}",
            edited,
            count=1,
        )
    path = tmp_path / "stencils.tile"
    path.write_text(edited)
    model = tessella.compile(path, threads=threads)
    (found,) = model.run(None, {model.inputs[0].name: x})
    np.testing.assert_array_equal(found, tessella.jit(stencils)(x))
    wrong = edited.replace(f"step by {sizes[0] - int(old) + step}]", f"step by {step}]", 1)
    path.write_text(wrong)
    with pytest.raises(InvalidModelError, match="reads what another step of a shared loop writes"):
        tessella.compile(path)
