"""Shape-determining inputs: a program is specialised on their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import bytes_of, dtype_name, of_bytes
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import ResourceError
from tessella.support.sizes import Size

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Source

Array = npt.NDArray[Any]

MAX_ELEMENTS = 4096
"""The most elements of an input that programs are specialised on."""

_SHOWN = 8
"""The most elements of a value that a text shows. A larger value is shown as its type and shape."""


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
        return of_bytes(np.frombuffer(self.data, np.uint8), self.shape, self.dtype)

    def __str__(self) -> str:
        count = prod(self.shape)
        if self.dtype.names is not None or count > _SHOWN:
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
        """The elements as an array of objects, in the shape of the input."""
        array = np.empty(len(self.elements), object)
        array[:] = self.elements
        return array.reshape(self.shape)

    def __str__(self) -> str:
        return f"{self.name} = {self.array.tolist()}"


def values_of(inputs: Sequence[ValueInfo], arrays: Mapping[int, Array]) -> tuple[InputValue, ...]:
    """Return the InputValue of each array; ``arrays`` maps indices of inputs to arrays. Raises
    ResourceError for an array with more than ``MAX_ELEMENTS`` elements."""
    return tuple(_value(i, inputs[i].name, array) for i, array in arrays.items())


def specialised(source: Source, feeds: Mapping[str, Any]) -> tuple[Graph, Mapping[str, Array]]:
    """Return the program of a source for the inputs ``feeds``, specialised on those values that
    shapes depend on, and the remaining tensors of ``feeds``, which are the program's inputs. Raises
    TessellaError if the source has no program for these inputs."""
    shapes = {i.name: feeds[i.name].shape if i.is_tensor else () for i in source.inputs}
    tensors = {info.name for info in source.inputs if info.is_tensor}
    values = {name: feeds[name] for name in source.determining}
    taken = {name: x for name, x in feeds.items() if name in tensors - values.keys()}
    return source.graph(shapes, values), taken


def _value(index: int, name: str, array: Array) -> InputValue:
    _check_size(name, array.shape)
    return InputValue(index, name, array.dtype, array.shape, bytes_of(array).tobytes())


def _check_size(name: str, shape: Sequence[int]) -> None:
    if prod(shape) > MAX_ELEMENTS:
        raise ResourceError(
            "an input is too large to compile a program for its value, on which shapes depend",
            where=f"input {name!r}",
            expected=f"at most {MAX_ELEMENTS} elements",
            found=str(prod(shape)),
            hint=f"if it never changes: tessella.compile(..., constants={{{name!r}: ...}})",
        )
