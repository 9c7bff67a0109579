"""Models from artifacts. They run without the compiler, for the shapes they were compiled for."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from tessella import targets
from tessella.runtime.arena import Workspaces, aligned
from tessella.runtime.artifact import Artifact
from tessella.runtime.explanation import Explanation
from tessella.runtime.manifest import ModelRecord, ProgramEntry, SubprogramRecord
from tessella.runtime.model import MAX_KNOWN, CallableModel, Out, Shapes
from tessella.runtime.profiler import ProfiledProgram
from tessella.runtime.program import Program
from tessella.runtime.rest import Runner
from tessella.runtime.signature import ValueInfo
from tessella.runtime.values import Value, kind_of, shape_of
from tessella.support import fork
from tessella.support.errors import (
    InvalidModelError,
    OptionError,
    ShapeError,
    UnknownAttributeError,
)
from tessella.support.files import regular
from tessella.support.sizes import Size, symbols_of, value_of
from tessella.support.tables import remembered
from tessella.targets import Target, threads

Array = npt.NDArray[Any]


@dataclass
class _Loaded:
    """A program of an artifact that is loaded into memory."""

    number: int
    """The index of the program's entry among the model's entries."""
    program: Program
    left: frozenset[int]
    """The indices of the model's inputs that the program does not take."""
    rest: _LoadedRest | None = None
    """The continuation, if the program has a graph break."""


@dataclass
class _LoadedRest:
    """The loaded continuation of a program after its first subprogram."""

    program: Runner[_Subprogram]

    def models(self) -> Iterator[LoadedModel]:
        """Yield the models of the continuation's subprograms."""
        for _, subprogram in self.program.rest.described():
            yield from subprogram.models

    def parts(self) -> Iterator[ProfiledProgram]:
        """Yield the continuation itself, and the loaded programs of its subprograms, for
        profiles."""
        yield ProfiledProgram(self, dict)
        for where, subprogram in self.program.rest.described():
            for part in (part for model in subprogram.models for part in model.parts()):
                yield replace(part, where=part.where or where)


class _Subprogram:
    """A subprogram of a program with graph breaks: models for types of its inputs."""

    def __init__(self, record: SubprogramRecord, make: Callable[[ModelRecord], LoadedModel]):
        self._inputs = record.interface.inputs
        self.models = [make(each) for each in record.models if each.programs]

    def run(self, values: Mapping[str, Value]) -> Sequence[Value]:
        """Return the outputs of the subprogram. ``values`` may include values that it does not
        take. Raises ShapeError if no program serves the values."""
        taken = {name: values[name] for name in self._inputs}
        for model in self.models:
            if model.serves(taken):
                return model.run(None, taken)
        raise ShapeError(
            "the artifact has no program for what its steps found",
            found=", ".join(f"{name} {_shape(shape_of(x))}" for name, x in taken.items())
            or "nothing",
            hint="call the model with such inputs before `model.save`",
        )


_COMPILED = ("as_text", "compiled", "prepare", "timings")
"""Attributes of compiled models that an artifact does not have."""


class LoadedModel(CallableModel):
    """A model from an artifact, with programs for the shapes it was compiled for."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name not in _COMPILED:
                raise AttributeError(name)
            raise UnknownAttributeError(
                f"a model from an artifact has no {name}",
                expected="a compiled model",
                hint="compile the ONNX model: tessella.compile(..)",
            )

    def __init__(
        self,
        artifact: Artifact,
        data: memoryview,
        threads: int,
        where: str,
        record: ModelRecord | None = None,
    ) -> None:
        """Load the model of an artifact or, given a ``record``, the model of a subprogram.

        Raises OptionError if this machine cannot run any of its code.
        """
        is_inner, record = record is not None, record or artifact.manifest
        super().__init__(record.inputs, record.outputs, threads, is_inner=is_inner)
        self._artifact = artifact
        self._data = data
        self._where = where
        self._entries = _runnable(record.programs, where)
        self._programs: dict[int, _Loaded] = {}
        self._lock = fork.Lock()
        self._workspaces = Workspaces()
        self._latest = 0
        self._sized = sorted({i for entry in self._entries for i in entry.sizes})
        """The indices of the inputs with elements that are sizes in some program."""
        self._by_value = bool(self._sized or any(entry.values for entry in self._entries))
        """True if the program that serves a call depends on values of inputs."""
        self._serving: dict[Shapes, Sequence[int]] = {}
        self._plain: dict[Shapes, _Loaded] = {}
        """Programs by the input shapes that they serve; empty if the choice of a program depends on
        values of inputs."""
        if not (self._symbolic or self._sized) and len(self._entries) == 1:
            self._executable(0)

    @property
    def target(self) -> str:
        """The name of the machine that the running code was compiled for."""
        return self._entries[0].target

    def explain(self) -> Explanation:
        """Return which kernel runs each op, at which place (device, element type and layout), and
        why."""
        return _explanation(self._entries[self._latest], self._where)

    def check(self) -> None:
        """Verify the bytes of all weights. Raises InvalidModelError if they are damaged."""
        self._artifact.check()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artifact to a file."""
        write(path, [self._data])

    def __reduce__(self) -> tuple[Any, ...]:
        return from_bytes, (bytes(self._data), self.threads)

    def __copy__(self) -> LoadedModel:
        return self

    def __deepcopy__(self, _: object) -> LoadedModel:
        return self

    def _known_programs(self) -> Sequence[Program]:
        made = [*self._programs.values()]
        rests = (each.rest for each in made if each.rest is not None)
        others = (p for rest in rests for m in rest.models() for p in m._known_programs())
        return [*(each.program for each in made), *others]

    def _parts(self) -> Iterator[ProfiledProgram]:
        for number, each in self._programs.items():
            yield ProfiledProgram(each, partial(getattr, self._entries[number], "work"))
            if each.rest is not None:
                yield from each.rest.parts()

    def parts(self) -> Iterator[ProfiledProgram]:
        """Yield the loaded programs, subprograms included, each with the work of its kernels."""
        return self._parts()

    def serves(self, feeds: Mapping[str, Value]) -> bool:
        """Return whether the artifact has a program for inputs of these types and values."""
        values = [feeds[info.name] for info in self.inputs]
        kinds = [info.dtype for info in self.inputs]
        return [*map(kind_of, values)] == kinds and (
            self._program_for(self._shapes(values), values) is not None
        )

    def _results(self, shapes: Shapes, arrays: Sequence[Array], out: Out) -> list[Array]:
        executable = self._plain.get(shapes) or self._found(shapes, arrays)
        self._latest, left = executable.number, executable.left
        taken = [a for i, a in enumerate(arrays) if i not in left] if left else arrays
        if executable.rest is None:
            return executable.program.run(taken, self.threads, out)
        results = executable.program.run(taken, self.threads)
        return self._followed(executable.rest.program, arrays, results)

    def _found(self, shapes: Shapes, arrays: Sequence[Array]) -> _Loaded:
        """Return the program for a call. The program is cached for later calls with these shapes
        unless the choice depends on values of inputs."""

        def find() -> _Loaded:
            return self._executable(self._number(shapes, arrays))

        return find() if self._by_value else remembered(self._plain, shapes, MAX_KNOWN, find)

    def _number(self, shapes: Shapes, arrays: Sequence[Array]) -> int:
        number = self._program_for(shapes, arrays)
        if number is not None:
            return number
        raise ShapeError(
            "the artifact has no program for these inputs",
            where=self._where,
            expected=" or ".join(dict.fromkeys(_made_for(self.inputs, e) for e in self._entries)),
            found=", ".join(map(_shape, shapes)),
            hint="compile it for them: `tessella compile MODEL -o FILE.tsl` with --shape, --dim or "
            "--value; or call the model with them before `model.save`",
        )

    def _program_for(self, shapes: Shapes, arrays: Sequence[Array]) -> int | None:
        """Return the number of the program for these shapes and values; None if the artifact has
        none."""
        elements = [tuple(arrays[i].reshape(-1).tolist()) for i in self._sized]
        for number in self._fitting((*shapes, *elements)):
            values = self._entries[number].values.items()
            if all(arrays[i].tobytes().hex() == data for i, data in values):
                return number
        return None

    def _fitting(self, sizes: Shapes) -> Sequence[int]:
        """Return the numbers of the programs that fit ``sizes``: the shapes of the inputs, followed
        by the elements of the inputs in ``_sized``."""
        shapes, elements = sizes[: len(self.inputs)], sizes[len(self.inputs) :]
        given = dict(zip(self._sized, elements, strict=True))

        def fits(entry: ProgramEntry) -> bool:
            wanted = (*entry.shapes, *entry.sizes.values())
            return _covers(wanted, (*shapes, *(given[i] for i in entry.sizes)))

        def find() -> Sequence[int]:
            return [number for number, entry in enumerate(self._entries) if fits(entry)]

        return remembered(self._serving, sizes, MAX_KNOWN, find)

    def _executable(self, number: int) -> _Loaded:
        found = self._programs.get(number)
        if found is None:
            with self._lock:
                found = self._programs.get(number)
                if found is None:
                    entry = self._entries[number]
                    left = self._passed.union(entry.values)
                    program, rest = self._artifact.program(entry), self._rest(entry)
                    found = _Loaded(number, program, left, rest)
                    found.program.workspaces = self._workspaces
                    self._programs[number] = found
        return found

    def _rest(self, entry: ProgramEntry) -> _LoadedRest | None:
        """Return the continuation of an entry's program after its first subprogram; None if the
        program has no graph break."""

        def model(record: ModelRecord) -> LoadedModel:
            return LoadedModel(self._artifact, self._data, self.threads, self._where, record)

        if entry.rest is None:
            return None
        found = self._artifact.rest(entry.rest, lambda record: _Subprogram(record, model))
        return _LoadedRest(Runner(found))


def load(path: str | os.PathLike[str], *, threads: int | None = None) -> LoadedModel:
    """Load an artifact, which `Model.save` or ``tessella compile`` has written.

    Its weights are mapped, so that all processes share them. The file may be removed or replaced,
    but must not be modified. The best code in it for this machine runs. An artifact is code: load
    only those of people you trust.

    Parameters
    ----------
    path : str or PathLike
        The file.
    threads : int, optional
        The number of threads that run the model; by default, that of the cores that the process
        may use, or ``TESSELLA_THREADS``.

    Returns
    -------
    LoadedModel
        The model, to be called with arrays.

    Raises
    ------
    InvalidModelError
        If the file is no artifact, is damaged, or has another format. The weights are not read:
        see `LoadedModel.check`.
    OptionError
        If this machine cannot run the artifact.
    """
    return _loaded(_mapped(path), threads, str(path))


def explain(path: str | os.PathLike[str]) -> Sequence[tuple[str, Explanation]]:
    """Return, for each program of an artifact, a text that names the machine and the inputs that it
    was compiled for, and its explanation.

    This works on any machine. Raises InvalidModelError as `load` does, and OptionError for an
    artifact without explanations.
    """
    manifest = Artifact(_mapped(path), where=str(path)).manifest
    return [
        (
            f"{_machine(entry)}, {_made_for(manifest.inputs, entry)}",
            _explanation(entry, str(path)),
        )
        for entry in manifest.programs
    ]


def from_bytes(data: bytes, threads: int | None = None) -> LoadedModel:
    """Load a model from the bytes of an artifact. Raises the errors of `load`."""
    room = aligned(len(data))
    room[:] = np.frombuffer(data, np.uint8)
    return _loaded(room.data, threads, "bytes")


def write(path: str | os.PathLike[str], parts: Sequence[bytes | memoryview]) -> None:
    """Write an artifact atomically; existing mappings keep the old file."""
    from tessella.support import disk

    try:
        disk.write(Path(path), 0o666, *parts)
    except OSError as error:
        raise OptionError(f"cannot write the artifact: {error}", where=str(path)) from error


def _mapped(path: str | os.PathLike[str]) -> memoryview:
    try:
        with regular(path).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise InvalidModelError(f"cannot read the artifact: {error}", where=str(path)) from error


def _loaded(data: memoryview, count: int | None, where: str) -> LoadedModel:
    count = threads.default() if count is None else threads.check(count, "the option 'threads'")
    return LoadedModel(Artifact(data, where=where), data, count, where)


def _runnable(entries: Sequence[ProgramEntry], where: str) -> Sequence[ProgramEntry]:
    """Return the programs for the best target that this machine can run."""
    made_for = {(entry.target, entry.features): _target(entry) for entry in entries}
    able = {key: t for key, t in made_for.items() if t is not None and targets.can_run(t)}
    if not able:
        raise OptionError(
            "this machine cannot run the code of the artifact",
            where=where,
            expected=f"code for one of {', '.join(_machines())}",
            found=", ".join(dict.fromkeys(map(_machine, entries))) or "none",
            hint="compile the model for it: `tessella compile MODEL -o FILE.tsl --target ..`",
        )
    best = max(able, key=lambda key: (able[key].vector_bits, len(able[key].features)))
    return [entry for entry in entries if (entry.target, entry.features) == best]


def _target(entry: ProgramEntry) -> Target | None:
    """Return the target of a program; None for a machine that this version does not know."""
    if entry.target not in targets.names():
        return None
    return replace(targets.get(entry.target), features=entry.features)


def _machines() -> list[str]:
    return [name for name in targets.names() if targets.can_run(targets.get(name))]


def _covers(wanted: Sequence[Sequence[Size]], shapes: Shapes) -> bool:
    """Return whether a program compiled for shapes, possibly symbolic, serves these shapes."""
    if list(map(len, wanted)) != list(map(len, shapes)):
        return False
    made = [size for shape in wanted for size in shape]
    given = [size for shape in shapes for size in shape]
    found = dict(zip(made, given, strict=True))
    symbols = symbols_of(made)
    if any(symbol.size not in found for symbol in symbols):
        return False
    values = {symbol.name: found[symbol.size] for symbol in symbols}
    inside = all(symbol.low <= values[symbol.name] <= symbol.high for symbol in symbols)
    return inside and all(value_of(m, values) == n for m, n in zip(made, given, strict=True))


def _explanation(entry: ProgramEntry, where: str) -> Explanation:
    if entry.explanation is None:
        raise OptionError("the artifact was written without an explanation", where=where)
    try:
        return Explanation.from_json(entry.explanation)
    except ValueError as error:
        raise InvalidModelError("the artifact is damaged", where=where, found=str(error)) from error


def _machine(entry: ProgramEntry) -> str:
    return " + ".join(dict.fromkeys([entry.target, *entry.features]))


def _made_for(inputs: Sequence[ValueInfo], entry: ProgramEntry) -> str:
    pairs = zip(inputs, entry.shapes, strict=True)
    texts = (f"{info.name} {_shape(shape)}" for info, shape in pairs)
    made = ", ".join(
        f"{text} of a certain value" if i in entry.values else text for i, text in enumerate(texts)
    )
    symbols = sorted(symbols_of(size for shape in entry.shapes for size in shape))
    bounds = [f"{symbol} {symbol.range}" for symbol in symbols]
    return f"{made} with {', '.join(bounds)}" if bounds else made


def _shape(shape: Sequence[Size]) -> str:
    return f"[{', '.join(map(str, shape))}]"
