"""The dot product instruction: it adds sums of products of narrow numbers to the lanes of a
vector."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.elements import find_element
from tessella.targets.instructions import INSTRUCTIONS, Instruction


@irdl_op_definition
class DotOp(IRDLOperation):
    """A dot product instruction: ``acc[n] + sum(a[n, k] * b[n, k])`` for each lane n, over the k
    values that the instruction sums.

        %r = rt.dot %acc, %a, %b {instruction = "vpdpbusd"}
               : vector<16xi32>, vector<4xui8>, vector<64xi8>

    An operand has a group of k consecutive values for each lane. One of the operands may instead
    have a single group, which all lanes share. An instruction on several rows adds ``sum(a[m, k] *
    b[n, k])`` to ``acc[m, n]``: ``a`` has a group for each row, ``b`` a group for each column.
    Integers wrap.
    """

    name = "rt.dot"
    acc = operand_def(VectorType)
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    instruction = prop_def(StringAttr)
    res = result_def(VectorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a) `,` type($b) `->` type($res)"
    )

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue, instruction: str) -> None:
        super().__init__(
            operands=[acc, a, b],
            result_types=[acc.type],
            properties={"instruction": StringAttr(instruction)},
        )

    @property
    def row(self) -> Instruction:
        """The row of ``targets.instructions`` that describes the instruction."""
        return INSTRUCTIONS[self.instruction.data]

    def verify_(self) -> None:
        if self.instruction.data not in INSTRUCTIONS:
            raise VerifyException(
                f"rt.dot: expected one of {', '.join(INSTRUCTIONS)}, found {self.instruction.data}"
            )
        row = self.row
        (acc, lanes), a, b = map(_of, (self.acc.type, self.a.type, self.b.type))
        if acc != row.accumulates or (a[0], b[0]) not in row.operands:
            pairs = " or ".join(f"{x} and {y}" for x, y in row.operands)
            raise VerifyException(
                f"rt.dot: expected {pairs} added to {row.accumulates}, found {a[0]} and {b[0]} "
                f"added to {acc}"
            )
        sizes = {row.k, row.k * lanes}
        if row.m > 1:
            tile = row.m * row.k, row.columns(lanes) * row.k
            if (a[1], b[1]) != tile or lanes % row.m:
                raise VerifyException(
                    f"rt.dot: expected groups of {row.k} for {row.m} rows, and for the columns of "
                    f"{lanes} lanes, found {a[1]} and {b[1]} values"
                )
        elif not (a[1] in sizes and b[1] in sizes and row.k * lanes in (a[1], b[1])):
            raise VerifyException(
                f"rt.dot: expected groups of {row.k}, one or one for each of {lanes} lanes, found "
                f"{a[1]} and {b[1]} values"
            )
        if self.res.type != self.acc.type:
            raise VerifyException(
                f"rt.dot: expected a result of {self.acc.type}, found {self.res.type}"
            )


def _of(type: Attribute) -> tuple[str, int]:
    """Return the name of the element of a vector type, empty if it has none, and the length of the
    vector, 0 unless it has one dimension."""
    assert isinstance(type, VectorType)
    element, shape = find_element(type.element_type), type.get_shape()
    return "" if element is None else element.name, shape[0] if len(shape) == 1 else 0
