"""Compiling a program of a model: it is fetched from disk, or compiled and stored there."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tessella import targets
from tessella.driver.build.compiling import Progress, Timings, memory_to_compile, total
from tessella.driver.cache import cached_source, program_cache
from tessella.driver.cache.stored import compiled
from tessella.driver.model.executable import Executable
from tessella.driver.model.subprograms import (
    RunningRest,
    S,
    Sources,
    SubprogramModel,
    interfaces,
    sources,
    sources_again,
)
from tessella.driver.options import CheckedOptions, check_machine
from tessella.driver.specialise.key import Key
from tessella.driver.specialise.specialisations import REFUSED
from tessella.runtime.artifact import CompiledProgram, CompiledSubprogram
from tessella.runtime.manifest import Manifest
from tessella.runtime.program import Program
from tessella.runtime.rest import Interface, Rest
from tessella.runtime.signature import ValueInfo
from tessella.support import deadline
from tessella.support.conditions import UndecidedSizeError
from tessella.support.logs import debug
from tessella.support.memory import give_back
from tessella.support.sizes import Symbol, symbols_of

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Source
    from tessella.driver.build.build import StagedProgram
    from tessella.driver.build.run_passes import PassObserver
    from tessella.runtime.events import Work
    from tessella.runtime.explanation import Explanation

# Functions import the compiler when they need it: a program from disk does not need it.

OPS = 12
"""The number of ops from which a graph may be compiled by another process. Asking another process
takes longer than compiling a smaller graph."""

WAITING = "other process"
"""The name of the timing of another process's overhead: its start, and transfers."""

M = TypeVar("M", bound=SubprogramModel, covariant=True)


class CompileSubprogram(Protocol[M]):
    """A function that makes a model of a subprogram from its source. ``in_call`` says that a call
    waits for the model."""

    def __call__(
        self, options: CheckedOptions, source: Source, interface: Interface, /, *, in_call: bool
    ) -> M: ...


@dataclass(frozen=True)
class ProgramCompilation(Generic[S]):
    """The compilation of one program of a model, for given types of its inputs."""

    source: Source
    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    key: Key
    options: CheckedOptions
    part: CompileSubprogram[S]
    forgets: bool
    """True if the program's IR may be dropped after the compilation, as the source can create it
    again."""
    in_call: bool = False
    """True if a call waits for the program. Another process then compiles a large graph if this
    process has other threads, which can run meanwhile."""

    def run(self, progress: Progress) -> Executable[S]:
        """Return the program, fetched from disk or compiled. Raises one of REFUSED if it cannot be
        compiled with symbols."""
        check_machine(self.options)
        with deadline.within(self.options.timeout):
            return self._run(progress)

    def _run(self, progress: Progress) -> Executable[S]:
        if not self._symbols:
            return self._fetched() or self._compiled(progress)
        kept = self._kept()
        refused = program_cache.refusal(kept)
        if refused is not None:
            raise refused
        try:
            return self._fetched() or self._compiled(progress)
        except REFUSED as error:
            program_cache.refuse(kept, error)
            raise

    @cached_property
    def _symbols(self) -> Sequence[Symbol]:
        return sorted(symbols_of(size for sizes in self.key.made for size in sizes))

    @property
    def _made_for(self) -> tuple[object, ...]:
        return self.key, *self._symbols

    def _kept(self) -> str | None:
        """Return the key of the program on disk; None if the program cannot be cached."""
        return program_cache.key(self.source.fingerprint, self._made_for, self.options)

    def _graph(self) -> Graph:
        shapes = zip(self.inputs, self.key.shapes(self.inputs), strict=True)
        with memory_to_compile():
            return self.source.graph({i.name: shape for i, shape in shapes}, self.key.known)

    def _graph_before(self, after: Rest[Interface] | None) -> Graph:
        """Return the graph of the program whose continuation is ``after``: the graph of the source,
        or the same graph with a graph break after each op that defines symbols."""
        graph = self._graph()
        if graph.divided is None or _is_same(graph.rest, after):
            return graph
        return graph.divided()

    def _lowered(
        self, after: Rest[Interface] | None, observer: PassObserver | None = None
    ) -> StagedProgram:
        """Lower the graph again, and return the stages without weights. The observer sees the
        passes."""
        from tessella.driver.build.build import lower

        with memory_to_compile():
            graph = self._graph_before(after)
            lowered = lower(graph, self.options, start=graph.stage, observer=observer)
        lowered.weights.keep(set())
        return lowered

    def _fetched(self) -> Executable[S] | None:
        timings = Timings()
        with memory_to_compile(), timings.of("fetch"):
            found = program_cache.fetch(self._kept(), self._is_made)
        if found is None:
            return None
        program, after = found
        rest = self._rest(after, sources_again(partial(self._graph_before, after)))
        lower = partial(self._lowered, after)
        return Executable(self.key, program, timings, lower, rest=rest)

    def _is_made(self, found: Manifest) -> bool:
        """Return whether ``found``, the manifest of an artifact, lists the requested program and no
        other one."""
        target = targets.resolve(self.options.target)
        values = {value.index: value.data.hex() for value in self.key.values}
        sizes = {each.index: each.elements for each in self.key.sizes}
        wanted = target.name, target.features, self.key.shapes(self.inputs), values, sizes
        made = [(p.target, p.features, p.shapes, p.values, p.sizes) for p in found.programs]
        signature = found.inputs, found.outputs
        return signature == (tuple(self.inputs), tuple(self.outputs)) and made == [wanted]

    def _compiled(self, progress: Progress) -> Executable[S]:
        timings = Timings()
        with timings.of("import"):
            graph = self._graph()
        made = self._whole(graph, timings, progress)
        give_back()
        return made

    def _whole(self, graph: Graph, timings: Timings, progress: Progress) -> Executable[S]:
        """Return the program, compiled with a graph break after the ops that define symbols if it
        cannot be compiled with these symbols. The graph is consumed."""
        try:
            return self._apart(graph, timings, progress) or self._here(graph, timings, progress)
        except REFUSED as error:
            if graph.divided is None or self._is_of_inputs(error):
                raise
            debug("compile", f"a graph break follows the ops that define symbols: {error}")
        with timings.of("import"):
            graph = graph.divided()
        return self._apart(graph, timings, progress) or self._here(graph, timings, progress)

    def _is_of_inputs(self, error: Exception) -> bool:
        """Return whether an error says that sizes of the inputs have to be numbers."""
        names = error.symbols if isinstance(error, UndecidedSizeError) else frozenset[str]()
        return bool(names) and names <= {symbol.name for symbol in self._symbols}

    def _apart(self, graph: Graph, timings: Timings, progress: Progress) -> Executable[S] | None:
        """Return the program compiled by another process; None if this process has to compile
        it."""
        if not self._is_in_the_way(graph):
            return None
        from tessella.driver.worker import client  # imported here, as it is seldom needed

        progress("another process compiles")
        began = perf_counter()
        answer = client.compiled(graph, self.options)
        if answer is None:
            return None
        if isinstance(answer, program_cache.Refusal):
            raise answer.error
        timings.update(answer.timings)
        timings[WAITING] = max(0.0, perf_counter() - began - total(answer.timings))
        return self._executable(graph, answer.program, timings)

    def _is_in_the_way(self, graph: Graph) -> bool:
        """Return whether compiling a large graph in this process would block other threads, and
        another process would compile the same program."""
        others = self.in_call and threading.active_count() > 1
        ops = (op for op in graph.module.walk() if op.operands and op.results)
        is_large = others and sum(1 for _ in islice(ops, OPS)) == OPS
        return is_large and not self.options.has_code and program_cache.is_repeatable()

    def _here(self, graph: Graph, timings: Timings, progress: Progress) -> Executable[S]:
        """Return the program compiled by this process. The graph is consumed."""
        from tessella.driver.build.compile_graph import compile_graph

        with memory_to_compile():
            built = compile_graph(graph, self.options, progress)
        timings.update(built.lowered.timings)
        built.lowered.weights.keep(set())
        return self._executable(graph, built.program, timings, built.lowered)

    def _executable(
        self,
        graph: Graph,
        program: Program,
        timings: Timings,
        lowered: StagedProgram | None = None,
    ) -> Executable[S]:
        """Store a compiled program on disk, and return it as an executable. ``lowered`` has its
        stages; it is None if another process compiled the program."""
        after = interfaces(graph)
        with timings.of("store"):
            self._store(program, after)
        return Executable(
            self.key,
            program,
            timings,
            partial(self._lowered, after) if self.forgets or lowered is None else lambda _: lowered,
            lowered,
            self._rest(after, sources(graph)),
            structure=graph.structure,
        )

    def _store(self, program: Program, after: Rest[Interface] | None) -> None:
        rest = None if after is None else after.over(CompiledSubprogram)
        made = stored(self.inputs, self.key, program, self.options, rest=rest)
        # With pick="measure", the key depends on the measurements just made.
        program_cache.store(self._kept(), self.inputs, self.outputs, made)

    def _rest(self, after: Rest[Interface] | None, sources: Sources) -> RunningRest[S] | None:
        source = self.source.fingerprint
        name = None if source is None else repr((source, self._made_for))
        return subprograms_of(after, sources, self.options, self.part, name)


def _is_same(rest: Rest[Any] | None, other: Rest[Any] | None) -> bool:
    """Return whether two continuations of a program compute the same values from the same ones."""
    known = [each and (each.returned, each.outputs) for each in (rest, other)]
    return known[0] == known[1]


def subprograms_of(
    rest: Rest[Interface] | None,
    sources: Sources,
    options: CheckedOptions,
    part: CompileSubprogram[S],
    program: str | None = None,
) -> RunningRest[S] | None:
    """Return the continuation of a program, with subprograms that ``part`` turns into models; None
    if ``rest`` is None.

    ``program`` identifies the program if its subprograms are to be cached.
    """
    if rest is None:
        return None

    def source(number: int, infos: tuple[ValueInfo, ...]) -> Source:
        return cached_source.inner(program, number, infos, lambda: sources(number, infos))

    return RunningRest(rest, source, partial(part, options))


def stored(
    inputs: Sequence[ValueInfo],
    key: Key,
    program: Program,
    options: CheckedOptions,
    explanation: Explanation | None = None,
    work: Mapping[str, Work] | None = None,
    rest: Rest[CompiledSubprogram] | None = None,
) -> CompiledProgram:
    """Return a program in the form in which artifacts store it. ``inputs`` are those of its model,
    ``key`` has the shapes and values that it was compiled for."""
    values = {value.index: value.data for value in key.values}
    sizes = {each.index: each.elements for each in key.sizes}
    known = explanation, work, rest, sizes
    return compiled(key.shapes(inputs), values, program, options, *known)
