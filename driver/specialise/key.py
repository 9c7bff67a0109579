"""The key of a program in a model's table: what it was compiled for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy.typing as npt

from tessella.driver.specialise.by_value import InputValue, Sizes
from tessella.runtime.model import Shapes
from tessella.runtime.signature import ValueInfo
from tessella.support.sizes import Size

Array = npt.NDArray[Any]

ProgramShapes = tuple[tuple[Size, ...], ...]
"""The shapes of a program's inputs, in order, with concrete or symbolic sizes."""
Asked = Shapes | tuple[Shapes, tuple[bytes, ...]]
"""The shapes of a call, with the bytes of shape-determining inputs if there are any."""


class Key(NamedTuple):
    """The shapes and values that a program was compiled for."""

    made: ProgramShapes
    """The shape of each input; the shape of a shape-valued input is followed by its elements."""
    values: tuple[InputValue, ...] = ()
    """Values of shape-determining inputs, which the program does not take."""
    sizes: tuple[Sizes, ...] = ()
    """Elements of shape-valued inputs that are symbolic."""

    def shapes(self, inputs: Sequence[ValueInfo]) -> ProgramShapes:
        """Return the shapes of the inputs, without the elements of shape-valued inputs."""
        return shapes_in(inputs, self.made)

    @property
    def known(self) -> Mapping[str, Array]:
        """The known values of inputs, by name: numbers, or symbols among the elements of
        shape-valued inputs."""
        return {value.name: value.array for value in (*self.values, *self.sizes)}


S = TypeVar("S", int, Size)


def shapes_in(
    inputs: Sequence[ValueInfo], made: tuple[tuple[S, ...], ...]
) -> tuple[tuple[S, ...], ...]:
    """Return the shapes of the inputs, given ``made``, in which the shape of a shape-valued input
    is followed by its elements."""
    pairs = zip(inputs, made, strict=True)
    return tuple(sizes[: len(info.shape)] for info, sizes in pairs)
