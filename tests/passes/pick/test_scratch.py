"""The kernel that a cost is estimated of is the one that the passes make."""

from __future__ import annotations

from typing import Any

import pytest

from tessella import kernels, targets
from tessella.dialects import nn
from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr, place_of
from tessella.dialects.tile import KernelOp
from tessella.driver.build.pipeline import pipeline
from tessella.driver.compile import make_options
from tessella.kernels.registry import kernels_of, picked_kernel
from tessella.passes.kinds import KernelPass
from tessella.passes.pick.cost_key import cost_key, exact_key
from tessella.passes.pick.scratch import scratch_kernel
from tessella.passes.tile.cost import cost_after
from tessella.passes.tile_schedule import TileSchedulePass
from tessella.passes.tile_stage import kernel_passes
from tests.passes.harness import GraphBuilder, sample

ARCH = targets.native().arch
WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}
STEPS: dict[str, Any] = {
    "strides": (2, 2),
    "pads": (0,) * 4,
    "dilations": (1, 1),
    "output_pads": (0, 0),
    "groups": 1,
}
OPS: list[tuple[type[NnOp], list[tuple[int, ...]], int, dict[str, Any]]] = [
    (nn.ReluOp, [(64,)], 0, {}),
    (nn.MatmulOp, [(8, 64), (64, 128)], 1, {"transpose_b": False}),
    (nn.FcOp, [(8, 64), (64, 128), (128,)], 2, {"transpose_w": False}),
    (nn.ConvOp, [(1, 64, 8, 8), (128, 64, 3, 3), (128,)], 2, {**WINDOW, "groups": 1}),
    (nn.ConvOp, [(1, 64, 8, 8), (64, 16, 3, 3)], 1, {**WINDOW, "groups": 4}),
    (nn.ConvTransposeOp, [(1, 64, 8, 8), (64, 16, 3, 3), (16,)], 2, STEPS),
    (nn.ConvTransposeOp, [(1, 64, 8, 8), (64, 16, 2, 2)], 1, STEPS),
    (nn.MaxPoolOp, [(1, 64, 8, 8)], 0, {**WINDOW, "kernel_shape": (3, 3), "ceil_mode": False}),
    (nn.SoftmaxOp, [(8, 64)], 0, {"axis": 1}),
    (nn.LayerNormOp, [(8, 64), (64,), (64,)], 2, {"axis": 1, "epsilon": 1e-5}),
    (nn.TransposeOp, [(4, 8, 16)], 0, {"perm": (0, 2, 1)}),
]


def program(
    kind: type[NnOp], shapes: list[tuple[int, ...]], weights: int, **settings: Any
) -> Graph:
    """Return a program of one op, the last ``weights`` operands of which are constants."""
    count = len(shapes) - weights
    g = GraphBuilder(**{f"x{i}": sample(i, *s) for i, s in enumerate(shapes[:count])})
    constants = [g.weight(sample(i, *s)) for i, s in enumerate(shapes[count:])]
    return g.graph(g.op(kind, [*g.inputs.values(), *constants], **settings))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("kind, shapes, weights, settings", OPS)
def test_the_scratch_kernel_is_that_of_the_passes(
    kind: type[NnOp], shapes: Any, weights: int, settings: dict[str, Any], layout: str
) -> None:
    kernels.load()
    graph = program(kind, shapes, weights, **settings)
    module, ctx = graph.module, CompileContext(graph.weights)
    [(_, first), (_, second), *_] = pipeline(make_options(places=[f"{ARCH}/f32/{layout}"]))
    for step in first:
        step.apply(ctx, module)
    (op,) = (op for op in module.walk() if type(op) is kind)
    assert isinstance(op, NnOp)
    place = place_of(op.operands[0].type)
    assert place is not None
    (key, scale), kernel = cost_key(op), picked_kernel(op)
    assert scale == 1.0
    scratch = scratch_kernel(key, op, kernel, place)
    for step in kernel_passes():
        if isinstance(step, KernelPass):
            step.rewrite(scratch, targets.native())
    for step in second:
        step.apply(ctx, module)
        if isinstance(step, TileSchedulePass):
            break
    made = [op for op in module.walk() if isinstance(op, KernelOp)]
    (made,) = [k for k in made if not k.sym_name.data.startswith("relayout")]
    assert scratch.body.is_structurally_equivalent(made.body), f"{scratch}\n{made}"
    assert scratch.function_type == made.function_type
    assert scratch.arg_attrs == made.arg_attrs


def test_a_cost_changes_nothing_and_knows_shared_weights() -> None:
    """The panels that programs for all numbers of rows share cost more for one with few rows."""
    kernels.load()
    shapes, settings = [(8, 64), (64, 128)], {"transpose_b": False}
    graph = program(nn.MatmulOp, shapes, 1, **settings)
    (op,) = (op for op in graph.module.walk() if isinstance(op, nn.MatmulOp))
    [kernel] = (k for k in kernels_of(op) if k.runs_on("x86") and NCHW in k.layouts)
    scratch = scratch_kernel(exact_key(op), op, kernel, PlaceAttr.get("x86", "f32", NCHW))
    text, target = str(scratch), targets.get("avx512")
    alone, shared = (
        cost_after(kernel_passes(shared=several), scratch, target) for several in (False, True)
    )
    assert str(scratch) == text
    assert alone.seconds < shared.seconds
    assert alone.weights == shared.weights == 4 * 64 * 128
