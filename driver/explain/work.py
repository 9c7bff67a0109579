"""The work of a program's kernels, and its estimated time: read from the `tile` stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region, SSAValue

from tessella.dialects.arith import CASTS
from tessella.dialects.elements import bytes_of, element_of
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import CallOp, ContractOp, KernelOp, ScanOp, SelectionOp
from tessella.dialects.tile.limits import usual
from tessella.lowering.pieces import KernelPiece, pieces
from tessella.passes.base import cpu_segments
from tessella.passes.tile.cycles import kernel_cycles, runs, statement_cycles
from tessella.passes.tile.traffic import overlapped
from tessella.runtime.events import Work
from tessella.support.sizes import Size, estimated, product, total
from tessella.targets import Target

_COMPUTES = ("arith", "math")
"""Dialects whose ops are arithmetic, except constants and conversions."""
_LEAST_BITS = 32
"""The least width of floats in arithmetic, in bits: narrower ones are widened."""


def work_of(stages: Mapping[str, ModuleOp], target: Target) -> dict[str, Work]:
    """Return the work of each kernel of the program, by its name in code.

    It is empty for a program that starts beyond the stage `tile`.
    """
    module = stages.get("tile")
    if module is None:
        return {}
    again, cold = _in_loops(module), 1 / _constant_rate(module, target)
    kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
    found = (_kernel(op, target, 0.0 if op.sym_name.data in again else cold) for op in kernels)
    return dict(work for works in found for work in works)


def _in_loops(module: ModuleOp) -> set[str]:
    """Return the names of the kernels that the bodies of loops run."""
    bodies = {op.callee_name for op in module.walk() if isinstance(op, ScanOp)}
    inside = (segment for segment in cpu_segments(module) if segment.sym_name.data in bodies)
    return {op.callee_name for s in inside for op in s.body.block.ops if isinstance(op, CallOp)}


def _constant_rate(module: ModuleOp, target: Target) -> float:
    """Return the rate at which constants are read, in bytes per cycle.

    The rate is that of the nearest cache that holds all of a program's constants, as each run reads
    them all.
    """
    ops = (op for segment in cpu_segments(module) for op in segment.body.block.ops)
    sizes = {op.symbol: bytes_of(op.res.type) for op in ops if isinstance(op, WeightOp)}
    return target.bandwidth_of_all(estimated(total(sizes.values())))


def _kernel(kernel: KernelOp, target: Target, cold: float) -> Iterator[tuple[str, Work]]:
    """Yield the work of each piece of a kernel, by the piece's name in code. ``cold`` is the number
    of cycles that reading a byte of a constant takes: 0 for a kernel in a loop, as its constants
    are in a cache."""
    found = pieces(kernel)
    for number, piece in enumerate(found):
        name = kernel.sym_name.data + (f".{number}" if number else "")
        cycles = {op: statement_cycles(op, target) for op in piece.ops}
        whole = len(found) == 1
        computing = (
            kernel_cycles(kernel, cycles.__getitem__, target)
            if whole
            else sum(cycles[op] * runs(op) for op in piece.ops)
        )
        slow = cold * _constant_bytes(kernel, piece)
        yield (
            name,
            Work(
                operations=sum(map(_operations, piece.ops)),
                bytes=_moved(piece),
                bits=max(map(_bits, piece.ops), default=_LEAST_BITS),
                seconds=overlapped(computing, slow) / (target.ghz * 1e9),
            ),
        )


def _constant_bytes(kernel: KernelOp, piece: KernelPiece) -> int:
    constants = {a for a in kernel.body.block.args if kernel.is_constant(a.index)}
    return estimated(total(bytes_of(tensor_type(v)) for v in piece.inputs if v in constants))


def _points(op: ContractOp | SelectionOp) -> Size:
    if isinstance(op, SelectionOp):
        return op.points
    few = usual(op)
    indices = (index for index in op.index_list if not index.scattered)
    return product(few.get(index.name, index.range) for index in indices)


def _operations(op: ContractOp | SelectionOp) -> Size:
    """Return the number of arithmetic operations of a statement: those of all points of its loops,
    aggregation or comparison included, and those on all results."""
    if isinstance(op, SelectionOp):
        return op.points * (sum(map(_computing, op.bodies)) + 1)
    accumulates = op.aggregation.data != "="
    count = _points(op) * (_computing(op.combine) + accumulates)
    return count + tensor_type(op.res).element_count() * _computing(op.post)


def _computing(region: Region) -> int:
    """Return the number of arithmetic ops in a body."""
    ops: tuple[Operation, ...] = tuple(region.block.ops) if region.blocks else ()
    names = (op.name.partition(".") for op in ops if op.name not in CASTS)
    return sum(dialect in _COMPUTES and name != "constant" for dialect, _, name in names)


def _moved(piece: KernelPiece) -> Size:
    """Return the bytes of the tensors that a piece of a kernel reads and writes; for a tensor read
    in part, only that part."""
    outside = {*piece.inputs, *piece.outputs}
    moved: dict[SSAValue, Size] = {}
    for op in piece.ops:
        for value in op.tensors:
            root = piece.roots.get(value, value)
            if root in outside:
                size, each = bytes_of(tensor_type(value)), element_of(value.type).bytes(1)
                moved[root] = min(size, moved.get(root, 0) + each * _points(op), key=estimated)
    return total(moved.values())


def _bits(op: ContractOp | SelectionOp) -> int:
    element = element_of(op.results[0].type)
    return max(element.bits, _LEAST_BITS) if element.kind == "float" else element.bits
