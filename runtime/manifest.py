"""The manifest of an artifact, and its verification.

Anybody can have written the file. `verify` checks what loading and running rely on, except for the
behaviour of code: code is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, cast

from tessella.runtime.arena import ALIGNMENT
from tessella.runtime.device_steps import CopyStep, DeviceStep
from tessella.runtime.events import CallEvent, Work
from tessella.runtime.host_steps import HostStep
from tessella.runtime.image import SYSTEM, Function
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.pool import ENTER, GROW
from tessella.runtime.records import LARGEST, dtype_of
from tessella.runtime.rest import FUNCTIONS, Interface, Step
from tessella.runtime.scan import Loop
from tessella.runtime.signature import ValueInfo, fits
from tessella.runtime.specs import Constant, TensorSpec
from tessella.runtime.symbols import (
    DefinedSymbol,
    Dimension,
    ElementSymbol,
    GivenSymbol,
    SymbolSource,
)
from tessella.runtime.texts import STRING
from tessella.runtime.trim_steps import TrimStep
from tessella.support.sizes import Expr, Size, Symbol, bounds_of, symbols_of

FORMAT = 20
"""The version of the file format and of the calling convention: the layout of contexts, teams and
calls."""


class Blob(NamedTuple):
    """A range of bytes in an artifact."""

    size: int
    sha256: str
    offset: int | None
    """The offset after the manifest; None if the bytes are stored elsewhere."""


@dataclass(frozen=True)
class ScanRecord:
    """The record of a `ScanStep`."""

    body: ProgramRecord
    loop: Loop
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[TensorSpec, ...]


StepRecord = NativeStep | HostStep | TrimStep | CopyStep | DeviceStep | ScanRecord


@dataclass(frozen=True)
class ProgramRecord:
    """The record of a `Program`, without code and weights."""

    inputs: int
    steps: tuple[StepRecord, ...]
    results: tuple[int, ...]
    constants: Mapping[int, Constant]
    weights: tuple[int, ...]
    """Indices into the artifact's table of weights."""
    nodes: Mapping[int, tuple[str, ...]]
    calls: tuple[CallEvent, ...]
    symbols: tuple[SymbolSource, ...]


@dataclass(frozen=True)
class SubprogramRecord:
    """The record of a subprogram of a program with graph breaks."""

    interface: Interface
    models: tuple[ModelRecord, ...]
    """A model for each set of input types."""


@dataclass(frozen=True)
class RestRecord:
    """The record of a `Rest`, the continuation after a graph break."""

    returned: tuple[str, ...]
    constants: Mapping[str, Constant]
    """The constants by name. Their slots are indices into the artifact's table of weights."""
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    subprograms: tuple[SubprogramRecord, ...]


@dataclass(frozen=True)
class CodeRecord:
    """The record of an `Image`: its code as a blob, and the functions and imports."""

    code: Blob
    functions: Mapping[str, Function]
    imports: Mapping[str, int]


@dataclass(frozen=True)
class ProgramEntry:
    """A program, with the target and the inputs that it was compiled for."""

    target: str
    """The target's name in ``targets``."""
    features: tuple[str, ...]
    """CPU features that the program needs beyond those of the target."""
    shapes: tuple[tuple[Size, ...], ...]
    """The shapes of the inputs."""
    values: Mapping[int, str]
    """The bytes, in hexadecimal, of inputs that the program is specialised on and does not take."""
    sizes: Mapping[int, tuple[Size, ...]]
    """The elements of shape-valued inputs, by the index of the input."""
    image: CodeRecord | None
    program: ProgramRecord
    work: Mapping[str, Work]
    """The work of the program's kernels; empty if it was not requested."""
    explanation: str | None
    """The explanation, as JSON."""
    rest: RestRecord | None
    """The continuation, if the program has a graph break."""


@dataclass(frozen=True)
class ModelRecord:
    """The record of a model: its signature and its programs."""

    inputs: tuple[ValueInfo, ...]
    outputs: tuple[ValueInfo, ...]
    programs: tuple[ProgramEntry, ...]


@dataclass(frozen=True)
class Manifest(ModelRecord):
    """The manifest: the record of a model, without the bytes of code and weights."""

    format: int
    versions: str
    """The versions of the software that wrote the artifact."""
    weights: tuple[Blob, ...]


def verify(manifest: Manifest, size: int) -> None:
    """Raise ValueError unless programs are complete, and lie within ``size`` bytes after the
    manifest."""
    codes = codes_of(manifest)
    if any(code.offset is None for code in codes):
        raise ValueError("its code is elsewhere")
    _verify_blobs({*manifest.weights, *codes}, size)
    _verify_model(manifest, manifest.weights)


def codes_of(model: ModelRecord) -> Sequence[Blob]:
    """Return the blobs with the code of all programs, subprograms included."""
    return [entry.image.code for entry in _entries(model) if entry.image is not None]


def _entries(model: ModelRecord) -> Iterator[ProgramEntry]:
    """Yield the programs of a model and of its subprograms."""
    for entry in model.programs:
        yield entry
        for subprogram in () if entry.rest is None else entry.rest.subprograms:
            for inner in subprogram.models:
                yield from _entries(inner)


def _verify_model(model: ModelRecord, weights: Sequence[Blob]) -> None:
    for info in (*model.inputs, *filter(lambda info: info.is_known, model.outputs)):
        if info.is_tensor:
            dtype_of(info.dtype, info.name)
    for entry in model.programs:
        _verify_entry(model, weights, entry)


def _verify_blobs(blobs: Iterable[Blob], size: int) -> None:
    ends = sorted((b.offset, b.offset + b.size) for b in blobs if b.offset is not None)
    _require(all(not start % ALIGNMENT and end <= size for start, end in ends), "parts lie outside")
    _require(all(end <= start for (_, end), (start, _) in pairwise(ends)), "parts overlap")


def _verify_entry(model: ModelRecord, weights: Sequence[Blob], entry: ProgramEntry) -> None:
    inputs, program = model.inputs, entry.program
    _require(len(entry.shapes) == len(inputs), "a program has not the inputs of the model")
    for info, shape in zip(inputs, entry.shapes, strict=True):
        least = [bounds_of(size)[0] for size in shape]
        _require(fits(least, info.shape), f"the input {info.name!r} cannot have the shape {shape}")
    for index, data in entry.values.items():
        there = index < len(inputs) and inputs[index].is_tensor
        _require(there, "a program is made for an input that there is not")
        spec = TensorSpec(entry.shapes[index], dtype_of(inputs[index].dtype, "inputs"))
        _require(not symbols_of(spec.shape), "the value of an input has no size")
        size = len(bytes.fromhex(data))
        has_size = spec.dtype == STRING or size == _bytes(spec)
        _require(has_size, "the value of an input has another size")
    for index, elements in entry.sizes.items():
        _verify_elements(model, entry, index, elements)
    left = {i for i, info in enumerate(inputs) if not info.is_tensor}.union(entry.values)
    taken = [i for i in range(len(inputs)) if i not in left]
    if entry.image is not None:
        _verify_image(entry.image)
    _require(program.inputs == len(taken), "a program does not take the model's inputs")
    given = [info.name for info in model.outputs]
    if entry.rest is not None:
        _verify_rest(entry.rest, model, weights)
        given = entry.rest.returned
    _require(len(program.results) == len(given), "a program gives other outputs")
    for each in program.symbols:
        if isinstance(each, Dimension | ElementSymbol):
            _require(each.input < len(taken), "a symbol is in no input")
            sizes, at = _sizes_of(entry, each, taken[each.input])
            is_symbol = at < len(sizes) and sizes[at] == each.symbol.size
            _require(is_symbol, "a symbol is no dimension of an input, and no element")
        _require(not isinstance(each, GivenSymbol), "a symbol of a program is given by no loop")
    _verify_program(program, weights, entry.image)


def _verify_elements(
    model: ModelRecord, entry: ProgramEntry, index: int, elements: Sequence[Size]
) -> None:
    is_tensor = index < len(model.inputs) and model.inputs[index].is_tensor
    _require(is_tensor and index not in entry.values, "sizes are no elements of an input")
    kind = dtype_of(model.inputs[index].dtype, "inputs").kind
    count = prod(entry.shapes[index])
    _require(kind in "iu" and count == len(elements), "an input has other elements")


def _sizes_of(
    entry: ProgramEntry, symbol: Dimension | ElementSymbol, index: int
) -> tuple[Sequence[Size], int]:
    """Return the sizes among which a symbol is declared, and its index in them: the shape of the
    input ``index``, or the elements of that input."""
    if isinstance(symbol, Dimension):
        return entry.shapes[index], symbol.axis
    return entry.sizes.get(index, ()), symbol.index


def _verify_rest(rest: RestRecord, model: ModelRecord, weights: Sequence[Blob]) -> None:
    for constant in rest.constants.values():
        _require(constant.slot < len(weights), "a constant is no weight")
        _verify_constant(constant.spec, weights[constant.slot].size, set())
    known = {info.name for info in model.inputs} | {*rest.returned, *rest.constants}
    for step in rest.steps:
        _require(step.function in FUNCTIONS, f"unknown step {step.function!r}")
        _require(known | {""} >= set(step.inputs), "a step reads what no step before it gives")
        for body in step.bodies:
            _verify_inputs(rest, body.subprogram, known.union(body.takes))
        known.update(step.outputs)
    _verify_inputs(rest, len(rest.subprograms) - 1, known)
    known.update(rest.outputs)
    _require(known.issuperset(i.name for i in model.outputs), "a result is computed by no step")
    for inner in rest.subprograms[-1].models:
        _require(len(inner.outputs) == len(rest.outputs), "a subprogram gives other values")
    for subprogram in rest.subprograms:
        for inner in subprogram.models:
            names = tuple(info.name for info in inner.inputs)
            _require(names == subprogram.interface.inputs, "a subprogram takes other values")
            _verify_model(inner, weights)


def _verify_inputs(rest: RestRecord, number: int, known: Set[str]) -> None:
    _require(0 <= number < len(rest.subprograms), "a subprogram is missing")
    taken = rest.subprograms[number].interface.inputs
    _require(known >= set(taken), "a subprogram reads what is not there")


def _verify_image(image: CodeRecord) -> None:
    size = image.code.size
    ends = [function.offset + function.size for function in image.functions.values()]
    _require(max(ends, default=0) <= size, "a function lies outside its code")
    _require(image.imports.keys() <= set(SYSTEM), "code calls what it may not")
    _require(all(at + 8 <= size for at in image.imports.values()), "an address lies outside code")


def _verify_program(
    program: ProgramRecord,
    weights: Sequence[Blob],
    image: CodeRecord | None,
    given: Set[Symbol] = frozenset(),
) -> None:
    """Verify a program, or the body of a loop, where the symbols ``given`` have values."""
    _require(all(i < len(weights) for i in program.weights), "a program reads no weight")
    table = [weights[i] for i in program.weights]
    known = set(range(program.inputs))
    every = {each.symbol for each in program.symbols}
    _require(len(every) == len(program.symbols), "a symbol has two values")
    defined = [each for each in program.symbols if isinstance(each, DefinedSymbol)]
    from_loop = {each.symbol for each in program.symbols if isinstance(each, GivenSymbol)}
    every -= from_loop - given
    symbols = every - {each.symbol for each in defined}
    constants = dict(program.constants)
    for constant in constants.values():
        _require(constant.slot < len(table), "a constant is no weight")
        _verify_constant(constant.spec, table[constant.slot].size, every)
    _define_constants(known, constants, symbols)
    for step in program.steps:
        _require(known.issuperset(step.inputs), "a step reads what no step before it gives")
        _define(known, step.outputs)
        own = [each for each in defined if each.value in step.outputs]
        for each in own:
            _verify_defined(step, each, symbols)
        _require(bool(own) or not isinstance(step, TrimStep), "a step defines no symbol")
        symbols = symbols | {each.symbol for each in own}
        _verify_step(step, weights, image, symbols)
        _define_constants(known, constants, symbols)
    _require(symbols == every, "a symbol is defined by no step")
    _require(known.issuperset(program.results), "a result is computed by no step")
    # values are stored in a list, at their numbers
    _require(max(known, default=0) < 2 * len(known) + 64, "values have numbers that are too large")


def _verify_defined(step: StepRecord, defined: DefinedSymbol, symbols: Set[Symbol]) -> None:
    match step:
        case TrimStep():
            specs = (step.spec,)
            _require(defined.axis == 0, "a step defines another dimension than the first")
        case HostStep():
            specs = step.specs or ()
        case _:
            specs = ()
    _require(len(specs) == len(step.outputs), "a step cannot define symbols")
    shape = specs[step.outputs.index(defined.value)].shape
    is_size = defined.axis < len(shape) and shape[defined.axis] == defined.symbol.size
    _require(is_size, "a defined symbol is no dimension of a result")
    _verify_sizes([defined.most], symbols)


def _define_constants(
    known: set[int], constants: dict[int, Constant], symbols: Set[Symbol]
) -> None:
    """Define the constants whose shapes are known, and remove them from ``constants``."""
    numbers = [i for i, each in constants.items() if symbols_of(each.spec.shape) <= symbols]
    for number in numbers:
        del constants[number]
    _define(known, numbers)


def _define(known: set[int], numbers: Sequence[int]) -> None:
    _require(known.isdisjoint(numbers), "a value is computed twice")
    known.update(numbers)


def _verify_constant(spec: TensorSpec, size: int, symbols: Set[Symbol]) -> None:
    _verify_sizes(spec.shape, symbols)
    if spec.dtype != STRING:  # strings are verified when they are decoded
        _require(size in (_bytes(spec), spec.dtype.itemsize), "a constant has another size")


def _verify_sizes(sizes: Iterable[Size], symbols: Set[Symbol]) -> None:
    sizes = list(sizes)
    _require(symbols_of(sizes) <= symbols, "a size depends on what is no symbol of the program")
    _require(all(bounds_of(size)[0] >= 0 for size in sizes), "a size can be negative")


def _verify_step(
    step: StepRecord,
    weights: Sequence[Blob],
    image: CodeRecord | None,
    symbols: Set[Symbol],
) -> None:
    match step:
        case NativeStep():
            functions = set[str]() if image is None else set(image.functions)
            _require(step.name in functions, f"no code of {step.name!r}")
            _require(not step.shared or {GROW, ENTER} <= functions, "no thread pool")
            _require(len(step.specs) == len(step.outputs), "a step has outputs without shapes")
            for spec in step.specs:
                _verify_sizes(spec.shape, symbols)
                _require(bounds_of(_bytes(spec))[0] < LARGEST, "an output is too large")
            _verify_sizes([step.arena_bytes, step.private_bytes], symbols)
        case HostStep():
            count = len(step.outputs) if step.specs is None else len(step.specs)
            _require(count == len(step.outputs), "a step has outputs without shapes")
            for spec in step.specs or ():
                _verify_sizes(spec.shape, symbols)
            _verify_sizes(_sizes_in(tuple(step.settings.values())), symbols)
        case CopyStep() | TrimStep():
            _verify_sizes(step.spec.shape, symbols)
        case DeviceStep():
            _verify_device_step(step, symbols)
        case ScanRecord():
            _verify_scan(step)
            for spec in step.specs:
                _verify_sizes(spec.shape, symbols)
            inner = {each.symbol for each in step.body.symbols}
            _require(not inner or inner >= symbols, "the body of a loop has other symbols")
            _verify_program(step.body, weights, image, symbols)


def _verify_device_step(step: DeviceStep, symbols: Set[Symbol]) -> None:
    _require(len(step.specs) == len(step.outputs), "a step has outputs without shapes")
    for spec in step.specs:
        _verify_sizes(spec.shape, symbols)
        _require(bounds_of(_bytes(spec))[0] < LARGEST, "an output is too large")
    _verify_sizes([step.arena_bytes], symbols)
    for source in step.kernels.values():
        _verify_sizes([*source.groups, *source.sizes], symbols)
    count = len(step.inputs) + len(step.outputs)
    for call in step.calls:
        _require(call.kernel in ("", *step.kernels), f"no code of {call.kernel!r}")
        for operand in call.operands:
            _verify_sizes([operand.at, operand.size], symbols)
            is_there = operand.space == "arena" or bounds_of(operand.at)[1] < count
            _require(is_there, "a kernel reads what is not there")


def _sizes_in(setting: Any) -> Iterator[Size]:
    """Yield the symbolic sizes in a setting of an op, which may be a nested tuple."""
    if isinstance(setting, tuple):
        for each in cast(tuple[Any, ...], setting):
            yield from _sizes_in(each)
    elif isinstance(setting, Expr):
        yield cast(Size, setting)


def _verify_scan(step: ScanRecord) -> None:
    loop, body = step.loop, step.body
    last = loop.carried + loop.scanned
    _require(loop.scanned > 0 or loop.conditional, "a loop has no end")
    _require(loop.carried >= loop.conditional, "a loop has no condition")
    _require(last <= len(step.inputs), "a loop has too few values")
    _require(body.inputs == len(step.inputs), "the body of a loop takes other values")
    _require(len(body.results) == len(step.outputs), "the body of a loop gives other values")
    _require(loop.carried <= len(step.outputs), "a loop carries more than it gives")
    returned = len(step.outputs) - loop.carried
    _require(len(step.specs) == returned, "a loop has outputs without shapes")
    _require(loop.scanned > 0 or not returned, "a loop has outputs of unknown length")


def _bytes(spec: TensorSpec) -> Size:
    return prod(spec.shape) * spec.dtype.itemsize


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)
