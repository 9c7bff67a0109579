"""Products of narrow numbers, against NumPy's arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.model import Model
from tessella.targets.instructions import of_product
from tests.native import EVERYWHERE, GraphBuilder, build
from tests.sampling import sampled

Array = npt.NDArray[Any]

NATIVE = ["native", *EVERYWHERE]
"""This machine with all that it has, and plain targets."""
widths = pytest.mark.parametrize("target", NATIVE)
has_dot = pytest.mark.skipif(
    not any(of_product("u8", "i8", "i32", targets.native())), reason="needs a dot product of bytes"
)
few = settings(
    max_examples=sampled(12),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def numbers(dtype: type[np.integer[Any]], *shape: int, seed: int = 0) -> Array:
    """All numbers of an integer type, the extreme ones often."""
    random, limits = np.random.default_rng((seed, *shape)), np.iinfo(dtype)
    found = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    extreme = random.choice(np.array([limits.min, limits.max], dtype), shape)
    return np.where(random.random(shape) < 0.25, extreme, found)


def product(a: Array, b: Array, target: str, *, constant: bool, transpose: bool = False) -> Model:
    """The model of a product, whose result was compared with NumPy's."""
    right = np.ascontiguousarray(b.swapaxes(-1, -2)) if transpose else b

    def make() -> Graph:
        g = GraphBuilder(a=a) if constant else GraphBuilder(a=a, b=right)
        other = g.weight(right) if constant else g.inputs["b"]
        return g.graph(g.op(nn.MatmulOp, [g.inputs["a"], other], transpose_b=transpose))

    model = build(make, target)
    (y,) = model.run(None, {"a": a} if constant else {"a": a, "b": right})
    np.testing.assert_array_equal(y, a.astype(np.int32) @ b.astype(np.int32))
    assert y.dtype == np.int32
    assert "host" not in {str(entry["kernel"]) for entry in model.explain().ops}
    return model


@widths
@few
@given(data=st.data())
def test_products_of_bytes(target: str, data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(1, most)) for most in (40, 100, 70))
    batch = data.draw(st.sampled_from([(), (3,)]))
    elements = data.draw(st.sampled_from([(np.uint8, np.int8), (np.int8, np.uint8)]))
    a, b = numbers(elements[0], *batch, m, k), numbers(elements[1], k, n, seed=1)
    constant, transpose = data.draw(st.booleans()), data.draw(st.booleans())
    product(a, b, target, constant=constant, transpose=transpose)


@has_dot
@pytest.mark.parametrize("k", [2, 3, 4, 7, 64, 1029])
def test_the_tail_of_a_sum(k: int) -> None:
    """The values that are left after whole groups, which one masked load reads."""
    a, b = numbers(np.uint8, 5, k), numbers(np.int8, k, 33)
    model = product(a, b, "native", constant=True)
    assert " dot k " in model.as_text("tile")
    assert ("vector.maskedload" in model.as_text("loops")) == (k % 4 != 0)


def test_sums_wrap() -> None:
    a, b = np.full((2, 70000), 255, np.uint8), np.full((70000, 16), -128, np.int8)
    product(a, b, "native", constant=True)


@has_dot
def test_a_large_product_has_blocked_code() -> None:
    """Its inner loop is dot products: a load for each vector and each row, no conversions."""
    a, b = numbers(np.uint8, 64, 256), numbers(np.int8, 256, 256)
    model = product(a, b, "native", constant=True)
    loops = model.as_text("loops")
    assert "arith.ext" not in loops
    assert "rt.dot" in loops


@widths
def test_a_layer_with_a_bias(target: str) -> None:
    x, w = numbers(np.uint8, 9, 30), numbers(np.int8, 30, 20)
    b = np.arange(20, dtype=np.int32) * 100003

    def make() -> Graph:
        g = GraphBuilder(x=x)
        operands = [g.inputs["x"], g.weight(w), g.weight(b, "b")]
        return g.graph(g.op(nn.FcOp, operands, transpose_w=False))

    (y,) = build(make, target).run(None, {"x": x})
    np.testing.assert_array_equal(y, x.astype(np.int32) @ w.astype(np.int32) + b)
