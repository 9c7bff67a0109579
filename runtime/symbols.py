"""The inputs from which a program reads the values of its symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tessella.support.errors import InputError
from tessella.support.sizes import Symbol

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Dimension:
    """A symbol whose value is a dimension of an input."""

    symbol: Symbol
    input: int
    axis: int

    def of(self, arrays: Sequence[Array]) -> int:
        """Return the symbol's value for these inputs."""
        return arrays[self.input].shape[self.axis]


@dataclass(frozen=True)
class ElementSymbol:
    """A symbol whose value is an element of an input."""

    symbol: Symbol
    input: int
    index: int
    """The index of the element in row-major order."""

    def of(self, arrays: Sequence[Array]) -> int:
        """Return the symbol's value for these inputs.

        Raises InputError for a value out of the symbol's range, for which the program was not
        selected.
        """
        value, symbol = int(arrays[self.input].item(self.index)), self.symbol
        if symbol.low <= value <= symbol.high:
            return value
        raise InputError(
            f"the size {symbol} changed during the call",
            expected=f"from {symbol.low} to {symbol.high}",
            found=str(value),
            hint="no thread may write to an input until the call returns",
        )
