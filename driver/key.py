"""The key of a program in a model's table: what it is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from tessella.driver.by_value import Sizes, Value
from tessella.runtime.model import Shapes
from tessella.runtime.signature import ValueInfo

Array = npt.NDArray[Any]


class Key(NamedTuple):
    """What a program is made for."""

    made: Shapes
    """The shapes of inputs; elements that are sizes come after them."""
    values: tuple[Value, ...] = ()
    """Of the inputs whose values shapes depend on. The program does not take these inputs."""
    sizes: tuple[Sizes, ...] = ()
    """Of inputs whose elements are sizes that are open."""

    def shapes(self, inputs: Sequence[ValueInfo]) -> Shapes:
        """Those of the inputs, without elements."""
        return shapes_in(inputs, self.made)

    @property
    def known(self) -> Mapping[str, Array]:
        """The values by name."""
        return {value.name: value.array for value in (*self.values, *self.sizes)}


def shapes_in(inputs: Sequence[ValueInfo], made: Shapes) -> Shapes:
    """The shapes of the inputs, of which some have their elements after them."""
    pairs = zip(inputs, made, strict=True)
    return tuple(sizes[: len(info.shape)] for info, sizes in pairs)
