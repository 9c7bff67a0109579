"""Products with packed integers, against NumPy's arithmetic on the unpacked ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.model.model import Model
from tests.native import EVERYWHERE, GraphBuilder, build

Array = npt.NDArray[Any]

widths = pytest.mark.parametrize("target", ["native", *EVERYWHERE[1:]])


def integers(bits: int, n: int, blocks: int, length: int) -> Array:
    low = -(1 << (bits - 1))
    return np.random.default_rng((bits, n)).integers(low, -low, (n, blocks, length))


def words_of(values: Array, bits: int, element: str, group: int) -> Array:
    """The integers [N, blocks, length] in words, one after the other."""
    n, blocks, length = values.shape
    each = np.dtype(element).itemsize * 8 // bits
    words = np.zeros((n, blocks, length // (each * group), group), np.int64)
    for number in range(length):
        group_of, inside = divmod(number, each * group)
        field, word = divmod(inside, group)
        words[:, :, group_of, word] |= (values[..., number] & ((1 << bits) - 1)) << (bits * field)
    return words.astype(element)


def product(
    x: Array,
    values: Array,
    scale: Array,
    bits: int,
    target: str,
    steps: Array | None = None,
    table: Sequence[float] = (),
) -> tuple[Model, Array]:
    """The model of a product, and its result, which equals the interpreter's."""
    group = 1 if steps is None else 4 // x.dtype.itemsize
    words = words_of(values, bits, "int32" if steps is None else x.dtype.name, group)
    feeds = {"x": x} if steps is None else {"x": x, "steps": steps}

    def make() -> Graph:
        g = GraphBuilder(**feeds)
        given = [g.inputs["steps"]] if steps is not None else []
        operands = [g.inputs["x"], g.weight(words), g.weight(scale, "s"), *given]
        return g.graph(g.op(nn.PackedMatmulOp, operands, bits=bits, table=table))

    model = build(make, target)
    (found,), (wanted,) = model.run(None, feeds), interpret(make(), feeds)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    return model, found


def expected(x: Array, values: Array, scale: Array) -> Array:
    matrix = (values * scale[..., None].astype(np.float64)).reshape(len(values), -1)
    return x.astype(np.float64) @ matrix.T


def draw(*shape: int) -> Array:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


@widths
@pytest.mark.parametrize("rows", [1, 5, 17])
@pytest.mark.parametrize("bits", [4, 8, 2])
def test_floats(bits: int, rows: int, target: str) -> None:
    values, scale, x = integers(bits, 19, 3, 32), draw(19, 3), draw(rows, 96)
    _, found = product(x, values, scale, bits, target)
    wanted = expected(x, values, scale)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@widths
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("bits", [4, 8, 2])
@pytest.mark.parametrize("element", ["int16", "int8"])
def test_integers(element: str, bits: int, rows: int, target: str) -> None:
    values, scale, steps = integers(bits, 19, 3, 64), draw(19, 3), draw(rows, 3)
    x = np.random.default_rng(rows).integers(-127, 128, (rows, 192)).astype(element)
    _, found = product(x, values, scale, bits, target, steps)
    wide = (x.reshape(rows, 3, 64) * steps[..., None].astype(np.float64)).reshape(rows, -1)
    wanted = expected(wide, values, scale)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@widths
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("bits", [4, 2])
def test_tables(bits: int, rows: int, target: str) -> None:
    codes, scale, x = integers(bits, 19, 3, 32), draw(19, 3), draw(rows, 96)
    table = tuple(float(v) for v in draw(1 << bits))
    _, found = product(x, codes, scale, bits, target, table=table)
    wanted = expected(x, np.array(table)[codes & ((1 << bits) - 1)], scale)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_instructions_sum_blocks_before_they_are_scaled() -> None:
    values, scale, steps = integers(4, 64, 3, 64), draw(64, 3), draw(2, 3)
    x = np.random.default_rng(0).integers(-127, 128, (2, 192)).astype(np.int16)
    model, _ = product(x, values, scale, 4, "avx2", steps)
    assert "dot i vpmaddwd partial b 1" in " ".join(model.as_text("tile").split())
    loops = model.as_text("loops")
    # both rows share what they decode
    assert loops.count("rt.dot") == 2 * loops.count("arith.shrsi") > 0
