"""Dimensions of arguments that are symbolic in programs, by given names or because their sizes
vary."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, cast

from tessella.driver.specialise.open_sizes import Bounds, check_dims
from tessella.driver.specialise.seen import Seen
from tessella.frontends.trace.arguments import Shapes
from tessella.runtime.signature import Dimensions
from tessella.support.errors import InputError, OptionError
from tessella.support.tables import remembered

DimNames = Mapping[str, Mapping[int, str]]
"""Names of dynamic dimensions, by argument and dimension."""

_MOST = 64
"""The maximum number of kinds of calls whose shapes are recorded."""


class _Kind:
    """The generalised shapes of all calls of one kind, which differ only in sizes.

    The first generalisation that matches a call serves it. A call of other shapes therefore does
    not take programs away from later calls.
    """

    def __init__(self) -> None:
        self._seen = Seen()
        self._said: list[tuple[Dimensions, ...]] = []
        """The generalised shapes so far, each more general than those before it."""

    def dims(self, names: Sequence[str], shapes: Shapes) -> tuple[Dimensions, ...]:
        """Record a call, and return the dimensions of its program: numbers, or names of sizes that
        vary."""
        seen = self._seen.shapes(dict(zip(names, shapes, strict=True)))
        latest = tuple(seen[name] for name in names)
        if latest not in self._said:
            self._said.append(latest)
        return next((said for said in self._said if _are_true(said, shapes)), latest)


def _are_true(dims: Sequence[Dimensions], shapes: Shapes) -> bool:
    """Return whether shapes match dimensions: numbers are equal, and each name has one size."""
    sizes: dict[str, int] = {}
    said = (dim for each in dims for dim in each)
    found = (size for shape in shapes for size in shape)
    return all(
        (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) == size
        for dim, size in zip(said, found, strict=True)
    )


class ArgumentDims:
    """The rules for the dimensions of a function's arguments: numbers, or names of dimensions that
    are symbolic."""

    def __init__(self, dims: object, names: object, parameters: Collection[str]) -> None:
        """Check the options ``dims``, sizes or bounds by name, and ``dim_names``, names by
        argument. Raises OptionError."""
        openness = check_dims(dims)
        self._is_fixed = openness == "fixed"
        self._bounds: Mapping[str, Bounds] = {} if isinstance(openness, str) else openness
        self._named = _named({} if names is None else names, parameters)
        self._kinds: dict[Hashable, _Kind] = {}
        _check_used(self._bounds, self._named, is_fixed=self._is_fixed)

    def bounds_in(self, shapes: Sequence[Dimensions]) -> Mapping[str, Bounds]:
        """Return the bounds of the dimensions whose names occur in these shapes."""
        names = {dim for shape in shapes for dim in shape}
        return {name: bounds for name, bounds in self._bounds.items() if name in names}

    def of(self, kind: Hashable, names: Sequence[str], shapes: Shapes) -> tuple[Dimensions, ...]:
        """Return the dimensions for which the program of a call is compiled. ``kind`` is the part
        of the call's key other than shapes.

        Raises InputError if dimensions with one name have different sizes.
        """
        if self._is_fixed:
            return shapes
        dims = remembered(self._kinds, kind, _MOST, _Kind).dims(names, shapes)
        return self._with_names(names, shapes, dims) if self._named else dims

    def _with_names(
        self, names: Sequence[str], shapes: Shapes, dims: Sequence[Dimensions]
    ) -> tuple[Dimensions, ...]:
        sizes: dict[str, int] = {}
        found: list[Dimensions] = []
        for name, shape, known in zip(names, shapes, dims, strict=True):
            named = self._named.get(name, {})
            for axis, dim in named.items():
                _check_axis(name, axis, shape)
                if sizes.setdefault(dim, shape[axis]) != shape[axis]:
                    raise InputError(
                        f"the dimension {dim!r} has two sizes",
                        where=f"dimension {axis} of {name}",
                        expected=str(sizes[dim]),
                        found=str(shape[axis]),
                    )
            found.append(tuple(named.get(axis, d) for axis, d in enumerate(known)))
        return tuple(found)


def _check_axis(name: str, axis: int, shape: Sequence[int]) -> None:
    if axis >= len(shape):
        raise InputError(
            f"the argument {name!r} has too few dimensions",
            expected=f"{axis + 1} at least, as `dim_names` names one",
            found=str(tuple(shape)),
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
