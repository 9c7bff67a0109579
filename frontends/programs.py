"""Common parts of frontends that compile a program for the shapes and dtypes of a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from tessella.dialects.graph import Graph, ValueInfo, signature
from tessella.dialects.nn.core import Array
from tessella.dialects.printing import to_text
from tessella.driver.build import build
from tessella.driver.build.compiling import memory_to_compile, total
from tessella.driver.explain.explain import explain
from tessella.driver.model.model import Model
from tessella.driver.options import CheckedOptions
from tessella.driver.specialise.key import Key
from tessella.driver.specialise.open_sizes import OF_ARRAYS
from tessella.driver.specialise.programs import ProgramTable
from tessella.driver.stages.stages import STAGES
from tessella.frontends.dims import ArgumentDims
from tessella.runtime.explanation import Explanation
from tessella.runtime.model import Shapes
from tessella.support.copies import Immutable
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, Symbol

MAX_PROGRAMS = 64
"""The maximum number of models that a function caches, one for each set of argument types, and of
programs of each model; the least recently used one is dropped."""


class FixedProgram:
    """A source with a single program, for given shapes and dtypes."""

    fingerprint: str | None = None
    symbols: Sequence[Symbol] = ()
    determining: Sequence[str] = ()

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.inputs: Sequence[ValueInfo]
        self.outputs: Sequence[ValueInfo]
        self.inputs, self.outputs = signature(graph.module)

    @property
    def stage(self) -> str:
        """The first stage of the program."""
        return self._graph.stage

    def as_text(self) -> str:
        """Return the program at its first stage."""
        return f"{to_text(self._graph.module)}\n"

    def graph(
        self,
        shapes: Mapping[str, tuple[Size, ...]] | None = None,
        values: Mapping[str, Array] | None = None,
    ) -> Graph:
        """Return a copy of the program, which a compilation may modify. The shapes of the program
        are fixed, so the arguments are ignored."""
        graph = self._graph
        return Graph(graph.module.clone(), graph.weights.copy(), graph.stage)

    def compile(self, options: CheckedOptions, *, in_call: bool = False) -> Model:
        """Compile the program to a model. Raises TessellaError."""
        return Model(self, options, in_call=in_call)


USUAL = 8
"""The number of programs of one function that are compiled in calls without a warning."""

TellCompiled = Callable[[Sequence[str], float], None]
"""A function that reports a compilation: it takes the types of the inputs, and the duration in
seconds."""


class FunctionSource:
    """A source of programs from a traced function or Tile program, for one set of element types and
    ranks of its arguments. All dimensions have names."""

    fingerprint: str | None = None
    symbols: Sequence[Symbol] = ()
    determining: Sequence[str] = ()
    outputs: Sequence[ValueInfo] = ()
    """The outputs, which are unknown before the function is traced; a graph's structure describes
    them."""

    def __init__(
        self, graph: Callable[[Sequence[tuple[Size, ...]]], Graph], inputs: Sequence[ValueInfo]
    ) -> None:
        self._graph = graph
        self.inputs = inputs

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program for these shapes."""
        return self._graph([shapes[info.name] for info in self.inputs])


class FunctionModel(Model):
    """The model of a function for one set of element types and ranks of its arguments."""

    def __init__(
        self,
        source: FunctionSource,
        options: CheckedOptions,
        dims: ArgumentDims,
        tell: TellCompiled,
    ) -> None:
        self._tell_compiled = tell
        super().__init__(
            source,
            options,
            openness=dims.openness(source.inputs),
            unnamed=dims.unnamed(source.inputs),
            in_call=True,
            most=MAX_PROGRAMS,
            starts=OF_ARRAYS,
        )

    def _tell(self, key: Key, timings: Mapping[str, float], call: Shapes | None) -> None:
        columns = zip(self.inputs, key.made, strict=True)
        inputs = [f"{info.name}: {info.dtype} {list(shape)}" for info, shape in columns]
        self._tell_compiled(inputs, total(timings))


M = TypeVar("M", bound=FunctionModel)


class CompiledOnDemand(Immutable, Generic[M]):
    """Base of callables whose programs are compiled when they are called."""

    KIND: ClassVar[str]
    """The word for the callable in messages."""

    def __init__(self, options: CheckedOptions) -> None:
        self._options = options
        self._programs: ProgramTable[M] = ProgramTable(MAX_PROGRAMS)

    def explain(self) -> Explanation:
        """Explain the program that ran last.

        Returns
        -------
        Explanation
            The kernel and the place of each op, and why; the symbolic dimensions.

        Raises
        ------
        ShapeError
            If there was no call yet.
        """
        latest = self._programs.latest()
        if latest is None:
            raise ShapeError(f"the {self.KIND} was not called yet", hint="call it once")
        return latest.explain()

    def release(self) -> None:
        """Free memory that later calls would reuse, as ``Model.release`` does."""
        for model in self._programs.made():
            model.release()


class Lowered:
    """A function for given shapes and dtypes, to be inspected at any stage, or compiled.

    The texts are meant for reading, and may change from version to version.
    """

    def __init__(self, program: FixedProgram, options: CheckedOptions) -> None:
        self._program = program
        self._options = options
        self.inputs: tuple[ValueInfo, ...] = tuple(program.inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(program.outputs)

    def as_text(self, stage: str | None = None) -> str:
        """Return the text of the program at a stage.

        Parameters
        ----------
        stage : {"nn", "placed", "tile", "loops", "llvm", "asm"}, optional
            The stage; by default, the first stage of the program.

        Returns
        -------
        str
            The text.

        Raises
        ------
        OptionError
            If there is no such stage.
        """
        first = self._program.stage
        stage = first if stage is None else stage
        build.check_stage(stage, STAGES)
        if stage == first:
            return self._program.as_text()
        return build.as_text(self._lowered, stage)

    def explain(self) -> Explanation:
        """Explain the program.

        Returns
        -------
        Explanation
            The kernel and the place of each op, and why.
        """
        return explain(self._lowered.stages)

    def compile(self) -> Model:
        """Compile the program.

        Returns
        -------
        Model
            A model that takes arrays in the order of ``inputs``, and returns those of ``outputs``.
        """
        return self._program.compile(self._options)

    @functools.cached_property
    def _lowered(self) -> build.StagedProgram:
        with memory_to_compile():
            graph = self._program.graph()
            return build.lower(graph, self._options, start=graph.stage)
