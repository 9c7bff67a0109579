"""A compiled model: what users call and inspect."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tessella import targets
from tessella.driver.build.compiling import Progress, quiet, total
from tessella.driver.cache.stored import parts
from tessella.driver.model.compilation import ProgramCompilation, stored
from tessella.driver.model.executable import (
    Executable,
    compile_ahead,
    compiled_rest,
)
from tessella.driver.model.in_calls import CompilesInCalls
from tessella.driver.options import CheckedOptions
from tessella.driver.specialise.key import Key, shapes_in
from tessella.driver.specialise.open_sizes import OF_MODELS, Openness, OpenSizes
from tessella.driver.specialise.specialisations import Specialisations
from tessella.runtime import loaded
from tessella.runtime import model as runnable
from tessella.runtime.arena import Workspaces
from tessella.runtime.artifact import CompiledModel, CompiledProgram
from tessella.runtime.host_steps import HostStep
from tessella.runtime.model import Out, Shapes
from tessella.runtime.profiler import ProfiledProgram
from tessella.runtime.program import Program
from tessella.runtime.rest import Interface
from tessella.runtime.signature import Dimensions, fits
from tessella.support import deadline
from tessella.support.copies import Immutable
from tessella.support.errors import (
    InputError,
    InternalError,
    ShapeError,
    UnknownValueError,
)
from tessella.support.logs import debug, info, warning
from tessella.support.sizes import symbols_of

if TYPE_CHECKING:
    from tessella.dialects.graph import Source
    from tessella.driver.report.data import Report
    from tessella.runtime.explanation import Explanation

Array = npt.NDArray[Any]

MAX_EXECUTABLES = 8
"""Programs that a model caches for concrete shapes and values, in addition to those for size
ranges.

The least recently used one is dropped.
"""

_DROPPED = f"more than {MAX_EXECUTABLES} sets of shapes take turns, and no more programs are kept"
_HINT = (
    "tessella.compile(.., prepare=True) or model.prepare() compiles programs for all sizes ahead "
    "of calls, model.prepare({name: shape, ..}, {name: array, ..}) one for these; model.save ships "
    "them as an artifact"
)
_HINT_OF_PARTS = (
    "model.prepare() compiles ahead of calls what has types and sizes that are known before, and "
    "model.explain() says why a size is a number"
)


class Model(runnable.CallableModel, Immutable):
    """A compiled model: a signature, and a bounded table of executables.

    Dimensions of the signature may be symbolic.
    A program is compiled for shapes of the inputs, with concrete sizes or ranges, and for the
    values of shape-determining inputs.
    """

    def __init__(
        self,
        source: Source,
        options: CheckedOptions,
        progress: Progress = quiet,
        openness: Openness = "fixed",
        *,
        elements: Mapping[str, Dimensions] | None = None,
        unnamed: Set[str] = frozenset(),
        is_inner: bool = False,
        in_call: bool = False,
        in_calls: CompilesInCalls | None = None,
        most: int = MAX_EXECUTABLES,
        starts: Sequence[int] = OF_MODELS,
    ) -> None:
        """``elements`` are the elements of shape-valued inputs, by input name; an element may be a
        name. ``unnamed`` has the names of dimensions that the model does not name: they only say
        which dimension of which input it is.

        ``in_call`` says that a call waits for the model. ``in_calls`` counts compilations in calls;
        without it, the first compilation in a call is expected.
        """
        super().__init__(source.inputs, source.outputs, options.threads, is_inner=is_inner)
        self._source: Source | None = source
        self._options = options
        self._progress = progress
        self._workspaces = Workspaces()
        self._table: Specialisations[Executable[Model]] = Specialisations(
            self.inputs,
            openness,
            symbols=source.symbols,
            determining={*source.determining},
            elements=elements,
            unnamed=unnamed,
            starts=starts,
            most=most,
        )
        self._in_calls = in_calls or CompilesInCalls(expected=1)
        self._only: Executable[Model] | None = None
        """The only program of a model without symbolic dimensions and shape-determining inputs."""
        self._known: set[int] = set()
        """Hashes of the keys of all programs compiled so far, including those that the table has
        dropped."""
        if self._table.has_one:
            self._compile_ahead(in_call=in_call)

    def _compile_ahead(self, *, in_call: bool) -> None:
        """Compile a model's only program."""
        shapes = tuple(tuple(d for d in i.shape if isinstance(d, int)) for i in self.inputs)
        self._only = self._executable(shapes, [None] * len(shapes), in_call=in_call)
        # There will be no other program: the model no longer needs its source.
        self._source = None

    def prepare(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        values: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """Compile programs ahead of calls.

        Without shapes and values, all programs are compiled that serve sizes within the bounds of
        ``dims``, and all dynamic dimensions are symbolic from then on. A warning names the sizes
        and the subprograms that only a call can compile.

        Parameters
        ----------
        shapes : dict of sequence of int, optional
            The shapes of inputs by name: one program is compiled, for these. Inputs without
            symbolic dimensions may be left out.
        values : dict of array_like, optional
            The values of inputs on whose values shapes depend. Their shapes may be left out.

        Raises
        ------
        InputError
            If names or shapes are wrong.
        UnknownValueError
            If values are missing.
        CompileTimeoutError
            If the compilation takes longer than ``timeout``.
        """
        with deadline.within(self._options.timeout):
            self._prepare(shapes, values)

    def _prepare(
        self,
        shapes: Mapping[str, Sequence[int]] | None,
        values: Mapping[str, npt.ArrayLike] | None,
    ) -> None:
        if shapes is None and not values:
            self._compile_versions()
            missing = [*self._table.sizes.closed(), *self._compile_subprograms()]
            if missing:
                warning("compile", "calls may still have to compile: %s", "; ".join(missing))
            return
        arrays = self.converted(values or {})
        known = {i.name: [d for d in i.shape if isinstance(d, int)] for i in self.inputs}
        fixed = {i.name: known[i.name] for i in self.inputs if len(known[i.name]) == len(i.shape)}
        given = {name: array.shape for name, array in arrays.items()}
        asked = {name: _shape(name, shape) for name, shape in (shapes or {}).items()}
        named: dict[str, Sequence[int]] = {**fixed, **given, **asked}
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
        """Compile the programs for all size ranges."""
        sizes = self._table.sizes
        ranks, versions = sizes.ranks, sizes.versions()
        misfits: list[ShapeError] = []
        for each in versions.values():
            shapes = shapes_in(self.inputs, each)
            parts = zip(self.inputs, shapes, each, strict=True)
            values = (
                np.array(all[len(s) :], info.dtype).reshape(s) if i in ranks else None
                for i, (info, s, all) in enumerate(parts)
            )
            misfits += self._compile_version(shapes, [*values])
        if misfits and not self._table.programs.made():
            raise misfits[0]
        if sizes.versions().keys() != versions.keys():
            self._compile_versions()  # again, now that more ranges are known

    def _compile_version(
        self, shapes: Shapes, arrays: Sequence[Array | None]
    ) -> Sequence[ShapeError]:
        """Compile the program for a size range, given shapes and values in it. Returns the error of
        sizes that do not fit together, if any.

        Ranges may not fit together if a dimension has two names, or if an input is read as a shape.
        """
        try:
            self._executable(shapes, arrays)
        except UnknownValueError:
            raise
        except ShapeError as error:
            debug("compile", "sizes that do not fit together are left out: %s", error.what)
            return [error]
        return []

    def _compile_subprograms(self) -> Sequence[str]:
        """Compile the subprograms in continuations after graph breaks if their types are known.

        Returns a text with the reason for each subprogram that was not compiled.
        """
        rests = [each.rest for each in self._table.programs.made() if each.rest is not None]
        return [*dict.fromkeys(missing for rest in rests for missing in compile_ahead(rest))]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the programs compiled so far to an artifact.

        ``tessella.load`` runs the artifact without the compiler, on this kind of machine, for the
        shapes that these programs serve. ``tessella compile`` writes artifacts for other machines.

        Parameters
        ----------
        path : str or PathLike
            The file.

        Raises
        ------
        ShapeError
            If there is no program yet: ``prepare`` compiles one.
        OptionError
            If the file cannot be written.
        """
        self._latest()
        loaded.write(path, parts(self.compiled(explained=True)))

    def __reduce__(self) -> tuple[Any, ...]:
        self._latest()
        data = b"".join(parts(self.compiled()))
        return loaded.from_bytes, (data, self.threads)

    def compiled(self, *, explained: bool = False) -> CompiledModel:
        """Return the programs compiled so far in the form in which an artifact stores them.

        Parameters
        ----------
        explained : bool
            Whether to include the explanation of each program and the work of its kernels.

        Returns
        -------
        CompiledModel
            The signature and the programs.
        """
        made = [self._with_rest(each, explained) for each in self._table.programs.made()]
        return CompiledModel(self.inputs, self.outputs, made)

    def _with_rest(self, made: Executable[Model], explained: bool) -> CompiledProgram:
        rest = None if made.rest is None else compiled_rest(made.rest, explained=explained)
        known = (made.full_explanation, made.work) if explained else (None, None)
        return stored(self.inputs, made.key, made.program, self._options, *known, rest)

    def as_text(self, stage: str = "nn") -> str:
        """Return the program that ran last, at a stage.

        Parameters
        ----------
        stage : {"nn", "placed", "tile", "loops", "llvm", "asm"}
            The stage.

        Returns
        -------
        str
            The text.

        Raises
        ------
        ShapeError
            If there is no program yet: call the model once.
        OptionError
            If there is no such stage.
        """
        from tessella.driver.build.build import as_text

        latest = self._latest()
        text = as_text(latest.lowered, stage)
        found = latest.rest.models() if latest.rest is not None else ()
        return "\n".join([text, *(f"// {where}:\n{each.as_text(stage)}" for where, each in found)])

    def explain(self) -> Explanation:
        """Explain the program that ran last.

        Returns
        -------
        Explanation
            The kernel and the place of each op, and why; conversions, fusions, fallbacks.

        Raises
        ------
        ShapeError
            If there is no program yet: call the model once.
        """
        return self._latest().full_explanation

    def report(
        self,
        inputs: Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike] | Array | None = None,
        *,
        name: str = "model",
        runs: int | None = None,
    ) -> Report:
        """Report on the program that ran last: its steps, kernels, code, passes and memory.

        The program is lowered again, and its code is generated again as text, which takes about as
        long as compiling it.

        Parameters
        ----------
        inputs : dict of array_like, sequence of array_like, or ndarray, optional
            The inputs by name, or in order, to measure runs with; without them, all times are
            estimates.
        name : str
            The title of the report.
        runs : int, optional
            The number of runs that count; by default, as many as fit into half a second, 10 at
            least.

        Returns
        -------
        Report
            The report, which ``save`` writes as a page or as JSON.

        Raises
        ------
        ShapeError
            If there is no program yet: call the model once.
        InputError
            If names, shapes or element types of inputs are wrong.
        OptionError
            If there are no runs.
        """
        from tessella.driver.report.collect import Subject, collect
        from tessella.driver.report.passes import PassRecorder

        profile = None if inputs is None else self.profile(inputs, runs=runs)
        latest, recorder = self._latest(), PassRecorder()
        lowered = latest.lowered_again(recorder)
        subject = Subject(
            name=name,
            inputs=self.inputs,
            outputs=self.outputs,
            weight_bytes=self.weight_bytes,
            threads=self.threads,
            lowered=lowered,
            explanation=latest.full_explanation,
            passes=recorder.passes,
            timings={**lowered.timings, **latest.timings},
            profile=profile,
        )
        return collect(subject)

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds that each step of the latest compilation took.

        The steps are the import of the model, passes by name, and the steps after them
        (docs/debugging.md)."""
        return dict(self._latest().timings)

    def _latest(self) -> Executable[Model]:
        latest = self._table.programs.latest()
        if latest is None:
            raise ShapeError(
                "the model has symbolic dimensions, or depends on values, and was not called yet",
                hint="call it once",
            )
        return latest

    @property
    def target(self) -> str:
        """The name of the target that the model was compiled for."""
        return targets.resolve(self._options.target).name

    def _known_programs(self) -> Sequence[Program]:
        made = self._table.programs.made()
        rests = (each.rest for each in made if each.rest is not None)
        others = (p for rest in rests for _, m in rest.made() for p in m._known_programs())
        return [*(each.program for each in made), *others]

    def _parts(self) -> Iterator[ProfiledProgram]:
        for each in self._table.programs.made():
            yield ProfiledProgram(each, partial(getattr, each, "work"))
            if each.rest is not None:
                yield ProfiledProgram(each.rest, dict)
                for where, model in each.rest.made():
                    yield from (replace(part, where=part.where or where) for part in model._parts())

    def _results(self, shapes: Shapes, arrays: Sequence[Array], out: Out) -> list[Array]:
        executable = self._serving(shapes, arrays)
        if executable.rest is None:
            return executable.run(arrays, self.threads, out)
        results = executable.run(arrays, self.threads)
        return self._followed(executable.rest.program, arrays, results)

    def _serving(self, shapes: Shapes, arrays: Sequence[Array]) -> Executable[Model]:
        """Return the program that serves a call with these inputs. It is compiled if needed."""
        found = self._only or self._table.find(shapes, arrays)
        return found or self._executable(shapes, arrays, in_call=True)

    def _executable(
        self,
        shapes: Shapes,
        arrays: Sequence[Array | None],
        *,
        in_call: bool = False,
        is_own: bool = False,
    ) -> Executable[Model]:
        """Return the program for inputs with these shapes and, if shapes depend on them, these
        values. It is compiled if needed.

        ``arrays`` has None for unknown values. ``in_call`` says that a call waits for the program;
        ``is_own`` requests a program for exactly these shapes.
        """
        make = partial(self._made, call=shapes if in_call else None)
        return self._table.get(shapes, arrays, make, is_own=is_own)

    def _made(self, key: Key, sizes: OpenSizes, call: Shapes | None) -> Executable[Model]:
        latest = self._table.programs.latest()
        executable = self._compile(key, sizes, in_call=call is not None)
        if latest is not None:
            latest.forget()
        executable.program.workspaces = self._workspaces
        executable.passed = self._passed
        executable.sizes = sizes.told(key.made)
        self._tell(key, executable.timings, call)
        self._tell_coverage(executable)
        return executable

    def _tell_coverage(self, made: Executable[Model]) -> None:
        """Warn about the ops of a program that NumPy runs.

        There is no warning if NumPy was requested, if the program is from disk, as an earlier
        process has warned, or if an input has no elements, for which there is no native code.
        """
        asked = all(place.partition("/")[0] == "host" for place in self._options.places)
        calls_numpy = any(isinstance(step, HostStep) for step in made.program.steps)
        is_empty = any(0 in shape for shape in made.key.made)
        compiled = made.known is not None and not is_empty
        if calls_numpy and compiled and not asked and self._in_calls.wants_coverage:
            self._in_calls.tell_coverage(made.explanation.coverage)

    def _tell(self, key: Key, timings: Mapping[str, float], call: Shapes | None) -> None:
        """Log the compilation of the program for ``key``. ``call`` has the shapes of the inputs if
        a call waited for it, otherwise None."""
        valued = {value.name: str(value) for value in (*key.values, *key.sizes)}
        text = ", ".join(
            valued.get(i.name, f"{i.name} {list(shape)}")
            for i, shape in zip(self.inputs, key.made, strict=True)
        )
        seconds = total(timings)
        if "fetch" in timings:
            info("compile", "a program for %s was found on disk, in %.3f s", text, seconds)
        elif call is not None:
            why = _DROPPED if hash(key) in self._known else self._what_is_new(key, call, valued)
            told = ("a part of a model", _HINT_OF_PARTS) if self._is_inner else ("a model", _HINT)
            self._in_calls.tell(told[0], seconds, why, told[1])
        else:
            info("compile", "a model was compiled for %s, in %.2f s", text, seconds)
        self._known.add(hash(key))

    def _what_is_new(self, key: Key, call: Shapes, valued: Mapping[str, str]) -> str:
        """Return why a call had to compile a program, and which sizes it serves."""
        new = "values, on which shapes depend" if key.values else "shapes"
        pairs = zip(self.inputs, call, strict=True)
        given = ", ".join(valued.get(i.name, f"{i.name} {list(shape)}") for i, shape in pairs)
        symbols = sorted(symbols_of(size for shape in key.made for size in shape))
        ranges = ", ".join(f"{symbol} {symbol.range}" for symbol in symbols)
        serves = f"; the new program serves {ranges}" if ranges else ""
        return f"its inputs have new {new}: {given}{serves}"

    def _compile(self, key: Key, sizes: OpenSizes, *, in_call: bool) -> Executable[Model]:
        source = self._source
        if source is None:
            raise InternalError(f"the model was compiled for other shapes than {key.made}")
        options = replace(self._options, several=sizes.is_one_of_several(key.made))
        part = partial(part_of_model, in_calls=self._in_calls)
        types = source, self.inputs, self.outputs
        # A model with a single program drops its source, and keeps the stages.
        forgets = not self._table.has_one
        compilation = ProgramCompilation(
            *types, key, options, part, forgets=forgets, in_call=in_call
        )
        return compilation.run(self._progress)


def part_of_model(
    options: CheckedOptions,
    source: Source,
    interface: Interface,
    *,
    in_call: bool = False,
    in_calls: CompilesInCalls | None = None,
) -> Model:
    """Return the model of a subprogram with symbolic sizes, some of them bounded.

    ``in_calls`` counts the compilations in calls of the whole model.
    """
    elements = interface.elements
    shapes = (*(info.shape for info in source.inputs), *elements.values())
    names = {d for shape in shapes for d in shape}
    openness = {n: b for n, b in interface.bounds.items() if n in names}
    unknown = (info.shape for info in source.inputs if info.name not in interface.types)
    return Model(
        source,
        options,
        openness=openness,
        elements=elements,
        unnamed={d for shape in unknown for d in shape if isinstance(d, str)},
        is_inner=True,
        in_call=in_call,
        in_calls=in_calls,
    )


def _shape(name: str, given: object) -> tuple[int, ...]:
    """Return a shape that a user gave for the input ``name``, as integers. Raises InputError if
    ``given`` is not a sequence of integers."""
    try:
        return tuple(operator.index(size) for size in cast(Sequence[int], given))
    except TypeError as error:
        raise InputError(
            f"the shape does not fit the input {name!r}",
            expected="a sequence of numbers, such as (1, 3, 224, 224)",
            found=repr(given),
        ) from error
