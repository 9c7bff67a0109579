"""Python integers in traced functions that depend on arguments.

A program computes them in int64, and each call checks that Python and NumPy would compute the same
integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import BlockArgument, SSAValue

from tessella.support.errors import InputError
from tessella.support.sizes import Size, symbols_of, value_of

Array = npt.NDArray[Any]

LEAST, MOST = -(2**63), 2**63 - 1
"""The range of int64, in which programs compute Python integers."""

BITS = 64
"""The number of bits of int64. Powers with longer exponents overflow, except of -1, 0 and 1."""


def _power(base: int, exponent: int) -> Any:
    """Return a power. A large exponent is replaced by BITS or BITS + 1, of the same parity, which
    bounds the time: the power of any base other than -1, 0 and 1 is beyond int64 either way."""
    return base ** min(exponent, BITS + exponent % 2)


def _square(base: int) -> int:
    return base * base


def _quotient(a: int, b: int) -> int:
    return a // b


MEANINGS: Mapping[np.ufunc, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.floor_divide: _quotient,
    np.remainder: operator.mod,
    np.power: _power,
    np.square: _square,
    np.positive: operator.pos,
    np.negative: operator.neg,
    np.absolute: abs,
    np.invert: operator.invert,
}
"""The operation on Python integers for each ufunc that an operator of traced numbers becomes. Other
ufuncs return arrays, as in NumPy."""


@dataclass
class NumberStep:
    """A step of the check of a call: an integer that is an argument, or the result of an operator
    on integers of earlier steps."""

    compute: Callable[[Sequence[Array], Sequence[int]], Any]
    """A function that computes the integer from the arguments and the integers of earlier steps."""
    arguments: frozenset[int]
    """The positions of the arguments that determine the integer."""
    where: str | None = None
    """The source line of the operator; None for an argument."""
    low: int = LEAST
    high: int = MOST

    def check(self, number: float, names: Sequence[str]) -> None:
        """Raise InputError if ``number``, the result of this step, is not an integer from ``low``
        to ``high``, the range of the dtypes with which it is combined. ``names`` are the names
        of the arguments."""
        if type(number) is int and self.low <= number <= self.high:
            return
        shown = " and ".join(repr(names[i]) for i in sorted(self.arguments))
        what = (
            f"the argument {shown}" if self.where is None else f"a number that follows from {shown}"
        )
        raise InputError(
            f"{what} does not fit the integers that it is combined with",
            where=self.where,
            expected=f"a number in [{self.low}, {self.high}]",
            found=str(number),
            hint="pass an array, such as np.int64(..), whose type counts",
        )


class Numbers:
    """The Python integers of a trace that depend on arguments."""

    def __init__(self, shapes: Sequence[tuple[Size, ...]]) -> None:
        """Start a trace for arguments of these shapes."""
        self.steps: list[NumberStep] = []
        self._positions: dict[SSAValue, int] = {}
        self._dims = {
            symbol.name: (i, dim)
            for i, shape in enumerate(shapes)
            for dim, size in enumerate(shape)
            for symbol in symbols_of([size])
            if symbol.size == size
        }

    def note(
        self, ufunc: np.ufunc, operands: Sequence[SSAValue | Size], result: SSAValue, where: str
    ) -> None:
        """Record an operator on integers of the trace, sizes and Python integers, as a step."""
        meaning = MEANINGS[ufunc]
        parts = [self._part(x) for x in operands]
        if result in self._positions:  # the operator does not change the number
            return

        def compute(arrays: Sequence[Array], done: Sequence[int]) -> Any:
            return meaning(*(part.compute(arrays, done) for part in parts))

        arguments = frozenset[int]().union(*(part.arguments for part in parts))
        self._add(result, NumberStep(compute, arguments, where))

    def limit(self, number: SSAValue, dtype: np.dtype[Any]) -> None:
        """Let calls raise InputError, as NumPy does, if a number does not fit a dtype."""
        at = self._position_of(number)
        if at is not None:
            step, info = self.steps[at], np.iinfo(dtype)
            step.low, step.high = max(step.low, int(info.min)), min(step.high, int(info.max))

    def _part(self, operand: SSAValue | Size) -> NumberStep:
        """Return a step that computes an operand: an integer of an earlier step, or a size."""
        if isinstance(operand, SSAValue):
            at = self._position_of(operand)
            assert at is not None, "an integer that follows from no argument"
            return NumberStep(lambda _, done: done[at], self.steps[at].arguments)
        dims = {symbol.name: self._dims[symbol.name] for symbol in symbols_of([operand])}

        def compute(arrays: Sequence[Array], done: Sequence[int]) -> int:
            return value_of(operand, {name: arrays[i].shape[d] for name, (i, d) in dims.items()})

        return NumberStep(compute, frozenset(i for i, _ in dims.values()))

    def _position_of(self, number: SSAValue) -> int | None:
        if isinstance(number, BlockArgument) and number not in self._positions:
            index = number.index
            self._add(number, NumberStep(lambda arrays, _: int(arrays[index]), frozenset([index])))
        return self._positions.get(number)

    def _add(self, number: SSAValue, step: NumberStep) -> None:
        self._positions[number] = len(self.steps)
        self.steps.append(step)


def check(steps: Sequence[NumberStep], names: Sequence[str], arrays: Sequence[Array]) -> None:
    """Raise InputError if Python would compute another integer from the arguments than the program,
    or NumPy would refuse an integer."""
    done: list[int] = []
    for step in steps:
        try:
            number = step.compute(arrays, done)
        except ZeroDivisionError as error:
            raise InputError(
                "a Python integer is divided by zero", where=step.where, found=str(error)
            ) from None
        step.check(number, names)
        done.append(number)
