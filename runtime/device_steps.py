"""Steps of programs on devices other than the CPU: copies between memories, and segments.

In a run, the value of a tensor on a device is a `Memory`. Results of programs are arrays, so a
program copies them to the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import Workspace
from tessella.runtime.checks import located, out_of_range
from tessella.runtime.devices import Device, Fields, Launch, Memory, Slice, Source, device
from tessella.runtime.specs import TensorSpec
from tessella.support.decisions import known
from tessella.support.errors import ExecutionError, TessellaError
from tessella.support.foreign import is_of_handler
from tessella.support.sizes import Size, value_of

Array = npt.NDArray[Any]

HOST = "host"
"""The memory of the host, which CPUs share."""


@dataclass(frozen=True)
class CopyStep:
    """A step that copies a value between the memories of two devices, or between places on one
    device that differ in their fields (such as the memory space)."""

    start: str
    """The device that the value is copied from, or ``host``."""
    end: str
    inputs: tuple[int]
    outputs: tuple[int]
    spec: TensorSpec
    once: bool = False
    """True if the value is a constant, which is copied once for all calls of the program."""
    fields: Fields = ()
    """The device-defined fields (such as a memory space) of the place that the value is copied
    to."""

    @property
    def name(self) -> str:
        """The name of the copy in profiles."""
        within = self.start == self.end
        return (
            f"{self.start} to {' '.join('='.join(f) for f in self.fields) if within else self.end}"
        )

    def at(self, values: Mapping[str, int]) -> CopyStep:
        """Return the step for values of the symbols."""
        return replace(self, spec=self.spec.at(values))


class Operand(NamedTuple):
    """A buffer of a call in a segment."""

    space: Literal["value", "arena"]
    """``value`` for an input or output of the segment; ``arena`` for memory between kernels."""
    at: Size
    """For ``value``, the index among the inputs and outputs, inputs first; for ``arena``, the
    offset in bytes."""
    size: Size
    """The size of the buffer in bytes."""

    def sized(self, values: Mapping[str, int]) -> Operand:
        """Return the operand for values of the symbols."""
        return Operand(self.space, value_of(self.at, values), value_of(self.size, values))


class DeviceCall(NamedTuple):
    """A call in a segment on a device."""

    kernel: str
    """The name of the kernel; empty for a copy of the first operand to the second one."""
    nodes: tuple[str, ...]
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class DeviceStep:
    """A step that launches the kernels of a segment on a device."""

    device: str
    kernels: Mapping[str, Source]
    calls: tuple[DeviceCall, ...]
    arena_bytes: Size
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    """The shapes and dtypes of the outputs."""
    fields: Fields = ()
    """The device-defined fields (such as a memory space) of the places of all values that the
    kernels compute."""

    def at(self, values: Mapping[str, int]) -> DeviceStep:
        """Return the step for values of the symbols."""
        calls = tuple(
            call._replace(operands=tuple(each.sized(values) for each in call.operands))
            for call in self.calls
        )
        specs = tuple(spec.at(values) for spec in self.specs)
        arena = value_of(self.arena_bytes, values)
        return replace(self, calls=calls, specs=specs, arena_bytes=arena)


def size_of(spec: TensorSpec) -> int:
    """Return the size of a value in bytes."""
    return math.prod(spec.numbers) * spec.dtype.itemsize


class CopyCall:
    """A step that copies a value between two memories, ready to run with the arrays of one
    workspace. ``kept`` is the program's cache of copied constants, by the number of the value."""

    def __init__(self, step: CopyStep, kept: dict[int, Memory]) -> None:
        self.step = step
        self.kept = kept
        self._memory: Memory | None = None
        self._make: Callable[[], Array] | None = None

    def resize(self, step: Any, sized: Any, workspace: Workspace) -> None:
        """Replace the step by one for other values of the symbols, and allocate its output."""
        assert isinstance(step, CopyStep)
        self.step, size = step, size_of(step.spec)
        if step.end == HOST:
            spec = step.spec
            self._make = workspace.recycler(step.outputs[0]).maker(spec.numbers, spec.dtype)
        elif not step.once and (self._memory is None or self._memory.size != size):
            self._memory = self._new(size)

    def run(self, values: list[Any]) -> None:
        """Copy the value."""
        with _blamed((self.step.start, self.step.end), f"the copy from {self.step.name}", None):
            self._run(values)

    def _run(self, values: list[Any]) -> None:
        [source], [output] = self.step.inputs, self.step.outputs
        if self.step.once:
            values[output] = self.kept.get(output) or self._once(values[source])
        elif self._make is not None:
            if values[output] is None:  # the caller did not provide an array
                values[output] = self._make()
            _read(self.step.start, values[source], values[output])
        else:
            assert self._memory is not None
            values[output] = self._memory
            self._fill(self._memory, values[source])

    def _once(self, value: Any) -> Memory:
        memory = self.kept[self.step.outputs[0]] = self._new(size_of(self.step.spec))
        self._fill(memory, value)
        return memory

    def _new(self, size: int) -> Memory:
        return Memory(device(self.step.end), size, self.step.fields)

    def _fill(self, memory: Memory, value: Any) -> None:
        """Copy a value to the memory of a device."""
        if self.step.start == self.step.end:
            _move(self.step.end, value, memory)
        else:
            _write(self.step.end, self._on_host(value), memory)

    def _on_host(self, value: Any) -> Array:
        if self.step.start == HOST:
            return value
        array = np.empty(self.step.spec.numbers, self.step.spec.dtype)
        _read(self.step.start, value, array)
        return array


def _read(name: str, memory: Memory, array: Array) -> None:
    found = device(name)
    with found.lock:
        found.read(memory.slice(), array)
        for check in memory.checks:
            check()


def _move(name: str, source: Memory, to: Memory) -> None:
    found = device(name)
    to.checks = source.checks
    with found.lock:
        found.copy(source.slice(), to.slice())


def _write(name: str, array: Array, memory: Memory) -> None:
    found = device(name)
    with found.lock:
        found.write(memory.slice(), np.require(array, None, ["C", "A"]))


_WORD = 64
"""The stride between error words in bytes: a ``Slice`` begins at a multiple of it."""


class _Words:
    """The error words of a segment, one for each kernel that checks indices. A kernel sets its word
    to 1 if an index is out of range."""

    def __init__(self, found: Device, calls: Sequence[DeviceCall]) -> None:
        self.device = found
        self.calls = calls
        self._memory = Memory(found, _WORD * len(calls))
        self._zeros = np.zeros(_WORD * len(calls), np.uint8)

    def clear(self) -> None:
        """Set the words to 0."""
        self.device.write(self._memory.slice(), self._zeros)

    def word(self, call: DeviceCall) -> Sequence[Slice]:
        """Return the error word of a call; empty if its kernel does not check indices."""
        numbers = [number for number, each in enumerate(self.calls) if each is call]
        return [self._memory.slice(_WORD * number, _WORD) for number in numbers]

    def check(self) -> None:
        """Wait for the device, and raise ExecutionError if a kernel has set its error word."""
        words = np.empty((len(self.calls), _WORD), np.uint8)
        self.device.read(self._memory.slice(), words)
        for call, is_set in zip(self.calls, words[:, 0], strict=True):
            if is_set:
                raise out_of_range(call.nodes)


class SegmentCall:
    """A bound segment on a device, with its arena, the memory of its outputs, and its error
    words."""

    def __init__(self, step: DeviceStep) -> None:
        self.step = step
        self.device = device(step.device)
        self._outputs: list[Memory] = []
        self._arena: Memory | None = None
        self._words: _Words | None = None
        self._launches: Mapping[str, Launch] = {}

    def resize(self, step: Any, sized: Any, workspace: Workspace) -> None:
        """Replace the step by one for other values of the symbols, and allocate its outputs and its
        arena."""
        assert isinstance(step, DeviceStep)
        self.step = step
        checked = [c for c in step.calls if c.kernel and step.kernels[c.kernel].checks]
        self._words = _Words(self.device, checked) if checked else None
        self._launches = {name: k.launch(sized.symbols) for name, k in step.kernels.items()}
        self._arena = workspace.device_arena(step.device, step.fields, known(step.arena_bytes))
        sizes = [size_of(spec) for spec in step.specs]
        if sizes != [memory.size for memory in self._outputs]:
            self._outputs = [Memory(self.device, size, step.fields) for size in sizes]

    def run(self, values: list[Any]) -> None:
        """Launch the kernels."""
        inputs = [values[i] for i in self.step.inputs]
        memories = [*inputs, *self._outputs]
        checks = [check for memory in inputs for check in memory.checks]
        if self._words is not None:
            checks.append(self._words.check)
        for i, memory in zip(self.step.outputs, self._outputs, strict=True):
            values[i] = memory
            memory.checks = [*dict.fromkeys(checks)]
        with self.device.lock:
            if self._words is not None:
                self._words.clear()
            for call in self.step.calls:
                self._call(call, [self._slice(each, memories) for each in call.operands])

    def _slice(self, operand: Operand, memories: Sequence[Memory]) -> Slice:
        at, size = known(operand.at), known(operand.size)
        if operand.space == "value":
            return memories[at].slice(0, size)
        assert self._arena is not None
        return self._arena.slice(at, size)

    def _call(self, call: DeviceCall, buffers: Sequence[Slice]) -> None:
        where = located(call.nodes)
        hint = "the kernel's text is that of `tessella compile --emit loops`"
        with _blamed((self.step.device,), where, hint):
            if not call.kernel:
                self.device.copy(*buffers)
                return
            kernel = self.device.built(self.step.kernels[call.kernel])
            words = self._words.word(call) if self._words is not None else ()
            self.device.launch(kernel, [*buffers, *words], self._launches[call.kernel])


@contextmanager
def _blamed(devices: Sequence[str], where: str, hint: str | None) -> Generator[None]:
    """Turn an exception that a plugin's device raises in the block into ExecutionError.
    TessellaErrors, MemoryError and exceptions of signal handlers propagate."""
    try:
        yield
    except (TessellaError, MemoryError):
        raise
    except Exception as error:  # a plugin's device may raise any exception
        if is_of_handler(error):
            raise
        names = " or ".join(repr(name) for name in dict.fromkeys(devices) if name != HOST)
        raise ExecutionError(
            f"the device {names} raised {type(error).__name__}: {error}", where=where, hint=hint
        ) from error


def devices_of(step: object) -> tuple[str, ...]:
    """Return the names of the devices that a step uses; for copies, also ``host``."""
    match step:
        case CopyStep():
            return step.start, step.end
        case DeviceStep():
            return (step.device,)
        case _:
            return ()


def finish(names: Sequence[str]) -> None:
    """Wait for devices. Afterwards, the arrays that they read or write may change."""
    for name in names:
        found = device(name)
        with found.lock:
            found.finish()
