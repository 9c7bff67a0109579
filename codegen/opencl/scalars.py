"""The ops in the bodies of statements, written as expressions of OpenCL C.

Functions have the accuracy that OpenCL requires: a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tessella.dialects.arith import CmpfOp, CmpiOp, ConstantOp
from tessella.dialects.elements import find_element
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile import ExtractOp, IndexOp, YieldOp
from tessella.support.sizes import Size

SCALARS: Mapping[str, str] = {"f32": "float", "bool": "int", "i32": "int", "i64": "long"}
"""The C types of scalar values, by element."""
STORED: Mapping[str, str] = {**SCALARS, "bool": "uchar"}
"""The C types of elements in memory, by element."""
INDEX = "long"

PRELUDE = """\
float max_of(float a, float b) { return a > b || isnan(a) ? a : b; }
float min_of(float a, float b) { return a < b || isnan(a) ? a : b; }
long checked(long at, long size, __global int *word) {
  if (at >= 0 && at < size) return at;
  *word = 1;
  return 0;
}
"""
"""Functions that propagate NaN, which those of OpenCL drop, and the check of a coordinate."""

_NAMES = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan"),
    *("tanh", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "erf", "rsqrt", "sqrt"),
    *("ceil", "floor", "trunc", "round"),
)
_EXPRESSIONS: Mapping[str, str] = {
    "arith.addf": "{} + {}",
    "arith.subf": "{} - {}",
    "arith.mulf": "{} * {}",
    "arith.divf": "{} / {}",
    "arith.negf": "-{}",
    "arith.maximumf": "max_of({}, {})",
    "arith.minimumf": "min_of({}, {})",
    "arith.maxnumf": "fmax({}, {})",
    "arith.minnumf": "fmin({}, {})",
    "arith.addi": "{} + {}",
    "arith.subi": "{} - {}",
    "arith.muli": "{} * {}",
    "arith.minsi": "min({}, {})",
    "arith.maxsi": "max({}, {})",
    "arith.andi": "{} & {}",
    "arith.ori": "{} | {}",
    "arith.xori": "{} ^ {}",
    "arith.select": "{} ? {} : {}",
    "arith.index_cast": "{}",
    "arith.extsi": "{}",
    "arith.extui": "{}",
    "arith.sitofp": "(float){}",
    "arith.uitofp": "(float){}",
    **{f"math.{name}": f"{name}({{}})" for name in _NAMES},
    "math.copysign": "copysign({}, {})",
    "math.fma": "fma({}, {}, {})",
    "math.absf": "fabs({})",
    "math.powf": "pow({}, {})",
    "math.roundeven": "rint({})",
}
_ORDERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARISONS: Mapping[str, Mapping[str, str]] = {
    CmpiOp.name: {
        **{name: f"{{}} {_ORDERS[name]} {{}}" for name in ("eq", "ne")},
        **{f"s{name}": f"{{}} {sign} {{}}" for name, sign in _ORDERS.items()},
    },
    CmpfOp.name: {
        **{f"o{name}": f"{{0}} {sign} {{1}}" for name, sign in _ORDERS.items() if name != "ne"},
        "one": "isless({0}, {1}) || isgreater({0}, {1})",
        **{
            f"u{name}": f"{{0}} {sign} {{1}} || isunordered({{0}}, {{1}})"
            for name, sign in _ORDERS.items()
        },
        "ord": "isordered({0}, {1})",
        "uno": "isunordered({0}, {1})",
    },
}
_PREDICATES = {op.name: op.PREDICATES for op in (CmpiOp, CmpfOp)}
_SIGNED = {"arith.extsi", "arith.index_cast", "arith.sitofp"}
"""Casts that treat a true `i1` as -1. They have no code for `i1`, because a true value of the C
type `int` is 1."""
_UNSIGNED = {"arith.extui", "arith.uitofp"}
"""Casts of unsigned numbers. They have code only for `i1`, because other C types are signed."""


def type_of(type: Attribute) -> str | None:
    """Return the C type of a value in a body; None if OpenCL C has no type for it."""
    if isinstance(type, IndexType):
        return INDEX
    element = find_element(type)
    return None if element is None else SCALARS.get(element.name)


def why_not_scalar(op: Operation) -> str | None:
    """Return why an op of a body has no code, as a sentence; None if it has."""
    operands = op.coordinates if isinstance(op, ExtractOp) else op.operands
    for value in (*operands, *op.results):
        if type_of(value.type) is None:
            return f"no code for {value.type}"
    read = isinstance(op, ConstantOp | IndexOp | SizeOp | ExtractOp)
    known = read or isinstance(op, YieldOp) or _template(op) is not None
    if op.name in _SIGNED | _UNSIGNED:
        known = known and (op.operands[0].type == i1) == (op.name in _UNSIGNED)
    return None if known else f"no code for {op.name}"


def _template(op: Operation) -> str | None:
    if op.name not in _PREDICATES:
        return _EXPRESSIONS.get(op.name)
    predicate = op.properties["predicate"]
    assert isinstance(predicate, IntegerAttr)
    return _COMPARISONS[op.name].get(_PREDICATES[op.name][predicate.value.data])


class BodyReads(NamedTuple):
    """The names that a body reads in addition to its arguments."""

    extract: Callable[[ExtractOp, Sequence[str]], str]
    """A function that writes an element of a tensor at coordinates."""
    indices: Mapping[str, str]
    """The values of the statement's indices, by name."""
    sizes: Callable[[Size], Size]
    """A function that names a size."""


def body_lines(
    block: Block,
    arguments: Sequence[str],
    read: BodyReads,
    fresh: Callable[[], str],
    without: Operation | None = None,
) -> tuple[list[str], Mapping[SSAValue, str]]:
    """Return the lines of C that compute a body, and the C names of its values.

    ``arguments`` are the names of the block's arguments. The op ``without`` is left out.
    """
    names: dict[SSAValue, str] = dict(zip(block.args, arguments, strict=True))
    lines: list[str] = []
    for op in block.ops:
        if op.has_trait(IsTerminator) or op is without:
            continue
        result = op.results[0]
        if isinstance(op, ExtractOp):
            text = read.extract(op, [names[value] for value in op.coordinates])
        else:
            text = _expression(op, names, read)
        names[result] = fresh()
        lines.append(f"const {type_of(result.type)} {names[result]} = {text};")
    return lines, names


def _expression(op: Operation, names: Mapping[SSAValue, str], read: BodyReads) -> str:
    if isinstance(op, ConstantOp):
        value = op.properties["value"]
        assert isinstance(value, FloatAttr | IntegerAttr)
        number = value.value.data
        return literal(number & 1 if isinstance(number, int) and value.type == i1 else number)
    if isinstance(op, IndexOp):
        return read.indices[op.index.data]
    if isinstance(op, SizeOp):
        return str(read.sizes(op.value))
    template = _template(op)
    assert template is not None
    return template.format(*(names[value] for value in op.operands))


def literal(number: float) -> str:
    """Return a number as a C literal: an integer, or a float in hexadecimal, which is exact."""
    if isinstance(number, int):
        return str(number)
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    return f"{number.hex()}f"
