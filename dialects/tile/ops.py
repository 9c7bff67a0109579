"""`tile.contract`, the statement over an index space, and tensors that statements write into.

%O = tile.contract + [n: 1, co: 64, y: 56, x: 56 | ci: 64, i: 3, j: 3]
       (%D[n, ci, y + i - 1, x + j - 1], %K[co, ci, i, j]) post (%B[co]) -> [n, co, y, x]
     {^bb0(%d: f32, %k: f32): ...}, {^bb0(%sum: f32, %b: f32): ...} : (...) -> ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from tessella.dialects.assembly import parse_operand, print_types
from tessella.dialects.nn.core import Tensor, tensor_type
from tessella.dialects.tile.access import (
    Access,
    Linear,
    parse_access,
    print_access,
)
from tessella.dialects.tile.attributes import (
    AGGREGATIONS,
    AccessAttr,
    Index,
    IndicesAttr,
    WhereAttr,
)
from tessella.dialects.tile.check_contraction import verify_contraction
from tessella.dialects.tile.contraction import ContractionOp
from tessella.dialects.tile.loop_attributes import AtAttr, StorageAttr, parse_storage
from tessella.dialects.tile.operands import (
    parse_operands,
    print_operands,
)
from tessella.dialects.tile.schedule_attributes import ScheduleAttr
from tessella.support.sizes import Size


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """A tensor of arbitrary elements. Later statements that have it as `init` write its
    elements."""

    name = "tile.empty"
    res = result_def(base(TensorType))
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, type: Tensor) -> None:
        super().__init__(result_types=[type])


@irdl_op_definition
class ContractOp(ContractionOp):
    """A statement: an aggregation over an index space.

    For every point of the index space at which all accesses stay inside their tensors, and the
    constraints of `where` hold, the scalar `combine` body is applied to the operands' elements, and
    its value is aggregated into the output's element. A running index is reduced and occurs in the
    output's access: the element at one of its values is the aggregate over all values up to it.

    Then `post` maps the aggregated value and the elements of the post operands, which are accessed
    by the indices of the output only. Output elements without valid points hold `default` (for `=`)
    or the aggregation's identity, before `post`. A statement with an `init` writes into the buffer
    of that value (`inits.py`). Elements that no point reaches, or for which a post operand would be
    read outside of its tensor, keep the values of `init`.

    A point need not be computed if the body compares a reduced index with an element, and selects a
    value that does not change the aggregate (`limits.py`).

    A statement with scattered indices is an indexed write: its body yields the values of the
    scattered indices beside the value of the element. The value is aggregated into the element of
    `init` at these coordinates.

        %O = tile.contract + [j: 64 | i: 100 | r: 1000] (%idx[i], %U[i, j]) init %D -> [r, j] {
        ^bb0(%row: i64, %u: f32):
          %at = arith.index_cast %row : i64 to index
          tile.yield %u at %at : f32
        }

    The values of several points go to one element in the order of the reduced indices, where the
    first index counts slowest; with `=`, the last value stays. A point with a coordinate outside
    the range of its scattered index is dropped; if the write is `checked`, it is an error of the
    call.
    """

    name = "tile.contract"

    def __init__(
        self,
        aggregation: str,
        indices: Sequence[Index],
        inputs: Sequence[tuple[SSAValue, Access]],
        out: Access,
        type: Tensor,
        combine: Region,
        *,
        post_inputs: Sequence[tuple[SSAValue, Access]] = (),
        post: Region | None = None,
        where: Sequence[tuple[Linear, Size]] = (),
        init: SSAValue | None = None,
        default: Attribute | None = None,
        parts: int | None = None,
        checked: bool = False,
        at: AtAttr | None = None,
        storage: StorageAttr | None = None,
        schedule: ScheduleAttr | None = None,
    ) -> None:
        accesses = [a for _, a in inputs] + [a for _, a in post_inputs] + [out]
        super().__init__(
            operands=[[v for v, _ in inputs], [v for v, _ in post_inputs], init],
            properties={
                "aggregation": StringAttr(aggregation),
                "indices": IndicesAttr(tuple(indices)),
                "accesses": ArrayAttr(AccessAttr(a) for a in accesses),
                "constraints": WhereAttr(tuple(where)) if where else None,
                "default": default,
                "parts": None if parts is None else IntegerAttr(parts, i64),
                "checked": UnitAttr() if checked else None,
                "at": at,
                "storage": storage,
                "schedule": schedule,
            },
            regions=[combine, post if post is not None else Region()],
            result_types=[type],
        )

    def verify_(self) -> None:
        verify_contraction(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.aggregation.data} ")
        self.indices.print_parameter(printer)
        printer.print_string(" ")
        print_operands(printer, self.inputs, self.input_accesses)
        if self.post_block is not None:
            printer.print_string(" post ")
            print_operands(printer, self.post_inputs, self.post_accesses)
        if self.init is not None:
            printer.print_string(" init ")
            printer.print_ssa_value(self.init)
        printer.print_string(f" -> {print_access(self.out_access)}")
        self._print_clauses(printer)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.combine)
        if self.post_block is not None:
            printer.print_string(", ")
            printer.print_region(self.post)
        print_types(printer, self.result_types)

    def _print_clauses(self, printer: Printer) -> None:
        if self.constraints is not None:
            printer.print_string(" where ")
            self.constraints.print_parameter(printer)
        if self.default is not None:
            printer.print_string(" default ")
            printer.print_attribute(self.default)
        if self.part_count is not None:
            printer.print_string(f" parts {self.part_count}")
        if self.checked is not None:
            printer.print_string(" checked")
        if self.at is not None:
            printer.print_string(" at ")
            self.at.print_parameter(printer)
        if self.storage is not None:
            printer.print_string(f" in a step of {self.storage.data}")
        if self.schedule is not None:
            printer.print_string(" schedule ")
            printer.print_attribute(self.schedule)

    @classmethod
    def parse(cls, parser: Parser) -> ContractOp:
        aggregation = next(
            (a for a in AGGREGATIONS if parser.parse_optional_punctuation(cast(Any, a))), None
        )
        if aggregation is None:
            parser.raise_error(f"expected an aggregation: {' '.join(AGGREGATIONS)}")
        indices = IndicesAttr.parse_parameter(parser)
        inputs = parse_operands(parser)
        posts = parse_operands(parser) if parser.parse_optional_keyword("post") else []
        init = parse_operand(parser) if parser.parse_optional_keyword("init") else None
        parser.parse_punctuation("->")
        out = parse_access(parser)
        where = WhereAttr.parse_parameter(parser) if parser.parse_optional_keyword("where") else ()
        default = parser.parse_attribute() if parser.parse_optional_keyword("default") else None
        parts = parser.parse_integer() if parser.parse_optional_keyword("parts") else None
        checked = parser.parse_optional_keyword("checked") is not None
        at = AtAttr.parse_parameter(parser) if parser.parse_optional_keyword("at") else None
        storage = _parse_storage(parser)
        schedule = parser.parse_attribute() if parser.parse_optional_keyword("schedule") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        combine = parser.parse_region()
        post = parser.parse_region() if parser.parse_optional_punctuation(",") else None
        parser.parse_punctuation(":")
        res = parser.parse_type()
        if not isinstance(res, TensorType):
            parser.raise_error("expected the type of a tensor")
        if not isinstance(schedule, ScheduleAttr | None):
            parser.raise_error("expected a #tile.schedule")
        op = cls(
            aggregation,
            indices,
            inputs,
            out,
            tensor_type(res),
            combine,
            post_inputs=posts,
            post=post,
            where=where,
            init=init,
            default=default,
            parts=parts,
            checked=checked,
            at=AtAttr(at) if at is not None else None,
            storage=storage,
            schedule=schedule,
        )
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _parse_storage(parser: Parser) -> StorageAttr | None:
    """Parse the storage of a result: `in a step of m: 4 x 1024`. None if the next word is not
    `in`."""
    if parser.parse_optional_keyword("in") is None:
        return None
    for word in ("a", "step", "of"):
        parser.parse_keyword(word)
    return StorageAttr(parse_storage(parser))


def fused_products(block: Block) -> Mapping[Operation, arith.MulfOp]:
    """Return the float multiplications of a body that fuse with an addition, by the addition.

    Only the addition reads the product, and its other operand is not a product.
    """
    found: dict[Operation, arith.MulfOp] = {}
    for op in block.ops:
        if isinstance(op, arith.AddfOp):
            products = [x.owner for x in op.operands if isinstance(x.owner, arith.MulfOp)]
            if len(products) == 1 and products[0].result.has_one_use():
                found[op] = products[0]
    return found


def identity_access(rank: int, prefix: str = "d") -> Access:
    """Return the access ``[d0, d1, ...]`` with one index for each of ``rank`` dimensions."""
    return tuple(Linear.of(f"{prefix}{i}") for i in range(rank))
