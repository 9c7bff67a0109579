"""Folding of constants: equal values, splats without arrays, and memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.traits import MovesElements
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.runtime.elements import DTYPES, converted
from tests.native import Array
from tests.passes.harness import GraphBuilder, apply, check, names, ops, sample

MIB = 1 << 20


def of_weights(fold: Callable[[GraphBuilder], SSAValue]) -> Graph:
    """A program that returns what ``fold`` makes."""
    builder = GraphBuilder()
    return builder.graph(fold(builder))


def splat(builder: GraphBuilder, value: float, *shape: int) -> SSAValue:
    """A splat of type f32."""
    op = nn.SplatOp(value, tensor(f32, shape))
    builder.main.body.block.add_op(op)
    return op.res


def test_chains_are_evaluated_to_one_weight() -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 2, 3))
        w, v = g.weight(sample(1, 3, 4), "w"), g.weight(sample(2, 4), "v")
        total = g.op(nn.AddOp, [w, v], node="total")
        turned = g.op(nn.TransposeOp, [total], perm=(1, 0), node="turned")
        root = g.op(nn.ExpOp, [turned], node="root")
        return g.graph(g.op(nn.MatmulOp, [g.inputs["x"], root], transpose_b=True))

    graph = check(make, {"x": sample(0, 2, 3)}, FoldConstantsPass())
    assert names(graph) == ["weight", "matmul"]
    assert list(graph.weights) == ["root"]


@pytest.mark.parametrize("name", ["i4", "u2", "f8E4M3FN", "f4E2M1FN"])
def test_equal_elements_become_a_splat_of_their_number(name: str) -> None:
    """Even if several are stored in a byte."""
    ones = converted(np.ones((2, 4)), DTYPES[name])

    def make() -> Graph:
        g = GraphBuilder(x=ones)
        return g.graph(g.op(nn.ConcatOp, [g.inputs["x"], g.weight(ones)], axis=0))

    [op] = (op for op in ops(apply(make(), FoldConstantsPass())) if isinstance(op, nn.SplatOp))
    assert op.number == 1


def test_strings_fold() -> None:
    words = np.array([["a", "b"], ["c", "c"]], "T")

    def make() -> Graph:
        g = GraphBuilder(x=words)
        w, ones = g.weight(words), g.weight(np.ones((2, 2), np.float32))
        texts = g.op(nn.CastOp, [ones], to=attribute_of("string"))
        moved = g.op(nn.ConcatOp, [g.op(nn.TransposeOp, [w], perm=(1, 0)), texts], axis=0)
        return g.graph(g.op(nn.ConcatOp, [g.inputs["x"], moved], axis=0))

    graph = apply(make(), FoldConstantsPass())
    assert names(graph) == ["weight", "concat"]
    [found] = interpret(graph, {"x": words})
    assert found.tolist() == [*words.tolist(), *words.T.tolist(), *[["1.0"] * 2] * 2]


def test_results_of_any_op_fold() -> None:
    def make() -> Graph:
        g = GraphBuilder()
        w = g.weight(sample(1, 4, 6))
        top = nn.TopkOp.make([w], k=2, axis=1, largest=True)
        g.main.body.block.add_op(top)
        softmax = g.op(nn.SoftmaxOp, [w], axis=1)
        rows = g.op(nn.GatherOp, [w, g.weight(np.array([3, 0, -1]))], axis=0)
        both = g.op(nn.ConcatOp, [w, rows], axis=0)
        product = g.op(nn.MatmulOp, [w, both], transpose_b=True)
        return g.graph(*top.results, softmax, both, product)

    graph = check(make, {}, FoldConstantsPass())
    assert names(graph) == ["weight"] * 5
    assert len(graph.weights) == 5


def test_elements_of_all_types() -> None:
    def make() -> Graph:
        g = GraphBuilder()
        w = g.weight(np.array([[1, -2], [3, 4]], np.int64))
        floats = g.op(nn.CastOp, [w], to=f32)
        positive = g.op(nn.GreaterOp, [w, g.op(nn.ReduceMaxOp, [w], axes=(1,), keepdims=True)])
        return g.graph(g.op(nn.MulOp, [w, w]), floats, positive)

    graph = check(make, {}, FoldConstantsPass())
    assert names(graph) == ["weight", "splat", "weight"]


def test_what_fails_is_left_to_the_run() -> None:
    g = GraphBuilder()
    rows = g.weight(sample(0, 3, 4))
    graph = g.graph(g.op(nn.GatherOp, [rows, g.weight(np.array([7, 1]))], axis=0))
    assert names(apply(graph, FoldConstantsPass())) == ["weight", "weight", "gather"]


def test_signs_of_zeros_are_kept() -> None:
    def make() -> Graph:
        g = GraphBuilder()
        minus = splat(g, -0.0, 3)
        mixed = g.weight(np.array([0.0, -0.0, 0.0], np.float32))
        return g.graph(
            g.op(nn.ReciprocalOp, [minus]),
            g.op(nn.ConcatOp, [minus, splat(g, 0.0, 3)], axis=0),
            g.op(nn.MulOp, [mixed, splat(g, 1.0, 3)]),
        )

    graph = check(make, {}, FoldConstantsPass())
    assert names(graph) == ["splat", "weight", "weight"]
    assert ops(graph)[0].number == -np.inf
    assert np.signbit(graph.weights["concat"]).tolist() == [True] * 3 + [False] * 3
    assert np.signbit(graph.weights["mul"]).tolist() == [False, True, False]


SPLAT_OPS: dict[str, Callable[..., SSAValue]] = {
    "add": lambda g, x, y: g.op(nn.AddOp, [x, y]),
    "less": lambda g, x, y: g.op(nn.LessOp, [x, y]),
    "erf": lambda g, x, y: g.op(nn.ErfOp, [x]),
    "reshape": lambda g, x, y: g.op(nn.ReshapeOp, [x], shape=(1 << 22, 1 << 14)),
    "transpose": lambda g, x, y: g.op(nn.TransposeOp, [x], perm=(1, 0)),
    "expand": lambda g, x, y: g.op(nn.ExpandOp, [x], shape=(4, 1 << 18, 1 << 18)),
    "tile": lambda g, x, y: g.op(nn.TileOp, [x], repeats=(3, 1)),
    "slice": lambda g, x, y: g.op(
        nn.SliceOp, [x], starts=(9, 9), sizes=(1 << 17, 1 << 17), steps=(1, 1)
    ),
    "concat": lambda g, x, y: g.op(nn.ConcatOp, [x, x], axis=1),
    "pad with the same": lambda g, x, y: g.op(
        nn.PadOp, [x], low=(1, 2), high=(3, 4), mode="constant", value=0.5
    ),
    "pad with its edge": lambda g, x, y: g.op(
        nn.PadOp, [x], low=(1, 2), high=(3, 4), mode="edge", value=0.0
    ),
}


@pytest.mark.parametrize("name", SPLAT_OPS)
def test_splats_need_no_memory(name: str) -> None:
    g = GraphBuilder()
    huge = splat(g, 0.5, 1 << 18, 1 << 18)  # 256 GiB, were it an array
    graph = g.graph(SPLAT_OPS[name](g, huge, splat(g, 2.0, 1 << 18)))
    tracemalloc.start()
    apply(graph, FoldConstantsPass())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(names(graph)) == {"splat"}
    assert peak < MIB


@pytest.mark.parametrize(
    "fold",
    [
        lambda g, x: g.op(nn.PadOp, [x], low=(1,), high=(1,), mode="constant", value=7.0),
        lambda g, x: g.op(nn.ConcatOp, [x, splat(g, 7.0, 3)], axis=0),
    ],
)
def test_results_of_splats_that_are_none(fold: Callable[..., SSAValue]) -> None:
    graph = check(lambda: of_weights(lambda g: fold(g, splat(g, 0.5, 3))), {}, FoldConstantsPass())
    assert names(graph) == ["weight"]


def test_small_weights_of_equal_elements_become_splats() -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 64))
        ones = g.weight(np.ones(64, np.float32), "ones")
        nearly = g.weight(np.array([1.0] * 63 + [2.0], np.float32), "nearly")
        large = g.weight(np.ones((1 << 16, 1), np.float32), "large")
        scaled = g.op(nn.MulOp, [g.inputs["x"], ones])
        return g.graph(g.op(nn.AddOp, [scaled, nearly]), large)

    graph = check(make, {"x": sample(0, 64)}, FoldConstantsPass())
    assert names(graph) == ["splat", "weight", "weight", "mul", "add"]
    assert sorted(graph.weights) == ["large", "nearly"]


def expanded(rows: int) -> Graph:
    return of_weights(lambda g: g.op(nn.ExpandOp, [g.weight(sample(0, 1, 256))], shape=(rows, 256)))


def test_results_over_the_limit_are_left_alone() -> None:
    assert names(apply(expanded(100), FoldConstantsPass(limit=100 << 10))) == ["weight"]
    assert names(apply(expanded(101), FoldConstantsPass(limit=100 << 10))) == ["weight", "expand"]


def test_results_no_larger_than_a_weight_fold_whatever_the_limit() -> None:
    def make() -> Graph:
        return of_weights(
            lambda g: g.op(nn.TransposeOp, [g.weight(sample(0, 256, 300))], perm=(1, 0))
        )

    assert names(check(make, {}, FoldConstantsPass(limit=1000))) == ["weight"]


@pytest.mark.parametrize("shape", [(1024, 2048), (1, 2048, 1024), (3, 1 << 19)])
def test_memory_of_a_large_fold(shape: tuple[int, ...]) -> None:
    """The result and the weight are there at the same time, and little more."""
    array = sample(0, *shape)
    scale = sample(1, *(1,) * (len(shape) - 1), shape[-1])

    def make() -> Graph:
        g = GraphBuilder()
        w, s = g.weight(array, "w"), g.weight(scale, "s")
        for _ in range(3):
            w = g.op(nn.MulOp, [w, s])
        return g.graph(g.op(nn.ErfOp, [w]) if shape[0] == 3 else w)

    expected = check(make, {}, FoldConstantsPass(), rtol=0, atol=0)
    del expected
    graph = make()
    tracemalloc.start()
    apply(graph, FoldConstantsPass())
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert names(graph) == ["weight"]
    assert kept < array.nbytes + MIB
    # float64 and temporaries of a part
    assert peak < 2 * array.nbytes + 40 * MIB


def test_weights_leave_the_store_as_soon_as_they_are_many() -> None:
    count, size = 40, 1 << 18

    def make(arrays: list[Array]) -> Graph:
        g = GraphBuilder()
        weights = [g.weight(array, "w") for array in arrays]
        return g.graph(*(g.op(nn.NegOp, [w]) for w in weights))

    tracemalloc.start()
    graph = make([sample(i, size) for i in range(count)])
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    apply(graph, FoldConstantsPass(limit=2 * MIB))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(graph.weights) == count
    assert peak - before < 6 * MIB


def test_unused_and_shared_weights() -> None:
    g = GraphBuilder()
    w = g.weight(sample(0, 3), "shared")
    g.weight(sample(1, 3), "named by an op that nobody reads")
    graph = g.graph(w, g.op(nn.NegOp, [w]))
    graph.weights.add("unnamed", sample(2, 3))
    apply(graph, FoldConstantsPass())
    assert set(graph.weights) == {"shared", "named by an op that nobody reads", "neg"}


def test_arrays_of_the_caller_are_not_written() -> None:
    array = sample(0, 3, 4)
    array.flags.writeable = False
    graph = of_weights(lambda g: g.op(nn.ReshapeOp, [g.weight(array)], shape=(12,)))
    apply(graph, FoldConstantsPass())
    assert np.shares_memory(graph.weights["reshape"], array)


@irdl_op_definition
class ReverseOp(NnOp):
    """The elements of x backwards: an op of another package."""

    name = "acme.reverse"
    x = operand_def()
    res = result_def()
    traits = traits_def(Pure(), MovesElements())

    def infer(self) -> Sequence[Tensor]:
        return [tensor(tensor_type(self.x).element_type, shape_of(self.x))]


def test_what_moves_equal_elements_needs_no_kernel_to_fold() -> None:
    g = GraphBuilder()
    graph = g.graph(g.op(ReverseOp, [splat(g, 2.5, 8)]))
    FoldConstantsPass().apply(CompileContext(graph.weights), graph.module)
    (constant,) = ops(graph)
    assert isinstance(constant, nn.SplatOp)
    assert constant.number == 2.5
