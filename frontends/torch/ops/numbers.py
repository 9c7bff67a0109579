"""Converters of functions of sizes, which are evaluated while a graph is converted."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tessella.frontends.emitter import Emitter, Value
from tessella.frontends.torch.registry import Converter, aten
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, differs
from tessella.support.sizes import Expr, Size, product, total

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "operator::add": operator.add,
    "operator::sub": operator.sub,
    "operator::mul": operator.mul,
    "operator::floordiv": operator.floordiv,
    "operator::mod": operator.mod,
    "operator::neg": operator.neg,
    "operator::pow": operator.pow,
    "operator::getitem": operator.getitem,
    "operator::eq": lambda a, b: not differs(a, b),
    "operator::ne": lambda a, b: differs(a, b),
    "operator::lt": lambda a, b: decided(a < b),
    "operator::le": lambda a, b: decided(a <= b),
    "operator::gt": lambda a, b: decided(a > b),
    "operator::ge": lambda a, b: decided(a >= b),
    "math::floor": lambda x: x if isinstance(x, int) else math.floor(x),
    "math::ceil": lambda x: x if isinstance(x, int) else math.ceil(x),
    "math::trunc": lambda x: x if isinstance(x, int) else math.trunc(x),
    "torch::sym_max": decided_max,
    "torch::sym_min": decided_min,
    "torch::sym_sum": total,
    "torch::sym_not": operator.not_,
    "torch::sym_int": int,
}
"""Functions of Python and of torch on sizes, by module and name."""


def _of_numbers(function: Callable[..., Any]) -> Converter:
    return lambda emit, *args: function(*args)


for _name, _function in FUNCTIONS.items():
    aten(_name)(_of_numbers(_function))


def _float(emit: Emitter, x: Value | Size | float) -> Value | float:
    """Return a number as a float; a symbolic size is computed when the program runs, as a float64
    without dimensions."""
    if isinstance(x, Expr):
        return emit.scalar(x, np.int64).cast(np.float64)
    return x if isinstance(x, Value) else float(x)


@aten("operator::truediv")
def truediv(emit: Emitter, a: Value | Size | float, b: Value | Size | float) -> Value | float:
    return _float(emit, a) / _float(emit, b)


@aten("torch::sym_float")
def sym_float(emit: Emitter, x: Value | Size | float) -> Value | float:
    return _float(emit, x)


@aten("sym_size.int")
def sym_size(emit: Emitter, x: Value, dim: int) -> Size:
    return x.shape[dim]


@aten("sym_numel")
def sym_numel(emit: Emitter, x: Value) -> Size:
    return product(x.shape)


@aten(
    "_assert_scalar",
    "_assert_tensor_metadata",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
)
def checked(emit: Emitter, *args: object, **others: object) -> None:
    """Return nothing: PyTorch has checked what its guards ensure."""
