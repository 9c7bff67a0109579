"""NumPy's type promotion, in which the types of Python numbers yield to the dtypes of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessella.dialects.nn.core import element_type
from tessella.frontends.emitter import Value
from tessella.frontends.trace.size import TracedNumber, TracedSize
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, bounds_of, symbols_of

Kind = DType | type[int] | type[float] | type[complex]
"""The type of an operand in promotion: the dtype of an array, or ``int``, ``float`` or ``complex``
for a Python number."""

_NUMBERS: Mapping[type[Any], Kind] = {int: int, float: float, complex: complex}
_WEAK: Mapping[str, Kind] = {"i": int, "f": float, "c": complex}

_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)


def as_operand(value: Any) -> Any:
    """Return a traced array, value, Python number or traced number unchanged, and anything else as
    an array."""
    is_known = isinstance(value, Traced | TracedNumber | Value) or type(value) in _NUMBERS
    return value if is_known else np.asarray(value)


def kind_of(operand: Any) -> Kind:
    """Return the type that an operand, a result of ``as_operand``, has in promotion."""
    if isinstance(operand, Traced):
        return _WEAK.get(operand.dtype.kind, operand.dtype) if operand.weak else operand.dtype
    if isinstance(operand, TracedNumber):
        return int if isinstance(operand, TracedSize) else float
    if type(operand) in _NUMBERS:
        return _NUMBERS[type(operand)]
    element_type(operand.dtype)
    return operand.dtype


def precise(dtype: DType, *operands: Kind) -> DType:
    """Return the dtype of NumPy's result, but float32 in place of float16 if no operand is
    float16."""
    return _FLOAT32 if dtype == _FLOAT16 and _FLOAT16 not in operands else dtype


def float_dtype(dtype: DType) -> DType:
    """Return the dtype in which NumPy computes ``exp`` and similar functions."""
    return precise(np.exp.resolve_dtypes((dtype, None))[0], dtype)


def common_dtype(operands: Sequence[Any]) -> DType:
    """Return the dtype to which NumPy promotes these arrays and numbers."""
    samples: dict[type[Any], complex] = {int: 0, float: 0.0, complex: 0j}
    kinds = [kind_of(as_operand(x)) for x in operands]
    return np.result_type(*(samples[k] if isinstance(k, type) else k for k in kinds))


def cast(trace: Trace, value: Any, dtype: DType) -> Value:
    """Convert a traced array, an array or a number to a dtype. Raises ShapeError for a number that
    does not fit."""
    if isinstance(value, TracedSize):
        check_fits(value.size, dtype)
    if isinstance(value, Traced) and kind_of(value) is int and dtype.kind in "iu":
        trace.numbers.limit(value.value.ssa, dtype)
    if isinstance(value, Traced | TracedNumber | Value):
        return trace.lift(value).cast(dtype)
    if np.iscomplexobj(value) and dtype.kind not in "cb":
        raise ShapeError(
            "the imaginary parts of complex numbers would be lost",
            expected=dtype.name,
            found=repr(value)[:80],
            hint="take the real parts, the imaginary parts or the absolute values first",
        )
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(value, dtype)
    except OverflowError:
        limits = np.iinfo(dtype)
        raise ShapeError(
            f"a number does not fit into {dtype.name}",
            expected=f"in [{limits.min}, {limits.max}]",
            found=str(value),
        ) from None
    return trace.lift(array)


def check_fits(size: Size, dtype: DType) -> None:
    """Raise UndecidedSizeError if a symbolic size may not fit into a dtype."""
    low, high = bounds_of(size)
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= low <= high <= np.iinfo(dtype).max:
        names = (symbol.name for symbol in symbols_of([size]))
        raise UndecidedSizeError(f"{size} fits into {dtype.name} for some sizes only", names)


def common(trace: Trace, *operands: Any) -> list[Value]:
    """Convert arrays and numbers to their common dtype."""
    dtype = common_dtype(operands)
    return [cast(trace, as_operand(x), dtype) for x in operands]


def floating(trace: Trace, *operands: Any) -> list[Value]:
    """Convert arrays and numbers to their common floating-point dtype."""
    dtype = float_dtype(common_dtype(operands))
    return [cast(trace, as_operand(x), dtype) for x in operands]
