"""Kernels on all elements, against the NumPy kernels: nothing of them runs in NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.model.model import Model
from tessella.driver.options import make_options
from tessella.runtime.elements import DTYPES, converted, tagged, widened
from tessella.support.elements import ELEMENTS
from tests.native import EVERYWHERE, FixedSource, GraphBuilder, in_numpy, sample

Array = npt.NDArray[Any]

NATIVE = [name for name, element in ELEMENTS.items() if element.is_native]
NARROW = [name for name in NATIVE if ELEMENTS[name].narrow]
IN_NUMPY = [name for name in ("f8E4M3FN", "f8E5M2", "i4", "u2") if name not in NATIVE]
HALVES = ("f16", "bf16")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = ("i8", "i16", "i32", "i64", *UNSIGNED)


def check(
    kind: type[NnOp], *arrays: Array, target: str = "native", rtol: float = 0, **settings: Any
) -> Model:
    """An op natively, and as NumPy computes it."""
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}

    def make() -> Graph:
        g = GraphBuilder(**inputs)
        return g.graph(g.op(kind, [g.inputs[name] for name in inputs], **settings))

    model = compile_source(FixedSource(make), target=target)
    assert not in_numpy(model)
    [wanted] = interpret(make(), inputs)
    [found] = model.run(None, inputs)
    assert tagged(found).dtype == wanted.dtype
    np.testing.assert_allclose(widened(found), widened(wanted), rtol=rtol, atol=rtol)
    return model


@pytest.mark.sweep
@pytest.mark.parametrize("start, to", list(itertools.permutations(NATIVE, 2)))
def test_casts(start: str, to: str) -> None:
    x = sample(start, 3, 37)
    check(nn.CastOp, x, to=attribute_of(to))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "start, to",
    [
        (start, to)
        for start, to in itertools.permutations(NATIVE, 2)
        if ELEMENTS[start].bits == ELEMENTS[to].bits and not {start, to} & {*NARROW}
    ],
)
def test_bits_as_another_element(start: str, to: str) -> None:
    check(nn.BitcastOp, sample(start, 3, 37), to=attribute_of(to))


HARD = np.array(
    [
        *(0.0, -0.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 1 + 2**-8 + 2**-40),
        *(1 + 2**-11 + 2**-40, 2.0**-24, 2.0**-25, 2.0**-25 + 2.0**-60, 65519.99, 65520.0),
        *(3e38, 3.4e38, 2.0**-140, -1.5, 255.5, 256.0, -129.0, 1e18, 1e19, 2e19, 6e-8, 1e-45),
    ]
)
"""Where casts round, overflow, or leave a range."""


@pytest.mark.parametrize("target", [*EVERYWHERE, "sse"])
@pytest.mark.parametrize("start", ["f32", "f64"])
@pytest.mark.parametrize("to", ["f16", "bf16", "u8", "u16", "u64", "i8"])
def test_casts_of_hard_numbers(start: str, to: str, target: str) -> None:
    x = converted(np.concatenate([HARD, -HARD]), DTYPES[start])
    check(nn.CastOp, x, to=attribute_of(to), target=target)


@pytest.mark.parametrize("target", [*EVERYWHERE, "sse"])
@pytest.mark.parametrize("name", HALVES)
def test_every_half_widens(name: str, target: str) -> None:
    x = np.arange(1 << 16).astype(np.uint16).view(DTYPES[name])
    check(nn.CastOp, x, to=attribute_of("f32"), target=target)


@pytest.mark.sweep
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(
    "kind",
    [nn.AddOp, nn.SubOp, nn.MulOp, nn.MinOp, nn.MaxOp, nn.LessOp, nn.GreaterEqualOp, nn.EqualOp],
)
def test_arithmetic_of_integers(kind: type[NnOp], name: str) -> None:
    check(kind, sample(name, 5, 67), sample(name, 5, 67, seed=1))


@pytest.mark.sweep
@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("kind", [nn.AbsOp, nn.SignOp, nn.ReluOp, nn.NegOp])
def test_unary_ops_of_unsigned_integers(kind: type[NnOp], name: str) -> None:
    check(kind, sample(name, 70))


@pytest.mark.parametrize("name", UNSIGNED)
def test_division_and_clip_of_unsigned_integers(name: str) -> None:
    check(nn.DivOp, sample(name, 70), np.maximum(sample(name, 70, seed=1) // 7, 1))
    check(nn.ClipOp, sample(name, 70), low=3.0, high=200.0)


@pytest.mark.sweep
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("kind", [nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMinOp])
@pytest.mark.parametrize("axes", [(0,), (1,)])
def test_reductions_of_integers(kind: type[NnOp], name: str, axes: tuple[int, ...]) -> None:
    check(kind, sample(name, 19, 131), axes=axes, keepdims=False)


@pytest.mark.parametrize("name", [*HALVES, *UNSIGNED, "i8"])
def test_moves(name: str) -> None:
    x = sample(name, 6, 9, 20)
    model = check(nn.TransposeOp, x, perm=(2, 0, 1))
    assert "fpext" not in model.as_text("llvm")
    check(nn.GatherOp, x, np.array([3, 0, -1, 8]), axis=1)
    check(nn.SliceOp, x, starts=(1, 0, 2), sizes=(3, 4, 9), steps=(1, 2, 2))


@pytest.mark.parametrize("target", [*EVERYWHERE, "sse"])
@pytest.mark.parametrize("name", HALVES)
def test_halves_are_computed_in_f32(name: str, target: str) -> None:
    eps = ELEMENTS[name].epsilon
    x, y = sample(name, 9, 70), sample(name, 9, 70, seed=1)
    check(nn.AddOp, x, y, target=target)
    check(nn.ExpOp, x, target=target, rtol=eps)
    check(nn.SoftmaxOp, x, axis=1, target=target, rtol=eps)
    check(nn.ReduceMeanOp, x, axes=(1,), keepdims=True, target=target, rtol=eps)


@pytest.mark.parametrize("target", [*EVERYWHERE, "sse"])
@pytest.mark.parametrize("name", HALVES)
def test_products_of_halves(name: str, target: str) -> None:
    eps = ELEMENTS[name].epsilon
    a, b = sample(name, 17, 200), sample(name, 200, 33, seed=1)
    model = check(nn.MatmulOp, a, b, transpose_b=False, target=target, rtol=2 * eps)
    assert "fma" in model.as_text("llvm") or target == "sse"
    x, w = sample(name, 1, 16, 9, 9), sample(name, 8, 16, 3, 3, seed=1)
    check(
        nn.ConvOp, x, w, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), groups=1,
        target=target, rtol=2 * eps,
    )  # fmt: skip


def test_a_mean_of_f16_does_not_overflow() -> None:
    x = np.full((3, 4000), 60, np.float16)
    check(nn.ReduceMeanOp, x, axes=(1,), keepdims=False)


def test_arrays_of_ml_dtypes_are_inputs() -> None:
    x = np.arange(8).astype(ml_dtypes.bfloat16)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.AddOp, [g.inputs["x"], g.inputs["x"]]))

    model = compile_source(FixedSource(make))
    assert model.inputs[0].dtype == "bfloat16"
    found = model(x)
    assert found.view(ml_dtypes.bfloat16).astype(float).tolist() == [2.0 * i for i in range(8)]


@pytest.mark.parametrize("name", IN_NUMPY)
def test_elements_that_are_only_stored_run_in_numpy(name: str) -> None:
    w = converted(np.array([[1.0, -2, 1], [0, 1, -1]]), DTYPES[name])
    if ELEMENTS[name].kind == "unsigned":
        w = converted(np.array([[1, 2, 3], [0, 1, 3]]), DTYPES[name])

    def make() -> Graph:
        g = GraphBuilder(x=np.zeros((2, 3), np.float32))
        cast = g.op(nn.CastOp, [g.weight(w)], to=attribute_of("f32"))
        return g.graph(g.op(nn.AddOp, [g.inputs["x"], cast]))

    model = compile_source(FixedSource(make))
    found = model(np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(found, widened(w).astype(np.float32))


@pytest.mark.parametrize("name", IN_NUMPY)
def test_inputs_of_elements_that_are_only_stored(name: str) -> None:
    x = converted(np.array([[1.0, 2, 1], [0, 1, 3]]), DTYPES[name])

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.AddOp, [g.inputs["x"], g.inputs["x"]]))

    model = compile_source(FixedSource(make))
    assert [op["kernel"] for op in model.explain().ops] == ["host"]
    [wanted] = interpret(make(), {"x": x})
    np.testing.assert_array_equal(tagged(model(x)), wanted)


@pytest.mark.parametrize("name", NATIVE)
def test_code_for_neon_is_emitted(name: str) -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(name, 40))
        return g.graph(g.op(nn.CastOp, [g.inputs["x"]], to=attribute_of("f32")))

    if name != "f32":
        lowered = lower(make(), make_options(target="neon"))
        assert lowered.llvm()


@pytest.mark.parametrize(
    "name, lanes", [("u8", 64), ("i16", 32), ("f16", 16), ("i32", 16), ("f64", 8)]
)
def test_lanes_are_those_of_the_widest_element_in_arithmetic(name: str, lanes: int) -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(name, 1000))
        return g.graph(g.op(nn.AddOp, [g.inputs["x"], g.inputs["x"]]))

    lowered = lower(make(), make_options(target="avx512"))
    (text,) = (t for n, t in lowered.llvm().items() if "add" in n)
    assert f"<{lanes} x " in text
    assert f"<{2 * lanes} x " not in text
