"""``@tessella.jit``: functions of arrays, compiled when they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any, Generic, Literal, ParamSpec, TypeVar, Unpack, overload

import numpy as np

from tessella.dialects.graph import Graph
from tessella.driver.model.in_calls import CompilesInCalls
from tessella.driver.options import CheckedOptions, CompileOptions, make_options
from tessella.driver.specialise.open_sizes import Dims
from tessella.frontends.dims import ArgumentDims, DimNames
from tessella.frontends.programs import (
    USUAL,
    CompiledOnDemand,
    FixedProgram,
    FunctionModel,
    Lowered,
)
from tessella.frontends.trace import numbers
from tessella.frontends.trace.arguments import CallArguments, Parameters, plain_types
from tessella.frontends.trace.program import CallInterface, source, trace
from tessella.frontends.trace.traced import Array
from tessella.runtime.elements import public
from tessella.runtime.model import MAX_KNOWN
from tessella.support.sizes import Size
from tessella.support.tables import remembered

_HINT = (
    "Each dtype and static value has programs of its own, and so has each shape where sizes cannot "
    "stay open, as explain() of the function tells: pad arrays to a few shapes, and pass numbers "
    "that change as arrays and not by static_argnames"
)

P = ParamSpec("P")
R = TypeVar("R")


class TracedModel(FunctionModel):
    """The model of a traced function, for arguments of certain types."""

    def call(self, arrays: Sequence[Array]) -> Any:
        """Run the program for the shapes of these arrays, and return the function's result."""
        ready = [a if a.flags.carray else np.require(a, requirements=["C", "A"]) for a in arrays]
        shapes = tuple([a.shape for a in ready])
        executable = self._serving(shapes, ready)
        interface: CallInterface = executable.structure
        if interface.numbers:
            numbers.check(interface.numbers, [info.name for info in self.inputs], ready)
        results = map(public, executable.run(ready, self.threads))
        return interface.results.unflatten(results)


class Jitted(CompiledOnDemand[TracedModel], Generic[P, R]):
    """A function that is compiled for the shapes and dtypes of its arguments."""

    KIND = "function"

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        static_argnames: str | Iterable[str],
        dims: object,
        dim_names: object,
        options: CheckedOptions,
    ) -> None:
        self._function = function
        self._parameters = Parameters(function, static_argnames)
        self._dims = ArgumentDims(dims, dim_names, self._parameters.names)
        super().__init__(options)
        self._kinds: dict[Hashable, Hashable] = {}
        """A cache of the kinds of earlier calls, which have models, by the types of arguments."""
        self._in_calls = CompilesInCalls(expected=USUAL, tells_numpy=True)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the function's result, computed by the compiled program."""
        plain = None if kwargs else plain_types(args)
        kind, arrays = self._kinds.get(plain), args
        if kind is None:
            call = self._parameters.call(args, kwargs)
            if call.is_inlined:
                return self._function(*args, **kwargs)
            arrays = call.arrays()
            kind = call.kind(arrays)
            if plain is not None:
                remembered(self._kinds, plain, MAX_KNOWN, lambda: kind)
        model = self._programs.get(kind, functools.partial(self._model, args, kwargs))
        return model.call(arrays)  # pyright: ignore[reportArgumentType]

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the function for arguments, without running the program.

        Parameters
        ----------
        *args : array_like or Spec
            The arguments by position.
        **kwargs : array_like or Spec
            The arguments by name.

        Returns
        -------
        Lowered
            The program, to be inspected at any stage.

        Raises
        ------
        InputError
            If the arguments are not those of the function, or have dtypes that are not supported.
        ShapeError
            If shapes do not fit together.
        """
        call = self._parameters.call(args, kwargs)
        shapes = [spec.shape for spec in call.specs()]
        return Lowered(FixedProgram(self._traced(call, shapes)), self._options)

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"jit({getattr(self._function, '__qualname__', self._function)})"

    def _model(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> TracedModel:
        call = self._parameters.call(args, kwargs).without_elements()
        dims = self._dims.of(call.names(), [len(spec.shape) for spec in call.specs()])
        made = source(functools.partial(self._traced, call), call, dims)
        tell = functools.partial(self._tell, call.static)
        return TracedModel(made, self._options, self._dims, tell)

    def _traced(self, call: CallArguments, shapes: Sequence[tuple[Size, ...]]) -> Graph:
        return trace(self._function, self._parameters, call, shapes)

    def _tell(self, static: Mapping[str, Any], inputs: Sequence[str], seconds: float) -> None:
        name = getattr(self._function, "__qualname__", str(self._function))
        texts = [*inputs, *(f"{name}={value!r}" for name, value in static.items())]
        self._in_calls.tell(name, seconds, f"it was called with {', '.join(texts)}", _HINT)


@overload
def jit(
    function: Callable[P, R],
    *,
    static_argnames: str | Iterable[str] = ...,
    dims: Dims | Literal["auto", "fixed"] = ...,
    dim_names: DimNames | None = ...,
    **options: Unpack[CompileOptions],
) -> Jitted[P, R]: ...


@overload
def jit(
    *,
    static_argnames: str | Iterable[str] = ...,
    dims: Dims | Literal["auto", "fixed"] = ...,
    dim_names: DimNames | None = ...,
    **options: Unpack[CompileOptions],
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Iterable[str] = (),
    dims: Dims | Literal["auto", "fixed"] = "auto",
    dim_names: DimNames | None = None,
    **options: Unpack[CompileOptions],
) -> Any:
    """Compile a function of arrays, written as for NumPy; a decorator, with or without options.

    The function runs in Python on arrays that record what is done with them; the record is
    compiled, and runs in its place. The first shapes have a program of their own. A dimension whose
    size varies is symbolic from then on, unless the function needs it as a number.

    Parameters
    ----------
    function : callable, optional
        The function. Without it, the result is a decorator.
    static_argnames : str or iterable of str
        The parameters whose values the function needs in Python, such as axes, flags and sizes.
        Each of their values has its own program.
    dims : dict, "auto" or "fixed"
        The size, or the least and the greatest size, of named dimensions: ``{"n": (1, 64)}``.
        ``auto`` makes a dimension symbolic once its size varies; ``fixed`` compiles for each set of
        shapes.
    dim_names : dict, optional
        Names of dimensions by argument and index: ``{"x": {0: "n"}, "y": {0: "n"}}``. They are
        symbolic from the first call on, and equal where the names are.
    **options
        ``places``, ``target``, ``threads``, ``fallback``, ``timeout`` and ``options``, as
        ``tessella.compile`` takes them.

    Returns
    -------
    Jitted or callable
        The compiled function, or the decorator.

    Raises
    ------
    OptionError
        If an option is wrong.

    Examples
    --------
    >>> @tessella.jit
    ... def step(x, w, b):
    ...     return tessella.softmax(x @ w + b, axis=-1)
    """
    checked = make_options(**options)
    if function is None:
        given = {"static_argnames": static_argnames, "dims": dims, "dim_names": dim_names}
        return functools.partial(Jitted, **given, options=checked)
    return Jitted(function, static_argnames, dims, dim_names, checked)
