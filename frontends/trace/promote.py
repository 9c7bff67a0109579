"""NumPy's type promotion, with Python numbers whose type gives way to that of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.dialects.nn.core import element_type
from tessella.frontends.emitter import Value
from tessella.frontends.trace.size import TracedNumber, TracedSize
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, bounds_of, symbols_of

Kind = DType | type[int] | type[float]
"""What decides about types: the dtype of an array, or ``int`` or ``float`` of a Python number."""

_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)


def as_operand(value: Any) -> Any:
    """A traced array, a value, an array, a Python number, or one that follows from sizes."""
    is_known = isinstance(value, Traced | TracedNumber | Value) or type(value) in (int, float)
    return value if is_known else np.asarray(value)


def kind_of(operand: Any) -> Kind:
    """The kind of what ``as_operand`` gives."""
    if isinstance(operand, Traced):
        if operand.weak and operand.dtype.kind in "if":
            return int if operand.dtype.kind == "i" else float
        return operand.dtype
    if isinstance(operand, TracedNumber):
        return int if isinstance(operand, TracedSize) else float
    if type(operand) in (int, float):
        return int if type(operand) is int else float
    element_type(operand.dtype)
    return operand.dtype


def precise(dtype: DType, *operands: Kind) -> DType:
    """The dtype itself; float32 where NumPy computes operands of small integers in float16."""
    return _FLOAT32 if dtype == _FLOAT16 and _FLOAT16 not in operands else dtype


def float_dtype(dtype: DType) -> DType:
    """The dtype in which NumPy computes ``exp`` and its like."""
    return precise(np.exp.resolve_dtypes((dtype, None))[0], dtype)


def common_dtype(operands: Sequence[Any]) -> DType:
    """The common dtype of arrays and numbers."""
    samples = {int: 0, float: 0.0}
    kinds = [kind_of(as_operand(x)) for x in operands]
    return np.result_type(*(samples[k] if isinstance(k, type) else k for k in kinds))


def cast(trace: Trace, value: Any, dtype: DType) -> Value:
    """A traced array, array or number with another dtype."""
    if isinstance(value, TracedSize):
        check_fits(value.size, dtype)
    if isinstance(value, Traced) and kind_of(value) is int and dtype.kind in "iu":
        trace.numbers.limit(value.value.ssa, dtype)
    if isinstance(value, Traced | TracedNumber | Value):
        return trace.lift(value).cast(dtype)
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
    """Raises UndecidedSizeError for a size that may be no number of a dtype."""
    low, high = bounds_of(size)
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= low <= high <= np.iinfo(dtype).max:
        names = (symbol.name for symbol in symbols_of([size]))
        raise UndecidedSizeError(f"{size} fits into {dtype.name} for some sizes only", names)


def common(trace: Trace, *operands: Any) -> list[Value]:
    """Arrays and numbers, converted to their common dtype."""
    dtype = common_dtype(operands)
    return [cast(trace, as_operand(x), dtype) for x in operands]


def floating(trace: Trace, *operands: Any) -> list[Value]:
    """Arrays and numbers, converted to their common floating-point dtype."""
    dtype = float_dtype(common_dtype(operands))
    return [cast(trace, as_operand(x), dtype) for x in operands]
