"""Shape-determining inputs: a program is specialised on their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import ResourceError, UnknownValueError
from tessella.support.sizes import Size

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Source

Array = npt.NDArray[Any]

MAX_ELEMENTS = 4096
"""The most elements of an input that programs are specialised on."""

_SHOWN = 8
"""Elements of a value that an error shows."""


@dataclass(frozen=True)
class InputValue:
    """The value of an input. Equal values have equal bytes."""

    index: int
    """The input's index."""
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: bytes

    @property
    def array(self) -> Array:
        """Return the value as an array, which must not be modified."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape)

    def __str__(self) -> str:
        count = prod(self.shape)
        if dtype_name(self.dtype) == "bfloat16" or count > _SHOWN:
            return f"{self.name} of {dtype_name(self.dtype)}{list(self.shape)}"
        return f"{self.name} = {self.array.tolist()}"


@dataclass(frozen=True)
class Sizes:
    """The elements of a shape-valued input, some of them symbols."""

    index: int
    """The input's index."""
    name: str
    shape: tuple[int, ...]
    elements: tuple[Size, ...]

    @property
    def array(self) -> Array:
        """Return the value as an array of objects."""
        array = np.empty(len(self.elements), object)
        array[:] = self.elements
        return array.reshape(self.shape)

    def __str__(self) -> str:
        return f"{self.name} = {self.array.tolist()}"


class ByValue:
    """The shape-determining inputs of a model: those that compilations have asked for so far."""

    def __init__(self, inputs: Sequence[ValueInfo], indices: tuple[int, ...] = ()) -> None:
        self._inputs = inputs
        self.indices = indices

    def known(self, arrays: Sequence[Array | None]) -> Mapping[int, Array]:
        """Return the values to specialise on; None among ``arrays`` is an unknown value.

        Raises UnknownValueError if a needed value is unknown.
        """
        missing = [self._inputs[i].name for i in self.indices if arrays[i] is None]
        if missing:
            raise UnknownValueError("a value on which shapes depend", missing)
        return {i: array for i in self.indices if (array := arrays[i]) is not None}

    def values(self, arrays: Mapping[int, Array]) -> tuple[InputValue, ...]:
        """Encode the values of arrays. Raises ResourceError for one that is too large."""
        return tuple(_value(i, self._inputs[i].name, array) for i, array in arrays.items())

    def learn(self, error: UnknownValueError) -> None:
        """Add the inputs that an error asks for.

        Raises the error if it asks for no new input, or for computed data, and ResourceError for an
        input that is always too large.
        """
        if error.is_computed:
            raise error
        asked = [i for i, info in enumerate(self._inputs) if info.name in error.names]
        found = tuple(sorted({*self.indices, *asked}))
        if found == self.indices:
            raise error
        for info in (self._inputs[i] for i in asked):
            sizes = [size for size in info.shape if isinstance(size, int)]
            if len(sizes) == len(info.shape):
                _check_size(info.name, sizes)
        self.indices = found


def specialised(source: Source, feeds: Mapping[str, Any]) -> tuple[Graph, Mapping[str, Array]]:
    """Return the program of a source for these inputs, and the inputs that it takes. Raises
    TessellaError."""
    shapes = {i.name: feeds[i.name].shape if i.is_tensor else () for i in source.inputs}
    tensors = {info.name for info in source.inputs if info.is_tensor}
    by_value = ByValue(source.inputs)
    while True:
        known = by_value.known([feeds[i.name] for i in source.inputs])
        values = {value.name: value.array for value in by_value.values(known)}
        try:
            graph = source.graph(shapes, values)
        except UnknownValueError as error:
            by_value.learn(error)
        else:
            return graph, {
                name: array
                for name, array in feeds.items()
                if name in tensors and name not in values
            }


def _value(index: int, name: str, array: Array) -> InputValue:
    _check_size(name, array.shape)
    return InputValue(index, name, array.dtype, array.shape, array.tobytes())


def _check_size(name: str, shape: Sequence[int]) -> None:
    if prod(shape) > MAX_ELEMENTS:
        raise ResourceError(
            "an input is too large to compile a program for its value, on which shapes depend",
            where=f"input {name!r}",
            expected=f"at most {MAX_ELEMENTS} elements",
            found=str(prod(shape)),
            hint=f"if it never changes: tessella.compile(..., constants={{{name!r}: ...}})",
        )
