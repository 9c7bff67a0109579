"""``@tessella.jit``: functions of arrays, compiled when they are called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from time import perf_counter
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from tessella.driver.in_calls import CompilesInCalls
from tessella.driver.model import Model
from tessella.driver.options import CompileOptions, Options, make_options
from tessella.driver.programs import ProgramTable
from tessella.frontends.programs import MAX_PROGRAMS, Lowered
from tessella.frontends.trace.arguments import Call, Parameters, PlainTypes, plain_types
from tessella.frontends.trace.program import TracedProgram, trace
from tessella.frontends.trace.traced import Array
from tessella.frontends.trace.tree import Tree
from tessella.support.copies import Compiled

USUAL = 8
"""Programs of one function that are compiled in calls without a warning."""

_HINT = (
    "Each shape, dtype and static value has a program of its own: pad arrays to a few shapes, and "
    "pass numbers that change as arrays and not by static_argnames"
)

P = ParamSpec("P")
R = TypeVar("R")


class Jitted(Compiled, Generic[P, R]):
    """A function that is compiled for the shapes and dtypes of the arrays it is called with."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        function: Callable[P, R],
        static_argnames: str | Iterable[str],
        options: Options,
    ) -> None:
        self._function = function
        self._parameters = Parameters(function, static_argnames)
        self._options = options
        self._programs: ProgramTable[tuple[Model, Tree]] = ProgramTable(MAX_PROGRAMS)
        self._keys: dict[PlainTypes | None, Hashable] = {}
        """Of programs, by what arguments they are for: calls with arrays alone are not taken apart
        again."""
        self._in_calls = CompilesInCalls(expected=USUAL)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, computed by the compiled program."""
        plain = None if kwargs else plain_types(args)
        key, arrays = self._keys.get(plain), cast(Sequence[Array], args)
        if key is None:
            call = self._parameters.call(args, kwargs)
            if call.is_inlined:
                return self._function(*args, **kwargs)
            arrays = call.arrays()
            key = call.key(arrays)
            if plain is not None:
                self._remember(plain, key)
        make = functools.partial(self._compiled_in_call, args, kwargs)
        model, result = self._programs.get(key, make)
        return cast(R, result.unflatten(iter(model.run_in_order(arrays))))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments: arrays, or each a ``tessella.Spec``. It is not run."""
        return Lowered(self._traced(self._parameters.call(args, kwargs)), self._options)

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"jit({getattr(self._function, '__qualname__', self._function)})"

    def _remember(self, plain: PlainTypes, key: Hashable) -> None:
        if len(self._keys) >= MAX_PROGRAMS:
            self._keys.clear()
        self._keys[plain] = key

    def _compiled_in_call(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Model, Tree]:
        began, call = perf_counter(), self._parameters.call(args, kwargs)
        compiled = self._compiled(call)
        name = getattr(self._function, "__qualname__", str(self._function))
        why = f"it was called with {call}"
        self._in_calls.tell(name, perf_counter() - began, why, _HINT)
        return compiled

    def _compiled(self, call: Call) -> tuple[Model, Tree]:
        program = self._traced(call)
        return program.compile(self._options), program.result

    def _traced(self, call: Call) -> TracedProgram:
        return trace(self._function, self._parameters, call, call.specs())


@overload
def jit(
    function: Callable[P, R],
    *,
    static_argnames: str | Iterable[str] = ...,
    **options: Unpack[CompileOptions],
) -> Jitted[P, R]: ...


@overload
def jit(
    *,
    static_argnames: str | Iterable[str] = ...,
    **options: Unpack[CompileOptions],
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Iterable[str] = (),
    **options: Unpack[CompileOptions],
) -> Any:
    """Compile a function of arrays, written as for NumPy. A decorator, with or without options.

    For each new set of shapes and dtypes of its arguments, it runs once in Python, on arrays that
    record what is done with them. The record is compiled, and runs in its place.

    ``static_argnames`` names parameters whose values the function needs in Python: axes, flags,
    sizes. A program is made for each of their values. The other options are those of ``compile``:
    ``places``, ``target``, ``threads``, ``pick``, ``fallback``, ``winograd``,
    ``max_weight_growth``.
    """
    checked = make_options(**options)
    if function is None:
        return functools.partial(Jitted, static_argnames=static_argnames, options=checked)
    return Jitted(function, static_argnames, checked)
