"""Greedy selection: the best values of each row, without values that a better value suppresses; and
the concatenation of rows of different lengths.

    %places, %counts = tile.suppress first 100 [c: 80 | i: 8400] (%scores[c, i])
        items (%boxes[i, 0], %boxes[i, 1], %boxes[i, 2], %boxes[i, 3]) limit (%most[])
        {^bb0(%score: f32): tile.yield %score : f32}
        rules_out {^bb0(%a: f32, .., %b: f32, ..): .. tile.yield %overlap : i1}
        : tensor<80x100xi64>, tensor<80xi64>
    %rows, %count = tile.join %places, %counts : tensor<8000x2xi64>, tensor<i64>
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, TensorType, i1, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.assembly import parse_operand, parse_types, print_types
from tessella.dialects.elements import find_element
from tessella.dialects.nn.core import shape_of, shapes_differ, tensor, tensor_type
from tessella.dialects.place import place_of, verify_place
from tessella.dialects.sizes import parse_number, size_attribute
from tessella.dialects.tile.access import Access, may_stay_inside, print_access
from tessella.dialects.tile.attributes import AccessAttr, Index, IndicesAttr
from tessella.dialects.tile.operands import parse_operands, print_operands, verify_operand
from tessella.dialects.tile.selection import (
    RowSchedule,
    RowScheduleAttr,
    RowsOp,
    SelectionOp,
    parse_lanes,
    parse_parallel,
)
from tessella.support.sizes import Size, product

KEY_BITS = 32
"""The maximum number of bits of a key. It is compared as one integer together with its position,
which has the same width."""

Operand = tuple[SSAValue, Access]


@irdl_attr_definition
class SweepAttr(RowScheduleAttr[RowSchedule]):
    """The schedule of a greedy selection: `#tile.sweep<lanes 8 parallel 1>`."""

    name = "tile.sweep"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> RowSchedule:
        with parser.in_angle_brackets():
            return RowSchedule(lanes=parse_lanes(parser), parallel=parse_parallel(parser))


@irdl_op_definition
class SuppressOp(RowsOp):
    """A greedy selection: the values of each row in descending order of their keys, without values
    that an already selected value suppresses.

    The first body computes the key of each point. A value with a NaN as its key is dropped; equal
    keys keep their order; -0 equals 0. A value is selected unless the second body is true for it
    and a value selected before. The arguments of that body are the items of the selected value,
    followed by those of the new value. The number of values selected of a row is at most ``first``,
    and at most the row's limit. The results are the positions of the selected values, in order, and
    their number. Further positions of a row are arbitrary.
    """

    name = "tile.suppress"
    inputs = var_operand_def(base(TensorType))
    items = var_operand_def(base(TensorType))
    limit = operand_def(base(TensorType))
    schedule = opt_prop_def(SweepAttr)
    combine = region_def("single_block")
    ruling = region_def("single_block")
    places = result_def(base(TensorType))
    counts = result_def(base(TensorType))
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def __init__(
        self,
        indices: Sequence[Index],
        inputs: Sequence[Operand],
        items: Sequence[Operand],
        limit: Operand,
        first: Size,
        combine: Region,
        ruling: Region,
        *,
        schedule: SweepAttr | None = None,
        types: Sequence[Attribute] | None = None,
    ) -> None:
        free = [index.range for index in indices if not index.reduced]
        every = (*inputs, *items, limit)
        super().__init__(
            operands=[[v for v, _ in inputs], [v for v, _ in items], limit[0]],
            properties={
                "indices": IndicesAttr(tuple(indices)),
                "accesses": ArrayAttr(AccessAttr(access) for _, access in every),
                "first": size_attribute(first),
                "schedule": schedule,
            },
            regions=[combine, ruling],
            result_types=list(types or (tensor(i64, (*free, first)), tensor(i64, free))),
        )

    @property
    def bodies(self) -> tuple[Region, ...]:
        return (self.combine, self.ruling)

    @property
    def row_schedule(self) -> SweepAttr | None:
        return self.schedule

    @property
    def input_accesses(self) -> tuple[Access, ...]:
        return self.access_list[: len(self.inputs)]

    @property
    def item_accesses(self) -> tuple[Access, ...]:
        return self.access_list[len(self.inputs) : -1]

    def verify_(self) -> None:
        self.verify_rows(self.count)
        if len(self.accesses) != len(self.reads):
            raise VerifyException(
                f"tile.suppress: expected {len(self.reads)} accesses, found {len(self.accesses)}"
            )
        for value, forms in zip(self.reads, self.access_list, strict=True):
            ranges = self.ranges
            if value is self.limit:
                ranges = {index.name: index.range for index in self.free}
            verify_operand(self.name, value, forms, ranges)
            if not may_stay_inside(forms, shape_of(value), ranges):
                raise VerifyException(f"tile.suppress: {print_access(forms)} leaves {value.type}")
        if tensor_type(self.limit).element_type != i64:
            raise VerifyException(
                f"tile.suppress: expected a limit of i64, found {self.limit.type}"
            )
        self._verify_bodies()
        rows = [index.range for index in self.free]
        _verify_integers(self.name, self.places, (*rows, self.count))
        _verify_integers(self.name, self.counts, rows)

    def _verify_bodies(self) -> None:
        inputs, items = (
            [tensor_type(value).element_type for value in group]
            for group in (self.inputs, self.items)
        )
        key = self.verify_body(self.combine.block, inputs, self.ranges)
        element = find_element(key)
        if element is None or element.narrow or not 8 <= element.bits <= KEY_BITS:
            raise VerifyException(
                f"tile.suppress: expected keys of 8 to {KEY_BITS} bits, found {key}"
            )
        found = self.verify_body(self.ruling.block, [*items, *items], ())
        if found != i1:
            raise VerifyException(f"tile.suppress: the second body yields {found}, expected i1")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" first {self.count:d} ")
        self.indices.print_parameter(printer)
        printer.print_string(" ")
        print_operands(printer, self.inputs, self.input_accesses)
        printer.print_string(" items ")
        print_operands(printer, self.items, self.item_accesses)
        printer.print_string(" limit ")
        print_operands(printer, [self.limit], self.access_list[-1:])
        if self.schedule is not None:
            printer.print_string(" schedule ")
            printer.print_attribute(self.schedule)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.combine)
        printer.print_string(" rules_out ")
        printer.print_region(self.ruling)
        print_types(printer, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> SuppressOp:
        parser.parse_keyword("first")
        first = parse_number(parser)
        indices = IndicesAttr.parse_parameter(parser)
        inputs = parse_operands(parser)
        parser.parse_keyword("items")
        items = parse_operands(parser)
        parser.parse_keyword("limit")
        limits = parse_operands(parser)
        if len(limits) != 1:
            parser.raise_error("expected one limit")
        schedule = parser.parse_attribute() if parser.parse_optional_keyword("schedule") else None
        if not isinstance(schedule, SweepAttr | None):
            parser.raise_error("expected a #tile.sweep")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        combine = parser.parse_region()
        parser.parse_keyword("rules_out")
        ruling = parser.parse_region()
        types = parse_types(parser)
        bodies = combine, ruling
        op = cls(indices, inputs, items, limits[0], first, *bodies, schedule=schedule, types=types)
        if attributes is not None:
            op.attributes |= attributes.data
        return op


@irdl_op_definition
class JoinOp(SelectionOp):
    """The concatenation of the first values of several rows.

    The first ``counts`` values of each row of ``places`` are concatenated. Each value becomes a row
    of the first result, which holds the coordinates of its row in ``places``, then the value. The
    second result is the number of these rows; all other rows of the first result are 0.
    """

    name = "tile.join"
    places = operand_def(base(TensorType))
    counts = operand_def(base(TensorType))
    joined = result_def(base(TensorType))
    count = result_def(base(TensorType))
    traits = traits_def(Pure())

    def __init__(
        self, places: SSAValue, counts: SSAValue, types: Sequence[Attribute] | None = None
    ) -> None:
        shape = shape_of(places)
        made = tensor(i64, (product(shape), len(shape))), tensor(i64, ())
        super().__init__(operands=[places, counts], result_types=list(types or made))

    @property
    def points(self) -> Size:
        return product(shape_of(self.places))

    def verify_(self) -> None:
        shape = shape_of(self.places)
        if not shape:
            raise VerifyException("tile.join: expected rows, found a scalar")
        _verify_integers(self.name, self.places, shape)
        _verify_integers(self.name, self.counts, shape[:-1])
        _verify_integers(self.name, self.joined, (product(shape), len(shape)))
        _verify_integers(self.name, self.count, ())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        print_types(printer, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> JoinOp:
        places = parse_operand(parser)
        parser.parse_punctuation(",")
        counts = parse_operand(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(places, counts, parse_types(parser))
        if attributes is not None:
            op.attributes |= attributes.data
        return op


def _verify_integers(statement: str, value: SSAValue, shape: Sequence[Size]) -> None:
    """Raise VerifyException unless a tensor has elements of i64 and this shape, and is
    row-major."""
    place = place_of(value.type)
    verify_place(value.type)
    ordered = place is None or not place.layout.pieces
    if tensor_type(value).element_type != i64 or shapes_differ(shape_of(value), shape):
        raise VerifyException(f"{statement}: expected {tensor(i64, shape)}, found {value.type}")
    if not ordered:
        raise VerifyException(f"{statement}: expected a row-major tensor, found {value.type}")
