"""The operands of an op: arrays and numbers, by position or by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from xdsl.irdl import OptOperandDef, VarOperandDef

from tessella import targets
from tessella.dialects.layout import ANY_LAYOUT, NCHW
from tessella.dialects.nn.core import NnOp, Tensor, element_type, tensor
from tessella.dialects.place import PlaceAttr, known_devices, precision_of
from tessella.frontends.arrays import as_array
from tessella.frontends.eager.placed import PlacedArray, promoted
from tessella.runtime.devices import kind_of
from tessella.runtime.elements import DTYPES, element_of
from tessella.support.errors import InputError, ShapeError
from tessella.support.sizes import Size

Array = npt.NDArray[Any]
DType = np.dtype[Any]
T = TypeVar("T")
Number = bool | int | float | complex
Operand = Array | PlacedArray | Number
ARRAYS = (np.ndarray, PlacedArray)
"""The classes of operands that are arrays."""

_NUMBERS: dict[Any, DType] = {
    bool: np.dtype(np.bool), int: np.dtype(np.int64), float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
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
                if isinstance(value, PlacedArray):
                    key.append((value.ndim, value.at))
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


def _readings(values: Sequence[Operand]) -> Iterator[tuple[DType, ...]]:
    """Yield combinations of dtypes for the operands, the most likely combination first.

    A Python number takes the dtype of an array among the operands if NumPy's promotion of the two
    keeps that dtype; its last candidate is the dtype that NumPy gives the number alone. If an
    operand is at a place, floats may be promoted to the widest one.
    """
    arrays = dict.fromkeys(_stored_dtype(x) for x in values if isinstance(x, ARRAYS))
    widest = _widest(arrays) if any(isinstance(x, PlacedArray) for x in values) else None
    each = [
        _of_array(_stored_dtype(x), widest)
        if isinstance(x, ARRAYS)
        else _of_number(type(x), [*arrays])
        for x in values
    ]
    return itertools.islice(itertools.product(*each), _MOST_READINGS)


def fitting(operands: Sequence[Operand], attempt: Callable[[tuple[DType, ...]], T]) -> T:
    """Return the result of an attempt with the first combination of dtypes for which it succeeds.

    Raises the ShapeError of the first combination if all attempts fail.
    """
    failed: ShapeError | None = None
    for dtypes in _readings(operands):
        try:
            return attempt(dtypes)
        except ShapeError as error:
            failed = failed or error
    assert failed is not None
    raise failed


def _stored_dtype(array: Array | PlacedArray) -> DType:
    """Return the dtype of an array in this machine's byte order."""
    return _native(array.dtype)


def taken(operands: Sequence[Operand], dtypes: Sequence[DType]) -> list[DType]:
    """Return the dtypes that a program's inputs have if the op reads its operands as ``dtypes``.
    The program itself promotes the arrays."""
    columns = zip(operands, dtypes, strict=True)
    return [_stored_dtype(x) if isinstance(x, ARRAYS) else dtype for x, dtype in columns]


def places_of(operands: Sequence[Operand], dtypes: Sequence[DType]) -> list[PlaceAttr]:
    """Return the places of the operands if a program takes them as ``dtypes``; empty if all are
    row-major.

    Plain arrays and numbers are row-major on the CPU.
    """
    if place_of_op(operands) is None:
        return []
    own = targets.native().arch
    return [
        x.at
        if isinstance(x, PlacedArray)
        else PlaceAttr.get(own, precision_of(element_type(dtype)), NCHW)
        for x, dtype in zip(operands, dtypes, strict=True)
    ]


def place_of_op(operands: Sequence[Operand]) -> PlaceAttr | None:
    """Return the place at which an op runs, which follows from the places of its operands; None if
    no operand is at a place.

    The place has the device with the highest priority, the first layout that is not row-major, and
    the precision in which the op reads its operands.
    """
    places = [x.at for x in operands if isinstance(x, PlacedArray)]
    if not places:
        return None
    known = known_devices()
    device = max(
        (place.device.data for place in places), key=lambda name: known.index(kind_of(name))
    )
    layouts = (place.layout for place in places if place.layout != NCHW)
    return PlaceAttr.get(device, "any", next(layouts, NCHW))


def place_of_results(operands: Sequence[Operand]) -> PlaceAttr | None:
    """Return the place of an op's results, whose precision and layout are those of the kernel
    (`any`); None if no operand is at a place."""
    place = place_of_op(operands)
    return None if place is None else PlaceAttr.get(place.device.data, "any", ANY_LAYOUT)


def _widest(arrays: Iterable[DType]) -> DType | None:
    """Return the dtype that represents the floats of all arrays; None if there are no floats."""
    found = (element_of(dtype) for dtype in arrays)
    floats = [element.name for element in found if element is not None and element.is_float]
    return DTYPES[promoted(floats)] if floats else None


def _of_array(dtype: DType, widest: DType | None) -> tuple[DType, ...]:
    element = element_of(dtype)
    if widest is None or element is None or not element.is_float:
        return (dtype,)
    return tuple(dict.fromkeys([dtype, widest]))


def _of_number(kind: type[Number], arrays: Sequence[DType]) -> tuple[DType, ...]:
    kept = [dtype for dtype in arrays if _keeps(dtype, kind)]
    return tuple(dict.fromkeys([*kept, _NUMBERS[kind]]))


def _keeps(dtype: DType, kind: type[Number]) -> bool:
    """Return whether an array keeps its dtype beside a number: floats do beside real numbers, and
    others as in NumPy."""
    element = element_of(dtype)
    if element is not None and (element.is_float or element.is_tagged):
        return element.is_float and kind is not complex
    return np.result_type(dtype, kind(0)) == dtype


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
