"""Groups of elementwise ops."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph, main_function
from tessella.passes.fuse_elementwise import MAX_OPS, FuseElementwisePass
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.pick_kernels import PickKernelsPass
from tests.passes.harness import GraphBuilder, check, sample

X = sample(0, 3, 4)


def chain(length: int) -> Graph:
    g = GraphBuilder(x=X)
    value: SSAValue = g.inputs["x"]
    for i in range(length):
        value = g.op((nn.NegOp, nn.ReluOp)[i % 2], [value])
    return g.graph(value)


def test_long_chains_are_several_groups() -> None:
    passes = PickKernelsPass(), InsertConversionsPass(), FuseElementwisePass()
    graph = check(lambda: chain(2 * MAX_OPS + 3), {"x": X}, *passes, rtol=0, atol=0)
    groups = [op for op in main_function(graph.module).body.block.ops if isinstance(op, nn.FusedOp)]
    assert [len(group.body.block.ops) - 1 for group in groups] == [MAX_OPS, MAX_OPS, 3]
