"""Lists in the attributes of classical models, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.support.errors import InvalidModelError, ShapeError

Array = npt.NDArray[Any]


def integers(call: Call, name: str) -> Array:
    """Return an attribute that lists integers; an empty array if it is absent."""
    return np.array(call.integers(name) or (), np.int64)


def optional_integers(call: Call, name: str, count: int) -> Array:
    """Return an attribute that lists ``count`` integers; zeros if it is absent."""
    found = integers(call, name)
    if not len(found):
        return np.zeros(count, np.int64)
    check_count(call, name, found, count)
    return found


def numbers(call: Call, name: str, dtype: np.dtype[Any]) -> Array | None:
    """Return an attribute that lists numbers, as floats or as the tensor ``<name>_as_tensor``; None
    if neither is given. Floats become numbers of ``dtype``."""
    found = call.tensor(f"{name}_as_tensor")
    if found is not None:
        return _floats(call, name, found.array)
    given = call.numbers(name)
    return np.array(given, dtype) if given else None


def tensor(call: Call, name: str) -> Array:
    """Return the elements of an attribute that is a tensor. Raises InvalidModelError if it is
    absent."""
    found = call.tensor(name)
    if found is None:
        raise InvalidModelError(f"attribute {name!r} is missing", where=call.node.where)
    return found.array.reshape(-1)


def _floats(call: Call, name: str, array: Array) -> Array:
    if array.dtype.kind != "f":
        raise InvalidModelError(
            f"attribute {name!r} holds no floats", where=call.node.where, found=array.dtype.name
        )
    return array.reshape(-1)


def texts(call: Call, name: str) -> tuple[str, ...]:
    """Return an attribute that lists strings; an empty tuple if it is absent."""
    return tuple(call.attribute(name) or ())


def check_count(call: Call, name: str, array: Array, *counts: int) -> None:
    """Raise InvalidModelError unless an attribute lists one of these numbers of values."""
    if len(array) not in counts:
        raise InvalidModelError(
            f"attribute {name!r} has the wrong length",
            where=call.node.where,
            expected=" or ".join(map(str, counts)),
            found=str(len(array)),
        )


def floats(call: Call, name: str) -> Array:
    """Return an attribute that lists floats; an empty array if it is absent."""
    return np.array(call.numbers(name) or (), np.float32)


def rows_of(call: Call, index: int = 0) -> Value:
    """Return an operand [rows, features] in the floats in which it is computed with: a vector is
    one row, and integers become f32."""
    x = call.operand(index)
    if x.rank == 1:
        x = x.reshape((1, *x.shape))
    if x.rank != 2:
        raise ShapeError(
            "rows of features are needed", expected="[rows, features]", found=str(x.type)
        )
    return x if x.dtype == np.float64 else x.cast(np.float32)
