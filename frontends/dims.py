"""Names of the dimensions of arguments, and the bounds of those that users name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, cast

from tessella.driver.specialise.open_sizes import Bounds, Openness, check_dims
from tessella.runtime.signature import Dimensions, ValueInfo
from tessella.support.errors import InputError, OptionError

DimNames = Mapping[str, Mapping[int, str]]
"""Names of dynamic dimensions, by argument and dimension."""


class ArgumentDims:
    """The names of the dimensions of a function's arguments, and which sizes are symbolic."""

    def __init__(self, dims: object, names: object, parameters: Collection[str]) -> None:
        """Check the options ``dims``, sizes or bounds by name, and ``dim_names``, names by
        argument. Raises OptionError."""
        openness = check_dims(dims)
        self._is_fixed = openness == "fixed"
        self._bounds: Mapping[str, Bounds] = {} if isinstance(openness, str) else openness
        self._named = _named({} if names is None else names, parameters)
        _check_used(self._bounds, self._named, is_fixed=self._is_fixed)

    def of(self, names: Sequence[str], ranks: Sequence[int]) -> tuple[Dimensions, ...]:
        """Return the names of all dimensions of a call's arguments: those of ``dim_names``, and
        names that tell where dimensions are. Raises InputError for an argument of lower rank."""
        for name, rank in zip(names, ranks, strict=True):
            for axis in self._named.get(name, ()):
                _check_axis(name, axis, rank)
        return tuple(
            tuple(self._named.get(name, {}).get(axis, f"{name}:{axis}") for axis in range(rank))
            for name, rank in zip(names, ranks, strict=True)
        )

    def openness(self, inputs: Sequence[ValueInfo]) -> Openness:
        """Return the bounds of the dimensions of ``inputs``, or that all sizes are fixed."""
        names = {name for info in inputs for name in info.shape}
        bounds = {name: each for name, each in self._bounds.items() if name in names}
        return "fixed" if self._is_fixed else bounds

    def unnamed(self, inputs: Sequence[ValueInfo]) -> Set[str]:
        """Return those dimensions of ``inputs`` that ``dim_names`` does not name."""
        named = {dim for axes in self._named.values() for dim in axes.values()}
        return {dim for info in inputs for dim in info.shape if isinstance(dim, str)} - named


def _check_axis(name: str, axis: int, rank: int) -> None:
    if axis >= rank:
        raise InputError(
            f"the argument {name!r} has too few dimensions",
            expected=f"{axis + 1} at least, as `dim_names` names one",
            found=str(rank),
        )


def _named(dims: object, parameters: Collection[str]) -> Mapping[str, Mapping[int, str]]:
    """Return the option ``dim_names``: names of dimensions by argument and axis. Raises OptionError
    if it is invalid."""
    given = _mapping(dims)
    for name, axes in given.items():
        if not isinstance(name, str) or name.partition("[")[0] not in parameters:
            raise OptionError(
                f"dim_names: unknown parameter {name!r}",
                expected=f"some of {', '.join(parameters)}",
            )
        for axis, dim in _mapping(axes).items():
            if type(axis) is not int or axis < 0 or not isinstance(dim, str):
                raise _wrong(dims)
    return given


def _check_used(
    bounds: Mapping[str, Bounds], named: Mapping[str, Mapping[int, str]], *, is_fixed: bool
) -> None:
    """Raise OptionError for bounds of a dimension that ``dim_names`` does not name, and for names
    that ``dims='fixed'`` makes useless."""
    names = {dim for axes in named.values() for dim in axes.values()}
    if unknown := [name for name in bounds if name not in names]:
        raise OptionError(
            f"the function has no dimension {', '.join(map(repr, unknown))}",
            expected=f"some of {', '.join(map(repr, sorted(names))) or 'none'}",
            hint="dim_names={'x': {0: 'n'}} names dimension 0 of x",
        )
    if is_fixed and names:
        raise OptionError(
            "with dims='fixed', no dimension is symbolic",
            found=f"dim_names for {', '.join(sorted(names))}",
            hint="leave one of them out",
        )


def _mapping(found: object) -> Mapping[Any, Any]:
    if not isinstance(found, Mapping):
        raise _wrong(found)
    return cast("Mapping[Any, Any]", found)


def _wrong(found: object) -> OptionError:
    return OptionError(
        "the option 'dim_names' is wrong",
        expected="names of dimensions by argument, such as {'x': {0: 'n'}}",
        found=repr(found),
    )
