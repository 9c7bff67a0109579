"""The profiler: programs report their operations to a recorder while it measures."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tessella import targets
from tessella.runtime.device_steps import HOST, CopyStep, DeviceStep, devices_of, finish
from tessella.runtime.events import CallEvent, Scale, Stream, Work
from tessella.runtime.host_steps import HostStep
from tessella.runtime.profile import Activity, Profile, ProfileRow, roof
from tessella.runtime.program import Bound, Step
from tessella.runtime.trim_steps import TrimStep
from tessella.support.clock import now
from tessella.support.decisions import known
from tessella.support.errors import OptionError

Array = npt.NDArray[Any]
T = TypeVar("T")
Works = Mapping[str, Work]
"""Work by kernel name."""

ROOM = 1 << 18
"""The most events that each thread can write. The system allocates memory for them only when it is
written to."""
WARMUP, LEAST, MOST, LONG = 2, 10, 1000, 500_000_000
"""Warm-up runs; the least and the most measured runs; and the nanoseconds that measured runs may
take."""


class ProgramRunner(Protocol):
    """An object that runs a program."""

    program: Any
    """A `Program`, or the `Runner` of a program with graph breaks: both have ``calls`` and
    ``recorded``."""


@dataclass(frozen=True)
class ProfiledProgram:
    """A program of a model, and the object that runs it, for profiles."""

    runs: ProgramRunner
    work: Callable[[], Works]
    """A function that returns the work of the program's kernels."""
    where: str = ""
    """The subprogram, if the model has several."""


class Recorder:
    """A recorder of the operations of one program."""

    def __init__(self, part: ProfiledProgram) -> None:
        self.part = part
        self.calls: list[CallEvent] = list(part.runs.program.calls)
        """The calls of the program by number, followed by its other recorded steps."""
        self._streams: list[Stream] = []
        self._steps: list[tuple[int, int, int]] = []
        self._numbers: dict[int, int] = {}
        self.values: Mapping[str, int] = {}
        """The values of the program's symbols."""

    def attach(self, contexts: Array) -> None:
        """Give the contexts of threads memory for events, so that segments that run with these
        contexts write their events."""
        self._streams.append(Stream(contexts, ROOM))

    def resize(self, values: Mapping[str, int]) -> None:
        """Set the values of the program's symbols, for all runs."""
        self.values = values

    def watched(self, bound: Bound, step: Step) -> Bound:
        """Wrap a step so that its beginning and end are recorded. Return native segments and loops
        unchanged, as segments write events."""
        call = _call_of(step)
        if call is None:
            return bound
        devices = [name for name in devices_of(step) if name != HOST]
        # the key is the step, as it is bound again when a call uses other memory
        return _Watched(bound, self._number(id(step), call), self._steps, devices)

    @contextmanager
    def timed(self, key: int, kernel: str, node: str) -> Generator[None]:
        """Record the time of the block as a step after a graph break. ``key`` identifies the
        step."""
        number, start = self._number(key, CallEvent(kernel, "numpy", (node,))), now()
        yield
        self._steps.append((number, start, now()))

    def _number(self, key: int, call: CallEvent) -> int:
        """Return the number of a step in ``calls``. The first call with a ``key`` appends the
        step."""
        number = self._numbers.setdefault(key, len(self.calls))
        if number == len(self.calls):
            self.calls.append(call)
        return number

    @property
    def is_full(self) -> bool:
        """True if the memory for a thread's events is full, so that events may be missing."""
        return any(stream.is_full for stream in self._streams)

    @property
    def most(self) -> int:
        """The largest number of events that a thread has written so far."""
        return max((len(w) for stream in self._streams for w in stream.written()), default=0)

    def intervals(self) -> Iterator[tuple[int, Array, Array, Array]]:
        """Yield the thread, the numbers of calls, and the beginnings and ends of the calls in
        nanoseconds: for each thread that writes events, and for the steps in NumPy."""
        written = [stream.written() for stream in self._streams]
        scale = Scale.of(events for threads in written for events in threads)
        for threads in written:
            for thread, events in enumerate(threads):
                times, number = scale.nanoseconds(events["time"]), events["number"]
                kept = np.flatnonzero((number[:-1] >= 0) & (number[:-1] < len(self.calls)))
                yield thread, number[kept], times[kept], times[kept + 1]
        steps = np.array(self._steps, np.int64).reshape(-1, 3)
        yield 0, steps[:, 0], steps[:, 1], steps[:, 2]


@dataclass
class _Watched:
    """A bound step that records the beginning and the end of each run."""

    inner: Bound
    number: int
    steps: list[tuple[int, int, int]]
    devices: Sequence[str]
    """The devices on which the step launches work without waiting. Recorded runs wait for them."""

    def run(self, values: list[Any]) -> None:
        start = now()
        self.inner.run(values)
        finish(self.devices)
        self.steps.append((self.number, start, now()))


def _call_of(step: Step) -> CallEvent | None:
    """Return the description of a step that writes no events itself; None for other steps."""
    match step:
        case HostStep() | TrimStep():
            return CallEvent(step.kernel, "numpy", (step.node,))
        case CopyStep() if not step.once:
            return CallEvent(step.name, "copy")
        case DeviceStep():
            nodes = dict.fromkeys(node for call in step.calls for node in call.nodes)
            names = [call.kernel for call in step.calls if call.kernel]
            return CallEvent(", ".join(names), "device", tuple(nodes))
        case _:
            return None


@contextmanager
def recording(parts: Iterable[ProfiledProgram]) -> Generator[list[Recorder]]:
    """Record the operations of a model's programs within the block. Yields a recorder for each
    program."""
    with ExitStack() as stack:
        yield [stack.enter_context(_recorded(part)) for part in parts]


@contextmanager
def _recorded(part: ProfiledProgram) -> Generator[Recorder]:
    recorder, program = Recorder(part), part.runs.program
    part.runs.program = program.recorded(recorder)
    try:
        yield recorder
    finally:
        part.runs.program = program


def profile(
    run: Callable[[], object], parts: Callable[[], Iterable[ProfiledProgram]], runs: int | None
) -> Profile:
    """Run a model repeatedly, and return the profile of the measured runs.

    ``parts`` returns the programs of the model once it has run. ``runs`` is the number of measured
    runs; None for as many as the time allows. Raises OptionError if ``runs`` is less than 1.
    """
    if runs is not None and runs < 1:
        raise OptionError("the option 'runs' is a number from 1 on", found=str(runs))
    run()
    with recording(parts()) as recorders:
        began = now()
        for _ in range(WARMUP):
            run()
        once = (now() - began) // WARMUP
        wanted = min(MOST, max(LEAST, LONG // max(once, 1))) if runs is None else runs
        most = max((recorder.most for recorder in recorders), default=0)
        fits = max(1, WARMUP * ROOM // max(most, 1) - WARMUP)
        times = [_timed(run) for _ in range(min(wanted, fits))]
    return _Profiled(np.array(times), recorders).profile()


def traced(run: Callable[[], T], parts: Iterable[ProfiledProgram]) -> tuple[T, Sequence[Activity]]:
    """Run a function once. Returns its result, and the activity of each thread in these
    programs."""
    with recording(parts) as recorders:
        began = now()
        result = run()
        times = np.array([(began, now())])
    return result, _Profiled(times, recorders).spans_of(0)


def _timed(run: Callable[[], object]) -> tuple[int, int]:
    start = now()
    run()
    return start, now()


@dataclass(frozen=True)
class _Intervals:
    """The calls of one thread in the measured runs: their numbers, starts, ends and runs."""

    thread: int
    numbers: Array
    starts: Array
    ends: Array
    runs: Array


class _Profiled:
    """The recorded times, by run, thread and call."""

    def __init__(self, times: Array, recorders: Sequence[Recorder]) -> None:
        self._times = times
        self._target = targets.native()
        self._intervals = [
            (recorder, counted)
            for recorder in recorders
            for interval in recorder.intervals()
            if (counted := self._counted(*interval)).numbers.size
        ]
        threads = [each.thread for _, each in self._intervals]
        self._threads = 1 + max(threads, default=0)
        self._sums = {recorder: self._summed(recorder) for recorder in recorders}

    def _counted(self, thread: int, numbers: Array, starts: Array, ends: Array) -> _Intervals:
        """Return the calls of a thread that lie within measured runs."""
        runs = np.searchsorted(self._times[:, 0], starts, side="right") - 1
        kept = (runs >= 0) & (ends <= self._times[runs, 1])
        return _Intervals(thread, *(each[kept] for each in (numbers, starts, ends, runs)))

    def _of(self, recorder: Recorder) -> Iterator[_Intervals]:
        return (each for owner, each in self._intervals if owner is recorder)

    def _summed(self, recorder: Recorder) -> Array:
        """Return the seconds that the calls of a program take, as an array by run, thread and
        call."""
        sums = np.zeros((len(self._times), self._threads, len(recorder.calls)))
        for each in self._of(recorder):
            seconds = (each.ends - each.starts) * 1e-9
            np.add.at(sums[:, each.thread], (each.runs, each.numbers), seconds)
        return sums

    def profile(self) -> Profile:
        """Return the profile of the measured runs."""
        seconds = (self._times[:, 1] - self._times[:, 0]) * 1e-9
        middle = float(np.median(seconds))
        nearest = int(np.abs(seconds - middle).argmin())
        covered = sum(sums.mean(1).sum(1) for sums in self._sums.values())
        return Profile(
            seconds=middle,
            runs=len(seconds),
            threads=self._threads,
            machine=self._target.name,
            waiting=float(np.median(sum(map(self._waiting, self._sums)))),
            other=float(np.median(seconds - covered)),
            rows=tuple(row for recorder in self._sums for row in self._rows(recorder)),
            spans=self.spans_of(nearest),
        )

    def spans_of(self, run: int) -> tuple[Activity, ...]:
        """Return the activities of all threads in a run."""
        return tuple(span for recorder in self._sums for span in self._spans(recorder, run))

    def _waiting(self, recorder: Recorder) -> Array:
        """Return the seconds that a thread waits at the barriers of a program, averaged over the
        threads, for each run."""
        barriers = [i for i, call in enumerate(recorder.calls) if call.kind == "barrier"]
        return self._sums[recorder][:, :, barriers].mean(1).sum(1)

    def _rows(self, recorder: Recorder) -> Iterator[ProfileRow]:
        works, sums = recorder.part.work(), self._sums[recorder]
        longest, busy = np.median(sums.max(1), 0), np.median(sums, 0)
        often, first = self._often(recorder), self._first(recorder)
        for i in sorted(np.flatnonzero(often), key=first.__getitem__):
            call = recorder.calls[i]
            row = ProfileRow(
                kind=call.kind,
                kernel=call.kernel,
                nodes=call.nodes,
                where=recorder.part.where,
                calls=int(often[i]),
                seconds=float(longest[i]),
                busy=tuple(map(float, busy[:, i])),
            )
            yield self._with_work(row, call, works.get(call.kernel), recorder.values)

    def _often(self, recorder: Recorder) -> Array:
        """Return, for each call, the largest number of times that a thread executes it in a run."""
        counts = np.zeros(self._sums[recorder].shape, np.int64)
        for each in self._of(recorder):
            np.add.at(counts[:, each.thread], (each.runs, each.numbers), 1)
        return counts.max((0, 1))

    def _first(self, recorder: Recorder) -> Array:
        """Return the time at which thread 0, which takes part in all calls, first began each
        call."""
        first = np.full(len(recorder.calls), np.iinfo(np.int64).max)
        for each in self._of(recorder):
            if each.thread == 0:
                np.minimum.at(first, each.numbers, each.starts)
        return first

    def _with_work(
        self, row: ProfileRow, call: CallEvent, work: Work | None, values: Mapping[str, int]
    ) -> ProfileRow:
        if work is None or call.kind != "kernel":
            return row
        work = work.at(values)
        threads = self._threads if call.divided else 1
        least = roof(known(work.operations), known(work.bytes), work.bits, self._target, threads)
        return replace(
            row,
            operations=work.operations * row.calls,
            bytes=work.bytes * row.calls,
            roof=least * row.calls,
            estimate=work.seconds * row.calls / threads,
        )

    def _spans(self, recorder: Recorder, run: int) -> Iterator[Activity]:
        began = int(self._times[run, 0])
        for each in self._of(recorder):
            for i in np.flatnonzero(each.runs == run):
                call = recorder.calls[int(each.numbers[i])]
                start, end = ((int(t) - began) * 1e-9 for t in (each.starts[i], each.ends[i]))
                yield Activity(
                    call.kernel or call.kind, call.kind, call.nodes, each.thread, start, end
                )
