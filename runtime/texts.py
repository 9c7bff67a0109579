"""Conversions of arrays of strings: from other arrays, from and to numbers, and from and to bytes.

NumPy's dtype for strings of any length, ``StringDType``, stores pointers; as bytes, an array of
strings is a JSON list.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import ExecutionError, InputError, InvalidModelError

Array = npt.NDArray[Any]
DType = np.dtype[Any]

STRING: DType = np.dtype("T")
"""The dtype of arrays of strings."""

_NAMED = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
"""ONNX's spelling of NaN and the infinities, by Python's spelling."""


def strings(array: Array) -> Array:
    """Return an array of strings with the elements of an array of NumPy's strings or of objects
    that are all strings; return any other array unchanged. Raises InputError for a string that is
    not valid Unicode."""
    if array.dtype == STRING or array.dtype.kind not in "TUO":
        return array
    if array.dtype.kind == "O" and not all(isinstance(x, str) for x in array.reshape(-1)):
        return array
    try:
        return array.astype(STRING)
    except UnicodeEncodeError as error:
        raise InputError("a string is not valid Unicode", found=str(error)) from error


def of_list(texts: Sequence[str], shape: Sequence[int]) -> Array:
    """Return an array of strings, in row-major order."""
    return np.array(texts, STRING).reshape(tuple(shape))


def from_numbers(array: Array) -> Array:
    """Return numbers as strings: floats with the fewest digits that identify them and without an
    exponent, as ONNX defines, everything else as Python's ``str``."""
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        texts = [np.format_float_positional(x, trim="0") for x in flat]
        texts = [_NAMED.get(text, text) for text in texts]
    else:
        texts = [str(x) for x in flat.tolist()]
    return of_list(texts, array.shape)


def to_numbers(array: Array, dtype: DType) -> Array:
    """Return the numbers that strings spell. Integers round towards zero, and a number beyond the
    range becomes the nearest one in it. Raises ExecutionError for a string that is no number."""
    read = float if dtype.kind in "fb" else _integer
    try:
        numbers = [read(text) for text in array.reshape(-1).tolist()]
    except (ValueError, OverflowError) as error:
        raise ExecutionError(f"a string is not a number: {error}") from error
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers = [max(int(limits.min), min(int(limits.max), x)) for x in numbers]
    return np.array(numbers, dtype).reshape(array.shape)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def encoded(array: Array) -> Array:
    """Return an array of strings as bytes, which `decoded` reads."""
    return np.frombuffer(json.dumps(array.reshape(-1).tolist()).encode(), np.uint8)


def decoded(data: Array, shape: Sequence[int]) -> Array:
    """Return the array of strings that bytes encode. Raises InvalidModelError for other bytes."""
    expected = f"a list of strings of the shape {list(shape)}"
    try:
        found = json.loads(data.tobytes())
        if all(isinstance(text, str) for text in found):
            return of_list(found, shape)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidModelError(f"strings cannot be read: {error}", expected=expected) from error
    raise InvalidModelError("strings cannot be read", expected=expected, found="other elements")
