"""A compiled program: steps over numbered values, and how they run.

A step is a native segment or a NumPy kernel by name. Values are numbered: the inputs first, then
what steps give.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime import host
from tessella.runtime.arena import AlignedPool, aligned
from tessella.support.errors import ExecutionError

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
    node: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    settings: Mapping[str, Any]


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
        sizes = [step.arena_bytes for step in self.steps if isinstance(step, NativeStep)]
        self._arenas = AlignedPool(max(sizes, default=0))

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The results for checked, C-contiguous inputs. May be called from several threads at once.

        Raises ExecutionError where values cannot be computed with, such as an index out of range.
        """
        values: dict[int, Array] = {**self.constants, **dict(enumerate(arrays))}
        for step in self.steps:
            inputs = [values[i] for i in step.inputs]
            if isinstance(step, NativeStep):
                results = self._native(step, inputs)
            else:
                results = _host(step, inputs)
            values.update(zip(step.outputs, results, strict=True))
        return [self._owned(values[i], arrays) for i in self.results]

    def _owned(self, result: Array, inputs: Sequence[Array]) -> Array:
        """A result that the caller may write to: never an input's or a constant's memory."""
        shared = any(result is x for x in inputs) or any(
            result is c for c in self.constants.values()
        )
        return result.copy() if shared else result

    def _native(self, step: NativeStep, inputs: Sequence[Array]) -> list[Array]:
        outputs = [np.empty(spec.shape, spec.dtype) for spec in step.specs]
        context = np.zeros(CONTEXT_SLOTS, np.int64)
        with self._arenas.borrow() as arena:
            _SEGMENT(step.address)(
                context.ctypes.data,
                _pointers(inputs),
                _pointers(outputs),
                self.weights.ctypes.data,
                arena.ctypes.data,
                0,
                1,
            )
        if context[0]:
            nodes = self.nodes.get(int(context[0]) - 1, ())
            raise ExecutionError(
                "an index is out of range",
                where=f"node {', '.join(map(repr, nodes)) or 'unknown'}",
                hint="check the indices that are fed to gather operations",
            )
        return outputs


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))


def _host(step: HostStep, inputs: Sequence[Array]) -> list[Array]:
    try:
        return host.run(step.kernel, inputs, step.settings)
    except ExecutionError as error:
        raise ExecutionError(
            error.what, where=f"node {step.node!r}", expected=error.expected, found=error.found
        ) from error


def pack_weights(arrays: Mapping[str, Array], offsets: Mapping[str, int], size: int) -> Array:
    """One aligned block of bytes with each array at its offset."""
    block = aligned(size)
    for name, offset in offsets.items():
        flat = np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8)
        block[offset : offset + flat.size] = flat
    return block
