"""NumPy's ufuncs on traced arrays: tables of their ops, and NumPy's type promotion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tessella.frontends.emitter import Value
from tessella.frontends.trace.composites import COMPOSITES, OF_COMPLEX, OF_INTEGERS, same
from tessella.frontends.trace.dispatch import UFUNCS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.location import caller
from tessella.frontends.trace.numbers import MEANINGS
from tessella.frontends.trace.promote import Kind, as_operand, cast, kind_of, precise
from tessella.frontends.trace.size import as_size
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.runtime.host.elementwise import ROWS
from tessella.support.errors import ShapeError

BOOL = np.dtype(bool)

Meaning = Callable[..., Traced | Value]


def _emits(op: type[NnOp]) -> Meaning:
    def record(x: Traced, *others: Traced) -> Value:
        return x.value.op(op, *(other.value for other in others))

    return record


_OPS: Mapping[np.ufunc, Meaning] = {
    row.ufunc: _emits(nn.OPS[name]) for name, row in ROWS.items() if row.ufunc is not None
}

_OF_BOOLEANS: Mapping[np.ufunc, Meaning] = {
    np.absolute: same,
    np.add: _emits(nn.OrOp),
    np.maximum: _emits(nn.OrOp),
    np.bitwise_or: _emits(nn.OrOp),
    np.multiply: _emits(nn.AndOp),
    np.minimum: _emits(nn.AndOp),
    np.bitwise_and: _emits(nn.AndOp),
    np.bitwise_xor: _emits(nn.XorOp),
    np.invert: _emits(nn.NotOp),
}

_OF_KINDS: Mapping[str, Mapping[np.ufunc, Meaning]] = {
    **{kind: {**COMPOSITES, **_OPS, **OF_INTEGERS} for kind in "iu"},
    "b": {**COMPOSITES, **_OPS, **OF_INTEGERS, **_OF_BOOLEANS},
    "f": {**COMPOSITES, **_OPS},
    "c": {
        **OF_COMPLEX,
        **{row.ufunc: _OPS[row.ufunc] for row in ROWS.values() if row.complex and row.ufunc},
    },
}
"""The implementation of each ufunc, by NumPy's kind of the dtype in which it computes."""

_POWERS: dict[tuple[str, float], np.ufunc] = {
    **{(kind, 1): np.positive for kind in "fiu"},
    **{(kind, 2): np.square for kind in "fiubc"},
    ("f", 0.5): np.sqrt,
    ("f", -1): np.reciprocal,
}

_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def apply(trace: Trace, ufunc: np.ufunc, *operands: Any) -> Traced:
    """Return the result of a ufunc on arrays and numbers. Raises ShapeError for operands that it
    does not accept."""
    operands = tuple(map(as_operand, operands))
    if ufunc is np.power:
        ufunc, operands = _simpler_power(trace, *operands)
    kinds = [kind_of(x) for x in operands]
    if ufunc in _COMPARISONS:
        kinds = comparable_kinds(operands, kinds)
    inputs, output = _resolved(ufunc, kinds)
    values = [Traced(trace, cast(trace, x, inputs)) for x in operands]
    result = trace.lift(_meaning(ufunc, inputs)(*values)).cast(output)
    # the result stands for a Python number if all operands do, and if it is no integer or that of a
    # Python operator
    is_weak = output.kind in "fc" or (output.kind == "i" and ufunc in MEANINGS)
    weak = is_weak and any(isinstance(x, Traced) for x in operands)
    weak = weak and all(isinstance(kind, type) for kind in kinds)
    if weak and output.kind == "i":
        integers = [x.value.ssa if isinstance(x, Traced) else as_size(x) for x in operands]
        trace.numbers.note(ufunc, integers, result.ssa, str(caller() or "a traced function"))
    return Traced(trace, result, weak)


def _meaning(ufunc: np.ufunc, dtype: DType) -> Meaning:
    """Return the implementation of a ufunc for operands of a dtype. Raises ShapeError for strings,
    and for complex numbers where no op takes them."""
    found = _OF_KINDS.get(dtype.kind, {}).get(ufunc)
    if found is None:
        what = "complex numbers" if dtype.kind == "c" else "strings"
        raise ShapeError(f"np.{ufunc.__name__} takes no {what} under jit", found=dtype.name)
    return found


def _simpler_power(trace: Trace, base: Any, exponent: Any) -> tuple[np.ufunc, tuple[Any, ...]]:
    """Return the ufunc that NumPy uses for a power with this exponent, such as ``np.square`` for 2,
    and its operands."""
    power, number = (np.power, (base, exponent)), exponent
    if not isinstance(base, Traced):
        return power
    if isinstance(exponent, np.ndarray) and exponent.ndim == 0:
        dtype, number = np.result_type(base.dtype, exponent.dtype), exponent.item()
        base = base if dtype == base.dtype else Traced(trace, cast(trace, base, dtype))
    if type(number) not in (int, float) or (base.dtype.kind != "f" and type(number) is float):
        return power
    simpler = _POWERS.get((base.dtype.kind, number))
    return power if simpler is None else (simpler, (base,))


def comparable_kinds(operands: Sequence[Any], kinds: Sequence[Kind]) -> list[Kind]:
    """Return the types of operands in promotion, with int64 for a number that the dtype of another
    operand, of integers, may not represent."""
    dtypes = [kind for kind in kinds if isinstance(kind, np.dtype) and kind.kind in "iu"]
    limits = [np.iinfo(dtype) for dtype in dtypes]
    return [
        np.dtype(np.int64) if any(_may_exceed(x, kind, each) for each in limits) else kind
        for x, kind in zip(operands, kinds, strict=True)
    ]


def _may_exceed(x: Any, kind: Kind, limits: np.iinfo[Any]) -> bool:
    """Return whether an operand is an integer that may exceed the limits of a dtype."""
    if isinstance(x, Traced):
        return kind is int and limits.dtype != np.int64
    return type(x) is int and not limits.min <= x <= limits.max


def _resolved(ufunc: np.ufunc, kinds: Sequence[Kind]) -> tuple[DType, DType]:
    """Return the dtype in which NumPy computes a ufunc, and the dtype of its result. Raises
    ShapeError if NumPy does not accept the operands."""
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


UFUNCS.update({ufunc: _handler(ufunc) for kind in _OF_KINDS.values() for ufunc in kind})
