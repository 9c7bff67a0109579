"""A compiled model: what users call and inspect."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tessella.driver import program_cache
from tessella.driver.by_value import ByValue, Value
from tessella.driver.compiling import Progress, Timings, memory_to_compile, quiet, total
from tessella.driver.in_calls import CompilesInCalls
from tessella.driver.options import Options
from tessella.driver.programs import ProgramTable
from tessella.runtime.arena import Workspace
from tessella.runtime.elements import dtype_name, dtype_named, tagged
from tessella.runtime.program import Program
from tessella.runtime.signature import ValueInfo
from tessella.support.copies import Compiled
from tessella.support.errors import InputError, InternalError, ShapeError, UnknownValueError
from tessella.support.logs import info
from tessella.support.memory import give_back

if TYPE_CHECKING:
    from tessella.dialects.graph import Source
    from tessella.driver.build import StagedProgram
    from tessella.driver.explain import Explanation

# the compiler is imported where it is needed: a program that is found on disk does without

Array = npt.NDArray[Any]

Shapes = tuple[tuple[int, ...], ...]
"""Of the inputs, in order."""

MAX_EXECUTABLES = 8
"""Concrete sets of shapes, and of values on which shapes depend, that a model keeps programs for.
The least recently used one is dropped."""

_DROPPED = f"more than {MAX_EXECUTABLES} sets of shapes take turns, and no more programs are kept"
_HINT = (
    "model.prepare({name: shape, ..}) compiles ahead of calls, and inputs that are padded to a few "
    "shapes need few programs"
)


class Key(NamedTuple):
    """What a program is made for."""

    shapes: Shapes
    values: tuple[Value, ...]
    """Of the inputs whose values shapes depend on. The program does not take these inputs."""


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

        return explain(self.lowered.stages, [str(value) for value in self.key.values])

    def run(self, arrays: Sequence[Array], threads: int) -> list[Array]:
        """The outputs for all inputs of the model."""
        if self.key.values:
            known = {value.index for value in self.key.values}
            arrays = [array for i, array in enumerate(arrays) if i not in known]
        return self.program.run(arrays, threads)

    def forget(self) -> None:
        """Keep no stages, which take more memory than the program."""
        if self.known is not None:
            self.known = None
            self.__dict__.pop("explanation", None)
            gc.collect()  # they are one large cycle


@dataclass(frozen=True)
class _Signature:
    """The specification of an input."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str, ...]

    def convert(self, value: npt.ArrayLike) -> Array:
        """The value as a contiguous array. Raises InputError where it does not fit."""
        dtype = dtype_name(self.dtype)
        try:
            array = tagged(np.asarray(value))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"input {self.name!r} is not an array: {error}",
                expected=f"{dtype} {self.shape}",
            ) from error
        if array.dtype != self.dtype:
            raise InputError(
                f"input {self.name!r} has the wrong element type",
                expected=dtype,
                found=dtype_name(array.dtype),
                hint=f"pass x.astype({dtype!r})",
            )
        if not _fits(array.shape, self.shape):
            raise InputError(
                f"input {self.name!r} has the wrong shape",
                expected=str(self.shape),
                found=str(array.shape),
            )
        return np.require(array, requirements=["C", "A"])


def _fits(shape: Sequence[object], wanted: tuple[int | str, ...]) -> bool:
    """Whether a shape has these sizes. A symbol stands for any size."""
    return len(shape) == len(wanted) and all(
        (isinstance(want, str) and isinstance(have, int) and have >= 0) or want == have
        for want, have in zip(wanted, shape, strict=True)
    )


class Model(Compiled):
    """A signature, whose dimensions may be symbolic, and a bounded table of executables.

    A program is made for concrete shapes of the inputs, and for the values of those inputs on whose
    values shapes depend.
    """

    def __init__(self, source: Source, options: Options, progress: Progress = quiet) -> None:
        self._source: Source | None = source
        self._options = options
        self._progress = progress
        self._programs: ProgramTable[Executable] = ProgramTable(MAX_EXECUTABLES)
        self._workspaces: deque[Workspace] = deque()
        self.inputs: tuple[ValueInfo, ...] = tuple(source.inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(source.outputs)
        self._signatures = [_Signature(i.name, dtype_named(i.dtype), i.shape) for i in self.inputs]
        self._symbolic = any(isinstance(d, str) for info in self.inputs for d in info.shape)
        self._in_calls = CompilesInCalls(expected=1)
        self._by_value = ByValue(self.inputs)
        self._known: set[int] = set()
        """The hashes of what programs were compiled for."""
        if not self._symbolic:
            self._compile_ahead()

    def _compile_ahead(self) -> None:
        """Compile the one program that a model has; one that depends on values waits for them."""
        shapes = tuple(tuple(d for d in i.shape if isinstance(d, int)) for i in self.inputs)
        try:
            self._executable(shapes, [None] * len(shapes))
        except UnknownValueError:
            if not self._by_value.indices:
                raise
        else:
            # there will be no other program: the packed weights are the only ones to keep
            self._source = None

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, npt.ArrayLike]
    ) -> list[Array]:
        """The outputs of these names (all of them for None), for inputs by name.

        Raises InputError for wrong names, shapes or element types.
        """
        if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                "inputs must be given by name",
                expected="a dictionary of arrays",
                found=type(feeds).__name__,
                hint="model(x) takes them in order",
            )
        arrays = [self._checked(signature, feeds) for signature in self._signatures]
        if len(feeds) != len(arrays):
            raise self._wrong_names(feeds)
        shapes = tuple([a.shape for a in arrays])
        if self._symbolic:
            self._check_symbols(shapes)
        executable = self._executable(shapes, arrays, in_call=True)
        results = executable.run(arrays, self._options.threads)
        if output_names is None:
            return results
        return [results[i] for i in self._positions(output_names)]

    def _wrong_names(self, feeds: Mapping[str, npt.ArrayLike]) -> InputError:
        return InputError(
            "the names of the inputs are wrong",
            expected=", ".join(info.name for info in self.inputs) or "none",
            found=", ".join(map(str, feeds)) or "none",
        )

    def __call__(self, *arrays: npt.ArrayLike) -> Any:
        """The output for inputs in order; a list where there are several outputs."""
        if len(arrays) != len(self.inputs):
            raise InputError(
                "wrong number of inputs",
                expected=f"{len(self.inputs)}: {', '.join(i.name for i in self.inputs)}",
                found=str(len(arrays)),
            )
        feeds = {info.name: a for info, a in zip(self.inputs, arrays, strict=True)}
        results = self.run(None, feeds)
        return results[0] if len(results) == 1 else results

    def prepare(
        self,
        shapes: Mapping[str, Sequence[int]],
        values: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """Compile for shapes of inputs by name, so that no call has to. Inputs without symbolic
        dimensions may be left out. ``values`` are those of inputs on whose values shapes depend,
        which need no shapes.

        Raises InputError for wrong names or shapes, UnknownValueError where values are missing.
        """
        arrays = self._converted(values or {})
        known = {i.name: [d for d in i.shape if isinstance(d, int)] for i in self.inputs}
        fixed = {i.name: known[i.name] for i in self.inputs if len(known[i.name]) == len(i.shape)}
        given = {name: array.shape for name, array in arrays.items()}
        named: dict[str, Sequence[int]] = {**fixed, **given, **shapes}
        if named.keys() != {info.name for info in self.inputs}:
            raise self._wrong_names(named)
        key = tuple(tuple(named[info.name]) for info in self.inputs)
        for signature, shape in zip(self.inputs, key, strict=True):
            if not _fits(shape, signature.shape):
                raise InputError(
                    f"the shape does not fit the input {signature.name!r}",
                    expected=str(signature.shape),
                    found=str(shape),
                )
        self._check_symbols(key)
        self._executable(key, [arrays.get(info.name) for info in self.inputs])

    def _converted(self, values: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        signatures = {signature.name: signature for signature in self._signatures}
        if not values.keys() <= signatures.keys():
            raise self._wrong_names(values)
        return {name: signatures[name].convert(value) for name, value in values.items()}

    def get_inputs(self) -> tuple[ValueInfo, ...]:
        """Name, shape and type of each input."""
        return self.inputs

    def get_outputs(self) -> tuple[ValueInfo, ...]:
        """Name, shape and type of each output."""
        return self.outputs

    def as_text(self, stage: str = "nn") -> str:
        """The program at a stage: nn, placed, tile, loops, llvm or asm."""
        from tessella.driver.build import as_text

        return as_text(self._latest().lowered, stage)

    def explain(self) -> Explanation:
        """Which kernel runs each op, at which place, and why; conversions, fusions, fallbacks."""
        return self._latest().explanation

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds that each step of the latest compilation took: the import of the model, passes by
        name, and the steps after them (docs/debugging.md)."""
        return dict(self._latest().timings)

    def _latest(self) -> Executable:
        latest = self._programs.latest()
        if latest is None:
            raise ShapeError(
                "the model's shapes vary, and it was not called yet", hint="call it once"
            )
        return latest

    def _positions(self, names: Sequence[str]) -> list[int]:
        known = [info.name for info in self.outputs]
        is_list = isinstance(names, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(names, str) or not is_list:
            raise InputError(
                "outputs must be given as a list of names",
                expected=f"some of {', '.join(known)}; None for all",
                found=repr(names),
            )
        wrong = [n for n in names if n not in known]
        if wrong:
            raise InputError(f"no output {', '.join(map(repr, wrong))}", expected=", ".join(known))
        return [known.index(n) for n in names]

    def _checked(self, signature: _Signature, feeds: Mapping[str, npt.ArrayLike]) -> Array:
        name, dtype, shape = signature.name, signature.dtype, signature.shape
        if name not in feeds:
            raise self._wrong_names(feeds)
        array = feeds[name]
        if (
            type(array) is np.ndarray
            and array.dtype == dtype
            and array.shape == shape
            and array.flags.carray
        ):
            return array
        return signature.convert(array)

    def _check_symbols(self, shapes: Shapes) -> None:
        """A symbol stands for one size in all inputs."""
        sizes: dict[str, int] = {}
        for known, shape in zip(self.inputs, shapes, strict=True):
            for symbol, size in zip(known.shape, shape, strict=True):
                if isinstance(symbol, str) and sizes.setdefault(symbol, size) != size:
                    raise InputError(
                        f"the dimension {symbol!r} has two sizes",
                        where=f"input {known.name!r}",
                        expected=str(sizes[symbol]),
                        found=str(size),
                    )

    def _executable(
        self, shapes: Shapes, arrays: Sequence[Array | None], *, in_call: bool = False
    ) -> Executable:
        """The program for these shapes, and the values that it depends on among the arrays."""
        while True:
            key = Key(shapes, self._by_value.values(arrays) if self._by_value.indices else ())
            try:
                return self._programs.get(key, partial(self._made, key, in_call))
            except UnknownValueError as error:
                self._by_value.learn(error)

    def _made(self, key: Key, in_call: bool) -> Executable:
        latest = self._programs.latest()
        executable = self._compile(key)
        if latest is not None:
            latest.forget()
        executable.program.workspaces = self._workspaces
        self._tell(key, executable.timings, in_call)
        return executable

    def _tell(self, key: Key, timings: Mapping[str, float], in_call: bool) -> None:
        """Log how a program was made."""
        valued = {value.name: str(value) for value in key.values}
        text = ", ".join(
            valued.get(i.name, f"{i.name} {list(shape)}")
            for i, shape in zip(self.inputs, key.shapes, strict=True)
        )
        seconds = total(timings)
        if "fetch" in timings:
            info("compile", "a program for %s was found on disk, in %.3f s", text, seconds)
        elif in_call:
            known = hash(key) in self._known
            new = "values, on which shapes depend" if key.values else "shapes"
            why = _DROPPED if known else f"its inputs have new {new}: {text}"
            self._in_calls.tell("a model", seconds, why, _HINT)
        else:
            info("compile", "a model was compiled for %s, in %.2f s", text, seconds)
        self._known.add(hash(key))

    def _compile(self, key: Key) -> Executable:
        source, options = self._source, self._options
        if source is None:
            raise InternalError(f"the model was compiled for other shapes than {key.shapes}")
        shapes = {info.name: s for info, s in zip(self.inputs, key.shapes, strict=True)}
        values = {value.name: value.array for value in key.values}
        kept = program_cache.key(source.fingerprint, key, options)

        def lowered_again() -> StagedProgram:
            from tessella.driver.build import lower

            with memory_to_compile():
                graph = source.graph(shapes, values)
                lowered = lower(graph, options, start=graph.stage)
            lowered.weights.keep(set())
            return lowered

        with memory_to_compile():
            timings = Timings()
            with timings.of("fetch"):
                program = program_cache.fetch(kept)
            if program is not None:
                return Executable(key, program, timings, lowered_again)
            from tessella.driver.build import compile_graph

            timings = Timings()
            with timings.of("import"):
                graph = source.graph(shapes, values)
            built = compile_graph(graph, options, self._progress)
            timings.update(built.lowered.timings)
            with timings.of("store"):
                program_cache.store(kept, built.program)
        lowered = built.lowered
        lowered.weights.keep(set())
        give_back()
        # the source of a model with one program is not kept, and nor are its stages forgotten
        varies = self._symbolic or key.values
        again = lowered_again if varies else lambda: lowered
        return Executable(key, built.program, timings, again, lowered)
