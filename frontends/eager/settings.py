"""The settings of an op: its properties, as Python values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, formatannotation
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import OptPropertyDef, PropertyDef

from tessella.dialects.nn.core import (
    ByRank,
    NnOp,
    PyValue,
    element_type,
    normalise_axis,
    to_attribute,
)
from tessella.runtime.elements import as_own, dtype_name, dtype_named
from tessella.support.errors import InternalError, OptionError, ShapeError
from tessella.support.names import did_you_mean

_AXES = ("axis", "axes")
"""Names of settings that select dimensions of the first operand; negative values count from the
back."""


def _bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


def _int(value: Any) -> int:
    return int(operator.index(value))


def _float(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError
    return float(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(map(_int, value)) if np.iterable(value) else (_int(value),)


def _floats(value: Any) -> tuple[float, ...]:
    return tuple(map(_float, value)) if np.iterable(value) else (_float(value),)


def _dtype(value: Any) -> str:
    dtype = np.dtype(value)
    element_type(dtype)  # raises for other dtypes, whose names are ambiguous
    return dtype_name(as_own(np.empty(0, dtype)).dtype)


def _element_type(name: str) -> Attribute:
    return element_type(dtype_named(name))


@dataclass(frozen=True)
class SettingKind:
    """A kind of setting: the Python type that users pass, and the attribute that stores it as a
    property."""

    type: Any
    sample: Attribute
    convert: Callable[[Any], Any]
    """A function that converts a user's value to one whose text is unambiguous. Raises TypeError,
    ValueError or OverflowError."""
    attribute: Callable[[Any], Attribute] = to_attribute


_KINDS = (
    SettingKind(bool, BoolAttr.from_bool(True), _bool),
    SettingKind(int, IntegerAttr(0, i64), _int),
    SettingKind(float, FloatAttr(0.0, f64), _float),
    SettingKind(tuple[float, ...], DenseArrayBase.from_list(f64, []), _floats),
    SettingKind(tuple[int, ...], DenseArrayBase.from_list(i64, []), _ints),
    SettingKind(str, StringAttr(""), _str),
    SettingKind(np.dtype, f32, _dtype, _element_type),
)
"""The kinds of settings. A property has the first kind whose sample attribute satisfies the
property's constraint."""


def _kind(op: type[NnOp], name: str, definition: PropertyDef) -> SettingKind:
    for kind in _KINDS:
        if definition.constr.verifies(kind.sample):
            return kind
    raise InternalError(f"{op.name}: no Python type for the property {name}")


class OpSettings:
    """The settings of an op, from the property definitions of its class."""

    def __init__(self, op: type[NnOp]) -> None:
        self._op = op
        self._kinds = {n: _kind(op, n, p) for n, p in op.setting_defs().items()}
        self._defaults = {
            **{n: None for n, p in op.setting_defs().items() if isinstance(p, OptPropertyDef)},
            **op.DEFAULTS,
        }

    def parameters(self) -> list[Parameter]:
        """Return the settings as keyword parameters of the op's Python signature."""
        return [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=self._defaults.get(name, Parameter.empty),
                annotation=kind.type
                if self._defaults.get(name, 0) is not None
                else kind.type | None,
            )
            for name, kind in self._kinds.items()
        ]

    def convert(self, given: Mapping[str, Any]) -> dict[str, PyValue]:
        """Convert the given settings to values with unambiguous text; None is dropped. Raises
        OptionError."""
        values = {
            name: self._converted(name, given[name])
            for name in self._kinds
            if given.get(name) is not None
        }
        if len(values) < len(given):
            self._check_names(given)
        return values

    def properties(self, values: Mapping[str, PyValue], rank: int) -> dict[str, Attribute]:
        """Return all properties of the op, for a first operand of this rank.

        Raises OptionError for a missing setting, and ShapeError for an axis out of range.
        """
        defaults = {
            name: value.of(rank) if isinstance(value, ByRank) else value
            for name, value in self._op.DEFAULTS.items()
        }
        every = {**defaults, **values}
        missing = [name for name in self._kinds if name not in {*every, *self._defaults}]
        if missing:
            raise OptionError(
                f"{self._op.name} needs the setting {', '.join(map(repr, missing))}",
                hint=f"pass {', '.join(f'{n}=...' for n in missing)}",
            )
        every |= {name: _from_front(every[name], rank) for name in _AXES if name in every}
        return {
            name: kind.attribute(every[name]) for name, kind in self._kinds.items() if name in every
        }

    def _converted(self, name: str, value: Any) -> PyValue:
        kind = self._kinds[name]
        try:
            return kind.convert(value)
        except (TypeError, ValueError, OverflowError):
            raise OptionError(
                f"{self._op.name}: the setting {name!r} has the wrong type",
                expected=formatannotation(kind.type),
                found=f"{value!r} of type {type(value).__name__}",
            ) from None
        except ShapeError as error:
            raise OptionError(
                f"{self._op.name}: the setting {name!r}: {error.what}",
                expected=error.expected,
                found=repr(value),
            ) from None

    def _check_names(self, given: Mapping[str, Any]) -> None:
        for name in given.keys() - self._kinds.keys():
            raise OptionError(
                f"{self._op.name} has no setting {name!r}",
                expected=", ".join(self._kinds) or "no settings",
                hint=did_you_mean(name, self._kinds),
            )


def _from_front(value: Any, rank: int) -> PyValue:
    """Convert an axis, or a sequence of axes, to nonnegative numbers."""
    if isinstance(value, tuple):
        return tuple(normalise_axis(axis, rank) for axis in cast("tuple[int, ...]", value))
    return normalise_axis(value, rank)
