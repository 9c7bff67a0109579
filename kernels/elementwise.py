"""Native kernels of the elementwise ops, traced from their reference functions.

The function of an op (`runtime/host/elementwise.py`) is called with scalars in place of arrays.
Each NumPy function that it calls adds its scalar code, ``CODE``, to the body of a statement:

    x / (1 + np.exp(-x))    ->    arith.negf, math.exp, arith.addf, arith.divf
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects.arith import NearestOp
from tessella.dialects.elements import element_of, is_unsigned
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import dtype_of, is_float, tensor_type
from tessella.kernels.builder import F32, KernelBuilder, Scalars
from tessella.kernels.elements import FLOATS, INTEGERS, NATIVE, Elements, T, Table, has_code, rows
from tessella.kernels.registry import native
from tessella.kernels.remainder import REMAINDERS, floored, integer_power, truncated
from tessella.runtime.host.elementwise import (
    ROWS,
    Function,
    Row,
    divide,
    erf,
    fma,
    like,
    power,
    whole,
    wide,
)
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InternalError

Code = Callable[..., SSAValue]
"""Scalar code: ``code(scalars, *operands)``."""

BOOL = IntegerType(1)


class Scalar(NDArrayOperatorsMixin):
    """A traced scalar: NumPy's functions and Python's operators on it add ops."""

    def __init__(self, scalars: Scalars, value: SSAValue) -> None:
        self.scalars = scalars
        self.value = value

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the scalar."""
        return dtype_of(self.value.type)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any) -> Scalar:
        return self._applied(ufunc, inputs)

    def __array_function__(
        self, function: Function, types: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Scalar:
        return self._applied(function, args)

    def _applied(self, function: Function, operands: Sequence[Any]) -> Scalar:
        """Apply a function. A number among the operands takes the type of the last scalar."""
        if function not in CODE:
            raise InternalError(f"no scalar code for {function.__name__}")
        like = [x.value for x in operands if isinstance(x, Scalar)][-1]
        values = (
            x.value if isinstance(x, Scalar) else self.scalars.like(x, like) for x in operands
        )
        return Scalar(self.scalars, CODE[function](self.scalars, *values))


def apply(name: str, s: Scalars, operands: Sequence[SSAValue], **parameters: float) -> SSAValue:
    """Add the scalar code of the op `nn.<name>` and return its result."""
    return ROWS[name].function(*(Scalar(s, x) for x in operands), **parameters).value


# ** scalar code of NumPy's functions **


def _one(op: Callable[..., Operation]) -> Code:
    """Return scalar code that is a single op."""

    def code(s: Scalars, *operands: SSAValue) -> SSAValue:
        return s.op(op(*operands))

    return code


def _by_kind(
    floats: Callable[..., Operation],
    integers: Callable[..., Operation],
    unsigned: Callable[..., Operation] | None = None,
) -> Code:
    """Return scalar code with one op for floats, another for integers, and another for unsigned
    integers."""

    def code(s: Scalars, *operands: SSAValue) -> SSAValue:
        type = operands[0].type
        others = unsigned if unsigned is not None and is_unsigned(type) else integers
        return s.op((floats if is_float(type) else others)(*operands))

    return code


def _compare(floats: str, integers: str) -> Code:
    def code(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        if is_float(a.type):
            return s.op(arith.CmpfOp(a, b, floats))
        # Booleans order as 0 and 1. i1 is signed in arith, hence the unsigned predicates.
        without_sign = a.type == BOOL or is_unsigned(a.type)
        kind = integers.replace("s", "u", 1) if without_sign else integers
        return s.op(arith.CmpiOp(a, b, kind))

    return code


def _same(s: Scalars, x: SSAValue) -> SSAValue:
    return x


def _zero(s: Scalars, x: SSAValue) -> SSAValue:
    return s.like(0, x)


def _negative(s: Scalars, x: SSAValue) -> SSAValue:
    if is_float(x.type):
        return s.op(arith.NegfOp(x))
    return s.op(arith.SubiOp(s.like(0, x), x))


def _absolute(s: Scalars, x: SSAValue) -> SSAValue:
    if is_unsigned(x.type):
        return x
    return s.op((math.AbsFOp if is_float(x.type) else math.AbsIOp)(x))


def _sign(s: Scalars, x: SSAValue) -> SSAValue:
    zero, one = s.like(0, x), s.like(1, x)
    if is_unsigned(x.type):
        return s.op(arith.MinUIOp(x, one))
    minus = s.like(-1, x)
    if not is_float(x.type):
        below = s.op(arith.SelectOp(s.op(arith.CmpiOp(x, zero, "slt")), minus, zero))
        return s.op(arith.SelectOp(s.op(arith.CmpiOp(x, zero, "sgt")), one, below))
    # Both comparisons with NaN are false, so the result is NaN.
    below = s.op(arith.SelectOp(s.op(arith.CmpfOp(x, zero, "olt")), minus, x))
    return s.op(arith.SelectOp(s.op(arith.CmpfOp(x, zero, "ogt")), one, below))


def _reciprocal(s: Scalars, x: SSAValue) -> SSAValue:
    return s.op(arith.DivfOp(s.like(1, x), x))


def _power(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    return s.op(math.PowFOp(x, y)) if is_float(x.type) else integer_power(s, x, y)


def _not(s: Scalars, x: SSAValue) -> SSAValue:
    return s.op(arith.XOrIOp(x, s.constant(1, BOOL)))


def _inverted(s: Scalars, x: SSAValue) -> SSAValue:
    ones = (1 << element_of(x.type).bits) - 1 if is_unsigned(x.type) else -1
    return s.op(arith.XOrIOp(x, s.like(ones, x)))


def _shifted_right(s: Scalars, x: SSAValue, by: SSAValue) -> SSAValue:
    return s.op((arith.ShRUIOp if is_unsigned(x.type) else arith.ShRSIOp)(x, by))


def _wide(s: Scalars, x: SSAValue) -> SSAValue:
    return s.cast(x, i32)


def _whole(s: Scalars, x: SSAValue) -> SSAValue:
    return s.op(NearestOp(x, i32))


def _like(s: Scalars, x: SSAValue, other: SSAValue) -> SSAValue:
    return s.cast(x, other.type)


def _is_nan(s: Scalars, x: SSAValue) -> SSAValue:
    return s.op(arith.CmpfOp(x, x, "uno"))


def _is_inf(s: Scalars, x: SSAValue) -> SSAValue:
    return s.op(arith.CmpfOp(s.op(math.AbsFOp(x)), s.like(np.inf, x), "oeq"))


# No native code has complex elements: numbers are real here.
CODE: Mapping[Function, Code] = {
    np.add: _by_kind(arith.AddfOp, arith.AddiOp),
    np.subtract: _by_kind(arith.SubfOp, arith.SubiOp),
    np.multiply: _by_kind(arith.MulfOp, arith.MuliOp),
    np.true_divide: _one(arith.DivfOp),
    divide: _by_kind(arith.DivfOp, arith.DivSIOp, arith.DivUIOp),
    power: _power,
    fma: _one(math.FmaOp),
    np.remainder: floored,
    np.fmod: truncated,
    np.minimum: _by_kind(arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
    np.maximum: _by_kind(arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    np.fmin: _one(arith.MinnumfOp),
    np.fmax: _one(arith.MaxnumfOp),
    wide: _wide,
    whole: _whole,
    like: _like,
    np.negative: _negative,
    np.absolute: _absolute,
    np.conjugate: _same,
    np.real: _same,
    np.imag: _zero,
    np.sign: _sign,
    np.reciprocal: _reciprocal,
    np.where: _one(arith.SelectOp),
    np.equal: _compare("oeq", "eq"),
    np.less: _compare("olt", "slt"),
    np.less_equal: _compare("ole", "sle"),
    np.greater: _compare("ogt", "sgt"),
    np.greater_equal: _compare("oge", "sge"),
    np.logical_and: _one(arith.AndIOp),
    np.logical_or: _one(arith.OrIOp),
    np.logical_xor: _one(arith.XOrIOp),
    np.logical_not: _not,
    np.invert: _inverted,
    np.bitwise_and: _one(arith.AndIOp),
    np.bitwise_or: _one(arith.OrIOp),
    np.bitwise_xor: _one(arith.XOrIOp),
    np.left_shift: _one(arith.ShLIOp),
    np.right_shift: _shifted_right,
    np.isnan: _is_nan,
    np.isinf: _is_inf,
    np.sqrt: _one(math.SqrtOp),
    np.floor: _one(math.FloorOp),
    np.ceil: _one(math.CeilOp),
    np.rint: _one(math.RoundEvenOp),
    np.exp: _one(math.ExpOp),
    np.expm1: _one(math.ExpM1Op),
    np.log: _one(math.LogOp),
    np.log1p: _one(math.Log1pOp),
    np.log2: _one(math.Log2Op),
    np.log10: _one(math.Log10Op),
    np.sin: _one(math.SinOp),
    np.cos: _one(math.CosOp),
    np.tan: _one(math.TanOp),
    np.arcsin: _one(math.AsinOp),
    np.arccos: _one(math.AcosOp),
    np.arctan: _one(math.AtanOp),
    np.sinh: _one(math.SinhOp),
    np.cosh: _one(math.CoshOp),
    np.tanh: _one(math.TanhOp),
    np.arcsinh: _one(math.AsinhOp),
    np.arccosh: _one(math.AcoshOp),
    np.arctanh: _one(math.AtanhOp),
    erf: _one(math.ErfOp),
}
"""The scalar code of each function that the functions of ops may call."""


# ** kernels **

_OPERANDS: Mapping[str, Sequence[str]] = {
    "float": FLOATS,
    "predicate": FLOATS,
    "boolean": ["bool"],
    "logic": ["bool"],
    "bits": INTEGERS,
    "bitwise": INTEGERS,
}
"""The element types of operands, by the kind of the op. Other kinds accept all element types with
native code."""


DEQUANTIZED = tuple(x for x in INTEGERS if ELEMENTS[x].bits <= 32)


def _functions(row: Row) -> frozenset[str]:
    """Return the names of the `math` ops in the scalar code of an op on f32."""
    block = Block(arg_types=[F32] * len(ew.OPS[row.name].get_irdl_definition().operands))
    apply(row.name, Scalars(block), block.args, **row.parameters)
    return frozenset(op.name for op in block.ops if op.dialect_name() == "math")


def table(row: Row) -> Table:
    """Return the table of an op's kernel: the element types for which all functions of the kernel
    have vector code."""
    if row.kind == "quantize":
        return tuple(x for to in ew.QUANTIZED for x in rows(FLOATS, (T, T, to), (to,)))
    if row.kind == "dequantize":
        return tuple(x for of in DEQUANTIZED for x in rows(FLOATS, (of, T, of), (T,)))
    if row.function in (np.remainder, np.fmod):
        return REMAINDERS
    operands = _OPERANDS.get(row.kind, NATIVE)
    functions = _functions(row) if FLOATS[0] in operands else ()
    writes = "bool" if row.kind in ("predicate", "comparison") else T
    return rows((x for x in operands if has_code(x, functions)), writes=(writes,))


def _declare(row: Row) -> None:
    @native(ew.OPS[row.name], row.name, elements=table(row))
    def lower(k: KernelBuilder, op: ew.ElementwiseOp, *operands: SSAValue) -> SSAValue:
        return k.elementwise(operands, op, lambda s, x: apply(row.name, s, x, **op.settings))


for _row in ROWS.values():
    if _row.kind != "parts":  # no native code has complex numbers
        _declare(_row)


@native(ew.WhereOp, "where", elements=rows(NATIVE, ("bool", T), computes=T))
def where(k: KernelBuilder, op: ew.WhereOp, *operands: SSAValue) -> SSAValue:
    """Select one of two elements."""
    return k.elementwise(operands, op, lambda s, x: s.op(arith.SelectOp(*x)))


@native(ew.CastOp, "cast", elements=tuple(x for to in NATIVE for x in rows(NATIVE, writes=(to,))))
def cast(k: KernelBuilder, op: ew.CastOp, x: SSAValue) -> SSAValue:
    """Convert an element to another type."""
    to = tensor_type(op.res).element_type
    return k.elementwise([x], op, lambda s, values: s.cast(values[0], to))


def _reinterpreted(start: str, end: str) -> bool:
    """Return whether native code can read the bits of one element type as another one."""
    pair = ELEMENTS[start], ELEMENTS[end]
    return pair[0].bits == pair[1].bits and not any(element.narrow for element in pair)


@native(
    ew.BitcastOp,
    "bitcast",
    elements=tuple(
        Elements((start,), start, (end,))
        for start in NATIVE
        for end in NATIVE
        if _reinterpreted(start, end)
    ),
)
def bitcast(k: KernelBuilder, op: ew.BitcastOp, x: SSAValue) -> SSAValue:
    """Read the bits of an element as another type."""
    to = tensor_type(op.res).element_type
    if not is_float(x.type) and not is_float(to):
        return k.elementwise([x], op, lambda s, values: s.cast(values[0], to))
    return k.elementwise([x], op, lambda s, values: s.bits(values[0], to))
