"""Programs as bytes: cache entries, and the files in which models are shipped.

    magic, the manifest's length in 8 bytes, its SHA-256
    the manifest: JSON, a `Manifest`
    blobs, each at a multiple of 64 bytes after it: images, packed weights

The manifest names each blob by its offset and its SHA-256. A blob may be stored elsewhere; it is
then found by its SHA-256 alone. Reading verifies the manifest, the images, that all offsets are
inside the file, and that programs are complete; `check` verifies the weights.

The bytes contain native code: whoever can write them can do what the process can.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.elements import bytes_of
from tessella.runtime.events import Work
from tessella.runtime.image import Image, Library
from tessella.runtime.manifest import (
    FORMAT,
    Blob,
    CodeRecord,
    Manifest,
    ModelRecord,
    ProgramEntry,
    ProgramRecord,
    RestRecord,
    ScanRecord,
    StepRecord,
    SubprogramRecord,
    codes_of,
    verify,
)
from tessella.runtime.program import Program, ScanStep, Step
from tessella.runtime.records import decoded, encoded
from tessella.runtime.rest import Interface, Rest
from tessella.runtime.signature import ValueInfo
from tessella.runtime.specs import Constant, TensorSpec
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size

Array = npt.NDArray[Any]
Buffer = bytes | memoryview
P = TypeVar("P")

MAGIC = b"\x89tessel\n"
HEADER = 64
"""Bytes of the header: magic, length and digest, padded to a cache line."""
_LENGTH, _DIGEST = slice(8, 16), slice(16, 48)


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled program, and the inputs it was compiled for."""

    target: str
    features: Sequence[str]
    shapes: Sequence[Sequence[Size]]
    program: Program
    values: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    """The bytes of inputs that the program is specialised on and does not take, by the index of the
    input."""
    explanation: str | None = None
    """The explanation of the program, as JSON."""
    work: Mapping[str, Work] = field(default_factory=dict[str, Work])
    """The work of the program's kernels, for profiles."""
    rest: Rest[CompiledSubprogram] | None = None
    """The continuation, if the program has a graph break."""
    sizes: Mapping[int, Sequence[Size]] = field(default_factory=dict[int, Sequence[Size]])
    """The elements of shape-valued inputs that the program was compiled for, by the index of the
    input."""


@dataclass(frozen=True)
class CompiledModel:
    """A compiled model: its signature and its programs."""

    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    programs: Sequence[CompiledProgram]


@dataclass(frozen=True)
class CompiledSubprogram:
    """A subprogram of a program with graph breaks, for given input types."""

    interface: Interface
    models: Sequence[CompiledModel] = ()


Keep = Callable[[Array], str]
"""A function that stores an array of bytes outside the artifact and returns its SHA-256."""

Find = Callable[[Sequence[tuple[str, int]]], Sequence[Array]]
"""A function that returns the arrays of bytes with the given SHA-256 digests and sizes. It raises
an error if an array is missing."""

LARGE = 1 << 16
"""The least size in bytes of an array that is stored outside the artifact."""


def dump(model: CompiledModel, versions: str, keep: Keep | None = None) -> Sequence[Buffer]:
    """Return the bytes of an artifact, in parts.

    Raises NotStorableError for a setting of an op without a JSON form.
    """
    writer = _Writer(keep)
    made = writer.model(model)
    parts = made.inputs, made.outputs, made.programs
    manifest = Manifest(*parts, FORMAT, versions, tuple(writer.weights))
    text = json.dumps(encoded(manifest), separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    head = MAGIC + len(text).to_bytes(8) + hashlib.sha256(text).digest()
    return [head.ljust(HEADER, b"\0"), text, *writer.buffers]


class _Writer:
    """A converter of compiled models to records, which collects the blobs that follow the manifest.
    Equal blobs are stored once."""

    def __init__(self, keep: Keep | None) -> None:
        self.keep = keep
        self.buffers: list[Buffer] = []
        self.weights: dict[Blob, int] = {}
        self._known: dict[str, Blob] = {}
        self._end = 0

    def model(self, made: CompiledModel) -> ModelRecord:
        programs = tuple(map(self._entry, made.programs))
        return ModelRecord(tuple(made.inputs), tuple(made.outputs), programs)

    def _entry(self, made: CompiledProgram) -> ProgramEntry:
        shapes = tuple(map(tuple, made.shapes))
        values = {index: data.hex() for index, data in made.values.items()}
        image = None if made.program.code is None else self._image(made.program.code.image)
        program = self._program(made.program)
        features = tuple(made.features)
        rest = None if made.rest is None else self._rest(made.rest)
        sizes = {index: tuple(elements) for index, elements in made.sizes.items()}
        known = made.work, made.explanation, rest
        return ProgramEntry(made.target, features, shapes, values, sizes, image, program, *known)

    def _rest(self, rest: Rest[CompiledSubprogram]) -> RestRecord:
        constants = {name: self._constant(array) for name, array in rest.constants.items()}
        subprograms = tuple(
            SubprogramRecord(each.interface, tuple(map(self.model, each.models)))
            for each in rest.subprograms
        )
        return RestRecord(rest.returned, constants, rest.steps, rest.outputs, subprograms)

    def _constant(self, array: Array) -> Constant:
        return Constant(self._weight(bytes_of(array)), TensorSpec(array.shape, array.dtype))

    def _image(self, image: Image) -> CodeRecord:
        return CodeRecord(self._add(image.code), image.functions, image.imports)

    def _program(self, program: Program) -> ProgramRecord:
        return ProgramRecord(
            program.inputs,
            tuple(map(self._step, program.steps)),
            tuple(program.results),
            program.constants,
            tuple(map(self._weight, program.weights)),
            {code: tuple(names) for code, names in program.nodes.items()},
            tuple(program.calls),
            program.symbols,
        )

    def _step(self, step: Step) -> StepRecord:
        if isinstance(step, ScanStep):
            body = self._program(step.body)
            return ScanRecord(body, step.loop, step.inputs, step.outputs, step.specs)
        return step

    def _weight(self, array: Array) -> int:
        if self.keep is not None and array.size >= LARGE:
            blob = Blob(array.size, self.keep(array), None)
        else:
            blob = self._add(array.data)
        return self.weights.setdefault(blob, len(self.weights))

    def _add(self, data: Buffer) -> Blob:
        digest, size = hashlib.sha256(data).hexdigest(), memoryview(data).nbytes
        if digest not in self._known:
            padding = -size % ALIGNMENT
            self._known[digest] = Blob(size, digest, self._end)
            self.buffers += [data, bytes(padding)]
            self._end += size + padding
        return self._known[digest]


class Artifact:
    """The verified bytes of an artifact, and the programs in them.

    The memory must not change, and starts at a multiple of ``ALIGNMENT``.
    """

    def __init__(
        self, data: memoryview, find: Find | None = None, where: str | None = None
    ) -> None:
        """Read and verify the artifact in ``data``, except for its weights. Raises
        InvalidModelError, and the errors of ``find``."""
        self._where = where
        self._data = data
        try:
            self.manifest = self._read()
            self._blobs = data[HEADER + self._length() :]
            verify(self.manifest, self._blobs.nbytes)
            for code in codes_of(self.manifest):
                self._prove(code)
        except (ValueError, RecursionError, OverflowError) as error:
            raise self._refusal(str(error)) from error
        self._weights = self._found(find)

    def program(self, entry: ProgramEntry) -> Program:
        """Return the program that an entry of the manifest describes, with its code and weights."""
        code = None
        if entry.image is not None:
            part = self._part(entry.image.code)
            code = Library(Image(part, entry.image.functions, entry.image.imports))
        return self._program(entry.program, code)

    def rest(self, record: RestRecord, make: Callable[[SubprogramRecord], P]) -> Rest[P]:
        """Return the continuation that a record describes. ``make`` creates each subprogram from
        its record."""
        constants = {name: each.array(self._weights) for name, each in record.constants.items()}
        subprograms = tuple(map(make, record.subprograms))
        return Rest(record.returned, constants, record.steps, record.outputs, subprograms)

    def check(self) -> None:
        """Verify the SHA-256 of the weights that the artifact contains. Raises InvalidModelError if
        one is damaged."""
        for blob in self.manifest.weights:
            try:
                self._prove(blob)
            except ValueError as error:
                raise self._refusal(str(error)) from error

    def _length(self) -> int:
        return int.from_bytes(self._data[_LENGTH])

    def _read(self) -> Manifest:
        data = self._data
        if bytes(data[: len(MAGIC)]) != MAGIC:
            raise ValueError("it does not begin like one")
        text = bytes(data[HEADER : HEADER + self._length()])
        if len(text) != self._length() or len(text) % ALIGNMENT:
            raise ValueError("it ends before its manifest does")
        if hashlib.sha256(text).digest() != bytes(data[_DIGEST]):
            raise ValueError("its manifest is damaged")
        record: Any = json.loads(text)
        found = cast(dict[str, Any], record).get("format") if isinstance(record, dict) else None
        if found != FORMAT:
            raise ValueError(f"it has the format {found}, and this version reads {FORMAT}")
        return decoded(Manifest, record)

    def _prove(self, blob: Blob) -> None:
        if blob.offset is None:
            return
        if hashlib.sha256(self._part(blob)).hexdigest() != blob.sha256:
            raise ValueError(f"the bytes after {blob.offset} are damaged")

    def _part(self, blob: Blob) -> memoryview:
        assert blob.offset is not None
        return self._blobs[blob.offset : blob.offset + blob.size]

    def _found(self, find: Find | None) -> list[Array]:
        blobs = self.manifest.weights
        far = [(blob.sha256, blob.size) for blob in blobs if blob.offset is None]
        if far and find is None:
            raise self._refusal("its weights are elsewhere")
        others = iter(find(far) if find is not None else ())
        return [
            next(others) if blob.offset is None else np.frombuffer(self._part(blob), np.uint8)
            for blob in blobs
        ]

    def _program(self, record: ProgramRecord, code: Library | None) -> Program:
        return Program(
            inputs=record.inputs,
            steps=tuple(self._step(step, code) for step in record.steps),
            results=record.results,
            constants=record.constants,
            weights=[self._weights[i] for i in record.weights],
            nodes=record.nodes,
            symbols=record.symbols,
            code=code,
            calls=record.calls,
        )

    def _step(self, step: StepRecord, code: Library | None) -> Step:
        if isinstance(step, ScanRecord):
            body = self._program(step.body, code)
            return ScanStep(body, step.loop, step.inputs, step.outputs, step.specs)
        return step

    def _refusal(self, why: str) -> InvalidModelError:
        return InvalidModelError(
            "this is not an artifact that can be loaded",
            where=self._where,
            found=why,
            hint="compile the model again: `tessella compile MODEL -o FILE.tsl`",
        )
