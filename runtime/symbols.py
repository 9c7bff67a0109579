"""The values from which a program reads its symbols: inputs, and results of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tessella.support.errors import ExecutionError, InputError
from tessella.support.sizes import Size, Symbol, value_of

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


@dataclass(frozen=True)
class DefinedSymbol:
    """A symbol that a step defines: a dimension of one of its results that is known only after the
    step has run."""

    symbol: Symbol
    value: int
    """The number of the result among the values of the program."""
    axis: int
    most: Size
    """The upper bound, which may depend on symbols that are known before the step runs."""

    def limit(self, known: Mapping[str, int]) -> int:
        """Return the upper bound for values of the symbols that are known before the step runs."""
        return min(self.symbol.high, value_of(self.most, known))

    def of(self, values: Sequence[Any], limit: int) -> int:
        """Return the symbol's value after the step has run.

        Raises ExecutionError for a value out of bounds, for which the program was not compiled.
        """
        size, symbol = values[self.value].shape[self.axis], self.symbol
        if symbol.low <= size <= limit:
            return size
        raise ExecutionError(
            f"the size {symbol} is out of its bounds",
            expected=f"from {symbol.low} to {limit}",
            found=str(size),
        )


@dataclass(frozen=True)
class GivenSymbol:
    """A symbol of the body of a loop, whose value the loop passes to each iteration."""

    symbol: Symbol


SymbolSource = Dimension | ElementSymbol | DefinedSymbol | GivenSymbol
"""Where a program reads the value of a symbol."""
