"""Stores into arrays that a traced function has made: ``x[key] = y`` and ``np.add.at(x, key, y)``.

After a store, the array has its new elements under all of its names. Several values for one element
are combined in order; an assignment keeps the last value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.trace.dispatch import FUNCTIONS, STORES
from tessella.frontends.trace.effects import check_castable, check_owned
from tessella.frontends.trace.function import function
from tessella.frontends.trace.indexing import as_indices, indexing
from tessella.frontends.trace.promote import as_operand, common_dtype
from tessella.frontends.trace.promote import cast as converted
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL
from tessella.support.errors import TessellaError
from tessella.support.sizes import product

_BYTE = np.dtype(np.uint8)


@function
def _assigned(trace: Trace, x: Traced, key: Any, values: npt.ArrayLike) -> Value:
    """Return the elements of ``x`` after the assignment ``x[key] = values``."""
    return _written(trace, x.value, key, converted(trace, as_operand(values), x.dtype), "none")


def _combined(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a function of ``x``, ``key`` and ``values`` that returns the elements of ``x`` after
    ``ufunc.at(x, key, values)``."""

    @function
    def combined(trace: Trace, x: Traced, key: Any, values: npt.ArrayLike) -> Value:
        dtype = common_dtype([x, values])
        check_castable(dtype, x)
        start, given = x.value.cast(dtype), converted(trace, as_operand(values), dtype)
        return _reduced(trace, (start, given), key, ufunc, dtype).cast(x.dtype)

    return combined


def _reduced(
    trace: Trace, operands: tuple[Value, Value], key: Any, ufunc: np.ufunc, dtype: DType
) -> Value:
    if ufunc is np.subtract:
        if dtype == BOOL:
            raise TessellaError("np.subtract does not take bool", hint="use np.logical_xor")
        start, given = operands
        operands, ufunc = (start, 0 - given), np.add
    if dtype != BOOL:
        return _written(trace, operands[0], key, operands[1], _REDUCTIONS[ufunc])
    start, given = (operand.cast(_BYTE) for operand in operands)
    return _written(trace, start, key, given, _OF_BOOLEANS[ufunc])


_REDUCTIONS: Mapping[np.ufunc, str] = {
    np.add: "add",
    np.multiply: "mul",
    np.maximum: "max",
    np.minimum: "min",
}
_OF_BOOLEANS: Mapping[np.ufunc, str] = {**_REDUCTIONS, np.add: "max", np.multiply: "min"}
"""The reductions that replace ufuncs on booleans, which are computed as bytes."""


def _written(trace: Trace, start: Value, key: Any, values: Value, reduction: str) -> Value:
    """Emit an indexed write: of whole slices if the key is one array of indices, otherwise of
    single elements at their row-major positions."""
    if start.rank and _is_indices(key):
        places, target = as_indices(trace, key), start
    else:
        numbers = trace.emitter.emit(nn.IotaOp, count=product(start.shape))[0]
        every = Traced(trace, numbers.reshape(start.shape))
        places, target = cast(Traced, indexing(every, key)).value, start.flat()
    shape = (*places.shape, *target.shape[1:])
    given = (_stripped(values, len(shape)) if reduction == "none" else values).expand(shape)
    return target.scatter(places, given, reduction).reshape(start.shape)


def _stripped(values: Value, rank: int) -> Value:
    """Return the values of an assignment without leading dimensions of size 1, which NumPy
    ignores."""
    extra = values.rank - rank
    leading = values.shape[: max(extra, 0)]
    return values.reshape(values.shape[extra:]) if leading and set(leading) == {1} else values


def _is_indices(key: Any) -> bool:
    array: Any = np.asarray(cast("list[Any]", key)) if isinstance(key, list) else key
    return isinstance(array, Traced | np.ndarray) and array.dtype.kind in "iu"


def _stores(elements: Callable[..., Any]) -> Callable[[Traced, Any, Any], None]:
    """Return a function that stores into an array the elements that ``elements`` returns for it."""

    def store(x: Traced, key: Any, values: Any) -> None:
        check_owned(x)
        x.store(elements(x, key, values).value)

    return store


FUNCTIONS["store"] = _stores(_assigned)
STORES.update({ufunc: _stores(_combined(ufunc)) for ufunc in (*_REDUCTIONS, np.subtract)})
