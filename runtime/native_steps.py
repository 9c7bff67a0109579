"""Steps of programs that run native code."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy.typing as npt

from tessella.runtime.arena import ELEMENTS, Workspace, address, pointer_at
from tessella.runtime.checks import out_of_range
from tessella.runtime.pool import ARGUMENTS, CONTEXT, Team
from tessella.runtime.specs import TensorSpec
from tessella.runtime.watch import Watch
from tessella.support.decisions import known
from tessella.support.sizes import Size, value_of

Array = npt.NDArray[Any]

MAX_SIZES = 256
"""The most sets of symbol values for which a step caches its outputs."""

_STATUS = CONTEXT.index("status")
_ARENA, _PRIVATES, _STRIDE = map(ARGUMENTS.index, ("arena", "privates", "stride"))
SEGMENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""The C signature of a segment. Calls through it release the GIL."""


@dataclass(frozen=True)
class NativeStep:
    """A step that runs a segment: ``void (arguments)``, with the address of its ``ARGUMENTS``."""

    name: str
    """The segment's name in the program's code."""
    arena_bytes: Size
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    """The shapes and dtypes of the outputs."""
    shared: bool = False
    """True if several threads run the segment together."""
    private_bytes: Size = 0
    """Bytes of each thread's own arena, which follows the shared one."""
    brief: bool = False
    """True if the segment takes no longer than waking threads does: parked threads are then not
    woken."""

    def at(self, values: Mapping[str, int]) -> NativeStep:
        """Return the step for values of the symbols."""
        specs = tuple(spec.at(values) for spec in self.specs)
        arena, private = (value_of(size, values) for size in (self.arena_bytes, self.private_bytes))
        return replace(self, specs=specs, arena_bytes=arena, private_bytes=private)


_Outputs = Sequence[tuple[int, int, Callable[[], Array]]]
"""Outputs of a segment: pointer index, value number, and a function that allocates the array."""


class _SizedMemory(NamedTuple):
    """The memory that a segment needs for values of the symbols."""

    new: _Outputs
    """The outputs for which each call needs new arrays."""
    held: _Outputs
    """The outputs that every call writes to the same arrays."""
    arena: int
    private: int


class NativeCall:
    """A bound segment, with a context for each thread, and with arrays of pointers."""

    def __init__(
        self,
        step: NativeStep,
        nodes: Mapping[int, Sequence[str]],
        contexts: Array,
        watch: Watch,
        inner: Set[int],
    ) -> None:
        """``inner`` are the numbers of the values that only native code reads: all calls write such
        a value to the same array."""
        self.step = step
        self.nodes = nodes
        self.watch = watch
        self.inner = inner
        self.inputs = [*enumerate(step.inputs)]
        """The inputs of the segment: the index of a pointer, and the number of a value."""
        self.outputs: _Outputs = []
        """The outputs for which each call needs a new array."""
        self.held: list[tuple[int, Array]] = []
        """The arrays of the other outputs, by the number of the value."""
        self._sized: dict[tuple[int, ...], _SizedMemory] = {}
        """The memory by the values of the symbols."""
        self.contexts = address(contexts)
        self.status = ctypes.c_int64.from_buffer(contexts[_STATUS:].data)
        """The status of the first thread, which is that of a run. It is 0 before the run, as no
        call follows one that fails in the same memory."""
        self.pointers = (ctypes.c_void_p * (len(step.inputs) + len(step.outputs) + 1))()
        self.arguments = (ctypes.c_int64 * len(ARGUMENTS))()

    def resize(self, step: Any, sized: Any, workspace: Workspace) -> None:
        """Make the call ready for ``step``, the step for given values of the symbols. The outputs'
        memory comes from the workspace."""
        found = self._sized.get(sized.sizes) or self._new_memory(step, sized.sizes, workspace)
        self.outputs, held, arena, private = found
        self.arguments[_PRIVATES] = self.arguments[_ARENA] + arena
        self.arguments[_STRIDE] = private
        self.held = []  # the memory of the arrays before may become that of the new ones
        for slot, i, make in held:
            array = make()
            self.pointers[slot] = address(array)
            self.held.append((i, array))

    def _new_memory(
        self, step: NativeStep, sizes: tuple[int, ...], workspace: Workspace
    ) -> _SizedMemory:
        if len(self._sized) >= MAX_SIZES:
            self._sized.clear()
        recycler = workspace.recycler
        pairs = zip(step.outputs, step.specs, strict=True)
        found = [
            (slot, i, recycler(i).maker(spec.numbers, spec.dtype))
            for slot, (i, spec) in enumerate(pairs, len(step.inputs))
        ]
        new = [each for each in found if each[1] not in self.inner]
        held = [each for each in found if each[1] in self.inner]
        memory = _SizedMemory(new, held, known(step.arena_bytes), known(step.private_bytes))
        self._sized[sizes] = memory
        return memory

    def bind(self, segment: int, weights: int, arena: int, team: Team | None) -> None:
        """Bind the call to the segment at an address, to weights, to an arena, and to a team;
        without a team, the caller runs the segment alone."""
        inputs = ctypes.addressof(self.pointers)
        outputs = inputs + len(self.step.inputs) * ctypes.sizeof(ctypes.c_void_p)
        self.arguments[:] = self.contexts, inputs, outputs, weights, arena, 0, 0
        arguments = ctypes.addressof(self.arguments)
        if team is None:
            self.segment = functools.partial(SEGMENT(segment), arguments)
        else:
            numbers = team.threads, self.step.brief
            self.segment = functools.partial(team.run, team.address, segment, arguments, *numbers)

    def run(self, values: list[Any]) -> None:
        """Run the segment."""
        pointers = self.pointers
        for slot, i in self.inputs:  # the calls of `address` would take half as long again
            pointers[slot] = pointer_at(id(values[i]) + ELEMENTS).value
        for i, array in self.held:
            values[i] = array
        for slot, i, make in self.outputs:
            output = values[i]
            if output is None:  # the caller has provided no array
                values[i] = output = make()
            pointers[slot] = pointer_at(id(output) + ELEMENTS).value
        self.segment()
        if self.status.value:
            self._fail()

    def _fail(self) -> None:
        self.watch.check()
        raise out_of_range(self.nodes.get(self.status.value - 1, ()))
