"""Subprograms of programs with graph breaks: models, compiled for the types that steps produce."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tessella.driver.specialise.programs import ProgramTable
from tessella.runtime.rest import Interface, Rest, Runner
from tessella.runtime.signature import ValueInfo
from tessella.runtime.values import Array, Value, kind_of
from tessella.support.errors import InternalError, OptionError

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Source
    from tessella.runtime.artifact import CompiledModel
    from tessella.runtime.explanation import Explanation


class RunnableModel(Protocol):
    """The part of a model's interface that runs it."""

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.ArrayLike]
    ) -> Sequence[Array]:
        """Run the model and return its outputs. ``output_names`` selects outputs, None all of them;
        ``feeds`` has the inputs by name."""
        ...


class SubprogramModel(RunnableModel, Protocol):
    """A model that runs a subprogram of another one."""

    def prepare(self) -> None:
        """Compile the programs of the model ahead of calls."""
        ...

    def explain(self) -> Explanation:
        """Return which kernel runs each op."""
        ...

    def compiled(self, *, explained: bool = False) -> CompiledModel:
        """Return the existing programs in the form in which they are stored."""
        ...


M = TypeVar("M", bound=RunnableModel)
S = TypeVar("S", bound=SubprogramModel)
Made = TypeVar("Made", bound=RunnableModel, covariant=True)


class Make(Protocol[Made]):
    """A function that compiles a subprogram from its source to a model. ``in_call`` says that a
    call waits for the model."""

    def __call__(self, source: Source, interface: Interface, /, *, in_call: bool) -> Made: ...


Sources = Callable[[int, tuple[ValueInfo, ...]], "Source"]
"""A function that returns the source of a subprogram, given its number in the continuation and its
input types."""

_MOST = 4
"""The most models of a subprogram, one for each set of element types and ranks. Nearly all have
one."""


class RunningSubprogram(Generic[M]):
    """A subprogram, compiled by ``make`` for each set of element types and ranks of its inputs."""

    def __init__(
        self,
        interface: Interface,
        source: Callable[[tuple[ValueInfo, ...]], Source],
        make: Make[M],
    ) -> None:
        self.interface = interface
        self._source = source
        self._make = make
        self.models: ProgramTable[M] = ProgramTable(_MOST)

    def run(self, values: Mapping[str, Value]) -> Sequence[Value]:
        """Return the subprogram's outputs. Raises TessellaError if it cannot be compiled or run."""
        taken = {name: values[name] for name in self.interface.inputs}
        infos = self._infos(taken)
        return self._model(infos, in_call=True).run(None, taken)

    def ahead(self) -> M | None:
        """Return the model for the input types that are known before any run; None if the type of
        an input is unknown."""
        inputs, types = self.interface.inputs, self.interface.types
        if not types.keys() >= set(inputs):
            return None
        return self._model(tuple(types[name] for name in inputs), in_call=False)

    def _model(self, infos: tuple[ValueInfo, ...], *, in_call: bool) -> M:
        def make() -> M:
            return self._make(self._source(infos), self.interface, in_call=in_call)

        return self.models.get(infos, make)

    def _infos(self, taken: Mapping[str, Value]) -> tuple[ValueInfo, ...]:
        known = self.interface.types
        return tuple(known[name] if name in known else _info(name, x) for name, x in taken.items())


def _info(name: str, value: Value) -> ValueInfo:
    """Return the description of a value of which only the element type and the rank are known."""
    rank = value.ndim if isinstance(value, np.ndarray) else 0
    return ValueInfo(name, kind_of(value), tuple(f"{name}:{axis}" for axis in range(rank)))


class RunningRest(Generic[M]):
    """The continuation after the first subprogram of a program."""

    def __init__(self, rest: Rest[Interface], source: Sources, make: Make[M]) -> None:
        running = (
            RunningSubprogram(each, partial(source, number), make)
            for number, each in enumerate(rest.subprograms)
        )
        self.program = Runner(rest.of(running))

    def subprograms(self) -> Iterator[tuple[str, RunningSubprogram[M]]]:
        """Yield the subprograms with their descriptions."""
        return self.program.rest.described()

    def models(self) -> Iterator[tuple[str, M]]:
        """Yield the most recently compiled model of each subprogram, with its description."""
        found = ((where, each.models.latest()) for where, each in self.subprograms())
        yield from ((where, model) for where, model in found if model is not None)

    def made(self) -> Iterator[tuple[str, M]]:
        """Yield all compiled models of subprograms, each with the description of its subprogram."""
        every = ((where, each.models.made()) for where, each in self.subprograms())
        yield from ((where, model) for where, models in every for model in models)


def interfaces(graph: Graph) -> Rest[Interface] | None:
    """Return the continuation of a program after its graph break, with each subprogram replaced by
    its interface. None if there is no break."""
    rest = graph.rest
    return None if rest is None else rest.over(lambda subprogram: subprogram.interface)


def sources(graph: Graph) -> Sources:
    """Return the sources of the subprograms of a program with graph breaks."""
    rest = graph.rest  # the returned function must not keep the graph's module alive

    def source(number: int, infos: tuple[ValueInfo, ...]) -> Source:
        if rest is None:
            raise InternalError("a program that was cut is not cut any more")
        return rest.subprograms[number].source(infos)

    return source


def sources_again(program: Callable[[], Graph]) -> Sources:
    """Return the sources of the subprograms of a program that ``program`` imports again, when the
    first source is needed."""
    found = cache(lambda: sources(program()))
    return lambda number, infos: found()(number, infos)


def whole(graph: Graph) -> Graph:
    """Return the graph itself. Raises OptionError if the program has a graph break."""
    if graph.rest is not None:
        steps = ", ".join(step.title for step in graph.rest.steps)
        raise OptionError(
            "the model's program is cut, as shapes depend on what it computes: it is several "
            "programs, and steps in NumPy",
            found=f"a cut at {steps or 'a size that is computed'}",
            hint="`tessella run` runs it, and `tessella compile -o FILE.tsl` writes it",
        )
    return graph
