"""Arrays of any element type: the dtype of each type, and conversions of types that NumPy lacks.

NumPy stores numbers of such a type as unsigned integers in a structured dtype with one field, which
has the type's name: `np.dtype([("bf16", "u2")])`. Moving these arrays keeps the tag; NumPy refuses
arithmetic on them. Numbers of fewer than 8 bits take a byte each in arrays; `packed` stores several
in a byte. Arrays of the package ``ml_dtypes`` have the same bytes: ``x.view(ml_dtypes.bfloat16)``.
Strings have NumPy's ``StringDType``.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime import texts
from tessella.runtime.texts import STRING
from tessella.support.elements import ELEMENTS, Element
from tessella.support.errors import InputError

Array = npt.NDArray[Any]
DType = np.dtype[Any]


def _dtype(element: Element) -> DType:
    return np.dtype([(element.name, element.dtype)] if element.is_tagged else element.dtype)


DTYPES: dict[str, DType] = {name: _dtype(element) for name, element in ELEMENTS.items()}
"""The dtype of arrays, by the name of the element type."""

_ELEMENTS = {dtype: ELEMENTS[name] for name, dtype in DTYPES.items()}
_FOREIGN = {element.foreign: element for element in ELEMENTS.values() if element.is_tagged}
_PUBLIC = {element.public: DTYPES[name] for name, element in ELEMENTS.items()}
_LACKING = {dtype for dtype, element in _ELEMENTS.items() if element.is_tagged}
_WIDENED = {dtype for dtype, element in _ELEMENTS.items() if element.is_tagged or element.narrow}


def element_of(dtype: npt.DTypeLike) -> Element | None:
    """Return the ``Element`` that describes a dtype, which may be one of ``ml_dtypes``; None if
    tessella does not have the type."""
    own: DType = np.dtype(dtype)
    found = _ELEMENTS.get(own)
    if found is None and own.type.__module__ == "ml_dtypes":
        return _FOREIGN.get(own.name)
    return found


def as_dtype(dtype: npt.DTypeLike) -> DType:
    """Return the dtype that a caller names, in any way that NumPy knows. Raises InputError for one
    that is no dtype, or whose elements tessella does not have."""
    try:
        found: DType = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        found_text = f"{dtype!r} ({error})"
    else:
        if element_of(found) is not None:
            return found
        found_text = str(found)
    raise InputError(
        "this is not a dtype of arrays",
        expected=f"one of {', '.join(map(dtype_name, DTYPES.values()))}",
        found=found_text,
    )


def tagged(array: Array) -> Array:
    """View an ``ml_dtypes`` array with our dtype; return any other array unchanged."""
    if array.dtype.type.__module__ != "ml_dtypes":
        return array
    element = _FOREIGN.get(array.dtype.name)
    return array if element is None else array.view(DTYPES[element.name])


def as_own(array: Array) -> Array:
    """Return a caller's array with tessella's dtype for its element type, if it has another one:
    numbers that NumPy lacks are ``tagged``, and strings become ``StringDType``."""
    return texts.strings(tagged(array))


def public(array: Array) -> Array:
    """Return an array as callers get it: a view with the dtype of ``ml_dtypes``, where that package
    is installed, for numbers that NumPy lacks."""
    if array.dtype.names is None:
        return array
    found = _foreign_dtype(array.dtype.names[0])
    return array if found is None else array.view(found)


@cache
def _foreign_dtype(name: str) -> DType | None:
    """Return the dtype that ``ml_dtypes`` has for an element type; None if it is not installed, or
    too old to have it."""
    try:
        found = getattr(import_module("ml_dtypes"), ELEMENTS[name].foreign, None)
    except ImportError:
        return None
    return None if found is None else np.dtype(found)


def dtype_name(dtype: DType) -> str:
    """Return the public name of a dtype: NumPy's, that of ``ml_dtypes``, or ``string``."""
    element = _ELEMENTS.get(dtype)
    return dtype.name if element is None else element.public


def dtype_named(name: str) -> DType:
    """Return the dtype with a public name, the inverse of ``dtype_name``."""
    found = _PUBLIC.get(name)
    return np.dtype(name) if found is None else found


def computing(element: Element) -> DType:
    """Return the dtype in which NumPy computes with values of an element type."""
    if element.is_float:
        return DTYPES[element.arithmetic]
    if element.is_tagged:
        return np.dtype(np.int8 if element.kind == "signed" else np.uint8)
    return DTYPES[element.name]


def widened(array: Array) -> Array:
    """Convert an array without loss to a dtype that NumPy computes with; f16 becomes f32."""
    array = tagged(array)
    if array.dtype not in _WIDENED:
        return array
    element = _ELEMENTS[array.dtype]
    if not element.is_tagged:
        return array.astype(computing(element))
    bits = array[element.name]
    if _is_upper_half(element):
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if element.is_float:
        return _values(element)[bits]
    if element.kind == "signed":
        shift = 8 - element.bits
        return (bits << shift).view(np.int8) >> shift
    return bits


def converted(array: Array, dtype: npt.DTypeLike) -> Array:
    """Convert an array to a dtype, as NumPy's ``astype`` does, also from and to element types that
    NumPy lacks.

    Floats round to nearest, ties to even. Floats beyond the range become infinite, or NaN if the
    type has no infinities, or the largest number if it also has no NaN. Integers wrap. Strings
    spell numbers. Raises ExecutionError for a string that does not.
    """
    to: DType = np.dtype(dtype)
    if array.dtype == to:
        return array
    array = widened(array)
    if array.dtype == STRING:
        numbers = computing(_ELEMENTS[to])
        return converted(texts.to_numbers(array, numbers), to)
    if to == STRING:
        return texts.from_numbers(array)
    with np.errstate(all="ignore"):
        if to not in _LACKING:
            return array.astype(to)
        return _narrowed(array, _ELEMENTS[to]).view(to)


def full(shape: tuple[int, ...], value: float, dtype: DType) -> Array:
    """Return an array of equal numbers as a view of one element, which takes no memory."""
    if dtype in _LACKING:
        one = converted(np.asarray(value, computing(_ELEMENTS[dtype])), dtype)
    else:
        one = np.asarray(value, dtype)
    return np.broadcast_to(one, shape)


def bytes_of(array: Array) -> Array:
    """Return the elements of an array as bytes. They are a view if the array is contiguous,
    otherwise a copy; strings are encoded."""
    if array.dtype == STRING:
        return texts.encoded(array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def of_bytes(data: Array, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return the array with these bytes, the inverse of ``bytes_of``. A single element represents
    all elements. Raises InvalidModelError if ``dtype`` is that of strings, and the bytes do not
    encode strings."""
    if dtype == STRING:
        return texts.decoded(data, shape)
    flat = data.view(dtype)
    return np.broadcast_to(flat.reshape(() if flat.size == 1 else shape), shape)


def packed(array: Array) -> Array:
    """Pack numbers of fewer than 8 bits, and strings, into a flat array of ``uint8``; return any
    other array unchanged."""
    if array.dtype == STRING:
        return texts.encoded(array)
    element = _ELEMENTS.get(array.dtype)
    if element is None or element.bits >= 8:
        return array
    per = 8 // element.bits
    bits = np.zeros(element.bytes(array.size) * per, np.uint8)
    bits[: array.size] = array[element.name].reshape(-1)
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(element.bits)
    return np.bitwise_or.reduce(bits.reshape(-1, per) << shifts, axis=1)


def unpacked(array: Array, shape: tuple[int, ...], dtype: DType) -> Array:
    """Unpack an array of numbers of fewer than 8 bits or of strings: the inverse of ``packed``.
    Return any other array unchanged."""
    if dtype == STRING:
        return texts.decoded(array, shape)
    element = _ELEMENTS.get(dtype)
    if element is None or element.bits >= 8:
        return array
    per = 8 // element.bits
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(element.bits)
    mask = np.uint8((1 << element.bits) - 1)
    count = int(np.prod(shape, dtype=np.int64))
    bits = ((array.reshape(-1, 1) >> shifts) & mask).reshape(-1)[:count]
    return bits.reshape(shape).view(dtype)


def _narrowed(array: Array, element: Element) -> Array:
    if _is_upper_half(element):
        return _to_bf16(array)
    if element.is_float:
        return _to_code(array, element)
    return array.astype(np.int64).astype(np.uint8) & np.uint8((1 << element.bits) - 1)


def _is_upper_half(element: Element) -> bool:
    """Return whether an element type is the upper half of f32, as bf16 is."""
    return (element.bits, element.exponent) == (16, ELEMENTS["f32"].exponent)


def _to_bf16(array: Array) -> Array:
    """Return the bf16 bits of an array: the upper halves of its values as f32, rounded to nearest,
    ties to even. NaN stays NaN."""
    x = _round_to_odd(array)
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    quiet = (bits >> 16) | np.uint32(0x40)
    return np.where(np.isnan(x), quiet, rounded).astype(np.uint16)


def _round_to_odd(array: Array) -> Array:
    """Convert f64 to f32 by rounding to odd, so that a later rounding to fewer bits is the only
    one.

    If digits are lost, the last remaining digit is set.
    """
    x = np.asarray(array.astype(np.float32))
    if array.dtype.kind == "f" and array.dtype.itemsize <= 4:
        return x
    wide = array.astype(np.float64)
    away = np.abs(x.astype(np.float64)) > np.abs(wide)
    bits = x.view(np.uint32) - away.astype(np.uint32)
    inexact = np.isfinite(wide) & (x != wide)
    return (bits | inexact).astype(np.uint32).view(np.float32)


@cache
def _values(element: Element) -> Array:
    """Return the value of each code, or bit pattern, of a small float, as an array by code."""
    codes = np.arange(1 << element.bits)
    magnitudes = codes % (1 << (element.bits - element.signed))
    exponent, fraction = np.divmod(magnitudes, 1 << element.fraction)
    # Denormal numbers have no leading digit, and the exponent of the least normal number.
    is_normal = (exponent > 0) | (not element.signed)
    values = np.ldexp(
        fraction * element.epsilon + is_normal, np.where(is_normal, exponent, 1) - element.bias
    )
    values = np.where(codes == magnitudes, values, -values)
    if element.specials == "fnuz":
        values[_sign(element)] = -np.nan
    beyond = magnitudes >= element.codes
    infinite = beyond & (element.specials == "ieee") & (fraction == 0)
    special = np.where(infinite, np.inf, np.nan)
    values[beyond] = np.copysign(special, values)[beyond]
    return values.astype(np.float32)


def _sign(element: Element) -> int:
    """Return the sign bit of a float; 0 for a float without a sign."""
    return 1 << (element.bits - 1) if element.signed else 0


def _to_code(array: Array, element: Element) -> Array:
    """Return the code, or bit pattern, of an element's value nearest to each number, ties to even.

    For a number beyond the range, this is the code after that of the largest number, or the code of
    the largest number if that is the last one. A float without a sign has NaN for 0 and for
    negative numbers, and rounds a tie up, as in ``ml_dtypes`` and in ONNX.
    """
    values = _values(element)[: element.codes].astype(np.float64)
    values = np.append(values, element.normal(element.codes))
    between = (values[:-1] + values[1:]) / 2
    wide = array.astype(np.float64)
    size = np.abs(wide)
    code = np.searchsorted(between, size)
    tie = size == between[np.minimum(code, element.codes - 1)]
    # the significand of a power of two is 1, so that the one above is the even one
    code = code + (tie & ((code % 2 == 1) | (not element.signed)))
    nan = _nan(element)
    if element.specials == "none":
        code = np.minimum(code, element.codes - 1)
    is_nan = np.isnan(wide) if element.signed else ~(wide > 0)
    is_signed = np.signbit(wide) & ((code > 0) | (element.specials != "fnuz"))
    signs = np.where(is_signed, _sign(element), 0)
    return np.where(is_nan, nan | signs, code | signs).astype(np.uint8)


def _nan(element: Element) -> int:
    """Return the code that NaN becomes, without a sign: a quiet NaN. A type without NaN has -0 in
    its place, as in ``ml_dtypes``."""
    if element.specials == "ieee":
        return element.codes | 1 << (element.fraction - 1)
    return element.codes if element.specials == "fn" else _sign(element)
