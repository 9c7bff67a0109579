"""The operands and properties of a `tile.contract`, and the properties of statements that passes
query."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from tessella.dialects.arith import ConstantOp
from tessella.dialects.tile.access import (
    Access,
    Linear,
)
from tessella.dialects.tile.attributes import AccessAttr, Index, IndicesAttr, WhereAttr
from tessella.dialects.tile.bodies import yielded
from tessella.dialects.tile.loop_attributes import At, AtAttr, StorageAttr
from tessella.dialects.tile.products import ProductElements, factors
from tessella.dialects.tile.schedule_attributes import ScheduleAttr
from tessella.dialects.tile.summed import SummedProduct, summed_product
from tessella.support.sizes import Size


class ContractionOp(IRDLOperation):
    """Base of ``ContractOp``, which adds the assembly format and the verifier."""

    inputs = var_operand_def(base(TensorType))
    post_inputs = var_operand_def(base(TensorType))
    init = opt_operand_def(base(TensorType))
    aggregation = prop_def(StringAttr)
    indices = prop_def(IndicesAttr)
    accesses = prop_def(ArrayAttr[AccessAttr])
    """The accesses of the inputs, the post inputs, and the output."""
    constraints = opt_prop_def(WhereAttr)
    default = opt_prop_def(Attribute)
    parts = opt_prop_def(IntegerAttr[I64])
    """The number of values in a partial sum. It is set if later ops amplify rounding errors, so
    that partial sums must be shorter than usual."""
    checked = opt_prop_def(UnitAttr)
    """Set if a coordinate outside the range of its scattered index is an error of the call. Without
    it, the point is dropped."""
    at = opt_prop_def(AtAttr)
    """The indices of the statement over which the shared loops of the kernel run."""
    storage = opt_prop_def(StorageAttr)
    """The storage of the result within an iteration of the shared loops; absent if the result is in
    memory."""
    schedule = opt_prop_def(ScheduleAttr)
    combine = region_def("single_block")
    post = region_def()
    res = result_def(base(TensorType))
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def loop_list(self) -> tuple[Index, ...]:
        """The indices over which loops run, and which schedules name. An index that was merged from
        others, its digits, is listed itself."""
        return self.indices.data

    @property
    def index_list(self) -> tuple[Index, ...]:
        """The indices that accesses name. A merged index is replaced by its digits."""
        return self.indices.parts

    @property
    def ranges(self) -> Mapping[str, Size]:
        """The ranges of the indices that accesses name, by name."""
        return self.indices.ranges

    @property
    def at_list(self) -> tuple[At, ...]:
        """The indices of the statement over which shared loops run, outermost loop first."""
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
        """The number of values of a partial sum, if the statement has one."""
        return None if self.parts is None else self.parts.value.data

    @property
    def is_map(self) -> bool:
        """True if the statement is elementwise: without aggregation, it writes each output element
        once."""
        return self.accumulates == "="

    @property
    def is_scatter(self) -> bool:
        """True if the statement is an indexed write: the body yields the coordinates of its
        values."""
        return bool(self.indices.scattered)

    @property
    def scattered(self) -> tuple[Index, ...]:
        """The scattered indices, in the order in which the body yields their values."""
        return self.indices.scattered

    @property
    def running_index(self) -> Index | None:
        """The running index, along which the aggregation is cumulative; None if there is none."""
        return self.indices.running

    @property
    def accumulates(self) -> str:
        """The name of the aggregation of values in registers; empty for an indexed write, which
        aggregates in memory."""
        return "" if self.is_scatter else self.aggregation.data

    @property
    def factors(self) -> ProductElements | None:
        """The element types of the products that the statement sums; None if its body does anything
        else."""
        return factors(self.accumulates, self.combine.block)

    @property
    def sums_products(self) -> bool:
        """True if the statement sums products of its two operands, as a matrix product does."""
        return self.factors is not None

    @property
    def is_multiply_add(self) -> bool:
        """True if the statement only sums products of its two operands, as floats; the operands may
        be widened first."""
        found = self.factors
        return found is not None and found.accumulated.is_float

    @property
    def summed(self) -> SummedProduct | None:
        """The product that the statement sums, with factors that may be decoded and sums that may
        be scaled; None if it sums anything else."""
        if self.accumulates != "+":
            return None
        reduced = frozenset(index.name for index in self.index_list if index.reduced)
        return summed_product(self.combine.block, self.input_accesses, reduced)

    @property
    def summed_product(self) -> arith.MulfOp | None:
        """The float multiplication at the end of the body, if the statement sums its results with
        fused multiply-adds; otherwise None."""
        return self.product_of(yielded(self.combine.block))

    def product_of(self, value: SSAValue) -> arith.MulfOp | None:
        """Return the float multiplication that computes a value of the body and nothing else, if
        the statement sums values; otherwise None."""
        last = value.owner
        if self.accumulates != "+" or not isinstance(last, arith.MulfOp):
            return None
        return last if last.result.has_one_use() else None

    @property
    def greatest_number(self) -> arith.MaxnumfOp | None:
        """The op of the body that replaces NaN by -inf, if the statement computes a maximum that
        ignores NaN; otherwise None.

        The maximum then takes one comparison; a maximum that propagates NaN takes two.
        """
        last = yielded(self.combine.block).owner
        if self.accumulates != ">" or not isinstance(last, arith.MaxnumfOp):
            return None
        least = last.rhs.owner
        value = least.value if isinstance(least, ConstantOp) else None
        is_least = isinstance(value, FloatAttr) and value.value.data == -math.inf
        return last if is_least and last.result.has_one_use() else None
