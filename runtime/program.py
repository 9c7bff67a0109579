"""A compiled program: steps over numbered values, and how they run.

A step is a native segment or a NumPy kernel by name. Values are numbered: the inputs first, then
what steps give.
"""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime import host
from tessella.runtime.arena import Recycler, address, aligned
from tessella.support.errors import ExecutionError, ResourceError

Array = npt.NDArray[Any]

CONTEXT_SLOTS = 16
_SEGMENT = ctypes.CFUNCTYPE(
    None, *[ctypes.c_void_p] * 5, ctypes.c_int64, ctypes.c_int64
)  # calls through CFUNCTYPE release the GIL


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a value."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class NativeStep:
    """Run a segment: ``void (context, inputs, outputs, weights, arena, thread, threads)``."""

    name: str
    address: int
    arena_bytes: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    """Of the outputs."""


@dataclass(frozen=True)
class HostStep:
    """Run a NumPy kernel."""

    kernel: str
    """Its name in ``host.KERNELS``."""
    node: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    settings: Mapping[str, Any]
    dtypes: tuple[np.dtype[Any], ...] | None = None
    """Of the outputs; None where they are those of the kernel's results."""


Step = NativeStep | HostStep


@dataclass
class Program:
    """The steps, the constants among the values, and the weights that segments read."""

    inputs: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    constants: Mapping[int, Array]
    weights: Array
    """Bytes, aligned to 64."""
    nodes: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """The nodes whose check fails with a code."""
    keep: object = None
    """What owns the code that the steps' addresses point to."""

    def __post_init__(self) -> None:
        self._frames: deque[_Frame] = deque()
        known = [*self.constants, *(i for step in self.steps for i in step.outputs)]
        self._values: list[Any] = [None] * (max([self.inputs - 1, *known]) + 1)
        native = [step for step in self.steps if isinstance(step, NativeStep)]
        read = {i for step in native for i in step.inputs}
        for i, constant in self.constants.items():
            # native code knows no strides, which those of equal elements have
            self._values[i] = np.require(constant, None, ["C", "A"]) if i in read else constant
        self._fresh = {i for step in native for i in step.outputs}
        self._apart = self._fresh.issuperset(self.results) and _distinct(self.results)
        """Whether no result can share memory with anything."""

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The results for checked, C-contiguous inputs. May be called from several threads at once.

        Raises ExecutionError where values cannot be computed with, such as an index out of range,
        and ResourceError where memory is short.
        """
        values = self._values.copy()
        values[: self.inputs] = arrays
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        try:
            for step in frame.steps:
                step.run(values)
            results = [values[i] for i in self.results]
            return results if self._apart else self._owned(results, arrays)
        except MemoryError as error:
            raise ResourceError(f"there is not enough memory: {error}") from error
        finally:
            self._frames.append(frame)

    def _owned(self, results: Sequence[Array], inputs: Sequence[Array]) -> list[Array]:
        """Results that the caller may write to: never the memory of an input, of a constant or of
        one another, of which a NumPy kernel may have made a view."""
        taken = [*inputs, *self.constants.values()]
        for result in results:
            shared = any(np.may_share_memory(result, other) for other in taken)
            taken.append(result.copy() if shared else result)
        return taken[len(taken) - len(results) :]


class _Frame:
    """What a call has to itself: an arena, and the steps bound to it. The next call reuses it."""

    def __init__(self, program: Program) -> None:
        sizes = [step.arena_bytes for step in program.steps if isinstance(step, NativeStep)]
        self.arena = aligned(max(sizes, default=0))
        self.steps = [
            _NativeCall(step, program, address(self.arena))
            if isinstance(step, NativeStep)
            else _HostCall(step)
            for step in program.steps
        ]


class _NativeCall:
    """A segment with its context and arrays of pointers."""

    def __init__(self, step: NativeStep, program: Program, arena: int) -> None:
        self.step = step
        self.nodes = program.nodes
        recyclers = [Recycler(spec.shape, spec.dtype) for spec in step.specs]
        self.outputs = list(zip(step.outputs, recyclers, strict=True))
        self.context = (ctypes.c_int64 * CONTEXT_SLOTS)()
        count = len(step.inputs)
        self.pointers = (ctypes.c_void_p * (count + len(step.outputs) + 1))()
        start = ctypes.addressof(self.pointers)
        self.segment = functools.partial(
            _SEGMENT(step.address),
            ctypes.addressof(self.context),
            start,
            start + count * ctypes.sizeof(ctypes.c_void_p),
            address(program.weights),
            arena,
            0,
            1,
        )

    def run(self, values: list[Any]) -> None:
        """Read the inputs among the values, and put the outputs there."""
        pointers, slot = self.pointers, 0
        for i in self.step.inputs:
            pointers[slot] = address(values[i])
            slot += 1
        for i, recycler in self.outputs:
            values[i] = output = recycler.array()
            pointers[slot] = address(output)
            slot += 1
        self.segment()
        if self.context[0]:
            self._fail()

    def _fail(self) -> None:
        nodes = self.nodes.get(self.context[0] - 1, ())
        self.context[0] = 0
        raise ExecutionError(
            "an index is out of range",
            where=f"node {', '.join(map(repr, nodes)) or 'unknown'}",
            hint="check the indices that are fed to gather operations",
        )


class _HostCall:
    """A NumPy kernel."""

    def __init__(self, step: HostStep) -> None:
        self.step = step

    def run(self, values: list[Any]) -> None:
        """Read the inputs among the values, and put the outputs there."""
        inputs = [values[i] for i in self.step.inputs]
        for i, result in zip(self.step.outputs, _host(self.step, inputs), strict=True):
            values[i] = result


def _host(step: HostStep, inputs: Sequence[Array]) -> list[Array]:
    try:
        return host.run(step.kernel, inputs, step.settings, step.dtypes)
    except ExecutionError as error:
        raise ExecutionError(
            error.what, where=f"node {step.node!r}", expected=error.expected, found=error.found
        ) from error


def _distinct(numbers: Sequence[int]) -> bool:
    return len(set(numbers)) == len(numbers)


def pack_weights(arrays: Mapping[str, Array], offsets: Mapping[str, int], size: int) -> Array:
    """One aligned block of bytes with each array at its offset."""
    block = aligned(size)
    for name, offset in offsets.items():
        flat = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
        block[offset : offset + flat.size] = flat
    return block
