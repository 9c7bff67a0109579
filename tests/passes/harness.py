"""Running passes on small programs, whose meaning must not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.passes import ModulePass

from tessella.dialects.graph import CompileContext, Graph, main_function
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp
from tests.native import Array, GraphBuilder

__all__ = ["GraphBuilder", "apply", "check", "names", "ops", "sample"]


def sample(seed: int, *shape: int) -> Array:
    """N(0, 1), float32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def apply(graph: Graph, *passes: ModulePass) -> Graph:
    """The graph after the passes, verified after each."""
    ctx = CompileContext(graph.weights)
    for step in passes:
        step.apply(ctx, graph.module)
        graph.module.verify()
    return graph


def check(
    make: Callable[[], Graph],
    inputs: Mapping[str, Array],
    *passes: ModulePass,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> Graph:
    """The graph after the passes; asserts that it computes what it did before them."""
    graph = apply(make(), *passes)
    for y, wanted in zip(interpret(graph, inputs), interpret(make(), inputs), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(y, wanted, rtol=rtol, atol=atol)
    return graph


def ops(graph: Graph) -> list[Any]:
    """The `nn` ops of @main."""
    return [op for op in main_function(graph.module).body.block.ops if isinstance(op, NnOp)]


def names(graph: Graph) -> list[str]:
    """Their names, without the dialect's."""
    return [op.name.removeprefix("nn.") for op in ops(graph)]
