"""Common parts of frontends that compile a program for the shapes and dtypes of a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tessella.dialects.graph import Graph, ValueInfo, signature
from tessella.dialects.nn.core import Array
from tessella.dialects.printing import to_text
from tessella.driver import build
from tessella.driver.compiling import memory_to_compile, total
from tessella.driver.explain import explain
from tessella.driver.key import Key
from tessella.driver.model import Model
from tessella.driver.open_sizes import OF_ARRAYS, Bounds
from tessella.driver.options import CheckedOptions
from tessella.driver.stages import STAGES
from tessella.runtime.explanation import Explanation
from tessella.runtime.model import Shapes
from tessella.support.errors import InternalError
from tessella.support.sizes import Size, Symbol

MAX_PROGRAMS = 64
"""The most programs that a function caches; the least recently used one is dropped."""


@dataclass(frozen=True)
class FixedProgram:
    """A program for given shapes and dtypes."""

    graph: Graph

    def source(self) -> FixedSource:
        """Return a source of this program for one compilation, which consumes it."""
        graph = self.graph
        return FixedSource(Graph(graph.module.clone(), graph.weights.copy(), graph.stage))

    def compile(self, options: CheckedOptions) -> Model:
        """A model for the one signature that the program has. Raises TessellaError."""
        return Model(self.source(), options)


class FixedSource:
    """A program that the driver may take once, as its weights may be large."""

    fingerprint: str | None = None
    symbols: Sequence[Symbol] = ()

    def __init__(self, graph: Graph) -> None:
        self._graph: Graph | None = graph
        self.inputs: Sequence[ValueInfo]
        self.outputs: Sequence[ValueInfo]
        self.inputs, self.outputs = signature(graph.module)

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program; its shapes are known already."""
        graph, self._graph = self._graph, None
        if graph is None:
            raise InternalError("the source of a program is used once")
        return graph


USUAL = 8
"""Programs of one function that are compiled in calls without a warning."""

TellCompiled = Callable[[Sequence[str], float], None]
"""Tells of a compilation: the types of the inputs, and seconds."""


class FunctionSource:
    """A function of arrays of certain types, some of whose sizes may have names."""

    fingerprint: str | None = None
    symbols: Sequence[Symbol] = ()
    outputs: Sequence[ValueInfo] = ()
    """Not known beforehand; a graph tells."""

    def __init__(
        self, graph: Callable[[Sequence[tuple[Size, ...]]], Graph], inputs: Sequence[ValueInfo]
    ) -> None:
        self._graph = graph
        self.inputs = inputs

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """The program for these shapes."""
        return self._graph([shapes[info.name] for info in self.inputs])


class FunctionModel(Model):
    """The programs of a function for arrays of certain types, some of whose sizes are open."""

    def __init__(
        self,
        source: FunctionSource,
        options: CheckedOptions,
        bounds: Mapping[str, Bounds],
        tell: TellCompiled,
    ) -> None:
        self._tell_compiled = tell
        super().__init__(source, options, openness=bounds, most=MAX_PROGRAMS, starts=OF_ARRAYS)

    def _tell(self, key: Key, timings: Mapping[str, float], call: Shapes | None) -> None:
        columns = zip(self.inputs, key.made, strict=True)
        inputs = [f"{info.name}: {info.dtype} {list(shape)}" for info, shape in columns]
        self._tell_compiled(inputs, total(timings))


class Lowered:
    """A function for certain shapes and dtypes: to be inspected at any stage, or compiled.

    The texts are for reading: they may change from version to version.
    """

    def __init__(self, program: FixedProgram, options: CheckedOptions) -> None:
        self._program = program
        self._options = options
        source = program.source()
        self.inputs: tuple[ValueInfo, ...] = tuple(source.inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(source.outputs)

    def as_text(self, stage: str | None = None) -> str:
        """The program at a stage: nn, placed, tile, loops, llvm or asm. It is not run.

        Without a name, the first stage that there is.
        """
        graph = self._program.graph
        stage = graph.stage if stage is None else stage
        build.check_stage(stage, STAGES)
        if stage == graph.stage:
            return f"{to_text(graph.module)}\n"
        return build.as_text(self._lowered, stage)

    def explain(self) -> Explanation:
        """Which kernel runs each op, at which place, and why, as ``Model.explain`` tells."""
        return explain(self._lowered.stages)

    def compile(self) -> Model:
        """A model that takes arrays in the order of ``inputs``, and gives those of ``outputs``."""
        return self._program.compile(self._options)

    @functools.cached_property
    def _lowered(self) -> build.StagedProgram:
        with memory_to_compile():
            graph = self._program.source().graph({})
            return build.lower(graph, self._options, start=graph.stage)
