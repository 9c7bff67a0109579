"""``@tessella.jit``: functions of arrays, compiled when they are called."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from tessella.dialects.graph import ValueInfo
from tessella.driver import build
from tessella.driver.compile import compile_source, make_options
from tessella.driver.model import Model
from tessella.driver.pipeline import STAGES
from tessella.frontends.trace.arguments import Call, Parameters
from tessella.frontends.trace.program import TracedProgram, trace
from tessella.frontends.trace.tree import Tree
from tessella.support.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")

MAX_PROGRAMS = 64
"""Programs that a jitted function keeps; the one used longest ago is dropped."""


@dataclass(frozen=True)
class _Options:
    places: tuple[str, ...] | None
    target: str | None
    threads: int | None

    def compile(self, program: TracedProgram) -> Model:
        return compile_source(
            program.source(), places=self.places, target=self.target, threads=self.threads
        )


@dataclass
class _Entry:
    """A program for one set of shapes and dtypes; it is made by the first thread that needs it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    model: Model | None = None
    result: Tree = field(default_factory=Tree)


class Lowered:
    """A function traced for certain shapes and dtypes: to be inspected at any stage, or compiled.

    The texts are for reading: they may change from version to version.
    """

    def __init__(self, program: TracedProgram, options: _Options) -> None:
        self._program = program
        self._options = options
        source = program.source()
        self.inputs: tuple[ValueInfo, ...] = tuple(source.inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(source.outputs)

    def as_text(self, stage: str = "nn") -> str:
        """The program at a stage: nn, placed, tile, loops, llvm or asm. It is not run."""
        if stage not in STAGES:
            raise OptionError(f"no stage {stage!r}", expected=f"one of {', '.join(STAGES)}")
        if stage == "nn":
            return f"{self._program.graph.module!s}\n"
        return build.as_text(self._lowered, stage)

    def compile(self) -> Model:
        """A model that takes arrays in the order of ``inputs``, and gives those of ``outputs``."""
        return self._options.compile(self._program)

    @functools.cached_property
    def _lowered(self) -> build.Lowered:
        options = self._options
        graph = self._program.source().graph({})
        return build.lower(graph, make_options(options.places, options.target, options.threads))


class Jitted(Generic[P, R]):
    """A function that is compiled for the shapes and dtypes of the arrays it is called with."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self, function: Callable[P, R], static_argnames: str | Iterable[str], options: _Options
    ) -> None:
        self._function = function
        self._parameters = Parameters(function, static_argnames)
        self._options = options
        self._lock = threading.Lock()
        self._table: OrderedDict[Hashable, _Entry] = OrderedDict()
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, computed by the compiled program."""
        call = self._parameters.call(args, kwargs)
        if call.is_inlined:
            return self._function(*args, **kwargs)
        arrays = call.arrays()
        entry = self._entry(call.key(arrays))
        model = entry.model or self._compiled(entry, call)
        names = (info.name for info in model.inputs)
        results = model.run(None, dict(zip(names, arrays, strict=True)))
        return cast(R, entry.result.unflatten(iter(results)))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments: arrays, or each a ``tessella.Spec``. It is not run."""
        return Lowered(self._traced(self._parameters.call(args, kwargs)), self._options)

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"jit({getattr(self._function, '__qualname__', self._function)})"

    def _entry(self, key: Hashable) -> _Entry:
        with self._lock:
            entry = self._table.setdefault(key, _Entry())
            self._table.move_to_end(key)
            if len(self._table) > MAX_PROGRAMS:
                self._table.popitem(last=False)
            return entry

    def _compiled(self, entry: _Entry, call: Call) -> Model:
        with entry.lock:
            if entry.model is None:
                program = self._traced(call)
                entry.result = program.result
                entry.model = self._options.compile(program)
            return entry.model

    def _traced(self, call: Call) -> TracedProgram:
        return trace(self._function, self._parameters, call, call.specs())


@overload
def jit(
    function: Callable[P, R],
    *,
    static_argnames: str | Iterable[str] = ...,
    places: Sequence[str] | None = ...,
    target: str | None = ...,
    threads: int | None = ...,
) -> Jitted[P, R]: ...


@overload
def jit(
    *,
    static_argnames: str | Iterable[str] = ...,
    places: Sequence[str] | None = ...,
    target: str | None = ...,
    threads: int | None = ...,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Iterable[str] = (),
    places: Sequence[str] | None = None,
    target: str | None = None,
    threads: int | None = None,
) -> Any:
    """Compile a function of arrays, written as for NumPy. A decorator, with or without options.

    It runs once in Python for each new set of shapes and dtypes of its arguments, on arrays that
    record what is done with them; what is recorded is compiled, and runs in its place.

    ``static_argnames`` names parameters whose values the function needs in Python: axes, flags,
    sizes. A program is made for each of their values. The other options are those of ``compile``.
    """
    options = _Options(tuple(places) if places is not None else None, target, threads)
    make_options(options.places, target, threads)
    if function is None:
        return functools.partial(Jitted, static_argnames=static_argnames, options=options)
    return Jitted(function, static_argnames, options)
