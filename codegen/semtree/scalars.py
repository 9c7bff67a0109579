"""The ops in the bodies of statements, as expressions of the tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tessella.codegen.semtree import tree
from tessella.codegen.semtree.tree import Apply, Declare, Expression, Name, constant, number
from tessella.dialects.arith import CmpfOp, CmpiOp, ConstantOp
from tessella.dialects.elements import find_element
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile import ExtractOp, IndexOp, YieldOp
from tessella.support.sizes import Size

ELEMENTS = frozenset(("f32", "f16", "bool", "i32", "i64"))
"""The elements of scalars and of arrays. Bodies load, store and convert `f16`, and compute in
`f32`."""
FUNCTIONS: Mapping[str, str] = {
    **{
        f"math.{name}": name
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh"),
            *("tan", "tanh", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "erf"),
            *("rsqrt", "sqrt", "ceil", "floor", "trunc", "round", "copysign", "fma"),
        )
    },
    "math.absf": "fabs",
    "math.powf": "pow",
    "math.roundeven": "rint",
    "arith.maxnumf": "fmax",
    "arith.minnumf": "fmin",
}
"""The ops on floats that are functions of each language, with the names that OpenCL and CUDA
share. They have the accuracy that the language requires: a few units in the last place."""
INFIX: Mapping[str, str] = {
    "arith.addf": "+",
    "arith.subf": "-",
    "arith.mulf": "*",
    "arith.divf": "/",
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.divsi": "/",
    "arith.remsi": "%",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
    tree.BOTH: "&&",
    **{
        f"arith.cmpi.{kind}{name}": sign
        for name, sign in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
        for kind in "su"
    },
    "arith.cmpi.eq": "==",
    "arith.cmpi.ne": "!=",
}
"""The ops that are written between their operands, with the operators of C."""
CASTS = frozenset(
    f"arith.{name}"
    for name in ("index_cast", "extsi", "extui", "sitofp", "uitofp", "extf", "truncf")
)
_OTHERS = frozenset(
    (
        *("arith.negf", "arith.maximumf", "arith.minimumf", "arith.minsi", "arith.maxsi"),
        "arith.select",
        *(
            f"arith.cmpf.{name}"
            for name in (
                *("oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
                *("ueq", "ugt", "uge", "ult", "ule", "une", "uno"),
            )
        ),
    )
)
OPS = frozenset((*FUNCTIONS, *INFIX, *CASTS, *_OTHERS))
"""The ops of trees, which every printer writes."""
_OF_INDICES = {"arith.divsi", "arith.remsi"}
"""The ops that have no code in bodies, because a device may trap if the divisor is 0."""
_PREDICATES = {op.name: op.PREDICATES for op in (CmpiOp, CmpfOp)}
_SIGNED = {"arith.extsi", "arith.index_cast", "arith.sitofp"}
"""Casts that treat a true `i1` as -1. They have no code for `i1`, because a true value is 1 in a
tree."""
_UNSIGNED = {"arith.extui", "arith.uitofp"}
"""Casts of unsigned numbers. They have code only for `i1`, because other types are signed."""


def type_of(type: Attribute) -> str | None:
    """Return the name of a type of values in bodies as trees write it, such as `f32`; None if trees
    have no such type."""
    if isinstance(type, IndexType):
        return tree.INDEX
    element = find_element(type)
    return element.name if element is not None and element.name in ELEMENTS else None


def scalar_type(type: Attribute) -> str:
    """Return the name of a type of values in bodies as trees write it. Trees must have such a
    type."""
    found = type_of(type)
    assert found is not None
    return found


def why_not_scalar(op: Operation) -> str | None:
    """Return why an op of a body has no code, as a sentence; None if it has."""
    operands = op.coordinates if isinstance(op, ExtractOp) else op.operands
    for value in (*operands, *op.results):
        if type_of(value.type) is None:
            return f"no code for {value.type}"
    read = isinstance(op, ConstantOp | IndexOp | SizeOp | ExtractOp)
    known = read or isinstance(op, YieldOp) or _name(op) in OPS - _OF_INDICES
    if op.name in _SIGNED | _UNSIGNED:
        known = known and (op.operands[0].type == i1) == (op.name in _UNSIGNED)
    return None if known else f"no code for {op.name}"


def _name(op: Operation) -> str:
    """Return the name of an op as trees write it; that of a comparison ends in its predicate."""
    if op.name not in _PREDICATES:
        return op.name
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return f"{op.name}.{_PREDICATES[op.name][predicate.value.data]}"


class BodyReads(NamedTuple):
    """The values that a body reads in addition to its arguments."""

    extract: Callable[[ExtractOp, Sequence[Expression]], Expression]
    """A function that returns the element of a tensor at coordinates."""
    indices: Mapping[str, Expression]
    """The values of the statement's indices, by name."""
    sizes: Callable[[Size], Size]
    """A function that names a size."""


def body_of(
    block: Block,
    arguments: Sequence[Expression],
    read: BodyReads,
    fresh: Callable[[str], Name],
    without: Operation | None = None,
) -> tuple[list[Declare], Mapping[SSAValue, Expression]]:
    """Return the variables with the values of a body's ops, and the expressions of these values.

    ``arguments`` are the values of the block's arguments. ``fresh`` returns a new name for a type.
    The op ``without`` is left out.
    """
    values: dict[SSAValue, Expression] = dict(zip(block.args, arguments, strict=True))
    found: list[Declare] = []
    for op in block.ops:
        if op.has_trait(IsTerminator) or op is without:
            continue
        result = op.results[0]
        if isinstance(op, ExtractOp):
            value = read.extract(op, [values[each] for each in op.coordinates])
        else:
            value = _expression(op, values, read)
        name = fresh(scalar_type(result.type))
        values[result] = name
        found.append(Declare(name, value))
    return found, values


def _expression(
    op: Operation, values: Mapping[SSAValue, Expression], read: BodyReads
) -> Expression:
    type = scalar_type(op.results[0].type)
    if isinstance(op, ConstantOp):
        return constant_of(op.properties["value"], type)
    if isinstance(op, IndexOp):
        return read.indices[op.index.data]
    if isinstance(op, SizeOp):
        return number(read.sizes(op.value))
    return Apply(_name(op), tuple(values[value] for value in op.operands), type)


def constant_of(value: Attribute, type: str) -> Expression:
    """Return a number in an attribute as a constant of a tree."""
    assert isinstance(value, FloatAttr | IntegerAttr)
    data = value.value.data
    return constant(int(data) & 1 if type == "bool" else data, type)
