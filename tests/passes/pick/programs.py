"""Programs for the tests of the pick, and the pick of their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.nn.core import NnOp
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.tools.universe import TESSELLA
from tests.passes.harness import GraphBuilder, ops, sample

MACHINE = targets.get("avx512")
POINTWISE: dict[str, Any] = {
    "strides": (1, 1),
    "pads": (0,) * 4,
    "dilations": (1, 1),
    "groups": 1,
}
NATIVE = ("x86/f32/nhwc", "x86/f32", "x86", "host")


def constant_cost(seconds: float) -> Callable[[Any, Any], float]:
    return lambda op, target: seconds


def convolution(size: int = 8) -> Graph:
    g = GraphBuilder(x=sample(0, 1, 8, size, size))
    a = g.op(nn.ReluOp, [g.inputs["x"]])
    w = g.weight(sample(1, 8, 8, 1, 1))
    b = g.op(nn.ConvOp, [a, w], **POINTWISE)
    return g.graph(g.op(nn.ReluOp, [b]))


def pick(graph: Graph, *places: str, **options: Any) -> list[NnOp]:
    """The picked ops, placed and verified."""
    ctx = CompileContext(graph.weights)
    PickKernelsPass(places=places or NATIVE, target="avx512", **options).apply(ctx, graph.module)
    graph.module.verify()
    InsertConversionsPass().apply(ctx, graph.module)
    graph.module.verify()
    return [op for op in ops(graph) if op.kernel is not None]


def reparsed(module: ModuleOp) -> ModuleOp:
    ctx = CompileContext()
    for name, load in TESSELLA.all_dialects.items():
        ctx.register_dialect(name, load)
    for name in ("builtin", "func"):
        ctx.register_dialect(name, get_all_dialects()[name])
    return Parser(ctx, str(module)).parse_module()


def sums() -> Graph:
    g = GraphBuilder(x=sample(0, 3, 5))
    a = g.op(nn.ReluOp, [g.inputs["x"]])
    return g.graph(g.op(nn.CumsumOp, [a], axis=1, exclusive=False, reverse=False))
