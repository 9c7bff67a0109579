"""Conversion of tensors of the Open Inference Protocol from and to JSON and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tessella.runtime import texts
from tessella.runtime.elements import DTYPES, converted, element_of, tagged, widened
from tessella.support.elements import ELEMENTS
from tessella.tools.serve.refusal import RequestError

Array = npt.NDArray[Any]
DType = np.dtype[Any]

_INTEGERS = {f"{sign}{bits}": bits for sign in ("i", "u") for bits in (8, 16, 32, 64)}
DATATYPES: dict[str, str] = {
    **{name: f"{'U' * (name[0] == 'u')}INT{bits}" for name, bits in _INTEGERS.items()},
    "bool": "BOOL",
    "f16": "FP16",
    "f32": "FP32",
    "f64": "FP64",
    "bf16": "BF16",
    "string": "BYTES",
}
"""The protocol's names of the element types that it supports, by tessella's names."""

_PUBLIC = {ELEMENTS[name].public: name for name in DATATYPES}
_LENGTH = 4
"""The size in bytes of the length that precedes each string in binary data."""


def datatype_of(dtype: str) -> str | None:
    """Return the protocol's name of a dtype, given by its public name; None if it has none."""
    return DATATYPES.get(_PUBLIC.get(dtype, ""))


def datatype_of_array(array: Array) -> str | None:
    """Return the protocol's name of an array's dtype; None if it has none."""
    element = element_of(array.dtype)
    return None if element is None else DATATYPES.get(element.name)


def dtype_of(datatype: str) -> DType:
    """Return the dtype of arrays for a name of the protocol."""
    return DTYPES[next(name for name, found in DATATYPES.items() if found == datatype)]


def from_binary(data: memoryview, shape: Sequence[int], datatype: str, where: str) -> Array:
    """Return the array with these bytes. Raises RequestError."""
    dtype = dtype_of(datatype)
    if dtype == texts.STRING:
        return _strings(_split(data, prod(shape), where), shape, where)
    if len(data) != prod(shape) * dtype.itemsize:
        raise RequestError(
            "the binary data has the wrong size",
            where=where,
            expected=f"{prod(shape) * dtype.itemsize} bytes for {datatype}{list(shape)}",
            found=f"{len(data)} bytes",
        )
    if datatype == "BOOL":  # native code reads 0 and 1 only
        return np.frombuffer(data, np.uint8).reshape(shape) != 0
    return np.frombuffer(data, dtype).reshape(shape)


def from_json(data: object, shape: Sequence[int], datatype: str, where: str) -> Array:
    """Return the array with these elements, which are a flat list or nested lists. Raises
    RequestError."""
    dtype = dtype_of(datatype)
    if not isinstance(data, list):
        raise RequestError("'data' is not a list", where=where, found=type(data).__name__)
    array = _listed(cast(list[Any], data), datatype, where)
    if array.shape not in ((prod(shape),), tuple(shape)):
        raise RequestError(
            "'data' does not have the number of elements in 'shape'",
            where=where,
            expected=f"a list of {prod(shape)}, or lists of the shape {list(shape)}",
            found=f"the shape {list(array.shape)}",
        )
    if dtype == texts.STRING:
        return _strings(array.reshape(-1).tolist(), shape, where)
    return _exact(array.reshape(shape), dtype, datatype, where)


def to_binary(array: Array) -> bytes:
    """Return the elements of an array as bytes."""
    if array.dtype == texts.STRING:
        encoded = (text.encode() for text in array.reshape(-1).tolist())
        return b"".join(len(each).to_bytes(_LENGTH, "little") + each for each in encoded)
    return array.tobytes()


def to_json(array: Array, where: str) -> list[Any]:
    """Return the elements of an array as a flat list. Raises RequestError for NaN and infinity,
    which JSON lacks."""
    wide = widened(tagged(array))
    if wide.dtype.kind == "f" and not np.isfinite(wide).all():
        raise RequestError(
            "the result has NaN or infinity, which JSON lacks",
            where=where,
            hint="request the output with the parameter binary_data",
        )
    return wide.reshape(-1).tolist()


_KINDS = {"BOOL": "b", "BYTES": "O"}
"""The kind of array that NumPy creates from the JSON values of each datatype that is not a
number."""


def _listed(data: list[Any], datatype: str, where: str) -> Array:
    expected = "numbers, booleans or strings, all of one kind, in lists of equal length"
    try:
        array = np.array(data, dtype=object if datatype == "BYTES" else None)
    except (ValueError, OverflowError) as error:
        raise RequestError("'data' is not an array", where=where, expected=expected) from error
    floats = "iuf" if datatype.startswith(("FP", "BF")) else "iu"
    if array.size and array.dtype.kind not in _KINDS.get(datatype, floats):
        raise RequestError(
            f"'data' has elements that are not {datatype}",
            where=where,
            expected=expected,
            found=array.dtype.name,
        )
    return array


def _exact(array: Array, dtype: DType, datatype: str, where: str) -> Array:
    """Convert numbers to a dtype that can represent them. Raises RequestError if one is out of
    range."""
    result = converted(array, dtype) if array.size else np.zeros(array.shape, dtype)
    wide = widened(result)
    is_float = wide.dtype.kind == "f"
    if np.isfinite(wide).all() if is_float else np.array_equal(wide, array):
        return result
    raise RequestError(f"'data' has numbers beyond the range of {datatype}", where=where)


def _split(data: memoryview, count: int, where: str) -> list[str]:
    """Return the strings in binary data, where each string is preceded by its length."""
    found: list[str] = []
    start = 0
    try:
        while start < len(data):
            end = start + _LENGTH + int.from_bytes(data[start : start + _LENGTH], "little")
            if end > len(data) or len(found) == count:
                break
            found.append(str(data[start + _LENGTH : end], "utf-8"))
            start = end
    except UnicodeDecodeError as error:
        raise RequestError("a string is not UTF-8", where=where, found=str(error)) from error
    if start != len(data) or len(found) != count:
        raise RequestError(
            "the binary data does not have the number of strings in 'shape'",
            where=where,
            expected=f"{count} strings, each after its length in {_LENGTH} bytes",
            found=f"{len(found)} strings in {start} of {len(data)} bytes",
        )
    return found


def _strings(found: Sequence[object], shape: Sequence[int], where: str) -> Array:
    if not all(isinstance(each, str) for each in found):
        what = "'data' has elements that are not BYTES"
        raise RequestError(what, where=where, expected="strings")
    try:
        return texts.of_list(cast(Sequence[str], found), shape)
    except UnicodeEncodeError as error:
        what = "a string is not valid Unicode"
        raise RequestError(what, where=where, found=str(error)) from error
