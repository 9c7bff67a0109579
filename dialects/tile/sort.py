"""Sorting along an index: the first values of each row in the order of a key, with their positions.

%values, %places = tile.sort first 5 descending [r: 64 | i: 1000] (%x[r, i]) -> [r, i]
    {^bb0(%e: f32): tile.yield %e : f32}
    : (tensor<64x1000xf32>) -> (tensor<64x5xf32>, tensor<64x5xi64>)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, FunctionType, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    base,
    irdl_attr_definition,
    irdl_op_definition,
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

from tessella.dialects.elements import find_element
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.dialects.sizes import parse_number, size_attribute
from tessella.dialects.tile.access import Access, may_stay_inside, parse_access, print_access
from tessella.dialects.tile.attributes import AccessAttr, Index, IndicesAttr
from tessella.dialects.tile.operands import (
    parse_operands,
    print_operands,
    verify_operand,
)
from tessella.dialects.tile.selection import (
    RowSchedule,
    RowScheduleAttr,
    RowsOp,
    parse_lanes,
    parse_parallel,
)
from tessella.support.conditions import always
from tessella.support.sizes import Size, ceil_div, product

INSERTION, INTERLEAVED, RADIX = "insertion", "interleaved", "radix"
METHODS = (INSERTION, INTERLEAVED, RADIX)


@dataclass(frozen=True, kw_only=True)
class Sorting(RowSchedule):
    """The schedule of a sort.

    The method ``insertion`` keeps the best keys of a row in order, and skips blocks of keys that
    are all worse than the last of them. ``interleaved`` does the same for several rows at a time,
    one in each lane, that are adjacent along the last free index. ``radix`` sorts all keys of a row
    by digits.
    """

    method: str
    digit: int = 0
    """The number of bits of a digit, for the method ``radix``; otherwise 0."""

    def __str__(self) -> str:
        detail = f" digit {self.digit}" if self.method == RADIX else ""
        return f"{self.method} {self.text(detail)}"


@irdl_attr_definition
class SortingAttr(RowScheduleAttr[Sorting]):
    """The attribute with the schedule of a sort: `#tile.sorting<insertion lanes 8 parallel 4>`, or
    `#tile.sorting<radix lanes 8 digit 11>`."""

    name = "tile.sorting"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Sorting:
        with parser.in_angle_brackets():
            method = next((m for m in METHODS if parser.parse_optional_keyword(m)), None)
            if method is None:
                parser.raise_error(f"expected a method: {' or '.join(METHODS)}")
            lanes = parse_lanes(parser)
            digit = parser.parse_integer() if parser.parse_optional_keyword("digit") else 0
            parallel = parse_parallel(parser)
            return Sorting(method=method, lanes=lanes, digit=digit, parallel=parallel)


@irdl_op_definition
class SortOp(RowsOp):
    """A sort of rows: the keys of the first values of each row, in order, and their positions.

    The free indices enumerate the rows, the reduced index the values of a row. The body computes
    the key of each point from the operands' elements. The results have the keys and the positions
    of the ``first`` least keys, or of the greatest if ``descending``; in the access of the results,
    the reduced index counts these keys. Equal keys keep their order. NaN is greater than all
    numbers; -0 equals 0.
    """

    name = "tile.sort"
    inputs = var_operand_def(base(TensorType))
    descending = opt_prop_def(UnitAttr)
    schedule = opt_prop_def(SortingAttr)
    combine = region_def("single_block")
    values = result_def(base(TensorType))
    places = result_def(base(TensorType))
    traits = traits_def(Pure())

    def __init__(
        self,
        indices: Sequence[Index],
        inputs: Sequence[tuple[SSAValue, Access]],
        out: Access,
        first: Size,
        types: Sequence[Tensor],
        combine: Region,
        *,
        descending: bool = False,
        schedule: SortingAttr | None = None,
    ) -> None:
        super().__init__(
            operands=[[value for value, _ in inputs]],
            properties={
                "indices": IndicesAttr(tuple(indices)),
                "accesses": ArrayAttr(map(AccessAttr, (*(a for _, a in inputs), out))),
                "first": size_attribute(first),
                "descending": UnitAttr() if descending else None,
                "schedule": schedule,
            },
            regions=[combine],
            result_types=list(types),
        )

    @property
    def bodies(self) -> tuple[Region, ...]:
        return (self.combine,)

    @property
    def row_schedule(self) -> SortingAttr | None:
        return self.schedule

    @property
    def units(self) -> Size:
        if self.schedule is None or self.schedule.data.method != INTERLEAVED:
            return self.rows
        *outer, last = self.free
        groups = ceil_div(last.range, self.schedule.data.lanes)
        return product(index.range for index in outer) * groups

    @property
    def input_accesses(self) -> tuple[Access, ...]:
        return self.access_list[:-1]

    @property
    def out_access(self) -> Access:
        return self.access_list[-1]

    def verify_(self) -> None:
        self.verify_rows(self.count)
        self._verify_accesses()
        self._verify_body()

    def _verify_accesses(self) -> None:
        values = (*self.inputs, self.values, self.places)
        accesses = (*self.input_accesses, self.out_access, self.out_access)
        if len(values) != len(accesses):
            raise VerifyException(
                f"tile.sort: expected {len(self.inputs) + 1} accesses, found {len(self.accesses)}"
            )
        taken = {**self.ranges, self.along.name: self.count}
        for value, forms in zip(values, accesses, strict=True):
            ranges = taken if value in self.results else self.ranges
            verify_operand(self.name, value, forms, ranges)
            if not may_stay_inside(forms, shape_of(value), ranges):
                raise VerifyException(f"tile.sort: {print_access(forms)} leaves {value.type}")
        moved = {form.single for form in self.out_access}
        for index in self.index_list:
            if index.name not in moved and always(taken[index.name] > 1):
                raise VerifyException(
                    f"tile.sort: expected a dimension of {print_access(self.out_access)} that is "
                    f"{index.name}"
                )

    def _verify_body(self) -> None:
        elements = [tensor_type(value).element_type for value in self.inputs]
        key = self.verify_body(self.combine.block, elements, self.ranges)
        element = tensor_type(self.values).element_type
        found_element = find_element(key)
        if found_element is None or found_element.bits < 8 or found_element.narrow:
            raise VerifyException(f"tile.sort: keys of {key} are not compared; widen them")
        if key != element:
            raise VerifyException(f"tile.sort: the body yields {key}, the result holds {element}")
        if tensor_type(self.places).element_type != i64:
            raise VerifyException(f"tile.sort: expected places of i64, found {self.places.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" first {self.count:d}")
        printer.print_string(" descending " if self.descending is not None else " ")
        self.indices.print_parameter(printer)
        printer.print_string(" ")
        print_operands(printer, self.inputs, self.input_accesses)
        printer.print_string(f" -> {print_access(self.out_access)}")
        if self.schedule is not None:
            printer.print_string(" schedule ")
            printer.print_attribute(self.schedule)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.combine)
        types = FunctionType.from_lists([v.type for v in self.inputs], self.result_types)
        printer.print_string(" : ")
        printer.print_attribute(types)

    @classmethod
    def parse(cls, parser: Parser) -> SortOp:
        parser.parse_keyword("first")
        first = parse_number(parser)
        descending = parser.parse_optional_keyword("descending") is not None
        indices = IndicesAttr.parse_parameter(parser)
        inputs = parse_operands(parser)
        parser.parse_punctuation("->")
        out = parse_access(parser)
        schedule = parser.parse_attribute() if parser.parse_optional_keyword("schedule") else None
        if not isinstance(schedule, SortingAttr | None):
            parser.raise_error("expected a #tile.sorting")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        combine = parser.parse_region()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if not isinstance(type, FunctionType) or len(type.outputs) != 2:
            parser.raise_error("expected the types of the operands and of two results")
        types: list[Attribute] = list(type.outputs)
        op = cls(
            indices,
            inputs,
            out,
            first,
            list(map(tensor_type, types)),
            combine,
            descending=descending,
            schedule=schedule,
        )
        if attributes is not None:
            op.attributes |= attributes.data
        return op
