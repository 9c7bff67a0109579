"""The operands of an op: arrays and numbers, by position or by name."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.irdl import OptOperandDef, VarOperandDef

from tessella.dialects.nn.core import NnOp, Tensor, element_type, tensor
from tessella.frontends.arrays import as_array
from tessella.support.errors import InputError, ShapeError
from tessella.support.sizes import Size

Array = npt.NDArray[Any]
DType = np.dtype[Any]
Operand = Array | bool | int | float

_NUMBERS: dict[Any, DType] = {
    bool: np.dtype(np.bool), int: np.dtype(np.int64), float: np.dtype(np.float64),
}  # fmt: skip
"""The dtypes of Python numbers by their type, as NumPy has them. An operation on Python numbers
alone uses these."""
_MOST_READINGS = 64
"""The maximum number of combinations of operand dtypes that are tried."""


class Operands:
    """The operands that an op takes, from the definition of its class."""

    def __init__(self, op: type[NnOp]) -> None:
        definition = op.get_irdl_definition().operands
        self._op = op
        self._kinds = {
            name: Parameter.VAR_POSITIONAL
            if isinstance(kind, VarOperandDef) and not isinstance(kind, OptOperandDef)
            else Parameter.POSITIONAL_OR_KEYWORD
            for name, kind in definition
        }
        self._optional = {name for name, kind in definition if isinstance(kind, OptOperandDef)}
        self._variadic = Parameter.VAR_POSITIONAL in self._kinds.values()
        self.names: frozenset[str] = frozenset(() if self._variadic else self._kinds)
        """The names of operands that may be passed by name."""

    def parameters(self) -> list[Parameter]:
        """Return the operands as parameters of the op's Python signature."""
        return [
            Parameter(name, kind, default=None if name in self._optional else Parameter.empty)
            for name, kind in self._kinds.items()
        ]

    def bind(self, values: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """Return all operands by position; None for an absent one. Raises InputError."""
        rest = list(self._kinds)[len(values) :]
        twice = named.keys() - set(rest)
        if twice:
            raise InputError(f"{self._op.name}: {', '.join(sorted(twice))} is given twice")
        return [*values, *(named.get(name) for name in rest)]

    def check(self, values: Sequence[Any]) -> None:
        """Raise InputError unless the number of operands is one that the op accepts."""
        if self._variadic:
            return
        given = [*values, *[None] * (len(self._kinds) - len(values))]
        pairs = zip(self._kinds, given, strict=False)
        missing = [n for n, value in pairs if value is None and n not in self._optional]
        if missing or len(values) > len(self._kinds):
            raise InputError(
                f"{self._op.name} takes other operands"
                + (f": {', '.join(missing)} is missing" if missing else ""),
                expected=", ".join(f"[{n}]" if n in self._optional else n for n in self._kinds),
                found=f"{sum(value is not None for value in values)} operands",
            )

    def read(self, values: Sequence[Any]) -> tuple[list[Operand], list[Hashable]]:
        """Return the operands that are not None as contiguous arrays and numbers, and the types of
        all operands, by which programs are cached.

        Raises InputError for an operand that is not an array or a number.
        """
        operands: list[Operand] = []
        key: list[Hashable] = []
        for value in values:
            array = value
            if type(array) is not np.ndarray:
                if value is None or type(value) in _NUMBERS:
                    key.append(cast(Hashable, type(value)))
                    if value is not None:
                        operands.append(value)
                    continue
                array = self._array(value, len(key))
            if not array.flags.carray:
                array = np.require(array, requirements=["C", "A"])
            key.append((array.ndim, array.dtype))
            operands.append(array)
        return operands, key

    def _array(self, value: Any, number: int) -> Array:
        array = as_array(value)
        if array is None:
            names = list(self._kinds)
            name = names[number] if number < len(names) else f"{names[-1]}[{number}]"
            raise InputError(
                f"{self._op.name}: the operand {name!r} is not an array",
                expected="an array or a number",
                found=f"{value!r} of type {type(value).__name__}",
                hint="convert it with np.asarray(..., dtype)",
            )
        return array


def readings(values: Sequence[Operand]) -> Iterator[tuple[DType, ...]]:
    """Yield combinations of dtypes for the operands, the most likely combination first.

    A Python number takes the dtype of an array among the operands if NumPy's promotion of the two
    keeps that dtype; its last candidate is the dtype that NumPy gives the number alone.
    """
    arrays = dict.fromkeys(_native(x.dtype) for x in values if isinstance(x, np.ndarray))
    each = [
        (_native(x.dtype),) if isinstance(x, np.ndarray) else _of_number(type(x), list(arrays))
        for x in values
    ]
    return itertools.islice(itertools.product(*each), _MOST_READINGS)


def _of_number(kind: type[bool | int | float], arrays: Sequence[DType]) -> tuple[DType, ...]:
    kept = [dtype for dtype in arrays if np.result_type(dtype, kind(0)) == dtype]
    return tuple(dict.fromkeys([*kept, _NUMBERS[kind]]))


def _native(dtype: DType) -> DType:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def convert(op: type[NnOp], value: Operand, dtype: DType) -> Array:
    """Convert a number, or an array in another byte order, to a dtype. Raises InputError."""
    try:
        return np.asarray(value, dtype)
    except OverflowError as error:
        raise InputError(f"{op.name}: {error}", found=str(value)) from None


def tensor_type_of(op: type[NnOp], shape: tuple[Size, ...], dtype: DType) -> Tensor:
    """Return the type of an operand. Raises InputError for an unsupported dtype."""
    try:
        return tensor(element_type(dtype), shape)
    except ShapeError as error:
        raise InputError(
            f"{op.name}: {error.what}",
            expected=error.expected,
            found=dtype.name,
            hint="convert it with x.astype(...)",
        ) from None
