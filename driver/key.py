"""The key of a program in a model's table: what it is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy.typing as npt

from tessella.driver.by_value import Sizes, Value
from tessella.runtime.model import Shapes
from tessella.runtime.signature import ValueInfo
from tessella.support.sizes import Size

Array = npt.NDArray[Any]

ProgramShapes = tuple[tuple[Size, ...], ...]
"""The shapes of a program's inputs, in order: sizes of a call, or symbolic ones."""
Asked = Shapes | tuple[Shapes, tuple[bytes, ...]]
"""The shapes of a call, with the bytes of the inputs that matter by value if there are such."""


class Key(NamedTuple):
    """What a program is made for."""

    made: ProgramShapes
    """The shapes of inputs; elements that are sizes come after them."""
    values: tuple[Value, ...] = ()
    """Of the inputs whose values shapes depend on. The program does not take these inputs."""
    sizes: tuple[Sizes, ...] = ()
    """Of inputs whose elements are sizes that are open."""

    def shapes(self, inputs: Sequence[ValueInfo]) -> ProgramShapes:
        """Those of the inputs, without elements."""
        return shapes_in(inputs, self.made)

    @property
    def known(self) -> Mapping[str, Array]:
        """The values by name."""
        return {value.name: value.array for value in (*self.values, *self.sizes)}


S = TypeVar("S", int, Size)


def shapes_in(
    inputs: Sequence[ValueInfo], made: tuple[tuple[S, ...], ...]
) -> tuple[tuple[S, ...], ...]:
    """The shapes of the inputs, of which some have their elements after them."""
    pairs = zip(inputs, made, strict=True)
    return tuple(sizes[: len(info.shape)] for info, sizes in pairs)
