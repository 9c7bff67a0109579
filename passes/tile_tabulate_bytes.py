"""Replace elementwise statements of a byte by table lookups, where a lookup takes less time.

    %y = tile.contract = [i: 65536] (%x[i], %s[]) -> [i] {a long body of two scalars}
    ->
    %t = tile.contract = [byte: 256] (%s[]) -> [byte] {the body, of `byte` as an element of %x}
    %y = tile.contract = [i: 65536] (%x[i]) -> [i] {tile.extract %t[%x]}

The statement reads one element of 8 bits that differs from point to point; its other operands are
the same at all points. The table is computed in each call, as scales may be inputs of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.arith import IndexCastOp
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tessella.dialects.arith import CASTS
from tessella.dialects.elements import find_element
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import Tensor, shape_of, tensor, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed, precision_of
from tessella.dialects.tile import (
    ContractOp,
    ExtractOp,
    Index,
    IndexOp,
    KernelOp,
    access,
    scalar_region,
    stays_inside,
    yielded,
)
from tessella.dialects.tile.merge import merge_indices
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.model import body_ops, extract_ops
from tessella.passes.tile.rebuild import append_body, inputs_of, reads_points
from tessella.passes.tile.search import best_schedule
from tessella.targets import Target

BYTES = 256
"""The number of values of an 8-bit element."""


@dataclass(frozen=True)
class TileTabulateBytesPass(KernelPass):
    """Replace elementwise statements of one byte by table lookups where a lookup takes fewer cycles
    on the target."""

    name = "tile-tabulate-bytes"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for op in kernel.statements:
            is_long = body_ops(op) > extract_ops(target.lanes(32))
            if is_long and _can_be_looked_up(op) and _pays(kernel, op, target):
                _tabulate(op)


def _can_be_looked_up(op: ContractOp) -> bool:
    """Return whether a statement is elementwise on one byte at each point."""
    is_plain = op.is_map and not op.is_scatter and op.schedule is None and op.init is None
    if not is_plain or op.default is not None or op.post_block is not None or op.where_list:
        return False
    inside = all(stays_inside(a, shape_of(v), op.ranges) for v, a in inputs_of(op))
    moving = _moving(op)
    if not inside or len(moving) != 1 or reads_points(op.combine):
        return False
    element = find_element(op.combine.block.args[moving[0]].type)
    return element is not None and element.name in ("u8", "i8")


def _moving(op: ContractOp) -> Sequence[int]:
    """Return the numbers of the inputs whose elements differ between points."""
    accesses = enumerate(op.input_accesses)
    return [i for i, forms in accesses if any(form.terms for form in forms)]


def _pays(kernel: KernelOp, op: ContractOp, target: Target) -> bool:
    """Return whether a table lookup takes fewer cycles than the statement. The kernel does not
    change."""
    copy = kernel.clone()
    whole = [*copy.statements][[*kernel.statements].index(op)]
    before = best_schedule(whole, copy, target).cycles
    parts = _tabulate(whole)
    for each in parts:
        merge_indices(each)
    return sum(best_schedule(each, copy, target).cycles for each in parts) < before


def _tabulate(op: ContractOp) -> Sequence[ContractOp]:
    """Replace an elementwise statement by two that compute a table and look values up in it.
    Returns both."""
    (number,) = _moving(op)
    inputs = inputs_of(op)
    others = [each for i, each in enumerate(inputs) if i != number]
    source, kind = op.combine.block, op.combine.block.args[number].type

    def entry(block: Block, arguments: Sequence[SSAValue]) -> SSAValue:
        index = _added(block, IndexCastOp(_added(block, IndexOp("byte")), i32))
        byte = _added(block, CASTS["arith.trunci"](index, kind))
        return append_body(block, source, [*arguments[:number], byte, *arguments[number:]], {})

    def lookup(block: Block, arguments: Sequence[SSAValue]) -> SSAValue:
        wide = _added(block, CASTS["arith.extui"](arguments[0], i32))
        at = _added(block, IndexCastOp(wide, IndexType()))
        return _added(block, ExtractOp(table.res, [at]))

    types = [arg.type for i, arg in enumerate(source.args) if i != number]
    table = ContractOp(
        *("=", [Index("byte", BYTES)], others, access("byte")),
        *(_type(op, yielded(source).type), scalar_region(types, entry)),
    )
    found = ContractOp(
        *("=", op.indices.data, [inputs[number]], op.out_access),
        *(tensor_type(op.res), scalar_region([kind], lookup)),
    )
    block = op.parent_block()
    assert block is not None
    block.insert_ops_before([table, found], op)
    op.res.replace_all_uses_with(found.res)
    found.res.name_hint = op.res.name_hint
    op.detach()
    op.erase()
    return [table, found]


def _added(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def _type(op: ContractOp, element: Attribute) -> Tensor:
    """Return the type of the table."""
    type, place = tensor(element, [BYTES]), place_of(op.res.type)
    if place is None:
        return type
    return placed(type, PlaceAttr.get(place.device.data, precision_of(element), NCHW))
