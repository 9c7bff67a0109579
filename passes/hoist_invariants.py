"""Move loop-invariant calls and views out of loops.

    tile.segment @step(%h: .., %x: .., %r: ..) -> (..) {
      %p = tile.call @relayout(%r)
      %y = tile.call @matmul(%h, %p)
      ..
    }
    tile.segment @segment_0(..) -> (..) {
      %t = tile.scan @step(%h, %xs, %r) carried 1 scanned 1 backward []
    ->
    tile.segment @step(%h: .., %x: .., %p: ..) -> (..) {
      %y = tile.call @matmul(%h, %p)
      ..
    }
    tile.segment @segment_0(..) -> (..) {
      %p = tile.call @relayout(%r)
      %t = tile.scan @step(%h, %xs, %p) carried 1 scanned 1 backward []

A segment that several ops run is not changed, nor is one that runs only once. Ops that read only
weights stay, as kernels may request weights as their operands. An op that can fail, because it
reads at indices that are data, stays in a loop that may have no steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.calls import TensorCall
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.sizes import is_static
from tessella.dialects.symbols import callee_of
from tessella.dialects.tile import CallOp, ExtractOp, KernelOp, ScanOp, SegmentOp, ViewOp
from tessella.passes.base import cpu_segments
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class HoistInvariantsPass(ProgramPass):
    """Move calls and views of loop-invariant values out of the segments that loops run."""

    name = "hoist-invariants"
    stages = ("tile",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known = {segment.sym_name.data: segment for segment in cpu_segments(op)}
        scans = [s for segment in known.values() for s in segment.body.block.ops]
        scans = [scan for scan in scans if isinstance(scan, ScanOp)]
        users = Counter(scan.callee_name for scan in scans)
        # Inner loops come first: ops that leave them may leave the enclosing loop too.
        for scan in scans:
            once = scan.steps is not None and is_static([scan.steps]) and scan.steps == 1
            if users[scan.callee_name] == 1 and not once:
                _hoist(scan, known[scan.callee_name])


def _hoist(scan: ScanOp, segment: SegmentOp) -> None:
    block, first = segment.body.block, scan.loop.carried + scan.loop.scanned
    before = _Before(scan, dict(zip(block.args[first:], scan.arguments[first:], strict=True)))
    moved = [op for op in block.ops if before.takes(op)]
    if not moved:
        return
    for value in [result for op in moved for result in op.results]:
        argument = block.insert_arg(value.type, len(block.args))
        argument.name_hint = value.name_hint
        value.replace_uses_with_if(argument, lambda use: use.operation not in moved)
        before.values[argument] = before.values[value]
    for op in reversed(moved):
        Rewriter.erase_op(op)
    arguments = block.args[first:]
    read = [argument for argument in arguments if argument.first_use is not None]
    scan.operands = [*scan.arguments[:first], *(before.values[argument] for argument in read)]
    for argument in arguments:
        if argument not in read:
            block.erase_arg(argument)
    segment.update_type()


@dataclass(frozen=True)
class _Before:
    """The ops that were hoisted out of a loop, as copies that are inserted before it."""

    scan: ScanOp
    values: dict[SSAValue, SSAValue]
    """The equal value outside the loop for each loop-invariant value of the segment."""
    weights: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The copy outside the loop for each weight of the segment that hoisted ops read."""

    def takes(self, op: Operation) -> bool:
        """Copy an op to before the loop if it is invariant and may move. Returns whether it was
        copied."""
        others = [value for value in op.operands if value not in self.values]
        if self.scan.loop.conditional and _can_fail(op):
            return False
        reads_values = isinstance(op, TensorCall | ViewOp) and len(others) < len(op.operands)
        if not (reads_values and all(isinstance(value.owner, WeightOp) for value in others)):
            return False
        for value in op.operands:
            if isinstance(value.owner, WeightOp) and value not in self.weights:
                self.weights.update(self._copied(value.owner))
        self.values.update(self._copied(op))
        return True

    def _copied(self, op: Operation) -> dict[SSAValue, SSAValue]:
        """Copy an op to before the loop. Returns a map from the op's results to those of the
        copy."""
        copy = op.clone({v: (self.values | self.weights)[v] for v in op.operands})
        Rewriter.insert_op(copy, InsertPoint.before(self.scan))
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
        return dict(zip(op.results, copy.results, strict=True))


def _can_fail(op: Operation) -> bool:
    """Return whether an op may fail: a call of a kernel that checks indices, or an inner loop,
    which may call one."""
    if not isinstance(op, CallOp):
        return isinstance(op, ScanOp)
    kernel = callee_of(op, op.callee, KernelOp)
    return any(isinstance(found, ExtractOp) for found in kernel.walk())
