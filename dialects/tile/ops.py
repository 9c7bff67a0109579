"""Ops inside the kernels of the `tile` dialect: statements over index spaces.

%O = tile.contract + [n: 1, co: 64, y: 56, x: 56 | ci: 64, i: 3, j: 3]
       (%D[n, ci, y + i - 1, x + j - 1], %K[co, ci, i, j]) post (%B[co]) -> [n, co, y, x]
     {^bb0(%d: f32, %k: f32): ...}, {^bb0(%sum: f32, %b: f32): ...} : (...) -> ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.arith import ConstantOp
from tessella.dialects.assembly import parse_operand, print_types
from tessella.dialects.elements import find_element
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile.access import (
    Access,
    Linear,
    may_stay_inside,
    parse_access,
    print_access,
    stays_inside,
)
from tessella.dialects.tile.attributes import (
    AGGREGATIONS,
    AccessAttr,
    At,
    AtAttr,
    Index,
    IndicesAttr,
    ScheduleAttr,
    StorageAttr,
    WhereAttr,
    parse_storage,
)
from tessella.dialects.tile.bodies import ExtractOp, IndexOp, YieldOp, yielded
from tessella.dialects.tile.check_scatter import verify_scatter
from tessella.dialects.tile.check_schedule import check_dot, check_schedule
from tessella.dialects.tile.operands import (
    parse_operands,
    print_operands,
    verify_arguments,
    verify_operand,
)
from tessella.dialects.tile.products import Factors, factors
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.sizes import Size, bounds_of


@irdl_op_definition
class EmptyOp(IRDLOperation):
    """A tensor whose elements are written by later statements that have it as `init`."""

    name = "tile.empty"
    res = result_def(base(TensorType))
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, type: Tensor) -> None:
        super().__init__(result_types=[type])


SCALAR_DIALECTS = ("arith", "math")
"""The dialects that bodies compute with."""
_OF_BODIES = (IndexOp, SizeOp, ExtractOp, YieldOp)
_MOVES = ("arith.extf", "arith.truncf", "arith.bitcast", "arith.select", "arith.constant")
"""What is done with elements that are only stored, and never computed with."""


def _is_only_stored(type: Attribute) -> bool:
    element = find_element(type)
    return element is not None and element.narrow


@irdl_op_definition
class ContractOp(IRDLOperation):
    """A statement: an aggregation over an index space.

    For every point of the index space at which all accesses stay inside their tensors, and the
    constraints of `where` hold, the scalar `combine` body is applied to the operands' elements and
    aggregated into the output's element. A running index is reduced and occurs in the output's
    access: the element at one of its values is the aggregate over all values up to it. Then `post`
    maps the aggregated value and the elements of the post operands, which are accessed by the
    indices of the output only. Output elements without valid points
    hold `default` (for `=`) or the aggregation's identity, before `post`. Elements that no point
    reaches, or for which a post operand would be read outside of its tensor, keep the values of
    `init`, whose buffer the statement writes into (`inits.py`).

    A point at which the body chooses what changes no aggregate, by a comparison of a reduced index
    with an element, need not be computed (`limits.py`).

    A statement with scattered indices is an indexed write: its body yields their values beside the
    element's, and the value is aggregated into the element of `init` that is there.

        %O = tile.contract + [j: 64 | i: 100 | r: 1000] (%idx[i], %U[i, j]) init %D -> [r, j] {
        ^bb0(%row: i64, %u: f32):
          %at = arith.index_cast %row : i64 to index
          tile.yield %u at %at : f32
        }

    Points go to an element in the order of the reduced indices, of which the first counts slowest;
    with `=`, the last value stays. Points whose coordinates are outside the ranges of the scattered
    indices are left out; where the write is `checked`, they are an error of the call.
    """

    name = "tile.contract"
    inputs = var_operand_def(base(TensorType))
    post_inputs = var_operand_def(base(TensorType))
    init = opt_operand_def(base(TensorType))
    aggregation = prop_def(StringAttr)
    indices = prop_def(IndicesAttr)
    accesses = prop_def(ArrayAttr[AccessAttr])
    """Of the inputs, then of the post inputs, then of the output."""
    constraints = opt_prop_def(WhereAttr)
    default = opt_prop_def(Attribute)
    parts = opt_prop_def(IntegerAttr[I64])
    """How many values of a sum are added up before the result is added to those of others, where
    less than usual are as its rounding errors are multiplied later."""
    checked = opt_prop_def(UnitAttr)
    """Whether a coordinate outside the range of its scattered index is an error."""
    at = opt_prop_def(AtAttr)
    """The indices that the shared loops of the kernel run over."""
    storage = opt_prop_def(StorageAttr)
    """Where the result lives, if not in memory."""
    schedule = opt_prop_def(ScheduleAttr)
    combine = region_def("single_block")
    post = region_def()
    res = result_def(base(TensorType))
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

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

    @property
    def loop_list(self) -> tuple[Index, ...]:
        """The indices that loops run over and schedules name: merged ones, not their digits."""
        return self.indices.data

    @property
    def index_list(self) -> tuple[Index, ...]:
        """The indices that accesses name: of merged ones the digits."""
        return self.indices.parts

    @property
    def ranges(self) -> Mapping[str, Size]:
        """The ranges of the indices by name."""
        return self.indices.ranges

    @property
    def at_list(self) -> tuple[At, ...]:
        """The indices that shared loops run over, the outermost first."""
        return self.at.data if self.at is not None else ()

    @property
    def access_list(self) -> tuple[Access, ...]:
        return tuple(a.data for a in self.accesses)

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors of the accesses: the inputs, the post inputs, and the output."""
        return (*self.operands[: len(self.accesses) - 1], self.res)

    @property
    def input_accesses(self) -> tuple[Access, ...]:
        return self.access_list[: len(self.inputs)]

    @property
    def post_accesses(self) -> tuple[Access, ...]:
        return self.access_list[len(self.inputs) : -1]

    @property
    def out_access(self) -> Access:
        return self.access_list[-1]

    @property
    def where_list(self) -> tuple[tuple[Linear, Size], ...]:
        """The explicit constraints: ``0 <= form < extent``."""
        return self.constraints.data if self.constraints is not None else ()

    @property
    def post_block(self) -> Block | None:
        """The block of the post region, or None if there is none."""
        return self.post.blocks.first

    @property
    def part_count(self) -> int | None:
        """The number of values of a partial sum, if the statement says so."""
        return None if self.parts is None else self.parts.value.data

    @property
    def is_map(self) -> bool:
        """Whether the statement has no aggregation: each output element is written once."""
        return self.accumulates == "="

    @property
    def is_scatter(self) -> bool:
        """Whether the statement is an indexed write: the body yields where its values go."""
        return bool(self.indices.scattered)

    @property
    def scattered(self) -> tuple[Index, ...]:
        """The indices whose values the body yields, in the order in which it does."""
        return self.indices.scattered

    @property
    def running_index(self) -> Index | None:
        """The index that the aggregation runs along, if there is one."""
        return self.indices.running

    @property
    def accumulates(self) -> str:
        """The aggregation of values in registers; empty for an indexed write, whose totals are in
        memory."""
        return "" if self.is_scatter else self.aggregation.data

    @property
    def factors(self) -> Factors | None:
        """The elements of the products that the statement sums, if it only does that."""
        return factors(self.accumulates, self.combine.block)

    @property
    def sums_products(self) -> bool:
        """Whether the statement sums products of its two operands, as a matrix product does."""
        return self.factors is not None

    @property
    def is_multiply_add(self) -> bool:
        """Whether the statement sums products of two float operands, possibly widened."""
        found = self.factors
        return found is not None and found.accumulated.is_float

    @property
    def summed_product(self) -> arith.MulfOp | None:
        """The product of floats that the statement sums, if there is one: it and the sum are fused
        multiply-adds."""
        last = yielded(self.combine.block).owner
        if self.accumulates != "+" or not isinstance(last, arith.MulfOp):
            return None
        return last if last.result.has_one_use() else None

    @property
    def greatest_number(self) -> arith.MaxnumfOp | None:
        """What makes -inf of NaN, if the statement finds the greatest of numbers: one comparison is
        enough then, where a maximum that keeps NaN takes two."""
        last = yielded(self.combine.block).owner
        if self.accumulates != ">" or not isinstance(last, arith.MaxnumfOp):
            return None
        least = last.rhs.owner
        value = least.value if isinstance(least, ConstantOp) else None
        is_least = isinstance(value, FloatAttr) and value.value.data == -math.inf
        return last if is_least and last.result.has_one_use() else None

    def verify_(self) -> None:
        if self.aggregation.data not in AGGREGATIONS:
            raise VerifyException(
                f"tile.contract: expected an aggregation ({' '.join(AGGREGATIONS)}), found "
                f"{self.aggregation.data!r}"
            )
        if self.part_count is not None and self.part_count < 1:
            raise VerifyException("tile.contract: expected a number above 0 as parts")
        self._verify_elements()
        self._verify_accesses()
        self._verify_running()
        self._verify_written_once()
        verify_scatter(self)
        self._verify_where()
        self._verify_bodies()
        self._verify_default()
        if self.schedule is not None:
            shared = [at.name for at in self.at_list]
            check_schedule(self.schedule.data, self.loop_list, shared)
            check_dot(self.schedule.data, self.factors)

    def _verify_elements(self) -> None:
        for value in self.tensors:
            element = find_element(tensor_type(value).element_type)
            if element is not None and element.bits < 8:
                raise VerifyException(
                    f"tile.contract: expected elements of 8 bits or more, found {value.type}"
                )

    def _verify_accesses(self) -> None:
        known = {index.name: index for index in self.index_list}
        names = [*known, *(index.name for index in self.loop_list if index.digits)]
        if len({*names}) != len(self.index_list) + sum(bool(i.digits) for i in self.loop_list):
            raise VerifyException("tile.contract: an index is declared twice")
        values = (*self.inputs, *self.post_inputs, self.res)
        if len(self.accesses) != len(values):
            raise VerifyException(
                f"tile.contract: expected {len(values)} accesses, found {len(self.accesses)}"
            )
        free_only = len(self.inputs)
        for i, (value, forms) in enumerate(zip(values, self.access_list, strict=True)):
            verify_operand(self.name, value, forms, known)
            for name, _ in (term for form in forms for term in form.terms):
                if not known[name].written and i >= free_only:
                    raise VerifyException(
                        f"tile.contract: {print_access(forms)} is accessed after the reduction "
                        f"over {name}"
                    )
        if self.is_map and any(index.reduced for index in self.index_list):
            raise VerifyException("tile.contract: an assignment has no reduced indices")

    def _verify_running(self) -> None:
        running = [index for index in self.index_list if index.running is not None]
        if len(running) > 1:
            names = ", ".join(index.name for index in running)
            raise VerifyException(
                f"tile.contract: expected one running index at most, found {names}; an aggregate "
                "along two indices is two statements"
            )
        if running and self.part_count is not None:
            raise VerifyException(
                f"tile.contract: expected no parts of what runs along {running[0].name}"
            )
        for index in running:
            self._verify_stays(index.name)

    def _verify_stays(self, name: str) -> None:
        """What is read and written at the values of a running index lies in the tensors. Where that
        depends on symbols, it may."""
        values = (*self.post_inputs, self.res)
        accesses = self.access_list[len(self.inputs) :]
        for value, access in zip(values, accesses, strict=True):
            for form, extent in zip(access, shape_of(value), strict=True):
                if form.coefficient(name) and not may_stay_inside((form,), (extent,), self.ranges):
                    raise VerifyException(
                        f"tile.contract: expected 0 <= {form} < {extent} for all values of the "
                        f"running index {name}"
                    )

    def _verify_written_once(self) -> None:
        """Each free index, and a running one, moves the output."""
        for index in self.index_list:
            moves = any(f.coefficient(index.name) for f in self.out_access)
            if index.written and not moves and bounds_of(index.range)[1] > 1:
                kind = "running" if index.reduced else "not reduced"
                raise VerifyException(
                    f"tile.contract: {print_access(self.out_access)} is written for each value of "
                    f"{index.name}, which is {kind}"
                )

    def _verify_where(self) -> None:
        known = {index.name for index in self.index_list}
        for form, extent in self.where_list:
            for name, _ in form.terms:
                if name not in known:
                    raise VerifyException(
                        f"tile.contract: the index {name} of {form} < {extent} is not declared"
                    )

    def _verify_default(self) -> None:
        """An assignment has a value for the elements of points that do not count."""
        element = yielded(self.combine.block).type
        if self.default is not None and not self.is_map:
            raise VerifyException("tile.contract: a default belongs to an assignment")
        if isinstance(self.default, FloatAttr | IntegerAttr) and self.default.type != element:
            raise VerifyException(
                f"tile.contract: expected a default of {element}, which the body yields, found "
                f"{self.default}"
            )
        if self.is_map and self.default is None and not self._always_counts():
            raise VerifyException(
                "tile.contract: expected a default of an assignment with points that leave an "
                "operand, or that a constraint leaves out"
            )

    def _always_counts(self) -> bool:
        """Whether all points count. Where that depends on symbols, they may."""
        ranges = self.ranges
        pairs = zip(self.inputs, self.input_accesses, strict=True)
        try:
            return not self.where_list and all(
                stays_inside(access, shape_of(value), ranges) for value, access in pairs
            )
        except UndecidedSizeError:
            return True

    def _verify_bodies(self) -> None:
        element, made = tensor_type(self.res).element_type, yielded(self.combine.block).type
        if self.aggregation.data != "=" and _is_only_stored(made):
            raise VerifyException(f"tile.contract: {made} is only stored, and nothing sums in it")
        bodies = [(self.combine.block, [tensor_type(v).element_type for v in self.inputs])]
        if self.post_block is not None:
            rest = [tensor_type(v).element_type for v in self.post_inputs]
            bodies.append((self.post_block, [made, *rest]))
        elif self.post_inputs:
            raise VerifyException("tile.contract: post operands without a post body")
        for block, expected in bodies:
            self._verify_scalars(block)
            verify_arguments(self.name, block, expected)
        last = yielded(bodies[-1][0]).type
        if last != element:
            raise VerifyException(
                f"tile.contract: the body yields {last}, the output holds {element}"
            )

    def _verify_scalars(self, block: Block) -> None:
        """A body computes with its own scalars; only `tile.extract` reads tensors."""
        known = self.ranges
        reduced = {index.name for index in self.index_list if not index.written}
        for op in block.ops:
            if op.dialect_name() not in SCALAR_DIALECTS and not isinstance(op, _OF_BODIES):
                raise VerifyException(f"tile.contract: {op.name} does not belong into a body")
            if isinstance(op, IndexOp) and op.index.data not in known:
                raise VerifyException(f"tile.index: the index {op.index.data} is not declared")
            if isinstance(op, IndexOp) and block is self.post_block and op.index.data in reduced:
                raise VerifyException(
                    f"tile.index: {op.index.data} is read after the reduction over it"
                )
            if op.dialect_name() in SCALAR_DIALECTS and op.name not in _MOVES:
                self._verify_arithmetic(op)
            if isinstance(op, ExtractOp):
                self._verify_coordinates(op, known)
            scalars = op.coordinates if isinstance(op, ExtractOp) else op.operands
            if any(block not in (value.owner, value.owner.parent) for value in scalars):
                raise VerifyException(
                    f"tile.contract: {op.name} takes a value from outside its body"
                )

    def _verify_coordinates(self, op: ExtractOp, ranges: Mapping[str, Size]) -> None:
        """A coordinate that is an index is in range; only computed ones are checked."""
        for coordinate, extent in zip(op.coordinates, shape_of(op.source), strict=True):
            owner = coordinate.owner
            if isinstance(owner, IndexOp) and decided(ranges[owner.index.data] > extent):
                raise VerifyException(
                    f"tile.extract: the index {owner.index.data} has {ranges[owner.index.data]} "
                    f"values, the dimension {extent}"
                )

    def _verify_arithmetic(self, op: Operation) -> None:
        """Narrow floats must be widened before any computation."""
        for value in (*op.operands, *op.results):
            if _is_only_stored(value.type):
                raise VerifyException(
                    f"tile.contract: {op.name} computes in {value.type}, which is only stored"
                )

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
    """`in a step of m: 4 x 1024`."""
    if parser.parse_optional_keyword("in") is None:
        return None
    for word in ("a", "step", "of"):
        parser.parse_keyword(word)
    return StorageAttr(parse_storage(parser))


def fused_products(block: Block) -> Mapping[Operation, arith.MulfOp]:
    """The products of floats in a body that become one operation with a sum, by the sum: those that
    nothing else reads, and that are not added to another product."""
    found: dict[Operation, arith.MulfOp] = {}
    for op in block.ops:
        if isinstance(op, arith.AddfOp):
            products = [x.owner for x in op.operands if isinstance(x.owner, arith.MulfOp)]
            if len(products) == 1 and products[0].result.has_one_use():
                found[op] = products[0]
    return found


def identity_access(rank: int, prefix: str = "d") -> Access:
    """The access ``[d0, d1, ...]``."""
    return tuple(Linear.of(f"{prefix}{i}") for i in range(rank))
