"""The code of `math` ops: some map to one LLVM intrinsic, others call the functions of
`codegen/vecmath`."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from tessella.codegen import vecmath
from tessella.codegen.emit_vector import fused_multiply_add, has_flag
from tessella.codegen.lltypes import I1, LLValue, constant
from tessella.codegen.writer import Handler, Writer
from tessella.dialects.arith import RemFOp


def _intrinsic(name: str) -> Handler:
    """Return a handler for an op whose intrinsic every target implements by instructions."""

    def emit(w: Writer, op: Operation) -> None:
        operands = [w.get(op, index) for index in range(len(op.operands))]
        w.set(op, w.intrinsic(name, *operands))

    return emit


def _fma(w: Writer, op: Operation) -> None:
    w.set(op, fused_multiply_add(w, w.get(op, 0), w.get(op, 1), w.get(op, 2)))


def _absolute(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    # The absolute value of the least integer is that integer: `false` says that it is not poison.
    w.set(op, w.call(value.type, f"llvm.abs.{value.type.mangled}", value, LLValue(I1, "false")))


def _reciprocal_root(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    w.set(op, w.binary("fdiv", constant(value.type, 1.0), w.intrinsic("sqrt", value)))


def _vector_math(w: Writer, op: Operation) -> None:
    operands = [w.get(op, index) for index in range(len(op.operands))]
    approximate = has_flag(op, FastMathFlag.APPROX_FUNC)
    w.set(op, vecmath.call(w, op.name, *operands, approximate=approximate))


_VECTOR_MATH = (
    RemFOp,
    math.AcosOp,
    math.AcoshOp,
    math.AsinOp,
    math.AsinhOp,
    math.AtanOp,
    math.AtanhOp,
    math.CosOp,
    math.CoshOp,
    math.ErfOp,
    math.ExpOp,
    math.Exp2Op,
    math.ExpM1Op,
    math.LogOp,
    math.Log1pOp,
    math.Log2Op,
    math.Log10Op,
    math.PowFOp,
    math.SinOp,
    math.SinhOp,
    math.TanOp,
    math.TanhOp,
)

MATH: dict[type[Operation], Handler] = {
    **dict.fromkeys(_VECTOR_MATH, _vector_math),
    math.AbsFOp: _intrinsic("fabs"),
    math.AbsIOp: _absolute,
    math.CeilOp: _intrinsic("ceil"),
    math.FloorOp: _intrinsic("floor"),
    math.TruncOp: _intrinsic("trunc"),
    math.RoundOp: _intrinsic("round"),
    math.RoundEvenOp: _intrinsic("roundeven"),
    math.SqrtOp: _intrinsic("sqrt"),
    math.CopySignOp: _intrinsic("copysign"),
    math.FmaOp: _fma,
    math.RsqrtOp: _reciprocal_root,
}
