"""Let indexed writes overwrite the tensor that they change instead of a copy, if nothing reads it
later.

    tile.kernel @scatter_0(%d: tensor<9x4xf32>, ..) -> (tensor<9x4xf32>) {
      %c = tile.contract = [i: 9, j: 4] (%d[i, j]) -> [i, j] {yield}
      %r = tile.contract = [j: 4 | n: 2 | r: 9] (%idx[n], %u[n, j]) init %c -> [r, j] ..
    ->
    tile.kernel @scatter_0.in_place(%d: tensor<9x4xf32>, ..) -> (tensor<9x4xf32>) {
      %r = tile.contract = [j: 4 | n: 2 | r: 9] (%idx[n], %u[n, j]) init %d -> [r, j] ..

A call may overwrite a tensor that its segment computes. It may also overwrite a value that a loop
carries, if the segment returns the result as the next value, which then stays in one buffer. Inputs
and constants of the program are still copied, by the original kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr, i64
from xdsl.ir import BlockArgument
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.core import shape_of
from tessella.dialects.symbols import callee_of
from tessella.dialects.tile import (
    CallOp,
    ContractOp,
    KernelOp,
    ScanOp,
    can_take,
    through_views,
    yielded,
)
from tessella.dialects.tile.inits import init_root, overwriter
from tessella.passes.base import cpu_segments
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class WriteInPlacePass(ProgramPass):
    """Let kernels with indexed writes overwrite their operands instead of copies of them."""

    name = "write-in-place"
    stages = ("tile",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _InPlace(op).run()


@dataclass
class _InPlace:
    module: ModuleOp
    made: dict[tuple[str, int], KernelOp] = field(default_factory=dict[tuple[str, int], KernelOp])
    """Kernels that overwrite an argument, by the kernel that copies it and the argument's
    number."""

    def run(self) -> None:
        carried = _carried(self.module)
        replaced: set[KernelOp] = set()
        for segment in cpu_segments(self.module):
            calls = (op for op in segment.body.block.ops if isinstance(op, CallOp))
            for call in reversed(list(calls)):
                replaced.update(self._take(call, carried.get(segment.sym_name.data, 0)))
        used = {op.callee_name for op in self.module.walk() if isinstance(op, CallOp)}
        for kernel in replaced:
            if kernel.sym_name.data not in used:
                Rewriter.erase_op(kernel)

    def _take(self, call: CallOp, carried: int) -> Iterator[KernelOp]:
        """Let a call overwrite as many arguments as possible, in a segment whose loop carries
        ``carried`` arguments. Yields the kernels whose calls were replaced."""
        while True:
            kernel = callee_of(call, call.callee, KernelOp)
            number = next((i for i, j in _copied(kernel) if _may_take(call, i, j, carried)), None)
            if number is None:
                return
            call.callee = SymbolRefAttr(self._without_copy(kernel, number).sym_name)
            yield kernel

    def _without_copy(self, kernel: KernelOp, argument: int) -> KernelOp:
        key = kernel.sym_name.data, argument
        if key not in self.made:
            self.made[key] = new = kernel.clone()
            new.sym_name = StringAttr(f"{kernel.sym_name.data}.in_place")
            new.code = IntegerAttr(1 + max(map(_code, self.module.body.block.ops)), i64)
            value = new.body.block.args[argument]
            copy = next(iter(value.uses)).operation
            assert isinstance(copy, ContractOp)
            Rewriter.replace_op(copy, [], [value])
            Rewriter.insert_op(new, InsertPoint.before(kernel))
        return self.made[key]


def _carried(module: ModuleOp) -> Mapping[str, int]:
    """Return the number of carried arguments for each segment that a loop runs, by the segment's
    name."""
    found: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, ScanOp):
            known = found.get(op.callee_name, op.loop.carried)
            found[op.callee_name] = min(known, op.loop.carried)
    return found


def _may_take(call: CallOp, argument: int, result: int, carried: int) -> bool:
    root = through_views(call.arguments[argument])
    outside = isinstance(root, BlockArgument) and root.index >= carried
    return not outside and can_take(call, argument, result)


def _copied(kernel: KernelOp) -> Iterator[tuple[int, int]]:
    """Yield the arguments that a kernel copies and then writes to, with the numbers of the results
    that the copies become."""
    results = {init_root(value): i for i, value in enumerate(kernel.returned.values)}
    for op in kernel.statements:
        value = op.inputs[0] if op.inputs else None
        if (
            isinstance(value, BlockArgument)
            and value.owner is kernel.body.block
            and value.has_one_use()
            and not kernel.is_constant(value.index)
            and op.res in results
            and overwriter(op.res) is not None
            and _is_copy(op)
        ):
            yield value.index, results[op.res]


def _is_copy(op: ContractOp) -> bool:
    """Return whether a statement copies its whole operand."""
    plain = op.is_map and op.init is None and op.post_block is None and not op.where_list
    if not plain or len(op.inputs) != 1 or op.inputs[0].type != op.res.type:
        return False
    names = [form.single for form in op.out_access if form.terms]
    whole = all(
        form.constant == 0 and (extent == 1 or op.ranges.get(form.single or "") == extent)
        for form, extent in zip(op.out_access, shape_of(op.res), strict=True)
    )
    return (
        whole
        and len(set(names)) == len(names)
        and op.input_accesses[0] == op.out_access
        and yielded(op.combine.block) is op.combine.block.args[0]
    )


def _code(op: object) -> int:
    return op.code.value.data if isinstance(op, KernelOp) and op.code is not None else -1
