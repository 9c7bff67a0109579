"""Elements that kernels read, compute and write: the tables, and the code that follows from
them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import SSAValue
from xdsl.irdl import base, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor
from tessella.dialects.place import PlaceAttr
from tessella.driver.compile import compile_source
from tessella.kernels.builder import KernelBuilder
from tessella.kernels.elements import Elements, T, elements_of, rows
from tessella.kernels.linear import multiply
from tessella.kernels.registry import CPU, Kernel, kernels_of, registered, why_misplaced
from tessella.runtime.elements import DTYPES
from tests.native import EVERYWHERE, FixedSource, GraphBuilder


def test_rows_are_written_once_for_many_elements() -> None:
    assert rows(["f32", "bf16"]) == (
        Elements(("f32",), "f32", ("f32",)),
        Elements(("bf16",), "f32", ("bf16",)),
    )
    assert rows(["f16"], ("bool", T), computes=T) == (Elements(("bool", "f16"), "f16", ("f16",)),)
    assert rows(["i8"], writes=("i32",), computes="i32") == (Elements(("i8",), "i32", ("i32",)),)


@pytest.mark.parametrize(
    "reads, writes, words",
    [
        (("f16",), ("f16",), "f16"),
        (("f16", "f16", "f16"), ("f16",), "f16"),
        (("u8", "i8"), ("i32",), "u8 i8 -> i32"),
        (("bool", "f32", "f32"), ("f32",), "bool f32 -> f32"),
        (("f32",), ("f32", "i64"), "f32 -> f32 i64"),
    ],
)
def test_storage_in_words(reads: tuple[str, ...], writes: tuple[str, ...], words: str) -> None:
    assert Elements(reads, "f32", writes).storage == words


def test_the_elements_of_an_op() -> None:
    x = GraphBuilder(x=np.zeros((2, 3), np.float32), i=np.array([1]))
    less = nn.LessOp.make([x.inputs["x"], x.inputs["x"]])
    assert elements_of(less) == Elements(("f32", "f32"), "f32", ("bool",))
    assert elements_of(less, "f16") == Elements(("f16", "f16"), "f32", ("bool",))
    gather = nn.GatherOp.make([x.inputs["x"], x.inputs["i"]], axis=0)
    assert elements_of(gather, "bf16") == Elements(("bf16", "i64"), "f32", ("bf16",))
    relu = nn.ReluOp.make([x.inputs["i"]])
    assert elements_of(relu, "f16") == elements_of(relu) == Elements(("i64",), "i64", ("i64",))


def test_a_kernel_without_the_row_says_what_it_reads() -> None:
    x = np.arange(5)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ReduceMeanOp, [g.inputs["x"]], axes=(0,), keepdims=False))

    doubles = Kernel("doubles", nn.ReduceMeanOp, CPU, elements=rows(["f64"]), cost=lambda _, __: 0)
    with registered(doubles):
        (op,) = compile_source(FixedSource(make)).explain().ops
    reasons = [r["reason"] for r in op["rejected"] if r["kernel"] == "doubles"]
    assert set(reasons) == {"it reads f64, not i64"}


def test_a_kernel_that_is_named_for_other_elements_is_refused() -> None:
    x = GraphBuilder(x=np.zeros(3, DTYPES["f8E4M3FN"]))
    op = nn.OPS["exp"].make([x.inputs["x"]])
    op.pick("exp", [PlaceAttr.get(targets.native().arch, "f8E4M3FN", NCHW)] * 2)
    reason = why_misplaced(op)
    assert reason is not None
    assert reason.startswith("it reads f64, f32, f16, bf16")
    assert reason.endswith(", not f8E4M3FN")


# ** a product of bytes: one declaration **


@irdl_op_definition
class DotOp(NnOp):
    """The product of a matrix of u8 and one of i8."""

    name = "nn.test_dot"
    a = operand_def(base(TensorType))
    b = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        return [tensor(i32, (shape_of(self.a)[0], shape_of(self.b)[1]))]


def _dot(k: KernelBuilder, op: DotOp, a: SSAValue, b: SSAValue) -> SSAValue:
    (m, depth), (_, n) = shape_of(a), shape_of(b)
    inputs = [(a, ["m", "k"]), (b, ["k", "n"])]
    out = k.result_type(op), ["m", "n"]
    return k.contract("+", {"m": m, "n": n}, {"k": depth}, inputs, out, multiply)


BYTES = Kernel(
    "dot", DotOp, CPU, (NCHW,), (Elements(("u8", "i8"), "i32", ("i32",)),), lower=_dot
)  # fmt: skip


@pytest.mark.parametrize("target", EVERYWHERE)
def test_a_product_of_bytes_into_i32(target: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (5, 300)).astype(np.uint8)
    b = rng.integers(-128, 128, (300, 33)).astype(np.int8)

    def make() -> Graph:
        g = GraphBuilder(a=a, b=b)
        return g.graph(g.op(DotOp, [g.inputs["a"], g.inputs["b"]]))

    with registered(BYTES):
        model = compile_source(FixedSource(make), target=target)
        assert [op["kernel"] for op in model.explain().ops] == ["dot"]
        found = model(a, b)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


def test_tables_name_each_case_once() -> None:
    """A row that is hidden by another would never be taken."""
    ops = [op for op in nn.Nn.operations if issubclass(op, NnOp)]
    for kernel in (k for op in ops for k in kernels_of(op.create())):
        keys = [row.key for row in kernel.elements or ()]
        assert len(keys) == len(set(keys)), kernel.name


def test_a_generated_kernel_that_is_named_for_an_empty_tensor_is_refused() -> None:
    x = GraphBuilder(x=np.zeros((0, 5), np.float32))
    op = nn.ReduceSumOp.make([x.inputs["x"]], axes=(0,), keepdims=True)
    op.pick("reduce_sum", [PlaceAttr.get(targets.native().arch, "f32", NCHW)] * 2)
    assert why_misplaced(op) == "a tensor has no elements"
