"""The arguments of a call, divided into arrays and static values, and the cache key of their
program."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tessella.dialects.nn.core import element_type, tensor
from tessella.frontends.arrays import as_array
from tessella.frontends.trace.size import TracedNumber
from tessella.frontends.trace.traced import Array, DType, Traced
from tessella.frontends.trace.tree import Tree, flatten
from tessella.support.errors import InputError, OptionError

_NUMBERS = (int, float, complex)


PlainTypes = tuple[tuple[int, DType], ...]
"""The rank and dtype of each argument, if all arguments are arrays."""


def plain_types(args: Sequence[Any]) -> PlainTypes | None:
    """Return the ranks and dtypes of arguments if all are NumPy arrays in native byte order,
    otherwise None."""
    for each in args:
        if type(each) is not np.ndarray or not each.dtype.isnative:
            return None
    return tuple([(each.ndim, each.dtype) for each in args])


class Spec:
    """A shape and a dtype that stand for an array: ``f.lower(tessella.Spec((8, 3)))``."""

    __slots__ = ("dtype", "shape", "weak")

    def __init__(
        self, shape: Sequence[int], dtype: npt.DTypeLike = "float32", *, weak: bool = False
    ) -> None:
        self.shape = _sizes(shape)
        self.dtype: DType = _dtype(dtype)
        self.weak = weak
        """True if the spec stands for a Python number, whose dtype yields to the dtypes of
        arrays."""

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype.name!r})"


def _sizes(shape: object) -> tuple[int, ...]:
    """Return a shape as a tuple of integers. Raises InputError and ShapeError for an invalid
    shape."""
    try:
        sizes = tuple(map(operator.index, cast("Iterable[Any]", shape)))
    except TypeError:
        raise InputError(
            "this is not a shape",
            expected="a tuple of sizes, such as (8, 3)",
            found=f"{shape!r} of type {type(shape).__name__}",
        ) from None
    return tensor(element_type(np.float32), sizes).get_shape()


def _dtype(dtype: npt.DTypeLike) -> DType:
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise InputError(
            "this is not a dtype", expected="such as 'float32'", found=str(error)
        ) from None


@dataclass(frozen=True)
class CallArguments:
    """The arguments of one call: static values, and a flat list of all others, the leaves."""

    tree: Tree
    """The structure of a dictionary, by parameter, of all arguments that are not static."""
    leaves: list[Any]
    static: dict[str, Any]

    def without_elements(self) -> CallArguments:
        """Return these arguments with specs in place of arrays, so that they do not keep the arrays
        alive."""
        return CallArguments(self.tree, [*self.specs()], self.static)

    @property
    def is_inlined(self) -> bool:
        """True if the call happens while another function is traced, so that an argument is a
        traced value."""
        return any(isinstance(leaf, Traced | TracedNumber) for leaf in self.leaves)

    def names(self) -> list[str]:
        """Return the name of each leaf, as an expression of its parameter: ``params['w'][0]``."""
        columns = zip(self.tree.keys, self.tree.children, strict=True)
        return [path for name, tree in columns for path in tree.paths(str(name))]

    def arrays(self) -> list[Array]:
        """Return the leaves as arrays. Raises InputError for a leaf that is not an array or a
        number."""
        return [self._array(i, leaf) for i, leaf in enumerate(self.leaves)]

    def specs(self) -> list[Spec]:
        """Return the specs of the leaves, which may already be specs. Raises InputError for a leaf
        that is not an array, a number or a spec."""
        return [self._spec(i, leaf) for i, leaf in enumerate(self.leaves)]

    def kind(self, arrays: Sequence[Array]) -> Hashable:
        """Return a key of everything that programs depend on except sizes. Raises InputError for a
        static value that cannot be hashed."""
        columns = zip(arrays, self.leaves, strict=True)
        leaves = tuple((a.ndim, a.dtype, type(leaf) in _NUMBERS) for a, leaf in columns)
        static = tuple((k, _told_apart(v)) for k, v in self.static.items())
        try:
            hash(static)
        except TypeError as error:
            raise InputError(
                "a static argument cannot be hashed",
                found=f"{self.static} ({error})",
                hint="pass tuples in place of lists, and do not name arrays in static_argnames",
            ) from None
        return self.tree, leaves, static

    def _spec(self, number: int, leaf: Any) -> Spec:
        if isinstance(leaf, Spec):
            return leaf
        array = self._array(number, leaf)
        return Spec(array.shape, array.dtype, weak=type(leaf) in _NUMBERS)

    def _array(self, number: int, leaf: Any) -> Array:
        array = leaf if isinstance(leaf, np.ndarray) else as_array(leaf)
        if array is None:
            raise InputError(
                f"the argument {self.names()[number]!r} is not an array",
                expected="an array, a number, or tuples, lists and dictionaries of them",
                found=f"{leaf!r} of type {type(leaf).__name__}",
                hint="name the parameter in static_argnames: tessella.jit(static_argnames=...)",
            )
        is_native = array.dtype.isnative
        return array if is_native else array.astype(array.dtype.newbyteorder("="))


def _told_apart(value: Any) -> Hashable:
    """Return a hashable key that differs for static values with different effects.

    Python considers numbers of different types equal, and zeros of different signs; NaN does not
    equal itself.
    """
    kind = cast(Hashable, type(value))
    if isinstance(value, tuple):
        return kind, tuple(map(_told_apart, cast("tuple[Any, ...]", value)))
    return kind, value.hex() if isinstance(value, float) else value


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function. Raises OptionError if there is none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise OptionError(
            "this cannot be traced",
            expected="a function of Python, whose parameters can be asked for",
            found=f"{function!r} ({error})",
            hint="write a function that calls it" if callable(function) else None,
        ) from None


def _static_names(static: object, known: Collection[str]) -> frozenset[str]:
    """Return the names of static parameters as a set. Raises OptionError for unknown parameters."""
    names = [static] if isinstance(static, str) else static
    if not isinstance(names, Iterable):
        raise OptionError(
            "static_argnames must be names of parameters",
            expected=f"some of {', '.join(known)}",
            found=f"{static!r} of type {type(static).__name__}",
        )
    listed = list(cast("Iterable[Any]", names))
    unknown = sorted(
        repr(name) for name in listed if not isinstance(name, str) or name not in known
    )
    if unknown:
        raise OptionError(
            f"static_argnames: unknown parameter {', '.join(unknown)}",
            expected=f"some of {', '.join(known)}",
        )
    return frozenset(listed)


class Parameters:
    """The parameters of a function, and which of them are static."""

    def __init__(self, function: Callable[..., Any], static: str | Iterable[str]) -> None:
        self._signature = _signature(function)
        known = self._signature.parameters
        self.names = tuple(known)
        self._static = _static_names(static, known)
        kinds = [p.kind for p in known.values()]
        self._is_plain = all(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """Bind the arguments of a call to the parameters, and flatten them. Raises TypeError as
        Python does."""
        arguments = self._arguments(args, kwargs)
        static = {name: arguments.pop(name) for name in self._static & arguments.keys()}
        leaves: list[Any] = []
        return CallArguments(flatten(arguments, leaves), leaves, static)

    def arguments(
        self, call: CallArguments, leaves: Sequence[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments of a call, with other leaves."""
        values = {**call.static, **call.tree.unflatten(iter(leaves))}
        bound = self._signature.bind_partial()
        names = (name for name in self._signature.parameters if name in values)
        bound.arguments |= {name: values[name] for name in names}
        return bound.args, bound.kwargs

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if self._is_plain and not kwargs and len(args) == len(self.names):
            return dict(zip(self.names, args, strict=True))
        return dict(self._signature.bind(*args, **kwargs).arguments)
