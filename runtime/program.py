"""A compiled program: steps over numbered values, and how they run.

A step is a native segment, a NumPy kernel by name, a loop around another program, or a copy or a
segment on a device other than the CPU. Values are numbered: the inputs first, then the results of
steps. The weights are arrays of bytes in a table, which other programs may read too.

A program may have symbols. Their values come with each call, from the shapes or the elements of its
inputs. The shapes of its values and the sizes of its memory are then expressions of them. A step
may define symbols too: dimensions of its results that are known only after the step has run. The
program then runs in stretches, each of which begins where symbols become known.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import Workspace, Workspaces, address, aligned
from tessella.runtime.device_steps import (
    HOST,
    CopyCall,
    CopyStep,
    DeviceStep,
    SegmentCall,
    devices_of,
    finish,
)
from tessella.runtime.devices import Memory
from tessella.runtime.events import CallEvent
from tessella.runtime.host_steps import HostCall, HostStep
from tessella.runtime.image import Library
from tessella.runtime.native_steps import MAX_SIZES, NativeCall, NativeStep
from tessella.runtime.pool import CONTEXT, CONTEXT_SLOTS, LINE, POOL, Team
from tessella.runtime.scan import Loop
from tessella.runtime.specs import Constant, TensorSpec
from tessella.runtime.symbols import DefinedSymbol, Dimension, ElementSymbol, SymbolSource
from tessella.runtime.trim_steps import TrimCall, TrimStep
from tessella.runtime.values import are_apart
from tessella.runtime.watch import Watch
from tessella.support.decisions import known
from tessella.support.errors import InternalError, ResourceError
from tessella.support.sizes import symbols_of

Array = npt.NDArray[Any]
T = TypeVar("T")

_SIZES, _WATCH = map(CONTEXT.index, ("sizes", "watch"))


@dataclass(frozen=True)
class ScanStep:
    """A step that runs a program for each element of sequences, or while a condition is true."""

    body: Program
    loop: Loop
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    specs: tuple[TensorSpec, ...]
    """The shapes and dtypes of the returned sequences."""

    def at(self, values: Mapping[str, int]) -> ScanStep:
        """Return the step for values of the symbols. The body receives these values when it
        runs."""
        return replace(self, specs=tuple(spec.at(values) for spec in self.specs))


Step = NativeStep | HostStep | TrimStep | ScanStep | CopyStep | DeviceStep


class Bound(Protocol):
    """A step that is bound to the memory and the threads that it runs on."""

    def run(self, values: list[Any]) -> None:
        """Run the step: read its inputs from ``values``, and store its outputs there."""
        ...


class RunObserver(Protocol):
    """A receiver of reports on the runs of a program."""

    def watched(self, bound: Bound, step: Step) -> Bound:
        """Wrap a step so that it reports its beginning and end."""
        ...

    def resize(self, values: Mapping[str, int]) -> None:
        """Set the values of the program's symbols, for all runs."""
        ...

    def attach(self, contexts: Array) -> None:
        """Receive the events of segments that run with these contexts, the blocks of run-time state
        of the threads."""
        ...


@dataclass
class Program:
    """A compiled program: its steps, the constants among its values, and the weights that segments
    read."""

    inputs: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    constants: Mapping[int, Constant]
    weights: Sequence[Array]
    """The bytes of each weight, aligned to 64 (``sharing``); segments read them by slot."""
    nodes: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """The nodes of each check that can fail, by the number of the check. A segment reports this
    number plus 1 as its status."""
    code: Library | None = None
    """The native code of the segments, and that of the thread pool if several threads can run a
    segment."""
    calls: Sequence[CallEvent] = ()
    """The calls in segments, by the numbers in their events."""
    recorder: RunObserver | None = None
    """A receiver of reports on the runs of the program: see ``recorded``."""
    workspaces: Workspaces = field(default_factory=Workspaces)
    """Memory for calls, which other programs may use too."""
    symbols: tuple[SymbolSource, ...] = ()
    """The program's symbols, in the order in which native code reads their values."""
    pointers: ctypes.Array[ctypes.c_void_p] | None = None
    """The addresses of the weights, for native code. They are computed unless the program is a
    copy."""

    def __post_init__(self) -> None:
        if self.pointers is None:
            addresses = map(address, self.weights)
            self.pointers = (ctypes.c_void_p * len(self.weights))(*addresses)
        self._sized: dict[tuple[int, ...], _Sized] = {}
        self._first, *self._others = _stretches(self)
        self.from_inputs = tuple(
            each for each in self.symbols if isinstance(each, Dimension | ElementSymbol)
        )
        """The symbols whose values are read from the inputs."""
        known = [*self.constants, *(i for step in self.steps for i in step.outputs)]
        self._count = max([self.inputs - 1, *known]) + 1
        self.kept: dict[int, Memory] = {}
        """The constants on devices, by number."""
        used = {name for step in self.steps for name in devices_of(step)}
        self._devices = sorted(used - {HOST})
        native = [step for step in self.steps if isinstance(step, NativeStep)]
        run_natively = (s for s in self.steps if not isinstance(s, HostStep | TrimStep))
        self._read = {i for step in run_natively for i in step.inputs}
        self._is_shared = any(step.shared for step in native)
        self.inner = _inner(self)
        """The numbers of the values that only segments, which are native code, compute and read."""
        self._apart = _are_apart(self)
        """True if no result can share memory with an input, a constant or another result."""

    def run(
        self, arrays: Sequence[Array], threads: int = 1, out: Sequence[Array | None] = ()
    ) -> list[Array]:
        """Return the results for checked, C-contiguous inputs.

        Threads may call this concurrently. Steps that can be shared run on ``threads`` threads, or
        on this one if others occupy them. Native steps write their results into the arrays of
        ``out`` that fit; these are contiguous, and share no memory with each other or with inputs.
        Other results are new arrays. Raises ExecutionError for values that cannot be computed with,
        such as an index out of range, and ResourceError if memory is short.
        """
        sizes = tuple([each.of(arrays) for each in self.from_inputs])
        return self.run_for(sizes, arrays, threads, out)

    def run_for(
        self,
        sizes: tuple[int, ...],
        arrays: Sequence[Array],
        threads: int = 1,
        out: Sequence[Array | None] = (),
    ) -> list[Array]:
        """Return the results, as ``run`` does, for given values of the symbols that no step
        defines. The specialisation of the program for these values is cached."""
        sized = self._sized.get(sizes) or self._new_sizes(self._first, sizes)
        values = sized.values.copy()
        values[: self.inputs] = arrays
        used = [sized]
        workspaces = self.workspaces
        free = workspaces.free  # kept, as another thread may replace ``workspaces.free``
        try:
            workspace = free.pop()
        except IndexError:
            workspace = Workspace()
        try:
            team = POOL.team(threads, self.library) if threads > 1 and self._is_shared else None
            self._run(self._first, sized, values, out, workspace, team)
            for stretch in self._others:
                sizes = (*sizes, *[each.of(values, limit) for each, limit in sized.limits])
                sized = self._sized.get(sizes) or self._new_sizes(stretch, sizes)
                used.append(sized)
                for i, array in sized.fixed.items():
                    values[i] = array
                self._run(stretch, sized, values, out, workspace, team)
            results = [values[i] for i in self.results]
            if not self._apart:
                taken = [*arrays, *(array for each in used for array in each.fixed.values())]
                taken += [array for array in out if array is not None]
                if not are_apart(results, taken):
                    results = self._owned(results, taken, out, workspace)
        except BaseException as error:
            finish(self._devices)  # devices may still access the arrays and the workspace
            if isinstance(error, MemoryError):
                raise ResourceError(f"there is not enough memory: {error}") from error
            raise
        # The workspace of a call that fails is dropped, as steps may have left anything in it.
        free.append(workspace)
        workspaces.left -= 1
        if workspaces.left <= 0:
            workspaces.shrink()
        return results

    def _run(
        self,
        stretch: _Stretch,
        sized: _Sized,
        values: list[Any],
        out: Sequence[Array | None],
        workspace: Workspace,
        team: Team | None,
    ) -> None:
        """Run a stretch, a part of the program's steps, for the sizes ``sized`` of its symbols."""
        if out:
            self._place(values, out, sized)
        frame = workspace.frames.get(stretch.key)
        if frame is None:
            frame = workspace.frame(stretch.key, functools.partial(_Frame, self, stretch))
        for step in frame.steps(self, sized, workspace, team):
            step.run(values)

    def release(self) -> None:
        """Free the memory that calls of this program, and of the programs in its loops, reuse.

        Running calls free their memory when they end.
        """
        self.workspaces.release()
        self._sized.clear()
        self.kept.clear()
        for step in self.steps:
            if isinstance(step, ScanStep):
                step.body.release()

    def recorded(self, recorder: RunObserver) -> Program:
        """Return a copy of the program that reports its runs to a recorder."""
        steps = (
            replace(step, body=step.body.recorded(recorder)) if isinstance(step, ScanStep) else step
            for step in self.steps
        )
        return replace(self, steps=tuple(steps), recorder=recorder)

    def _new_sizes(self, stretch: _Stretch, sizes: tuple[int, ...]) -> _Sized:
        """Specialise a stretch of the program for the values of the symbols that are known when the
        stretch begins, and cache the result."""
        if len(self._sized) >= MAX_SIZES:
            self._sized.clear()
        names = (each.symbol.name for each in stretch.symbols)
        known = dict(zip(names, sizes, strict=True))
        fixed = {i: self._constant(i, known) for i in stretch.constants}
        values: list[Any] = [None] * self._count
        for i, array in fixed.items():
            values[i] = array
        steps = tuple(step.at(known) for step in stretch.steps) if known else stretch.steps
        numbers = tuple([known.get(each.symbol.name, 0) for each in self.symbols])
        limits = [(each, each.limit(known)) for each in stretch.defines]
        found = self._sized[sizes] = _Sized(sizes, numbers, known, steps, values, fixed, limits)
        return found

    def _constant(self, number: int, known: Mapping[str, int]) -> Array:
        """Return a constant for values of the symbols."""
        array = self.constants[number].at(known).array(self.weights)
        # Native code assumes row-major memory; arrays of equal elements have strides of 0.
        return np.require(array, None, ["C", "A"]) if number in self._read else array

    @property
    def library(self) -> Library:
        """The code of the program. Raises InternalError for a program without code."""
        if self.code is None:
            raise InternalError("a program with segments has no code")
        return self.code

    def all_weights(self) -> Iterator[Array]:
        """Yield the weights of this program, and of the programs in its loops."""
        yield from self.weights
        for step in self.steps:
            if isinstance(step, ScanStep):
                yield from step.body.all_weights()

    def _place(self, values: list[Any], out: Sequence[Array | None], sized: _Sized) -> None:
        """Store the caller's arrays among the values, so that native steps write results into them.
        Arrays of the wrong type are left out."""
        for number, array in zip(self.results, out, strict=True):
            spec = sized.fresh.get(number)
            if array is not None and spec == TensorSpec(array.shape, array.dtype):
                values[number] = array

    def _owned(
        self,
        results: Sequence[Array],
        taken: list[Array],
        out: Sequence[Array | None],
        workspace: Workspace,
    ) -> list[Array]:
        """Return results that the caller may modify.

        A result is copied if it shares memory with an input, a constant or another result, or is a
        view that cannot be modified, as results of NumPy kernels may be.
        """
        owned: list[Array] = []
        for i, result in enumerate(results):
            is_placed = bool(out) and result is out[i]
            is_shared = self.results[i] in self.constants or not result.flags.writeable
            if is_shared or (
                not is_placed and any(np.may_share_memory(result, other) for other in taken)
            ):
                copy = workspace.recycler(~i).maker(result.shape, result.dtype)()
                np.copyto(copy, result)
                owned.append(copy)
            else:
                owned.append(result)
            taken.append(owned[-1])
        return owned


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Consecutive steps of a program, up to and including a step that defines symbols. They run
    when the symbols that earlier steps define are known."""

    steps: tuple[Step, ...]
    symbols: tuple[SymbolSource, ...]
    """The known symbols, in the order in which they become known."""
    defines: tuple[DefinedSymbol, ...]
    """The symbols that the last step defines."""
    constants: Sequence[int]
    """The numbers of the constants whose shapes become known where the stretch begins."""
    key: object = field(default_factory=object)
    """The key of the frames of this stretch in workspaces."""


def _stretches(program: Program) -> list[_Stretch]:
    """Divide a program's steps into stretches. A stretch ends with a step that defines symbols, as
    the next stretch needs their values."""
    defined = [each for each in program.symbols if isinstance(each, DefinedSymbol)]
    symbols = tuple(each for each in program.symbols if not isinstance(each, DefinedSymbol))
    left = dict(program.constants)
    found: list[_Stretch] = []
    start = 0
    for stop, step in enumerate((*program.steps, None), 1):
        new = () if step is None else tuple(d for d in defined if d.value in step.outputs)
        if new or step is None:
            known = {each.symbol for each in symbols}
            constants = [i for i, c in left.items() if symbols_of(c.spec.shape) <= known]
            found.append(_Stretch(program.steps[start:stop], symbols, new, constants))
            left = {i: c for i, c in left.items() if i not in constants}
            start, symbols = stop, (*symbols, *new)
    return found


@dataclass(eq=False)
class _Sized:
    """A stretch of a program, specialised for values of the known symbols; without symbols, the
    stretch as it is."""

    sizes: tuple[int, ...]
    """The values of the known symbols, in the order in which they become known."""
    numbers: tuple[int, ...]
    """The values of all symbols, in the order in which native code reads them; 0 for those that
    later steps define."""
    symbols: Mapping[str, int]
    """The values of the known symbols, by name."""
    steps: tuple[Step, ...]
    values: list[Any]
    """The values of the program by number: constants, and None for values that a run computes."""
    fixed: Mapping[int, Array]
    """The constants by number: views of the weights' memory if native code can read the constant
    there, otherwise copies."""
    limits: Sequence[tuple[DefinedSymbol, int]]
    """The symbols that the last step defines, each with its upper bound."""
    _arenas: dict[int, int] = field(default_factory=dict[int, int])
    """The size in bytes of the largest arena, the memory of a step's intermediate values, by the
    number of threads."""

    def arena_bytes(self, threads: int) -> int:
        """Return the bytes of the largest arena that the steps need on this many threads."""
        found = self._arenas.get(threads)
        if found is None:
            native = (step for step in self.steps if isinstance(step, NativeStep))
            sizes = (s.arena_bytes + s.private_bytes * (threads if s.shared else 1) for s in native)
            found = self._arenas[threads] = max(map(known, sizes), default=0)
        return found

    @functools.cached_property
    def fresh(self) -> Mapping[int, TensorSpec]:
        """The shape and dtype of each value that a step writes into an array that it is given, by
        the value's number."""
        found: dict[int, TensorSpec] = {}
        for step in self.steps:
            if isinstance(step, NativeStep):
                found.update(zip(step.outputs, step.specs, strict=True))
            elif isinstance(step, CopyStep) and step.end == HOST:
                found[step.outputs[0]] = step.spec
        return found


class _Frame:
    """The steps of a stretch of a program, bound to sizes and to the workspace that holds the
    frame."""

    def __init__(self, program: Program, stretch: _Stretch) -> None:
        self._stretch = stretch
        self._team: Team | None = None
        self._sized: _Sized | None = None
        self._numbers = (ctypes.c_int64 * len(program.symbols))()
        """The values of the symbols, where native code reads them."""
        self._watch = Watch()
        self._contexts = self._new_contexts(1, program.recorder)
        self._size = self._arena = 0
        self._bound: list[_Resizable] = []
        self._steps: Sequence[Bound] = []

    def steps(
        self, program: Program, sized: _Sized, workspace: Workspace, team: Team | None
    ) -> Sequence[Bound]:
        """Return the bound steps for the sizes ``sized``, which use the workspace and the team."""
        if (
            sized is self._sized
            and team is self._team
            and self._size <= workspace.need.now
            and self._arena == workspace.address
        ):
            return self._steps
        is_resized, threads = sized is not self._sized, 1 if team is None else team.threads
        if is_resized or team is not self._team:
            self._sized, self._size = None, sized.arena_bytes(threads)
        if team is not self._team:
            self._contexts = self._new_contexts(threads, program.recorder)
            self._team, self._arena = team, 0
        arena = workspace.arena(self._size)
        if arena != self._arena:
            self._sized = None
            self._bind(program, arena)
            self._arena, is_resized = arena, True
        if is_resized:
            self._resize(sized, workspace, program.recorder)
        self._sized = sized
        return self._steps

    def _resize(self, sized: _Sized, workspace: Workspace, recorder: RunObserver | None) -> None:
        self._numbers[:] = sized.numbers
        if recorder is not None and sized.symbols:
            recorder.resize(sized.symbols)
        for i, step in enumerate(sized.steps):
            self._bound[i].resize(step, sized, workspace)

    def _bind(self, program: Program, arena: int) -> None:
        steps = self._stretch.steps
        self._bound = [self._call(program, step, arena) for step in steps]
        self._steps, recorder = self._bound, program.recorder
        if recorder is not None:
            pairs = zip(self._bound, steps, strict=True)
            self._steps = [recorder.watched(bound, step) for bound, step in pairs]

    def _new_contexts(self, threads: int, recorder: RunObserver | None) -> Array:
        """Return a zeroed context for each thread, each in its own cache lines, with the address of
        the symbols' values."""
        contexts = aligned(threads * CONTEXT_SLOTS * 8, LINE).view(np.int64)
        contexts.fill(0)
        contexts[_SIZES::CONTEXT_SLOTS] = ctypes.addressof(self._numbers)
        contexts[_WATCH] = self._watch.address
        if recorder is not None:
            recorder.attach(contexts)
        return contexts

    def _call(self, program: Program, step: Step, arena: int) -> _Resizable:
        match step:
            case NativeStep():
                memory = self._contexts, self._watch
                call = NativeCall(step, program.nodes, *memory, program.inner)
                assert program.pointers is not None
                weights = ctypes.addressof(program.pointers)
                segment = program.library.address(step.name)
                call.bind(segment, weights, arena, self._team if step.shared else None)
                return call
            case HostStep():
                return HostCall(step)
            case TrimStep():
                return TrimCall(step, program.inner)
            case CopyStep():
                return CopyCall(step, program.kept)
            case DeviceStep():
                return SegmentCall(step)
            case ScanStep():
                return _ScanCall(step)


class _Resizable(Bound, Protocol):
    """A bound step that can be changed to other values of the symbols."""

    def resize(self, step: Step, sized: _Sized, workspace: Workspace) -> None:
        """Change the step to these values of the symbols, with the outputs' memory in the
        workspace."""
        ...


class _ScanCall:
    """A bound step that runs a loop around a program."""

    def __init__(self, step: ScanStep) -> None:
        self.step = step
        self.sizes: tuple[int, ...] = ()
        """The values of the body's symbols."""

    def resize(self, step: Step, sized: _Sized, workspace: Workspace) -> None:
        assert isinstance(step, ScanStep)
        self.step = step
        self.sizes = tuple(sized.symbols.get(each.symbol.name, 0) for each in step.body.symbols)

    def run(self, values: list[Any]) -> None:
        inputs = [values[i] for i in self.step.inputs]
        rows = [np.zeros(spec.shape, spec.dtype) for spec in self.step.specs]
        body = functools.partial(self.step.body.run_for, self.sizes)
        results = self.step.loop.run(body, inputs, rows)
        for i, result in zip(self.step.outputs, results, strict=True):
            values[i] = result


def _inner(program: Program) -> frozenset[int]:
    """Return the numbers of the values that segments compute and only segments read, whole or cut
    to their first slices. All calls can write such a value to the same memory."""
    read = {*program.results}
    for step in reversed(program.steps):
        if isinstance(step, TrimStep):
            read.update({step.x} if step.result in read else ())
        elif not isinstance(step, NativeStep):
            read.update(step.inputs)
    written = (s for s in program.steps if isinstance(s, NativeStep | TrimStep))
    return frozenset(i for step in written for i in step.outputs if i not in read)


def _are_apart(program: Program) -> bool:
    """Return whether no result can share memory with an input, a constant or another result."""
    owners: dict[int, int] = {}
    for step in program.steps:
        if isinstance(step, NativeStep) or (isinstance(step, CopyStep) and step.end == HOST):
            owners.update(zip(step.outputs, step.outputs, strict=True))
        elif isinstance(step, TrimStep) and step.x in owners:
            owners[step.result] = owners[step.x]
    found = [owners.get(i) for i in program.results]
    return None not in found and len({*found}) == len(found)
