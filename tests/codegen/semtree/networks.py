"""Networks whose kernels tests write in each language."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tests.native import GraphBuilder, normal

SAME = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}


def _image() -> Graph:
    g = GraphBuilder(x=normal(1, 8, 12, 12))
    x = g.op(nn.ConvOp, [g.inputs["x"], g.weight(normal(16, 8, 3, 3))], **SAME, groups=1)
    x = g.op(nn.ReluOp, [x])
    x = g.op(nn.MaxPoolOp, [x], **SAME, kernel_shape=(3, 3), ceil_mode=False)
    return g.graph(g.op(nn.ReduceMeanOp, [x], axes=(2, 3), keepdims=False))


def _attention() -> Graph:
    g = GraphBuilder(x=normal(24, 32))
    x = g.inputs["x"]
    scores = g.op(nn.MatmulOp, [x, x], transpose_b=True)
    mixed = g.op(nn.MatmulOp, [g.op(nn.SoftmaxOp, [scores], axis=1), x], transpose_b=False)
    scale, shift = g.weight(normal(32), "scale"), g.weight(normal(32), "shift")
    return g.graph(g.op(nn.LayerNormOp, [mixed, scale, shift], axis=1, epsilon=1e-5))


def _moved() -> Graph:
    g = GraphBuilder(x=normal(6, 10), i=np.array([3, -1, 0]))
    rows = g.op(nn.GatherOp, [g.inputs["x"], g.inputs["i"]], axis=0)
    joined = g.op(nn.ConcatOp, [rows, g.inputs["x"], g.weight(normal(300, 10))], axis=0)
    return g.graph(g.op(nn.TransposeOp, [joined], perm=(1, 0)))


def _elementwise() -> Graph:
    g = GraphBuilder(x=normal(5, 33), n=np.arange(165, dtype=np.int32).reshape(5, 33))
    x = g.inputs["x"]
    unary = (nn.TanhOp, nn.ErfOp, nn.SigmoidOp, nn.FloorOp, nn.AbsOp, nn.RoundOp)
    found = [g.op(kind, [x]) for kind in unary]
    positive = g.op(nn.ExpOp, [x])
    found += [g.op(nn.LogOp, [positive]), g.op(nn.PowOp, [positive, x])]
    found += [g.op(kind, [found[0], x]) for kind in (nn.MaxOp, nn.MinOp)]
    small = g.op(nn.LessOp, [found[-1], x])
    both = g.op(nn.AndOp, [small, g.op(nn.EqualOp, [found[-2], x])])
    found.append(g.op(nn.WhereOp, [both, x, found[1]]))
    numbers = g.op(nn.MaxOp, [g.inputs["n"], g.op(nn.MulOp, [g.inputs["n"], g.inputs["n"]])])
    return g.graph(*found, both, numbers, g.op(nn.ReduceMaxOp, [x], axes=(0, 1), keepdims=False))


NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "image": _image,
    "attention": _attention,
    "moved": _moved,
    "elementwise": _elementwise,
}
