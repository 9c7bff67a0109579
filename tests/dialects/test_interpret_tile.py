"""The interpreter at the `tile` stage: statements point by point, calls, views."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i1, i8, i32
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import IRDLOperation

from tessella.codegen.emit_math import MATH
from tessella.dialects import nn
from tessella.dialects.arith import CASTS, CmpfOp, CmpiOp, RemFOp
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import dtype_of, type_of
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.evaluate import contract
from tessella.dialects.tile.scalars import evaluate
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tessella.runtime.elements import DTYPES, converted, widened
from tessella.support.errors import ExecutionError
from tests.generators.nn_programs import program
from tests.generators.tile_statements import statement
from tests.lowering import reference
from tests.models import load_fixture, random_inputs, run_onnxruntime
from tests.native import Array, GraphBuilder
from tests.sampling import seeds


def at_tile(graph: Graph) -> Graph:
    lowered = lower(graph, make_options(), stop="tile")
    return Graph(lowered.stages["tile"], lowered.weights, "tile")


@pytest.mark.parametrize("seed", seeds(60))
def test_random_programs(seed: int) -> None:
    dtype, host = ((np.float32, True), (np.int64, False))[seed % 2]
    drawn = program(Random(seed), dtype, 4, host=host)
    found = interpret(at_tile(drawn.graph()), drawn.inputs)
    for y, wanted in zip(found, interpret(drawn.graph(), drawn.inputs), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("seed", seeds(100))
def test_random_statements(seed: int) -> None:
    """Against the tests' own meaning of a statement, on what is written at all."""
    sketch = statement(Random(seed))
    op = next(op for op in sketch.parse().walk() if isinstance(op, ContractOp))
    block = op.parent_block()
    assert block is not None
    arrays: dict[SSAValue, Array] = {
        value: sketch.arrays[str(value.name_hint)]
        for value in block.args
        if value.name_hint in sketch.arrays
    }
    zeros = np.zeros_like(sketch.before)
    if op.init is not None:
        arrays[op.init] = zeros
    np.testing.assert_array_equal(contract(op, arrays), reference.run(op, arrays, zeros))


@pytest.mark.slow
def test_a_network() -> None:
    model = load_fixture("mobilenet_opset18")
    feeds = random_inputs(model)
    source = open_source(model)
    shapes = {name: array.shape for name, array in feeds.items()}
    found = interpret(at_tile(source.graph(shapes)), feeds)
    for y, wanted in zip(found, run_onnxruntime(model, feeds), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def test_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessella.dialects.tile.evaluate._MOST", 50)
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 9)).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((5, 4, 3, 3)).astype(np.float32)
    for kind, settings_ in (
        (nn.ConvOp, {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}),
        (nn.ReduceMaxOp, {"axes": (1, 3), "keepdims": False}),
    ):

        def make(kind: Any = kind, settings_: Any = settings_) -> Graph:
            g = GraphBuilder(x=x)
            operands = [g.inputs["x"]]
            if kind is nn.ConvOp:
                operands.append(g.weight(w))
            return g.graph(g.op(kind, operands, **settings_))

        found, wanted = interpret(at_tile(make()), {"x": x})[0], interpret(make(), {"x": x})[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_product_of_narrow_floats() -> None:
    """Their arrays are of unsigned integers, and its factors are numbers."""
    x = converted(np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4), DTYPES["bf16"])

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["x"]], transpose_b=True))

    (found,) = interpret(at_tile(make()), {"x": x})
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_array_equal(widened(found), widened(wanted))


def test_padding_counts_for_nothing() -> None:
    """A weight that is infinite at a position outside of the image."""
    x = np.ones((1, 1, 2, 2), np.float32)
    w = np.zeros((1, 1, 3, 3), np.float32)
    w[0, 0, 0, 0] = np.inf

    def make() -> Graph:
        g = GraphBuilder(x=x)
        conv = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
        return g.graph(g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], **conv))

    assert interpret(at_tile(make()), {"x": x})[0].tolist() == [[[[0, 0], [0, np.inf]]]]


def test_a_coordinate_out_of_range() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    where = np.array([0, 3])

    def make() -> Graph:
        g = GraphBuilder(x=x, where=where)
        return g.graph(g.op(nn.GatherOp, list(g.inputs.values()), axis=0))

    assert interpret(at_tile(make()), {"x": x, "where": where % 2})[0].shape == (2, 3)
    with pytest.raises(ExecutionError, match="0 to 1"):
        interpret(at_tile(make()), {"x": x, "where": where})


def u(bits: int) -> Attribute:
    return IntegerType(bits, Signedness.UNSIGNED)


FLOATS = np.array([1.5, -2.5, np.nan, 0.0], np.float32)
OTHERS = np.array([1.5, 2.0, 1.0, np.nan], np.float32)
BYTES = np.array([-128, -7, 7, 100], np.int8)
DIVISORS = np.array([-1, 2, -2, 0], np.int8)


@pytest.mark.parametrize(
    "op, arrays, wanted",
    [
        (arith.DivSIOp, (BYTES, DIVISORS), [-128, -3, -3, 0]),
        (arith.RemSIOp, (BYTES, DIVISORS), [0, -1, 1, 0]),
        (arith.FloorDivSIOp, (BYTES, DIVISORS), [-128, -4, -4, 0]),
        (arith.DivUIOp, (BYTES, np.full(4, 3, np.int8)), [42, 83, 2, 33]),
        (arith.MaxUIOp, (BYTES, DIVISORS), [-1, -7, -2, 100]),
        (arith.MinSIOp, (BYTES, DIVISORS), [-128, -7, -2, 0]),
        (arith.ShLIOp, (BYTES, np.array([1, 2, 8, -1], np.int8)), [0, -28, 0, 0]),
        (arith.ShRSIOp, (BYTES, np.array([1, 2, 8, -1], np.int8)), [-64, -2, 0, 0]),
        (arith.ShRUIOp, (BYTES, np.array([1, 2, 8, -1], np.int8)), [64, 62, 0, 0]),
        (arith.AddiOp, (BYTES, BYTES), [0, -14, 14, -56]),
        (RemFOp, (FLOATS, OTHERS), [0, -0.5, np.nan, np.nan]),
        (arith.MaximumfOp, (FLOATS, OTHERS), [1.5, 2, np.nan, np.nan]),
        (arith.MaxnumfOp, (FLOATS, OTHERS), [1.5, 2, 1, 0]),
    ],
)
def test_arithmetic(op: Any, arrays: tuple[Array, Array], wanted: list[float]) -> None:
    block = Block(arg_types=[type_of(a).element_type for a in arrays])
    with np.errstate(all="ignore"):
        found = evaluate(op(*block.args), list(arrays))
    assert found.dtype == arrays[0].dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("op", MATH)
def test_functions_of_native_code_have_a_meaning(op: type[IRDLOperation]) -> None:
    count = len(op.get_irdl_definition().operands)
    block = Block(arg_types=[f32] * count)
    with np.errstate(all="ignore"):
        found = evaluate(op.create(operands=block.args, result_types=[f32]), [FLOATS] * count)
    assert found.shape == FLOATS.shape


@pytest.mark.parametrize(
    "predicate, wanted",
    [
        ("oeq", [True, False, False, False]),
        ("ult", [False, True, True, True]),
        ("one", [False, True, False, False]),
        ("uno", [False, False, True, True]),
        ("true", [True] * 4),
    ],
)
def test_comparisons_of_floats(predicate: str, wanted: list[bool]) -> None:
    block = Block(arg_types=[f32, f32])
    assert (
        evaluate(CmpfOp(block.args[0], block.args[1], predicate), [FLOATS, OTHERS]).tolist()
        == wanted
    )


def test_comparisons_of_integers() -> None:
    block = Block(arg_types=[i8, i8])
    arrays = [BYTES, DIVISORS]
    signed, unsigned = (
        evaluate(CmpiOp(block.args[0], block.args[1], p), arrays) for p in ("slt", "ult")
    )
    assert signed.tolist() == [True, True, False, False]
    assert unsigned.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "name, start, to, values, wanted",
    [
        ("fptosi", f32, i8, [1e9, -1e9, np.nan, -1.9], [127, -128, 0, -1]),
        ("fptoui", f32, u(8), [1e9, -3, np.nan, 1.9], [255, 0, 0, 1]),
        ("fptosi", f32, i32, [3e9, -np.inf, 2.5, 7], [2**31 - 1, -(2**31), 2, 7]),
        ("extui", i8, i32, [-1, 2], [255, 2]),
        ("extsi", i8, i32, [-1, 2], [-1, 2]),
        ("uitofp", i8, f32, [-1, 2], [255, 2]),
        ("trunci", i32, i1, [2, 3], [False, True]),
    ],
)
def test_casts(name: str, start: Attribute, to: Attribute, values: Any, wanted: Any) -> None:
    block = Block(arg_types=[start])
    array = np.array(values, dtype_of(start))
    with np.errstate(all="ignore"):
        found = evaluate(CASTS[f"arith.{name}"](block.args[0], to), [array])
    assert found.tolist() == wanted
