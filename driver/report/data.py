"""The content of a report, as JSON has it: docs/report.md describes each field.

All times are in seconds, all sizes in bytes. Names that come from the model may be any text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

from tessella.runtime.explain_table import html_table
from tessella.runtime.explain_types import duration
from tessella.support.errors import OptionError

_SHOWN = 10
"""The number of steps that a notebook shows."""


@dataclass(frozen=True)
class TensorData:
    """An input or output of the model."""

    name: str
    dtype: str
    shape: Sequence[int | str]


@dataclass(frozen=True)
class ModelFacts:
    """The model that was compiled."""

    name: str
    inputs: Sequence[TensorData]
    outputs: Sequence[TensorData]
    weight_bytes: int


@dataclass(frozen=True)
class Bandwidth:
    """A level of the memory hierarchy, and the bandwidth at which one core reads from it."""

    level: str
    capacity: int | None
    """The bytes that it holds; None for memory."""
    rate: float
    """Bytes per second."""


@dataclass(frozen=True)
class Peak:
    """The most arithmetic operations per second of one core."""

    name: str
    rate: float


@dataclass(frozen=True)
class MachineFacts:
    """The machine that measured, and the target that the code was compiled for."""

    processor: str
    cores: int
    system: str
    target: str
    features: Sequence[str]
    vector_bits: int
    ghz: float
    peaks: Sequence[Peak]
    bandwidths: Sequence[Bandwidth]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Totals:
    """Figures of a whole run. Figures that were not measured are None."""

    threads: int
    seconds: float | None
    """The median of the measured runs."""
    runs: int
    operations: int
    """Arithmetic operations of all kernels."""
    of_peak: float | None
    """Operations per second, relative to the peak of the threads."""
    in_numpy: float | None
    waiting: float | None
    """Seconds that a thread waits for others, averaged over the threads."""
    other: float | None
    """Seconds outside all steps: the call from Python."""
    arena_bytes: int


@dataclass(frozen=True)
class RejectedData:
    """A kernel at a place (device, precision and layout) that was not picked, and why."""

    kernel: str
    place: str
    reason: str


@dataclass(frozen=True)
class RunnerUpData:
    """The fastest candidate for an op that was not picked."""

    kernel: str
    place: str
    estimate: float


@dataclass(frozen=True)
class OpData:
    """An op of the graph after fusions, with the kernel that was picked for it."""

    op: str
    node: str
    kernel: str
    place: str
    native: bool
    storage: str
    arithmetic: str
    estimate: float | None
    measured: bool
    """True if the estimate is a time that was measured, from the database."""
    saved: float
    """The part of the estimate, in seconds, that is saved because an operand stays in registers."""
    group: int
    """The number of the group of ops that run as one kernel."""
    fallback: str | None
    runner_up: RunnerUpData | None
    pattern: str | None
    """The name of the fusion pattern that created the op; None for an op of the model."""
    consumed: Sequence[str]
    """The ops that the fusion replaced, each as ``nn.erf@node``."""
    rejected: Sequence[RejectedData]


@dataclass(frozen=True)
class CallData:
    """The measured calls of one step, per run."""

    kernel: str
    calls: int
    seconds: float
    busy: Sequence[float]
    operations: int | None
    bytes: int | None
    roof: float | None
    """The least time, by the roofline."""
    estimate: float | None


@dataclass(frozen=True)
class StepData:
    """A step of the program: a call of a kernel or of a NumPy function, a loop, an input or an
    output."""

    id: int
    kind: str
    """``kernel``, ``numpy``, ``conversion``, ``loop``, ``input`` or ``output``."""
    label: str
    kernel: str
    """The name of the step's kernel in ``kernels`` of the report, or of the NumPy function that
    runs the step."""
    nodes: Sequence[str]
    """The nodes of the model that it computes."""
    where: str
    """The segment, or the body of a loop, that it belongs to."""
    type: str
    """The type of its first result."""
    ops: Sequence[int]
    """Indices into the report's ``ops``."""
    inner: Sequence[tuple[int, int]]
    """The values that the ops of the step pass to each other. Each is a pair of indices into the
    report's ``ops``: the op that computes the value, and the op that reads it."""
    calls: Sequence[CallData]
    others: Mapping[str, float]
    """Seconds that other runtimes take for its nodes, by runtime."""

    @property
    def seconds(self) -> float | None:
        """Seconds in a run; None if it was not measured."""
        return sum(call.seconds for call in self.calls) if self.calls else None


@dataclass(frozen=True)
class Edge:
    """A value that one step passes to another."""

    source: int
    target: int
    type: str
    bytes: int | None


@dataclass(frozen=True)
class Pane:
    """The text of a kernel at a stage."""

    text: str
    heads: Sequence[int]
    """For each line, the number of the first line of the op that it shows; -1 for a line that shows
    no op. Lines are numbered from 0."""
    origins: Sequence[int]
    """For each line, the number of the line in the previous pane that begins the op from which this
    line was lowered; -1 if there is none. Empty in the first pane."""


@dataclass(frozen=True)
class KernelData:
    """The text of a kernel at the stages ``tile``, ``loops``, ``llvm`` and ``asm``."""

    name: str
    nodes: Sequence[str]
    panes: Mapping[str, Pane]
    note: str = ""
    """Why a pane is missing; empty if none is."""


@dataclass(frozen=True)
class ConversionData:
    """A conversion of a value between places: a cast, a change of layout, or a copy to another
    device."""

    op: str
    value: str
    source: str
    target: str
    bytes: int
    estimate: float
    readers: Sequence[str]


@dataclass(frozen=True)
class Pass:
    """A pass of the compilation."""

    name: str
    stage: str
    seconds: float
    changed: bool | None
    """None if the program is too long to be compared."""
    added: int
    removed: int
    diff: Sequence[str]
    """The changed lines, in the style of ``diff -u``; only the first ones if there are many."""


@dataclass(frozen=True)
class Buffer:
    """A buffer in the arena."""

    name: str
    offset: int
    bytes: int
    first: int
    """The number of the call that writes it first."""
    last: int
    """The number of the call that uses it last."""
    private: bool


@dataclass(frozen=True)
class ArenaData:
    """The arena of a segment over its calls."""

    segment: str
    bytes: int
    calls: Sequence[str]
    """The kernels, in the order of their calls."""
    buffers: Sequence[Buffer]


@dataclass(frozen=True)
class SpanData:
    """The activity of a thread in the run nearest to the median."""

    name: str
    kind: str
    nodes: Sequence[str]
    thread: int
    start: float
    end: float


@dataclass(frozen=True)
class OtherRuntime:
    """Measurements of another runtime, with the same inputs and the same number of threads."""

    name: str
    version: str
    seconds: float
    nodes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds that the runtime takes for nodes of the model, if it reports them."""


@dataclass(frozen=True)
class Report:
    """A report on a compiled model."""

    version: int
    tessella: str
    model: ModelFacts
    machine: MachineFacts
    options: Mapping[str, str]
    hashes: Mapping[str, str]
    """SHA-256 of the model's file, if there is one, and of the program's text at each stage."""
    totals: Totals
    steps: Sequence[StepData]
    edges: Sequence[Edge]
    ops: Sequence[OpData]
    kernels: Sequence[KernelData]
    conversions: Sequence[ConversionData]
    passes: Sequence[Pass]
    compilation: Mapping[str, float]
    """Seconds of each step of the compilation by name."""
    arenas: Sequence[ArenaData]
    spans: Sequence[SpanData]
    others: Sequence[OtherRuntime]
    notes: Sequence[str]

    def json(self) -> str:
        """Return the report as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    def html(self) -> str:
        """Return the report as a page: one HTML file that needs no network."""
        from tessella.driver.report.page import page

        return page([json.loads(self.json())])

    def _repr_html_(self) -> str:
        """Return the longest steps as a table, which notebooks show."""
        steps = sorted(self.steps, key=lambda step: -(step.seconds or 0.0))[:_SHOWN]
        header = ("nodes", "kernel", "time")
        rows = [(", ".join(step.nodes), step.kernel, duration(step.seconds)) for step in steps]
        total = duration(self.totals.seconds) or "not measured"
        return f"<p>{escape(self.model.name)}: {total}</p>{html_table(header, rows)}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report: as JSON if the file's name ends in `.json`, otherwise as a page.

        Parameters
        ----------
        path : str or PathLike
            The file.

        Raises
        ------
        OptionError
            If the file cannot be written.
        """
        write(path, self.json() if os.fspath(path).endswith(".json") else self.html())


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a page or JSON. Raises OptionError if the file cannot be written."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(
            f"cannot write the report: {error.strerror or error}", where=os.fspath(path)
        ) from error
