"""NumPy's ufuncs on traced arrays: the op of each, by tables, and NumPy's type promotion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tessella.frontends.trace.composites import COMPOSITES
from tessella.frontends.trace.dispatch import UFUNCS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import Kind, as_operand, cast, kind_of, precise
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.support.errors import ShapeError

BOOL = np.dtype(bool)

_OPS: dict[np.ufunc, type[NnOp]] = {
    np.exp: nn.ExpOp,
    np.log: nn.LogOp,
    np.log2: nn.Log2Op,
    np.log10: nn.Log10Op,
    np.sqrt: nn.SqrtOp,
    np.sin: nn.SinOp,
    np.cos: nn.CosOp,
    np.tan: nn.TanOp,
    np.arcsin: nn.AsinOp,
    np.arccos: nn.AcosOp,
    np.arctan: nn.AtanOp,
    np.sinh: nn.SinhOp,
    np.cosh: nn.CoshOp,
    np.tanh: nn.TanhOp,
    np.arcsinh: nn.AsinhOp,
    np.arccosh: nn.AcoshOp,
    np.arctanh: nn.AtanhOp,
    np.negative: nn.NegOp,
    np.sign: nn.SignOp,
    np.add: nn.AddOp,
    np.subtract: nn.SubOp,
    np.multiply: nn.MulOp,
    np.true_divide: nn.DivOp,
    np.remainder: nn.ModOp,
    np.fmod: nn.FmodOp,
    np.minimum: nn.MinOp,
    np.maximum: nn.MaxOp,
    np.equal: nn.EqualOp,
    np.less: nn.LessOp,
    np.less_equal: nn.LessEqualOp,
    np.greater: nn.GreaterOp,
    np.greater_equal: nn.GreaterEqualOp,
}

_OF_BOOLEANS: dict[np.ufunc, type[NnOp]] = {
    np.add: nn.OrOp,
    np.maximum: nn.OrOp,
    np.bitwise_or: nn.OrOp,
    np.logical_or: nn.OrOp,
    np.multiply: nn.AndOp,
    np.minimum: nn.AndOp,
    np.bitwise_and: nn.AndOp,
    np.logical_and: nn.AndOp,
    np.bitwise_xor: nn.XorOp,
    np.logical_xor: nn.XorOp,
    np.invert: nn.NotOp,
    np.logical_not: nn.NotOp,
}

_POWERS: dict[tuple[str, float], np.ufunc] = {
    **{(kind, 1): np.positive for kind in "fiu"},
    **{(kind, 2): np.square for kind in "fiub"},
    ("f", 0.5): np.sqrt,
    ("f", -1): np.reciprocal,
}

_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def apply(trace: Trace, ufunc: np.ufunc, *operands: Any) -> Traced:
    """A ufunc of arrays and numbers. Raises ShapeError."""
    operands = tuple(map(as_operand, operands))
    if ufunc is np.power:
        ufunc = _simpler_power(*operands)
        operands = operands[: ufunc.nin]
    kinds = [kind_of(x) for x in operands]
    if ufunc in _COMPARISONS:
        kinds = _comparable(operands, kinds)
    inputs, output = _resolved(ufunc, kinds)
    result = _record(trace, ufunc, [cast(trace, x, inputs) for x in operands])
    # of Python's numbers alone, NumPy makes an array
    is_weak = any(isinstance(x, Traced) for x in operands) and output.kind in "if"
    weak = is_weak and all(isinstance(kind, type) for kind in kinds)
    return Traced(trace, cast(trace, result, output).value, weak)


def _record(trace: Trace, ufunc: np.ufunc, values: Sequence[Traced]) -> Traced:
    op = _OPS.get(ufunc)
    if values[0].dtype == BOOL:
        op = _OF_BOOLEANS.get(ufunc, op)
    if op is not None:
        return trace.emit(op, values)
    if ufunc not in COMPOSITES:
        dtype = values[0].dtype.name
        raise ShapeError(f"np.{ufunc.__name__} is known for booleans only", found=dtype)
    return COMPOSITES[ufunc](*values)


def _simpler_power(base: Any, exponent: Any) -> np.ufunc:
    """What NumPy computes in place of a power with this number as its exponent."""
    if not isinstance(base, Traced) or type(exponent) not in (int, float):
        return np.power
    if base.dtype.kind != "f" and type(exponent) is float:
        return np.power
    return _POWERS.get((base.dtype.kind, exponent), np.power)


def _comparable(operands: Sequence[Any], kinds: Sequence[Kind]) -> list[Kind]:
    """The kinds, with int64 for a number that the integers it is compared with may not hold."""
    dtypes = [kind for kind in kinds if isinstance(kind, np.dtype) and kind.kind in "iu"]
    limits = [np.iinfo(dtype) for dtype in dtypes]
    return [
        np.dtype(np.int64) if any(_may_exceed(x, kind, each) for each in limits) else kind
        for x, kind in zip(operands, kinds, strict=True)
    ]


def _may_exceed(x: Any, kind: Kind, limits: np.iinfo[Any]) -> bool:
    """Whether a number may be none of those within limits."""
    if isinstance(x, Traced):
        return kind is int and limits.dtype != np.int64
    return type(x) is int and not limits.min <= x <= limits.max


def _resolved(ufunc: np.ufunc, kinds: Sequence[Kind]) -> tuple[DType, DType]:
    """The dtype in which NumPy computes, and that of the result."""
    if ufunc in _LOGICAL:
        return BOOL, BOOL
    try:
        *inputs, output = ufunc.resolve_dtypes((*kinds, None))
    except TypeError as error:
        names = " and ".join(k.__name__ if isinstance(k, type) else k.name for k in kinds)
        raise ShapeError(f"np.{ufunc.__name__} does not take {names}", found=str(error)) from None
    return precise(np.result_type(*inputs), *kinds), precise(output, *kinds)


def _handler(ufunc: np.ufunc):
    def body(trace: Trace, *operands: Any) -> Traced:
        return apply(trace, ufunc, *operands)

    return function(body)


UFUNCS.update({ufunc: _handler(ufunc) for ufunc in {*_OPS, *_OF_BOOLEANS, *COMPOSITES}})
