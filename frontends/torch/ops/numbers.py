"""Converters of functions of sizes, which are evaluated while a graph is converted."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tessella.frontends.emitter import Emitter, Value
from tessella.frontends.torch.registry import Converter, aten, refuse
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, differs
from tessella.support.sizes import Expr, Size, product, total


def _floordiv(a: Size, b: Size) -> Size:
    return a // b


def _pow(a: Any, b: Any) -> Any:
    return product([a] * b) if isinstance(a, Expr) else a**b


def _equal(a: Size, b: Size) -> bool:
    return not differs(a, b)


def _deciding(compares: Callable[[Any, Any], Any]) -> Callable[[Size, Size], bool]:
    def decide(a: Size, b: Size) -> bool:
        return decided(compares(a, b))

    return decide


def _whole(rounds: Callable[[Any], int]) -> Callable[[Any], int]:
    def convert(x: Any) -> int:
        if isinstance(x, Value):
            raise refuse("an integer that is computed as a float")
        return rounds(x)

    return convert


_ORDERINGS: Sequence[Callable[[Any, Any], Any]] = (
    operator.lt, operator.le, operator.gt, operator.ge,
)  # fmt: skip

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "operator::add": operator.add,
    "operator::sub": operator.sub,
    "operator::mul": operator.mul,
    "operator::floordiv": _floordiv,
    "operator::mod": operator.mod,
    "operator::neg": operator.neg,
    "operator::pow": _pow,
    "operator::getitem": operator.getitem,
    "operator::eq": _equal,
    "operator::ne": differs,
    **{f"operator::{each.__name__}": _deciding(each) for each in _ORDERINGS},
    **{f"math::{each.__name__}": _whole(each) for each in (math.floor, math.ceil, math.trunc)},
    "torch::sym_max": decided_max,
    "torch::sym_min": decided_min,
    "torch::sym_sum": total,
    "torch::sym_not": operator.not_,
    "torch::sym_int": int,
}
"""Functions of Python and of torch on sizes, by module and name."""


def _of_numbers(function: Callable[..., Any]) -> Converter:
    def convert(emit: Emitter, *args: Any) -> Any:
        return function(*args)

    return convert


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
