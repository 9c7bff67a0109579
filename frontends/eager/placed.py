"""``tessella.array``, which stores an array at a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tessella import targets
from tessella.dialects.layout import NCHW, pack, unpack
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.frontends.arrays import as_array
from tessella.runtime.elements import DTYPES, as_own, converted, element_of, public
from tessella.support.elements import ELEMENTS, Element, widens
from tessella.support.errors import InputError, OptionError

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class PlacedArray:
    """An array at a place. Its elements have the precision and the memory order of the place.

    ``tessella.array`` creates such an array. Functions of ``tessella.ops`` read the array at its
    place, and their results stay at the places of their kernels. ``np.asarray`` returns a plain
    copy.
    """

    memory: Array
    """The elements in memory order, including padding."""
    shape: tuple[int, ...]
    at: PlaceAttr

    @property
    def place(self) -> str:
        """The place as a string, such as ``x86/f32/nhwc``."""
        return str(self.at)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return public(self.memory.reshape(-1)[:0]).dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        """The number of elements, without padding."""
        return prod(self.shape)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array at a place has no plain array without a copy")
        plain = np.asarray(unpack(self.memory, self.at.layout, self.shape), order="C")
        array = public(_apart(plain, self.memory))
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"tessella.array({np.asarray(self)!r}, place={self.place!r})"


def array(x: npt.ArrayLike, place: str) -> PlacedArray:
    """Store an array at a place.

    Functions of ``tessella.ops`` read the array at its place. The places of the operands determine
    the kernel, and the result stays at the kernel's place, so a chain of ops converts its input
    only once.

    Parameters
    ----------
    x : array_like
        The array.
    place : str
        Device, precision and layout, such as ``x86/f32/nhwc``. A part that is omitted or ``any``
        defaults to this machine's CPU, the element type of the array, or row-major memory. The
        array is row-major if the layout does not apply to its rank.

    Returns
    -------
    PlacedArray
        The array at the place. ``np.asarray`` converts it back.

    Raises
    ------
    InputError
        If ``x`` is not an array.
    OptionError
        If the place is unknown, or cannot hold the array.

    Examples
    --------
    >>> x = tessella.array(np.zeros((1, 3, 8, 8), np.float32), place="x86/f32/nhwc")
    """
    value = cast(Any, x)
    given = _of_list(value) if type(value) in (list, tuple) else as_array(value)
    plain = None if given is None else as_own(given)
    element = None if plain is None else element_of(plain.dtype)
    if plain is None or element is None:
        raise InputError(
            "tessella.array requires an array",
            expected=f"elements of {', '.join(ELEMENTS)}",
            found=f"{value!r} of type {type(value).__name__}",
        )
    at = _resolved(parse_place(place), element, plain.ndim)
    memory = pack(converted(plain, DTYPES[at.precision.data]), at.layout)
    memory = memory.reshape(plain.shape) if memory.size == plain.size else memory
    return PlacedArray(_apart(memory, plain), plain.shape, at)


def _of_list(values: Sequence[Any]) -> Array | None:
    """Return nested lists as an array; None if their lengths differ."""
    try:
        return np.asarray(values)
    except ValueError:
        return None


def _apart(array: Array, other: Array) -> Array:
    """Return ``array``, or a copy of it if it shares memory with ``other``."""
    return array.copy() if np.may_share_memory(array, other) else array


def _resolved(asked: PlaceAttr, element: Element, rank: int) -> PlaceAttr:
    """Return the place at which an array with this element type and rank is stored if ``asked`` is
    requested. Raises OptionError."""
    own = targets.native().arch
    place = asked.resolved(PlaceAttr.get(own, element.name, NCHW))
    stored = ELEMENTS[place.precision.data]
    if place.device.data not in (own, "host"):
        raise _wrong(asked, f"the device {own} or host", place.device.data)
    if stored != element and not (stored.is_float and element.is_float):
        raise _wrong(asked, f"the precision {element.name} of the array", stored.name)
    layout = place.layout.for_rank(rank)
    if not layout.is_order(rank):
        raise _wrong(asked, "a layout that is a memory order", str(layout))
    if layout != NCHW and (place.device.data == "host" or not stored.is_native):
        raise _wrong(
            asked, f"row-major memory for {stored.name} on {place.device.data}", str(layout)
        )
    return PlaceAttr.get(place.device.data, stored.name, layout)


def _wrong(place: PlaceAttr, expected: str, found: str) -> OptionError:
    return OptionError(f"an array cannot be stored at {place}", expected=expected, found=found)


def promoted(floats: Sequence[str]) -> str:
    """Return the float among ``floats`` that represents all numbers of the others; f32 if none of
    them does."""
    wide = (f for f in floats if all(f == other or widens(other, f) for other in floats))
    return next(wide, "f32")
