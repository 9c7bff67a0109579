"""A compiled model: what users call and inspect."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tessella import targets
from tessella.driver import kept_source, program_cache, ship
from tessella.driver.by_value import ByValue, Sizes, Value
from tessella.driver.compiling import Progress, Timings, memory_to_compile, quiet, total
from tessella.driver.in_calls import CompilesInCalls
from tessella.driver.open_sizes import MAX_VERSIONS, OF_MODELS, Openness, OpenSizes
from tessella.driver.options import Options
from tessella.driver.programs import ProgramTable
from tessella.driver.subprograms import (
    RunningRest,
    Sources,
    interfaces,
    sources,
    sources_again,
)
from tessella.runtime import loaded
from tessella.runtime import model as runnable
from tessella.runtime.arena import Workspace
from tessella.runtime.artifact import Compiled as Stored
from tessella.runtime.artifact import CompiledModel, CompiledSubprogram
from tessella.runtime.model import Out, Shapes
from tessella.runtime.profiler import Part
from tessella.runtime.program import Program
from tessella.runtime.rest import Interface, Rest
from tessella.runtime.signature import Dimensions, ValueInfo, fits
from tessella.support import fork
from tessella.support.copies import Compiled
from tessella.support.errors import (
    InputError,
    InternalError,
    ResourceError,
    ShapeError,
    UnknownValueError,
)
from tessella.support.logs import debug, info
from tessella.support.memory import give_back
from tessella.support.sizes import Symbol, UndecidedSizeError, symbols_of

if TYPE_CHECKING:
    from tessella.dialects.graph import Graph, Source
    from tessella.driver.build import StagedProgram
    from tessella.runtime.events import Work
    from tessella.runtime.explanation import Explanation

# the compiler is imported where it is needed: a program that is found on disk does without

Array = npt.NDArray[Any]

MAX_EXECUTABLES = 8
"""Sets of numbers as shapes, and of values on which shapes depend, that a model keeps programs for,
beside those for ranges of sizes. The least recently used one is dropped."""

_DROPPED = f"more than {MAX_EXECUTABLES} sets of shapes take turns, and no more programs are kept"
_HINT = (
    "model.prepare() compiles programs for all sizes ahead of calls, and model.prepare({name: "
    "shape, ..}) one for these"
)
_HINT_OF_PARTS = (
    "model.prepare() compiles ahead of calls what has types and sizes that are known before, and "
    "model.explain() says why a size is a number"
)


class Key(NamedTuple):
    """What a program is made for."""

    made: Shapes
    """The shapes of inputs; elements that are sizes come after them."""
    values: tuple[Value, ...] = ()
    """Of the inputs whose values shapes depend on. The program does not take these inputs."""
    sizes: tuple[Sizes, ...] = ()
    """Of inputs whose elements are sizes that are open."""

    @property
    def known(self) -> Mapping[str, Array]:
        """The values by name."""
        return {value.name: value.array for value in (*self.values, *self.sizes)}


@dataclass
class Executable:
    """A program, and what it is made for."""

    key: Key
    program: Program
    timings: Mapping[str, float]
    """Seconds that each step of its compilation took."""
    lower: Callable[[], StagedProgram]
    """Makes the stages again."""
    known: StagedProgram | None = None
    """The stages, if they are kept."""
    rest: RunningRest[Model] | None = None
    """What follows, if the program is cut."""
    passed: frozenset[int] = frozenset()
    """The inputs that the program does not take as they are no tensors."""
    sizes: Sequence[str] = ()
    """What each dimension that the model leaves open is in the program, and why."""
    structure: object = None
    """How the frontend puts the results together, if it does."""

    @property
    def lowered(self) -> StagedProgram:
        """The stages, which are made again on demand if they are not kept."""
        if self.known is None:
            self.known = self.lower()
        return self.known

    @cached_property
    def explanation(self) -> Explanation:
        """Made on demand: the candidates that were not picked are found again."""
        from tessella.driver.explain import explain

        values = [str(value) for value in self.key.values]
        return explain(self.lowered.stages, values, self.sizes)

    @property
    def full_explanation(self) -> Explanation:
        """With that of the subprograms that were compiled last."""
        explanation = self.explanation
        return explanation if self.rest is None else with_subprograms(explanation, self.rest)

    @cached_property
    def work(self) -> Mapping[str, Work]:
        """What the kernels have to do, for profiles."""
        from tessella.driver.work import work_of

        return work_of(self.lowered.stages, self.lowered.target)

    def run(self, arrays: Sequence[Array], threads: int, out: Out = ()) -> list[Array]:
        """The outputs of the program for all inputs of the model."""
        if self.key.values or self.passed:
            known = self.passed.union(value.index for value in self.key.values)
            arrays = [array for i, array in enumerate(arrays) if i not in known]
        return self.program.run(arrays, threads, out)

    def forget(self) -> None:
        """Keep no stages, which take more memory than the program."""
        if self.known is not None:
            self.known = None
            self.__dict__.pop("explanation", None)
            self.__dict__.pop("work", None)
            gc.collect()  # they are one large cycle


class Model(runnable.Model, Compiled):
    """A signature, whose dimensions may be symbolic, and a bounded table of executables.

    A program is made for shapes of the inputs, whose sizes are numbers or ranges, and for the
    values of those inputs on whose values shapes depend.
    """

    def __init__(
        self,
        source: Source,
        options: Options,
        progress: Progress = quiet,
        openness: Openness = "fixed",
        *,
        elements: Mapping[str, Dimensions] | None = None,
        is_inner: bool = False,
        most: int = MAX_EXECUTABLES,
        starts: Sequence[int] = OF_MODELS,
    ) -> None:
        """``elements`` are those of inputs that are known to be sizes, which may have names."""
        super().__init__(source.inputs, source.outputs, options.threads, is_inner=is_inner)
        self._source: Source | None = source
        self._options = options
        self._progress = progress
        self._workspaces: deque[Workspace] = deque()
        elements = elements or {}
        sizes = {i: elements[x.name] for i, x in enumerate(self.inputs) if x.name in elements}
        self._by_value = ByValue(self.inputs, tuple(sizes))
        self._open = OpenSizes(self.inputs, openness, source.symbols, starts, sizes)
        self._most = most
        self._programs: ProgramTable[Executable] = ProgramTable(most)
        self._in_calls = CompilesInCalls(expected=1)
        self._expect_versions()
        self._only: Executable | None = None
        """The one program that a model has whose sizes and values are known."""
        self._lock = fork.Lock()
        """Of what is known of values and of sizes."""
        self._known: set[int] = set()
        """The hashes of what programs were compiled for."""
        if not self._symbolic:
            self._compile_ahead()

    def _expect_versions(self) -> None:
        """Have room for a program for each range of sizes."""
        versions = min(MAX_VERSIONS, self._open.count)
        self._programs.most = self._most + versions
        self._in_calls.expected = max(1, versions)

    def _compile_ahead(self) -> None:
        """Compile the one program that a model has; one that depends on values waits for them."""
        shapes = tuple(tuple(d for d in i.shape if isinstance(d, int)) for i in self.inputs)
        try:
            self._only = self._executable(shapes, [None] * len(shapes))
        except UnknownValueError:
            if not self._by_value.indices:
                raise
        else:
            # there will be no other program: the packed weights are the only ones to keep
            self._source = None

    def prepare(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """Compile for shapes of inputs by name, so that no call has to. Inputs without symbolic
        dimensions may be left out. ``values`` are those of inputs on whose values shapes depend,
        which need no shapes. Without shapes, all programs are compiled that serve sizes within the
        bounds of ``dims``; all dimensions are open from then on.

        Raises InputError for wrong names or shapes, UnknownValueError where values are missing.
        """
        if shapes is None:
            self._compile_versions()
            self._compile_subprograms()
            return
        arrays = self.converted(values or {})
        known = {i.name: [d for d in i.shape if isinstance(d, int)] for i in self.inputs}
        fixed = {i.name: known[i.name] for i in self.inputs if len(known[i.name]) == len(i.shape)}
        given = {name: array.shape for name, array in arrays.items()}
        named: dict[str, Sequence[int]] = {**fixed, **given, **shapes}
        if named.keys() != {info.name for info in self.inputs}:
            raise self._wrong_names(named)
        key = tuple(tuple(named[info.name]) for info in self.inputs)
        for signature, shape in zip(self.inputs, key, strict=True):
            if not fits(shape, signature.shape):
                raise InputError(
                    f"the shape does not fit the input {signature.name!r}",
                    expected=str(signature.shape),
                    found=str(shape),
                )
        self._check_symbols(key)
        self._executable(key, [arrays.get(info.name) for info in self.inputs], is_own=True)
        self._compile_subprograms()

    def _compile_versions(self) -> None:
        """Compile the programs for all ranges of sizes."""
        ranks, versions = self._open.ranks, self._open.versions()
        try:
            for each in versions.values():
                shapes = self._shapes_in(each)
                parts = zip(self.inputs, shapes, each, strict=True)
                values = (
                    np.array(all[len(s) :], info.dtype).reshape(s) if i in ranks else None
                    for i, (info, s, all) in enumerate(parts)
                )
                self._compile_version(shapes, [*values])
        except UnknownValueError:
            if self._open.ranks == ranks:
                raise
        if self._open.versions().keys() != versions.keys():
            self._compile_versions()  # now that more is known of values and ranges

    def _compile_version(self, shapes: Shapes, arrays: Sequence[Array | None]) -> None:
        """Compile the program for a range of sizes. Not all fit where inputs are read as shapes."""
        try:
            self._executable(shapes, arrays)
        except ShapeError as error:
            if isinstance(error, UnknownValueError) or not self._open.ranks:
                raise

    def _shapes_in(self, made: Shapes) -> Shapes:
        """The shapes, without the elements after them."""
        pairs = zip(self.inputs, made, strict=True)
        return tuple(sizes[: len(info.shape)] for info, sizes in pairs)

    def _compile_subprograms(self) -> None:
        """Compile what follows cuts, as far as its types are known."""
        for each in self._programs.made():
            if each.rest is not None:
                compile_ahead(each.rest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the programs that there are as an artifact, which `tessella.load` runs without the
        compiler: for this kind of machine, and the shapes that were asked for so far. `tessella
        compile` writes artifacts for other machines.

        Raises ShapeError if there is no program yet: `prepare` makes one.
        """
        self._latest()
        loaded.write(path, ship.parts(self.compiled(explained=True)))

    def __reduce__(self) -> tuple[Any, ...]:
        self._latest()
        data = b"".join(ship.parts(self.compiled()))
        return loaded.from_bytes, (data, self.threads)

    def compiled(self, *, explained: bool = False) -> CompiledModel:
        """The programs that there are, as they are stored; with their explanations, and with what
        their kernels do, if that is asked for."""
        made = [self._with_rest(each, explained) for each in self._programs.made()]
        return CompiledModel(self.inputs, self.outputs, made)

    def _with_rest(self, made: Executable, explained: bool) -> Stored:
        rest = None if made.rest is None else compiled_rest(made.rest, explained=explained)
        known = (made.full_explanation, made.work) if explained else (None, None)
        return self._stored(made.key, made.program, *known, rest)

    def _stored(
        self,
        key: Key,
        program: Program,
        explanation: Explanation | None = None,
        work: Mapping[str, Work] | None = None,
        rest: Rest[CompiledSubprogram] | None = None,
    ) -> Stored:
        values = {value.index: value.data for value in key.values}
        sizes = {each.index: each.elements for each in key.sizes}
        shapes, known = self._shapes_in(key.made), (explanation, work, rest, sizes)
        return ship.compiled(shapes, values, program, self._options, *known)

    def as_text(self, stage: str = "nn") -> str:
        """The program at a stage: nn, placed, tile, loops, llvm or asm."""
        from tessella.driver.build import as_text

        latest = self._latest()
        text = as_text(latest.lowered, stage)
        found = latest.rest.models() if latest.rest is not None else ()
        return "\n".join([text, *(f"// {where}:\n{each.as_text(stage)}" for where, each in found)])

    def explain(self) -> Explanation:
        """Which kernel runs each op, at which place, and why; conversions, fusions, fallbacks."""
        return self._latest().full_explanation

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds that each step of the latest compilation took: the import of the model, passes by
        name, and the steps after them (docs/debugging.md)."""
        return dict(self._latest().timings)

    def _latest(self) -> Executable:
        latest = self._programs.latest()
        if latest is None:
            raise ShapeError(
                "the model has symbolic dimensions, or depends on values, and was not called yet",
                hint="call it once",
            )
        return latest

    @property
    def target(self) -> str:
        """The name of the machine that it was compiled for."""
        return targets.resolve(self._options.target).name

    def _known_programs(self) -> Sequence[Program]:
        made = self._programs.made()
        rests = (each.rest for each in made if each.rest is not None)
        others = (p for rest in rests for _, m in rest.made() for p in m._known_programs())
        return [*(each.program for each in made), *others]

    def _parts(self) -> Iterator[Part]:
        for each in self._programs.made():
            yield Part(each, partial(getattr, each, "work"))
            if each.rest is not None:
                yield Part(each.rest, dict)
                for where, model in each.rest.made():
                    yield from (replace(part, where=part.where or where) for part in model._parts())

    def _results(self, shapes: Shapes, arrays: Sequence[Array], out: Out) -> list[Array]:
        executable = self._only or self._executable(shapes, arrays, in_call=True)
        if executable.rest is None:
            return executable.run(arrays, self.threads, out)
        results = executable.run(arrays, self.threads)
        return self._followed(executable.rest.program, arrays, results)

    def _executable(
        self,
        shapes: Shapes,
        arrays: Sequence[Array | None],
        *,
        in_call: bool = False,
        is_own: bool = False,
    ) -> Executable:
        """The program for these shapes, and the values that it depends on among the arrays;
        ``is_own`` asks for one of their own."""
        while True:
            with self._lock:
                indices, key = self._by_value.indices, self._key(shapes, arrays, is_own)
            try:
                return self._programs.get(key, partial(self._made, key, in_call))
            except UnknownValueError as error:
                with self._lock:
                    if self._by_value.indices == indices:  # else another thread has learnt it
                        self._learn(error, shapes)
            except ResourceError:
                raise
            except Exception as error:
                # what is wrong with the model is wrong with numbers, too
                with self._lock:
                    if not self._open.narrow(key.made, error):
                        raise
                debug("compile", f"compiled for fewer sizes: {error}")

    def _key(self, shapes: Shapes, arrays: Sequence[Array | None], is_own: bool) -> Key:
        """What a program is made for that serves these inputs."""
        if not (self._by_value.indices or is_own):
            return Key(self._open.made(shapes) if self._symbolic else shapes)
        known, ranks = self._by_value.known(arrays), self._open.ranks
        given = tuple(
            (*shape, *known[i].reshape(-1).tolist()) if i in ranks else shape
            for i, shape in enumerate(shapes)
        )
        if is_own:
            self._open.make_own(given)
        made = self._open.made(given, tuple(i for i in known if i not in ranks))
        elements = {i: made[i][rank:] for i, rank in ranks.items()}
        sizes = {
            i: Sizes(i, self.inputs[i].name, shapes[i], each)
            for i, each in elements.items()
            if symbols_of(each)
        }
        others = {i: array for i, array in known.items() if i not in sizes}
        return Key(made, self._by_value.values(others), tuple(sizes.values()))

    def _learn(self, error: UnknownValueError, shapes: Shapes) -> None:
        """Let inputs matter by value that an error asks for. Raises it where there is none."""
        before = self._by_value.indices
        self._by_value.learn(error)
        learnt = (i for i in self._by_value.indices if i not in before)
        sizes = {i: prod(shapes[i]) for i in learnt if self.inputs[i].can_be_sizes}
        self._open = self._open.with_elements(sizes)

    def _made(self, key: Key, in_call: bool) -> Executable:
        self._expect_versions()
        latest = self._programs.latest()
        executable = self._compile(key)
        if latest is not None:
            latest.forget()
        executable.program.workspaces = self._workspaces
        executable.passed = self._passed
        executable.sizes = self._open.told(key.made)
        self._tell(key, executable.timings, in_call)
        return executable

    def _tell(self, key: Key, timings: Mapping[str, float], in_call: bool) -> None:
        """Log how a program was made."""
        valued = {value.name: str(value) for value in (*key.values, *key.sizes)}
        text = ", ".join(
            valued.get(i.name, f"{i.name} {list(shape)}")
            for i, shape in zip(self.inputs, key.made, strict=True)
        )
        seconds = total(timings)
        if "fetch" in timings:
            info("compile", "a program for %s was found on disk, in %.3f s", text, seconds)
        elif in_call:
            known = hash(key) in self._known
            new = "values, on which shapes depend" if key.values else "shapes"
            why = _DROPPED if known else f"its inputs have new {new}: {text}"
            told = ("a part of a model", _HINT_OF_PARTS) if self._is_inner else ("a model", _HINT)
            self._in_calls.tell(told[0], seconds, why, told[1])
        else:
            info("compile", "a model was compiled for %s, in %.2f s", text, seconds)
        self._known.add(hash(key))

    def _compile(self, key: Key) -> Executable:
        symbols = sorted(symbols_of(size for sizes in key.made for size in sizes))
        if not symbols or self._source is None:
            return self._compiled(key, symbols)
        kept = program_cache.key(self._source.fingerprint, (key, *symbols), self._options)
        refused = program_cache.refusal(kept)
        if refused is not None:
            raise refused
        try:
            return self._compiled(key, symbols)
        except (UnknownValueError, ResourceError):
            raise
        except Exception as error:
            known = isinstance(error, UndecidedSizeError)
            program_cache.refuse(kept, error if known else UndecidedSizeError(str(error), ()))
            raise

    def _compiled(self, key: Key, symbols: Sequence[Symbol]) -> Executable:
        source = self._source
        options = replace(self._options, several=self._open.is_one_of_several(key.made))
        if source is None:
            raise InternalError(f"the model was compiled for other shapes than {key.made}")
        each = zip(self.inputs, self._shapes_in(key.made), strict=True)
        shapes, values = {info.name: shape for info, shape in each}, key.known
        made_for = key, *symbols
        kept = program_cache.key(source.fingerprint, made_for, options)
        name = None if source.fingerprint is None else repr((source.fingerprint, made_for))

        def imported() -> Graph:
            with memory_to_compile():
                return source.graph(shapes, values)

        def lowered_again() -> StagedProgram:
            from tessella.driver.build import lower

            with memory_to_compile():
                graph = imported()
                lowered = lower(graph, options, start=graph.stage)
            lowered.weights.keep(set())
            return lowered

        with memory_to_compile():
            timings = Timings()
            with timings.of("fetch"):
                found = program_cache.fetch(kept)
            if found is not None:
                program, after = found
                rest = subprograms_of(after, sources_again(imported), options, name)
                return Executable(key, program, timings, lowered_again, rest=rest)
            from tessella.driver.build import compile_graph

            timings = Timings()
            with timings.of("import"):
                graph = imported()
            built = compile_graph(graph, options, self._progress)
            timings.update(built.lowered.timings)
            after = interfaces(graph)
            with timings.of("store"):
                if options.pick == "measure":  # what it depends on was made only now
                    kept = program_cache.key(source.fingerprint, made_for, options)
                known = None if after is None else after.over(CompiledSubprogram)
                made = self._stored(key, built.program, rest=known)
                program_cache.store(kept, self.inputs, self.outputs, made)
        rest = subprograms_of(after, sources(graph), options, name)
        lowered = built.lowered
        lowered.weights.keep(set())
        give_back()
        # the source of a model with one program is not kept, and nor are its stages forgotten
        varies = self._symbolic or key.values or key.sizes
        again = lowered_again if varies else lambda: lowered
        made = Executable(key, built.program, timings, again, lowered, rest)
        made.structure = graph.structure
        return made


def subprograms_of(
    rest: Rest[Interface] | None, sources: Sources, options: Options, program: str | None = None
) -> RunningRest[Model] | None:
    """What follows the first subprogram of a program, as models. ``program`` identifies it, if that
    is to be kept."""
    if rest is None:
        return None

    def source(number: int, infos: tuple[ValueInfo, ...]) -> Source:
        return kept_source.inner(program, number, infos, lambda: sources(number, infos))

    return RunningRest(rest, source, partial(_subprogram, options))


def _subprogram(options: Options, source: Source, interface: Interface) -> Model:
    """A model of a subprogram, whose sizes stay open, some of them within bounds."""
    elements = interface.elements
    shapes = (*(info.shape for info in source.inputs), *elements.values())
    names = {d for shape in shapes for d in shape}
    openness = {n: b for n, b in interface.bounds.items() if n in names}
    return Model(source, options, openness=openness, elements=elements, is_inner=True)


def compile_ahead(rest: RunningRest[Model]) -> Sequence[str]:
    """Compile what can be before a call; what cannot, and why."""
    missing: list[str] = []
    for where, subprogram in rest.subprograms():
        try:
            model = subprogram.ahead()
            if model is None:
                missing.append(f"what is {where} has types that only a call tells")
            else:
                model.prepare()
        except UnknownValueError as error:
            missing.append(f"what is {where} needs values: {error.what}")
    return missing


def with_subprograms(explanation: Explanation, rest: RunningRest[Model]) -> Explanation:
    """That of a program, with those of its subprograms that were compiled last."""
    others = [(where, each.explain()) for where, each in rest.models()]
    return replace(explanation, subprograms=others) if others else explanation


def compiled_rest(rest: RunningRest[Model], *, explained: bool = False) -> Rest[CompiledSubprogram]:
    """What is compiled of subprograms, as it is stored."""
    return rest.program.rest.over(
        lambda each: CompiledSubprogram(
            each.interface, [model.compiled(explained=explained) for model in each.models.made()]
        )
    )
