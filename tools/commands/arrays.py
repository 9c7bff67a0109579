"""Arrays on the command line: creating, reading, summarising and comparing them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tessella.dialects.graph import ValueInfo
from tessella.dialects.nn.core import Array
from tessella.runtime.elements import (
    as_own,
    converted,
    dtype_name,
    dtype_named,
    element_of,
    tagged,
    widened,
)
from tessella.runtime.texts import STRING
from tessella.support.errors import InputError, OptionError
from tessella.support.files import regular


def read_array(path: str) -> Array:
    """Read an array from an .npy file. Raises InputError."""
    try:
        array: object = np.load(regular(path), allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read an array: {error}", where=path) from error
    if not isinstance(array, np.ndarray):
        raise InputError("this file holds several arrays", where=path, expected="an .npy file")
    return array


def write_array(path: str, array: Array) -> None:
    """Write an .npy file at exactly this path, which `read_array` reads. Raises OptionError."""
    # the format has no dtypes of other packages, and no strings of any length
    is_text = array.dtype == STRING
    array = np.array(array.tolist(), np.str_).reshape(array.shape) if is_text else tagged(array)
    try:
        with Path(path).open("wb") as file:
            np.save(file, array, allow_pickle=False)
    except OSError as error:
        raise OptionError(f"cannot write an array: {error}", where=path) from error


def make_array(info: ValueInfo, kind: str, shape: tuple[int, ...], seed: int) -> Array:
    """Return an array of a ``kind`` for an input: ``randn``, ``zeros`` or ``ones``.

    Random integers are 0 or 1, which suits masks, and indices into nearly every table.
    """
    dtype = dtype_named(info.dtype)
    element = element_of(dtype)
    rng = np.random.default_rng([seed, *info.name.encode()])
    match kind:
        case "zeros":
            return converted(np.zeros(shape), dtype)
        case "ones":
            return converted(np.ones(shape), dtype)
        case "randn" if element is not None and element.is_float:
            numbers = np.asarray(rng.standard_normal(shape))
            return converted(numbers if element.signed else np.abs(numbers), dtype)
        case "randn" if element is not None and element.is_complex:
            return converted(rng.standard_normal((*shape, 2)).view(np.complex128)[..., 0], dtype)
        case "randn":
            return converted(np.asarray(rng.integers(0, 2, shape)), dtype)
        case _:
            raise OptionError(
                f"--input {info.name}: no way to make {kind!r}",
                expected="@FILE.npy, randn, zeros or ones",
            )


def summary(array: Array) -> str:
    """Return the type, shape, and least, mean and greatest element of an array, as a line of text:
    of the absolute values of complex numbers, and the number of distinct elements of strings."""
    text = _kind(array)
    if not array.size:
        return f"{text} empty"
    if array.dtype == STRING:
        return f"{text} {len(np.unique(array))} distinct, the first {array.reshape(-1)[0]!r}"
    is_complex = array.dtype.kind == "c"
    numbers = np.abs(array) if is_complex else converted(array, np.float64)
    broken = int(np.count_nonzero(~np.isfinite(numbers)))
    with np.errstate(all="ignore"):
        text += " absolute" * is_complex
        text += f" min {numbers.min():.6g} mean {numbers.mean():.6g} max {numbers.max():.6g}"
    return f"{text}, {broken} not finite" if broken else text


def difference(found: Array, expected: Array, rtol: float, atol: float) -> str | None:
    """Return how an array differs from the expected one; None if it does not.

    Floats and complex numbers may differ by ``atol + rtol * |expected|``; NaN equals NaN. Other
    elements must be equal.
    """
    found, expected = as_own(found), as_own(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"expected {_kind(expected)}, found {_kind(found)}"
    found, expected = widened(found), widened(expected)
    close = found == expected
    if found.dtype.kind in "fc":
        close |= np.isclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    count = int(np.count_nonzero(~close))
    if not count:
        return None
    told = f"{count} of {found.size} elements differ"
    if found.dtype == STRING:
        at = np.unravel_index(int(np.argmin(close)), close.shape)
        return f"{told}\n  the first {_pair(at, found, expected)}"
    with np.errstate(all="ignore"):
        wide = np.complex128 if found.dtype.kind == "c" else np.float64
        gap = np.abs(found.astype(wide) - expected.astype(wide))
        gap = np.where(np.isnan(gap), np.inf, gap)
        gap[close] = 0.0
        ratio = np.where(gap > 0.0, gap / np.abs(expected.astype(wide)), 0.0)
    return "\n".join(
        [
            f"{told} (rtol {rtol:g}, atol {atol:g})",
            f"  largest absolute difference {_worst(gap, found, expected)}",
            f"  largest relative difference {_worst(ratio, found, expected)}",
        ]
    )


def _kind(array: Array) -> str:
    return f"{dtype_name(array.dtype)} [{', '.join(map(str, array.shape))}]"


def _worst(gaps: Array, found: Array, expected: Array) -> str:
    at = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
    return f"{gaps[at]:.6g} {_pair(at, found, expected)}"


def _pair(at: tuple[Any, ...], found: Array, expected: Array) -> str:
    where = ", ".join(str(int(i)) for i in at)
    return f"at [{where}]: found {found[at]}, expected {expected[at]}"
