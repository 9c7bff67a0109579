"""What frontends share that compile a program for the shapes and dtypes of a call."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tessella.dialects.graph import Graph, ValueInfo, signature
from tessella.dialects.printing import to_text
from tessella.driver import build
from tessella.driver.compile import make_options
from tessella.driver.explain import Explanation, explain
from tessella.driver.model import Model
from tessella.driver.pipeline import STAGES
from tessella.support import fork
from tessella.support.errors import InternalError

V = TypeVar("V")

MAX_PROGRAMS = 64
"""Programs that a function keeps; the one used longest ago is dropped."""


@dataclass(frozen=True)
class CompileOptions:
    """The options of ``tessella.compile`` as users give them; None is the default."""

    places: tuple[str, ...] | None = None
    target: str | None = None
    threads: int | None = None
    pick: str | None = None
    fallback: str | None = None

    @staticmethod
    def of(
        places: Sequence[str] | None = None,
        target: str | None = None,
        threads: int | None = None,
        pick: str | None = None,
        fallback: str | None = None,
    ) -> CompileOptions:
        """Checked options. Raises OptionError."""
        make_options(places, target, threads, pick=pick, fallback=fallback)
        known = tuple(places) if places is not None else None
        return CompileOptions(known, target, threads, pick, fallback)

    def resolve(self) -> build.Options:
        """The options of the pipeline."""
        return make_options(
            self.places, self.target, self.threads, pick=self.pick, fallback=self.fallback
        )

    def compile(self, program: FixedProgram) -> Model:
        return Model(program.source(), self.resolve())


@dataclass(frozen=True)
class FixedProgram:
    """A program for certain shapes and dtypes."""

    graph: Graph

    def source(self) -> FixedSource:
        """A source of this program for one compilation, which uses it up."""
        graph = self.graph
        return FixedSource(Graph(graph.module.clone(), graph.weights.copy(), graph.stage))


class FixedSource:
    """A program on its way to the driver, which gets it once: the weights may be large."""

    def __init__(self, graph: Graph) -> None:
        self._graph: Graph | None = graph
        self.inputs: Sequence[ValueInfo]
        self.outputs: Sequence[ValueInfo]
        self.inputs, self.outputs = signature(graph.module)

    def graph(self, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        """The program; its shapes are known already."""
        graph, self._graph = self._graph, None
        if graph is None:
            raise InternalError("the source of a program is used once")
        return graph


class Lowered:
    """A function for certain shapes and dtypes: to be inspected at any stage, or compiled.

    The texts are for reading: they may change from version to version.
    """

    def __init__(self, program: FixedProgram, options: CompileOptions) -> None:
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
        return self._options.compile(self._program)

    @functools.cached_property
    def _lowered(self) -> build.Lowered:
        with build.memory_to_compile():
            graph = self._program.source().graph({})
            return build.lower(graph, self._options.resolve(), start=graph.stage)


@dataclass
class _Entry(Generic[V]):
    """A value of the table; it is made by the first thread that needs it."""

    lock: fork.Lock = field(default_factory=fork.Lock)
    value: V | None = None


class Table(Generic[V]):
    """A bounded table of values that are made once for each key, whatever thread asks first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = fork.Lock()
        self._entries: OrderedDict[Hashable, _Entry[V]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of a key. Where making it fails, the next call tries again."""
        entry = self._entry(key)
        if entry.value is None:
            with entry.lock:
                if entry.value is None:
                    entry.value = make()
        return entry.value

    def _entry(self, key: Hashable) -> _Entry[V]:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry
            entry = self._entries[key] = _Entry()
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
            return entry
