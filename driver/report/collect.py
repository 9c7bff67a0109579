"""The collection of a report's content from a compiled program and its measurements."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.graph import main_function
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import is_conversion
from tessella.dialects.printing import to_text
from tessella.driver.build.build import StagedProgram
from tessella.driver.explain.explain import producer
from tessella.driver.options import CheckedOptions
from tessella.driver.report.arena import arenas_of
from tessella.driver.report.data import (
    ArenaData,
    Bandwidth,
    ConversionData,
    Edge,
    KernelData,
    MachineFacts,
    ModelFacts,
    OpData,
    OtherRuntime,
    Pass,
    Peak,
    RejectedData,
    Report,
    RunnerUpData,
    SpanData,
    StepData,
    TensorData,
    Totals,
)
from tessella.driver.report.measured import Rows, spans_of
from tessella.driver.report.panes import kernels_of
from tessella.driver.report.steps import StepGraph, with_ops
from tessella.kernels.registry import LOOP_KERNEL, VIEW_KERNEL
from tessella.passes.base import functions
from tessella.runtime.explanation import Explanation
from tessella.runtime.profile import Profile
from tessella.runtime.schema import VERSION
from tessella.runtime.signature import ValueInfo
from tessella.support.versions import installed
from tessella.targets import Target, threads
from tessella.targets.machine import processor_name

_LATE = "The program was loaded from the stage {stage!r}: what earlier stages tell is missing."
_UNMEASURED = "No run was measured: the times of kernels are estimates."
_NO_PASSES = (
    "The model does not keep its source, so its passes could not run again: `tessella report` "
    "shows their changes."
)
_NO_CALLS = frozenset({LOOP_KERNEL, VIEW_KERNEL})
"""The kernels of ops that no kernel computes: loops over others, and views of memory."""
_NOT_TEXT = frozenset({"several", "arch"})
"""Options that the compiler derives from others."""


@dataclass(frozen=True)
class ProgramGraph:
    """The steps of a program, the values between them, and their ops."""

    steps: Sequence[StepData]
    edges: Sequence[Edge]
    ops: Sequence[OpData]


def program_graph(stages: Mapping[str, ModuleOp], explanation: Explanation) -> ProgramGraph:
    """Return the graph of a program; it is empty for a program that starts beyond the stage
    `tile`."""
    ops = _ops(explanation)
    found = StepGraph.of(stages["tile"]) if "tile" in stages else StepGraph()
    steps = _steps(found.steps, ops, stages.get("placed"))
    return ProgramGraph(steps, [*found.edges.values()], ops)


@dataclass(frozen=True)
class Subject:
    """The facts about a compiled model from which its report is built."""

    name: str
    inputs: Sequence[ValueInfo]
    outputs: Sequence[ValueInfo]
    weight_bytes: int
    threads: int
    lowered: StagedProgram
    explanation: Explanation
    passes: Sequence[Pass]
    """Empty if the passes could not run again."""
    timings: Mapping[str, float]
    profile: Profile | None


def collect(subject: Subject) -> Report:
    """Return the report on a compiled model."""
    lowered, profile = subject.lowered, subject.profile
    stages = lowered.stages
    graph = program_graph(stages, subject.explanation)
    steps = [*graph.steps]
    if profile is not None:
        rows = Rows(profile)
        steps = [rows.taken(step) for step in steps]
        steps += rows.left(len(steps))
    arenas = [*arenas_of(stages["loops"])] if "loops" in stages else []
    machine = _machine(lowered.target)
    return Report(
        version=VERSION,
        tessella=installed("tessella"),
        model=_model(subject),
        machine=machine,
        options=_options(lowered.options),
        hashes=_hashes(stages),
        totals=_totals(subject, steps, arenas, machine),
        steps=steps,
        edges=graph.edges,
        ops=graph.ops,
        kernels=_kernels(stages, lowered.target),
        conversions=[*_conversions(subject.explanation)],
        passes=subject.passes,
        compilation=dict(subject.timings),
        arenas=arenas,
        spans=_spans(profile),
        others=(),
        notes=[*_notes(subject)],
    )


def with_passes(report: Report, passes: Sequence[Pass], timings: Mapping[str, float]) -> Report:
    """Return a report with ``passes``, which were recorded during the compilation. ``timings`` are
    added to its times of the compilation, except those that it has."""
    notes = [note for note in report.notes if note != _NO_PASSES]
    compilation = {**timings, **report.compilation}
    return replace(report, passes=passes, compilation=compilation, notes=notes)


def with_model_hash(report: Report, digest: str) -> Report:
    """Return a report with the SHA-256 of the model's file."""
    return replace(report, hashes={"model": digest, **report.hashes})


def with_others(report: Report, others: Sequence[OtherRuntime]) -> Report:
    """Return a report with the times of other runtimes, in all and for the nodes of each step."""
    steps = [replace(step, others=dict(_others(step, report.ops, others))) for step in report.steps]
    return replace(report, steps=steps, others=others)


def _others(
    step: StepData, ops: Sequence[OpData], others: Sequence[OtherRuntime]
) -> Iterator[tuple[str, float]]:
    """Yield the seconds that each runtime takes for the nodes of a step, if it reports times of
    nodes."""
    consumed = (text.partition("@")[2] for i in step.ops for text in ops[i].consumed)
    nodes = {*step.nodes, *consumed}
    for other in others:
        known = [seconds for node, seconds in other.nodes.items() if node in nodes]
        if known:
            yield other.name, sum(known)


def _steps(
    steps: Sequence[StepData], ops: Sequence[OpData], placed: ModuleOp | None
) -> list[StepData]:
    at: dict[str, list[int]] = defaultdict(list)
    for i, op in enumerate(ops):
        if op.kernel not in _NO_CALLS:
            at[op.node].append(i)
    return [*with_ops(steps, at, _inner(ops, placed) if placed is not None else ())]


def _inner(ops: Sequence[OpData], placed: ModuleOp) -> Sequence[tuple[int, int]]:
    """Return the values between ops at the stage `placed`, as pairs of indices into ``ops``."""
    main = main_function(placed)
    rest = [function for function in functions(placed) if function is not main]
    every = (op for function in (main, *rest) for op in function.walk() if isinstance(op, NnOp))
    numbers: dict[tuple[str, str], deque[int]] = defaultdict(deque)
    for i, op in enumerate(ops):
        numbers[op.op, op.node].append(i)
    known = {
        op: numbers[op.name, op.node].popleft() if numbers[op.name, op.node] else -1
        for op in every
        if not is_conversion(op)
    }
    pairs: dict[tuple[int, int], None] = {}
    for op, target in known.items():
        for value in op.operands:
            source = producer(value)
            start = known.get(source, -1) if isinstance(source, NnOp) else -1
            if start >= 0 <= target and start != target:
                pairs[start, target] = None
    return [*pairs]


def _ops(explanation: Explanation) -> list[OpData]:
    fusions = {(each["op"], each["node"]): each for each in explanation.fusions}
    found: list[OpData] = []
    for entry in explanation.ops:
        fusion = fusions.get((entry["op"], entry["node"]))
        found.append(
            OpData(
                op=entry["op"],
                node=entry["node"],
                kernel=entry["kernel"],
                place=entry["place"],
                native=entry["native"],
                storage=entry["storage"],
                arithmetic=entry["arithmetic"],
                estimate=entry["estimate"],
                measured=entry["measured"],
                saved=entry["saved"],
                group=entry["group"],
                fallback=entry["fallback"],
                runner_up=RunnerUpData(**entry["runner_up"]) if entry["runner_up"] else None,
                pattern=fusion["pattern"] if fusion else None,
                consumed=fusion["consumed"] if fusion else [],
                rejected=[RejectedData(**each) for each in entry["rejected"]],
            )
        )
    return found


def _conversions(explanation: Explanation) -> Iterator[ConversionData]:
    for each in explanation.conversions:
        ends = each["source"], each["target"]
        work = each["bytes"], each["estimate"], each["readers"]
        yield ConversionData(each["op"], each["value"], *ends, *work)


def _kernels(stages: Mapping[str, ModuleOp], target: Target) -> list[KernelData]:
    return [*kernels_of(stages["tile"], target)] if "tile" in stages else []


def _spans(profile: Profile | None) -> Sequence[SpanData]:
    return spans_of(profile) if profile is not None else ()


def _model(subject: Subject) -> ModelFacts:
    inputs, outputs = (
        [TensorData(info.name, info.dtype, list(info.shape)) for info in infos]
        for infos in (subject.inputs, subject.outputs)
    )
    return ModelFacts(subject.name, inputs, outputs, subject.weight_bytes)


def _machine(target: Target) -> MachineFacts:
    hertz = target.ghz * 1e9
    peaks = [
        Peak(f"f{bits}", 2 * target.fma_ports * target.lanes(bits) * hertz) for bits in (32, 64)
    ]
    levels = ("L1", "L2", "L3")
    sizes = target.l1, target.l2, target.l3
    rates = target.l1_bandwidth, target.l2_bandwidth, target.l3_bandwidth
    caches = [
        Bandwidth(level, size, rate * hertz)
        for level, size, rate in zip(levels, sizes, rates, strict=True)
    ]
    packages = ("tessella", "xdsl", "llvmlite", "numpy", "onnx")
    python = {"python": ".".join(map(str, sys.version_info[:3]))}
    return MachineFacts(
        processor=processor_name(),
        cores=threads.cores(),
        system=platform.platform(),
        target=target.name,
        features=list(target.features),
        vector_bits=target.vector_bits,
        ghz=target.ghz,
        peaks=peaks,
        bandwidths=[*caches, Bandwidth("memory", None, target.memory_bandwidth * hertz)],
        versions=python | {name: installed(name) for name in packages},
    )


def _options(options: CheckedOptions) -> Mapping[str, str]:
    values = {each.name: _shown(getattr(options, each.name)) for each in fields(options)}
    return {name: text for name, text in values.items() if text and name not in _NOT_TEXT}


def _shown(value: Any) -> str:
    """Return the value of an option as text; empty for an option that says nothing."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, str], value).items()
        return ", ".join(f"{name}={each}" for name, each in pairs)
    if isinstance(value, tuple | list):
        return ", ".join(str(getattr(each, "name", each)) for each in cast(list[Any], value))
    return str(value)


def _hashes(stages: Mapping[str, ModuleOp]) -> Mapping[str, str]:
    shown = [stage for stage in ("nn", "placed", "tile") if stage in stages]
    return {stage: _hash(to_text(stages[stage])) for stage in shown}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _totals(
    subject: Subject, steps: Sequence[StepData], arenas: Sequence[ArenaData], machine: MachineFacts
) -> Totals:
    profile = subject.profile
    operations = sum(call.operations or 0 for step in steps for call in step.calls)
    count = profile.threads if profile is not None else subject.threads
    seconds = profile.seconds if profile is not None else None
    peak = count * machine.peaks[0].rate
    return Totals(
        threads=count,
        seconds=seconds,
        runs=profile.runs if profile is not None else 0,
        operations=operations,
        of_peak=operations / seconds / peak if seconds else None,
        in_numpy=profile.in_numpy if profile is not None else None,
        waiting=profile.waiting if profile is not None else None,
        other=profile.other if profile is not None else None,
        arena_bytes=sum(arena.bytes for arena in arenas),
    )


def _notes(subject: Subject) -> Iterator[str]:
    stage = next(iter(subject.lowered.stages))
    if "placed" not in subject.lowered.stages:
        yield _LATE.format(stage=stage)
    if not subject.passes:
        yield _NO_PASSES
    if subject.profile is None:
        yield _UNMEASURED
    if subject.explanation.note:
        yield subject.explanation.note
    yield from subject.explanation.values
    yield from subject.explanation.sizes
