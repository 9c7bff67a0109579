"""Move constants into the functions that `nn.scan` passes them to.

    func.func @step(%h: .., %x: .., %r: ..) -> (..) { .. nn.matmul %h, %r .. }
    ...
    %r = nn.weight @r : tensor<8x8xf32>
    %h, %ys = nn.scan @step %h0, %xs, %r carried 1 scanned 1
    ->
    func.func @step(%h: .., %x: ..) -> (..) { %r = nn.weight @r  .. nn.matmul %h, %r .. }
    ...
    %h, %ys = nn.scan @step %h0, %xs carried 1 scanned 1

Kernels can prepare a constant when the program is compiled. Operands that a function does not read
are no longer passed to it. A function that several ops run is not changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.recurrent import ScanOp
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class SinkConstantsPass(ProgramPass):
    """Move constants into the functions of loops."""

    name = "sink-constants"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scans = [scan for scan in op.walk() if isinstance(scan, ScanOp)]
        users = Counter(scan.body_name for scan in scans)
        # Outer functions come first: their arguments may then be constants.
        for scan in reversed(scans):
            function = scan.function
            if users[scan.body_name] == 1 and isinstance(function, FuncOp):
                _sink(scan, function)


def _sink(scan: ScanOp, function: FuncOp) -> None:
    first, block = scan.loop.carried + scan.loop.scanned, function.body.block
    kept = list[SSAValue](scan.inputs[:first])
    for value, argument in zip(scan.inputs[first:], block.args[first:], strict=True):
        if argument.first_use is not None and not isinstance(value.owner, ConstantOp):
            kept.append(value)
            continue
        if isinstance(value.owner, ConstantOp) and argument.first_use is not None:
            copy = value.owner.clone()
            copy.res.name_hint = argument.name_hint
            Rewriter.insert_op(copy, InsertPoint.at_start(block))
            argument.replace_all_uses_with(copy.res)
        block.erase_arg(argument)
    if len(kept) < len(scan.inputs):
        dropped = [value.owner for value in scan.inputs[first:] if value not in kept]
        scan.operands = kept
        function.update_function_type()
        for owner in dropped:
            if isinstance(owner, ConstantOp) and owner.res.first_use is None:
                Rewriter.erase_op(owner)
