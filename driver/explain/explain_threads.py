"""The explanation of threads: which kernels are divided among threads, and where threads wait for
each other. It is read from the `loops` stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp

from tessella.dialects import rt
from tessella.passes.base import buffer_segments
from tessella.runtime.explain_types import Barrier, Threads
from tessella.support.sizes import estimated


def explain_threads(module: ModuleOp) -> Threads:
    """Return the calls of kernels that are divided among threads, and the barriers of a program."""
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, rt.KernelOp)}
    segments = [segment for segment in buffer_segments(module) if segment.device is None]
    ops = [op for segment in segments for op in segment.body.block.ops]
    calls = [kernels[op.callee_name] for op in ops if isinstance(op, rt.CallOp)]
    divided = sum(kernel.is_divided for kernel in calls)
    times = _times(segments)
    barriers = [
        barrier
        for segment in segments
        for barrier in _barriers(segment, kernels, times[segment.sym_name.data])
    ]
    return Threads(calls=len(calls), divided=divided, barriers=barriers)


def _times(segments: Sequence[rt.SegmentOp]) -> Mapping[str, int]:
    """Return how often each segment runs in a call of the program, by name. The number is an
    estimate for loop bodies."""
    in_loops: Counter[str] = Counter()
    times: dict[str, int] = {}
    # A segment precedes its callers in the module.
    for segment in reversed(segments):
        name = segment.sym_name.data
        times[name] = in_loops[name] or 1
        for op in segment.body.block.ops:
            if isinstance(op, rt.ScanOp):
                in_loops[op.callee_name] += times[name] * estimated(op.usual_steps)
    return times


def _barriers(
    segment: rt.SegmentOp, kernels: Mapping[str, rt.KernelOp], times: int
) -> Iterator[Barrier]:
    for op in segment.body.block.ops:
        if not isinstance(op, rt.BarrierOp):
            continue
        waiting = op.next_op
        while waiting is not None and not isinstance(waiting, rt.CallOp | rt.ScanOp):
            waiting = waiting.next_op
        if waiting is None:
            yield Barrier(before="the end", nodes=[], times=times)
            continue
        name = waiting.callee_name
        nodes = kernels[name].nodes if name in kernels else None
        names = [] if nodes is None else [node.data for node in nodes]
        yield Barrier(before=name, nodes=names, times=times)
