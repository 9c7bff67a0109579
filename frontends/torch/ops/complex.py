"""Converters of ops on complex numbers and their parts. Values have no pending conjugations and
negations: those are computed where they stand."""

from __future__ import annotations

import math

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value, concat, where
from tessella.frontends.torch.ops.elementwise import atan2, same
from tessella.frontends.torch.promote import Operand, floating, promoted
from tessella.frontends.torch.registry import aten


@aten("_conj", "_conj_physical", "conj_physical")
def conj(emit: Emitter, x: Value) -> Value:
    return x.op(nn.ConjOp) if x.is_complex else x


@aten("_neg_view")
def neg_view(emit: Emitter, x: Value) -> Value:
    return -x


aten("resolve_conj", "resolve_neg")(same)


@aten("complex")
def complex_(emit: Emitter, real: Value, imag: Value) -> Value:
    a, b = promoted(emit, real, imag)
    return a.op(nn.ComplexOp, b)


@aten("polar")
def polar(emit: Emitter, size: Value, angle: Value) -> Value:
    a, b = promoted(emit, size, angle)
    return (a * b.op(nn.OPS["cos"])).op(nn.ComplexOp, a * b.op(nn.OPS["sin"]))


@aten("view_as_real")
def view_as_real(emit: Emitter, x: Value) -> Value:
    parts = [x.op(part).column() for part in (nn.RealOp, nn.ImagOp)]
    return concat(parts, x.rank)


@aten("view_as_complex")
def view_as_complex(emit: Emitter, x: Value) -> Value:
    real, imag = (x.part(x.rank - 1, i, 1).reshape(x.shape[:-1]) for i in (0, 1))
    return real.op(nn.ComplexOp, imag)


@aten("angle")
def angle(emit: Emitter, x: Operand) -> Value:
    (wide,) = floating(emit, x)
    if wide.is_complex:
        return atan2(emit, wide.op(nn.ImagOp), wide.op(nn.RealOp))
    found = where(wide < 0, wide.like(math.pi), 0.0)
    return where(wide.op(nn.IsNanOp), wide, found)


@aten("sgn")
def sgn(emit: Emitter, x: Value) -> Value:
    if not x.is_complex:
        return x.op(nn.SignOp)
    size = abs(x)
    is_zero = size.equals(0)
    return where(is_zero, 0, x / where(is_zero, 1, size).cast(x.dtype))
