"""Products of quantized numbers: what they become, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.elements import attribute_of, element_of
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.integer_products import MOST, IntegerProductsPass
from tests.native import Array
from tests.passes.harness import GraphBuilder, apply, ops, sample

Make = Callable[[GraphBuilder], Sequence[SSAValue]]
VNNI, DOTPROD = "avx512+avx512vnni", "neon+dotprod"
CONV = {"strides": (1, 1), "pads": (1, 0, 1, 2), "dilations": (1, 1), "groups": 1}


def draw(seed: int, dtype: str, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def steps(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).uniform(1e-3, 2e-3, shape).astype(np.float32)


def dequantized(g: GraphBuilder, x: SSAValue, scale: Array, zero: Array) -> SSAValue:
    return g.op(nn.DequantizeOp, [x, g.weight(scale), g.weight(zero)])


def rewrite(
    make: Make, inputs: dict[str, Array], *, within: float = 0.0, target: str = VNNI
) -> Graph:
    """The program after the pass; asserts that it computes the same, floats up to rounding."""

    def graph() -> Graph:
        g = GraphBuilder(**inputs)
        return g.graph(*make(g))

    found = apply(graph(), IntegerProductsPass(target), FoldConstantsPass())
    for y, wanted in zip(interpret(found, inputs), interpret(graph(), inputs), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=1e-5, atol=within + 1e-6)
    return found


def signs(graph: Graph) -> set[tuple[str, ...]]:
    """The elements of the factors of products."""
    return {tuple(element_of(x.type).name for x in op.operands[:2]) for op in products(graph)}


def products(graph: Graph) -> list[NnOp]:
    return [op for op in ops(graph) if isinstance(op, nn.MatmulOp | nn.ConvOp | nn.FcOp)]


def is_integer(graph: Graph) -> bool:
    found = products(graph)
    return bool(found) and all(element_of(op.results[0].type).name == "i32" for op in found)


I32 = attribute_of("i32")
BYTES = [("uint8", 117), ("uint8", 0), ("int8", -3), ("int8", 0)]


@pytest.mark.parametrize("weight, zero", [("int8", 0), ("int8", 5), ("uint8", 128), ("uint8", 99)])
@pytest.mark.parametrize("element, point", BYTES)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("target", [VNNI, DOTPROD])
def test_matmul(
    element: str, point: int, weight: str, zero: int, per_channel: bool, turned: bool, target: str
) -> None:
    w = draw(1, weight, *((6, 7) if turned else (7, 6)))
    columns = ((6, 1) if turned else (6,)) if per_channel else ()

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = dequantized(g, g.inputs["x"], steps(0), np.array(point, element))
        b = dequantized(g, g.weight(w), steps(2, *columns), np.full(columns, zero, weight))
        return [g.op(nn.MatmulOp, [a, b], transpose_b=turned)]

    graph = rewrite(make, {"x": draw(0, element, 2, 5, 7)}, target=target)
    assert is_integer(graph)
    assert signs(graph) <= ({("u8", "i8")} if target == VNNI else {("i8", "i8"), ("u8", "u8")})


@pytest.mark.parametrize("weight, zero", [("int8", 0), ("uint8", 128), ("uint8", 99)])
@pytest.mark.parametrize("element, point", BYTES)
@pytest.mark.parametrize("groups, outs", [(1, 6), (4, 4), (2, 6)])
@pytest.mark.parametrize("target", [VNNI, DOTPROD])
def test_conv(
    element: str, point: int, weight: str, zero: int, groups: int, outs: int, target: str
) -> None:
    w, bias = draw(1, weight, outs, 4 // groups, 3, 2), draw(3, "int16", outs).astype(np.int32)
    scales = steps(2, outs, 1, 1, 1)

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = dequantized(g, g.inputs["x"], steps(0), np.array(point, element))
        b = dequantized(g, g.weight(w), scales, np.array(zero, weight))
        c = dequantized(g, g.weight(bias), (steps(0) * scales).reshape(-1), np.array(0, np.int32))
        return [g.op(nn.ConvOp, [a, b, c], **{**CONV, "groups": groups})]

    graph = rewrite(make, {"x": draw(0, element, 2, 4, 5, 6)}, within=1e-4, target=target)
    assert is_integer(graph)
    assert signs(graph) <= ({("u8", "i8")} if target == VNNI else {("i8", "i8"), ("u8", "u8")})


def test_a_bias_of_whole_steps_is_added_to_integers() -> None:
    w, bias = draw(1, "int8", 7, 6), draw(3, "int16", 6).astype(np.int32)

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = dequantized(g, g.inputs["x"], steps(0), np.array(0, np.uint8))
        b = dequantized(g, g.weight(w), steps(2), np.array(0, np.int8))
        c = dequantized(g, g.weight(bias), steps(0) * steps(2), np.array(0, np.int32))
        return [g.op(nn.FcOp, [a, b, c], transpose_w=False)]

    graph = rewrite(make, {"x": draw(0, "uint8", 5, 7)}, within=1e-4)
    (add,) = [op for op in ops(graph) if isinstance(op, nn.AddOp)]
    assert element_of(add.res.type).name == "i32"


def test_zero_points_that_are_computed() -> None:
    """Dynamic quantization computes zero points: an image is padded with its zero point."""
    w = draw(1, "int8", 6, 4, 3, 2)

    def make(g: GraphBuilder) -> list[SSAValue]:
        wide = [g.op(nn.CastOp, [g.inputs[x]], to=I32) for x in ("x", "zero")]
        weights = g.op(nn.CastOp, [g.weight(w)], to=I32)
        return [g.op(nn.ConvOp, [g.op(nn.SubOp, wide), weights], **CONV)]

    inputs = {"x": draw(0, "uint8", 2, 4, 5, 6), "zero": np.array(77, np.uint8)}
    assert [op.name for op in ops(rewrite(make, inputs))].count("nn.pad") == 1


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("element", ["uint8", "int8"])
def test_two_activations(turned: bool, element: str) -> None:
    shape = (2, 3, 20, 5) if turned else (2, 3, 5, 20)
    inputs = {"x": draw(0, element, 2, 1, 17, 5), "y": draw(1, element, *shape)}

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = dequantized(g, g.inputs["x"], steps(0), np.array(9, element))
        b = dequantized(g, g.inputs["y"], steps(1), np.array(100, element))
        return [g.op(nn.MatmulOp, [a, b], transpose_b=turned)]

    assert is_integer(rewrite(make, inputs))


@pytest.mark.parametrize(
    "change",
    ["a scale along the sum", "weights that are computed", "sums that are too long", "one factor"],
)
def test_others_stay(change: str) -> None:
    length = MOST + 1 if change == "sums that are too long" else 7
    scale = steps(2, length, 1) if change == "a scale along the sum" else steps(2)
    inputs = {"x": draw(0, "uint8", 2, length), "w": draw(1, "int8", length, 3)}

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = dequantized(g, g.inputs["x"], steps(0), np.array(0, np.uint8))
        w = g.inputs["w"] if change == "weights that are computed" else g.weight(inputs["w"])
        if change == "one factor":
            a = g.op(nn.ReluOp, [a])
        b = dequantized(g, w, scale, np.array(0, np.int8))
        return [g.op(nn.MatmulOp, [a, b], transpose_b=False)]

    assert not is_integer(rewrite(make, inputs, within=1e-2))


def test_the_scale_of_what_follows_goes_into_that_of_the_product() -> None:
    w = draw(1, "int8", 7, 6)

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = dequantized(g, g.inputs["x"], steps(0), np.array(3, np.uint8))
        b = dequantized(g, g.weight(w), steps(2), np.array(0, np.int8))
        y = g.op(nn.MatmulOp, [a, b], transpose_b=False)
        rest = dequantized(g, g.inputs["rest"], steps(4), np.array(1, np.uint8))
        total = g.op(nn.ReluOp, [g.op(nn.AddOp, [y, rest])])
        scale, zero = g.weight(np.array(2e-4, np.float32)), g.weight(np.array(9, np.uint8))
        return [g.op(nn.QuantizeOp, [total, scale, zero])]

    inputs = {"x": draw(0, "uint8", 5, 7), "rest": draw(6, "uint8", 5, 6)}
    graph = rewrite(make, inputs, within=1.0)
    (last,) = [op for op in ops(graph) if isinstance(op, nn.QuantizeOp)]
    assert isinstance(last.scale.owner, nn.SplatOp)
    assert last.scale.owner.number == 1.0
    assert not any(isinstance(op, nn.DivOp) for op in ops(graph))


@pytest.mark.parametrize(
    "element, target, wanted",
    [("int8", VNNI, "u8"), ("int8", DOTPROD, "i8"), ("uint8", DOTPROD, "i8")],
)
def test_activations_get_the_sign_of_products_where_they_are_quantized(
    element: str, target: str, wanted: str
) -> None:
    w = draw(1, "int8", 4, 4, 1, 1)

    def make(g: GraphBuilder) -> list[SSAValue]:
        scale, zero = g.weight(steps(0) * 20), g.weight(np.array(5, element))
        q = g.op(nn.QuantizeOp, [g.inputs["x"], scale, zero])
        pool = {"kernel_shape": (2, 2), "strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
        p = g.op(nn.MaxPoolOp, [q], **pool, ceil_mode=False)
        a = g.op(nn.DequantizeOp, [p, scale, zero])
        b = dequantized(g, g.weight(w), steps(2), np.array(0, np.int8))
        y = g.op(nn.ConvOp, [a, b], **{**CONV, "pads": (0,) * 4})
        return [g.op(nn.AddOp, [y, a])]

    graph = rewrite(make, {"x": sample(0, 1, 4, 5, 6)}, within=1e-4, target=target)
    reduced = apply(graph, EliminateIdentitiesPass())
    left = [op for op in ops(reduced) if isinstance(op, nn.QuantizeOp | nn.MaxPoolOp)]
    assert {element_of(op.results[0].type).name for op in left} == {wanted}
