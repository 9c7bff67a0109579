"""The traced NumPy-style frontend: from functions of arrays to programs of the `nn` stage."""

from __future__ import annotations

from tessella.frontends.trace import counting as counting  # imported to fill the table of functions
from tessella.frontends.trace import stores as stores  # imported to fill the tables of stores
from tessella.frontends.trace.arguments import Spec
from tessella.frontends.trace.creation import arange, full, ones, zeros
from tessella.frontends.trace.elementwise import (
    abs,
    astype,
    clip,
    cos,
    erf,
    exp,
    gelu,
    log,
    maximum,
    minimum,
    relu,
    sigmoid,
    silu,
    sin,
    sqrt,
    tanh,
    where,
)
from tessella.frontends.trace.indexing import put_along_axis, take
from tessella.frontends.trace.jitted import Jitted, Lowered, jit
from tessella.frontends.trace.layers import avg_pool2d, conv2d, layer_norm, max_pool2d
from tessella.frontends.trace.linear import matmul
from tessella.frontends.trace.movement import (
    broadcast_to,
    concatenate,
    expand_dims,
    reshape,
    squeeze,
    stack,
    transpose,
)
from tessella.frontends.trace.reduction import log_softmax, max, mean, min, prod, softmax, sum
from tessella.frontends.trace.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
)
from tessella.frontends.trace.sorting import argsort, sort

__all__ = [
    "Jitted",
    "Lowered",
    "Spec",
    "abs",
    "arange",
    "argsort",
    "astype",
    "avg_pool2d",
    "broadcast_to",
    "clip",
    "concatenate",
    "conv2d",
    "cos",
    "erf",
    "exp",
    "expand_dims",
    "full",
    "gelu",
    "jit",
    "layer_norm",
    "log",
    "log_softmax",
    "matmul",
    "max",
    "max_pool2d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "ones",
    "prod",
    "put_along_axis",
    "relu",
    "reshape",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "sort",
    "sqrt",
    "squeeze",
    "stack",
    "sum",
    "take",
    "tanh",
    "transpose",
    "where",
    "zeros",
]
