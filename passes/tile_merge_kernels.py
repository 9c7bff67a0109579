"""Merge kernels that access the same large tensor into one kernel, whose statements share loops.

    %p = tile.call @residuals(%x, %w, %y) : tensor<100000xf32>
    %g = tile.call @product(%x, %p) : tensor<100xf32>
    ->
    %g = tile.call @residuals_product(%x, %w, %y) : tensor<100xf32>

Data that one kernel reads or writes is then still in cache when the other reads it. Kernels that
compute much with each element are not merged with each other, as memory does not dominate their
time. A kernel that only reorders elements may be merged with any kernel: a convolution in nhwc thus
reorders its nchw image strip by strip.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import targets
from tessella.dialects.calls import NODES, nodes_of
from tessella.dialects.tile import CallOp, KernelOp, ViewOp, YieldOp, through_views
from tessella.passes.base import cpu_segments
from tessella.passes.kinds import ProgramPass
from tessella.passes.tile.cost import KernelCost, cost_after, scheduling_passes
from tessella.passes.tile.estimates import bytes_in, count_of, points
from tessella.passes.tile.merge import CallPair
from tessella.targets import Target

MOST = 16
"""The most statements of a merged kernel, as compile time grows with them."""
FEW = 4
"""The number of iterations of a statement per element of its largest tensor up to which memory may
dominate its time."""
STRIPS = 0.7
"""The fraction of the modelled time that merged kernels may take if their iterations recompute
neighbours.

Smaller gains do not show on a machine. Kernels that only move elements recompute nothing, and need
not reach it.
"""


@dataclass(frozen=True)
class TileMergeKernelsPass(ProgramPass):
    """Merge kernels where that saves traffic, for a target.

    ``shared`` packs constants as programs for other sizes do.
    """

    name = "tile-merge-kernels"
    stages = ("tile",)

    target: str = "native"
    shared: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merger = _Merger(op, targets.resolve(self.target), self.shared)
        for segment in cpu_segments(op):
            merger.run(segment.body.block)
        merger.drop_unused()


@dataclass
class _Merger:
    module: ModuleOp
    target: Target
    shared: bool
    kernels: dict[str, KernelOp] = field(init=False)
    made: dict[Hashable, KernelOp | None] = field(default_factory=dict[Hashable, "KernelOp | None"])
    order: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """The position of each op of the segment. A merged call has the position of the second call
    that it replaces."""

    def __post_init__(self) -> None:
        ops = self.module.body.block.ops
        self.kernels = {op.sym_name.data: op for op in ops if isinstance(op, KernelOp)}

    def run(self, block: Block) -> None:
        """Merge the calls of a segment, each with earlier calls."""
        self.order = {op: i for i, op in enumerate(block.ops)}
        for op in list(block.ops):
            call = op
            while isinstance(call, CallOp):
                call = next((new for pair in self._pairs(call) if (new := self._try(pair))), None)

    def _pairs(self, second: CallOp) -> Iterator[CallPair]:
        """Yield the pairs of an earlier call and the call ``second`` that may be merged.

        The earlier call writes or reads a large tensor that ``second`` reads. No op in between
        needs its results.
        """
        end = self.order[second]
        found: dict[CallOp, None] = {}
        for value in second.arguments:
            root = through_views(value)
            if bytes_in(root) > self.target.l2:
                found |= dict.fromkeys(op for op in _around(root) if self.order[op] < end)
        for first in sorted(found, key=self.order.__getitem__, reverse=True):
            kept = self._kept(first, second)
            if kept is not None:
                kernels = self.kernels[first.callee_name], self.kernels[second.callee_name]
                size = sum(len(kernel.statements) for kernel in kernels)
                if _can_join(kernels) and size <= MOST:
                    yield CallPair(first, second, kernels, kept)

    def _kept(self, first: CallOp, second: CallOp) -> tuple[SSAValue, ...] | None:
        """Return the results of the call ``first`` that the merged kernel must return, because ops
        other than ``second`` read them or nothing reads them. None if one of these ops runs before
        ``second``."""
        kept: list[SSAValue] = []
        for result in first.res:
            readers = _readers(result) - {second}
            if any(self.order[op] < self.order[second] for op in readers):
                return None
            if readers or result.first_use is None:
                kept.append(result)
        return tuple(kept)

    def _try(self, pair: CallPair) -> CallOp | None:
        """Replace two calls by a call of their merged kernel, if that is possible and pays. Returns
        the new call; None if the calls stay."""
        key = _wiring(pair)
        if key not in self.made:
            self.made[key] = self._merged(pair)
        kernel = self.made[key]
        if kernel is None:
            return None
        results = [*pair.kept, *pair.second.res]
        call = CallOp(kernel.sym_name.data, pair.arguments, [v.type for v in results])
        calls = tuple(zip((pair.first, pair.second), pair.kernels, strict=True))
        if any(NODES in each.attributes for each, _ in calls):
            nodes = (node for each, k in calls for node in nodes_of(each, k.nodes))
            call.attributes[NODES] = ArrayAttr(nodes)
        Rewriter.insert_op(call, InsertPoint.before(pair.second))
        self.order[call] = self.order[pair.second]
        for old, new in zip(results, call.res, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        views = [v.owner for v in pair.second.arguments]
        Rewriter.erase_op(pair.second)
        for view in views:
            while isinstance(view, ViewOp) and view.res.first_use is None:
                source = view.source.owner
                Rewriter.erase_op(view)
                view = source
        Rewriter.erase_op(pair.first)
        for result in call.res:
            _move_views(result, call)
        return call

    def _merged(self, pair: CallPair) -> KernelOp | None:
        names = (kernel.sym_name.data for kernel in pair.kernels)
        hints = "_".join(name.removesuffix(f"_{name.rpartition('_')[2]}") for name in names)
        least = 1 + max(_code(kernel) for kernel in self.kernels.values())
        number = next(n for n in count(least) if f"{hints}_{n}" not in self.kernels)
        kernel = pair.merged(f"{hints}_{number}")
        if kernel is None or not self._pays(kernel, pair.kernels):
            return None
        kernel.code = IntegerAttr(number, i64)
        Rewriter.insert_op(kernel, InsertPoint.before(pair.kernels[0]))
        self.kernels[kernel.sym_name.data] = kernel
        return kernel

    def _pays(self, kernel: KernelOp, parts: Sequence[KernelOp]) -> bool:
        """Return whether a merged kernel saves more memory traffic than its parts do, and takes
        less modelled time."""
        whole, *each = map(self._cost, (kernel, *parts))
        if whole.saved <= sum(part.saved for part in each):
            return False
        share = STRIPS if whole.repeats and not any(map(_only_moves, parts)) else 1.0
        return whole.seconds < share * sum(part.seconds for part in each)

    def _cost(self, kernel: KernelOp) -> KernelCost:
        return cost_after(scheduling_passes(shared=self.shared), kernel, self.target)

    def drop_unused(self) -> None:
        """Remove the kernels without callers."""
        used = {op.callee_name for op in self.module.walk() if isinstance(op, CallOp)}
        for kernel in list(self.module.body.block.ops):
            if isinstance(kernel, KernelOp) and kernel.sym_name.data not in used:
                Rewriter.erase_op(kernel)


def _around(value: SSAValue) -> Iterator[CallOp]:
    """Yield the calls that write a tensor or read it."""
    if isinstance(value.owner, CallOp):
        yield value.owner
    yield from (use.operation for use in value.uses if isinstance(use.operation, CallOp))


def _readers(value: SSAValue) -> set[Operation]:
    """Return the ops that read a tensor or views of it."""
    found: set[Operation] = set()
    for use in value.uses:
        op = use.operation
        found |= _readers(op.res) if isinstance(op, ViewOp) else {op}
    return found


def _can_join(kernels: Sequence[KernelOp]) -> bool:
    """Return whether memory dominates the time of all kernels, or one of them only reorders
    elements. A kernel with a selection cannot share loops."""
    if any(kernel.selections for kernel in kernels):
        return False
    return all(map(_is_streaming, kernels)) or any(map(_only_moves, kernels))


def _is_streaming(kernel: KernelOp) -> bool:
    """Return whether a kernel computes little with each element of its tensors."""
    return all(
        points(op.index_list) <= FEW * max(count_of(value) for value in op.tensors)
        for op in kernel.statements
    )


def _only_moves(kernel: KernelOp) -> bool:
    """Return whether a kernel only reorders the elements of a tensor."""
    return all(
        op.is_map and op.post_block is None and isinstance(op.combine.block.first_op, YieldOp)
        for op in kernel.statements
    )


def _wiring(pair: CallPair) -> Hashable:
    """Return a key that determines the merged kernel of a pair: the two kernels, how their operands
    are connected, and which results are kept."""
    numbers = {value: i for i, value in enumerate((*pair.first.res, *pair.arguments))}
    second = {**dict(enumerate(pair.second.arguments)), **dict(pair.passed)}
    arguments = (*pair.first.arguments, *second.values())
    read, kept = (tuple(numbers[v] for v in values) for values in (arguments, pair.kept))
    return pair.kernels, read, kept


def _code(kernel: KernelOp) -> int:
    return kernel.code.value.data if kernel.code is not None else -1


def _move_views(value: SSAValue, after: Operation) -> None:
    """Move the views of a tensor to behind the op ``after``, which produces the tensor."""
    for use in list(value.uses):
        view = use.operation
        if isinstance(view, ViewOp):
            view.detach()
            Rewriter.insert_op(view, InsertPoint.after(after))
            _move_views(view.res, view)
