"""Casts that join a group of ops, and become part of its kernel.

    %1 = nn.fc %x, %w, %b {kernel = "fc"} : tensor<4x8xbf16, #bf16>
    %2 = place.cast %1 : tensor<4x8xbf16, #bf16> -> tensor<4x8xf32, #f32>
    ->
    %1 = nn.fc %x, %w, %b {kernel = "fc"} : tensor<4x8xbf16, #bf16>
    %2 = nn.cast %1 {kernel = "cast", to = f32, nn.conversion} : tensor<4x8xf32, #f32>

A group consists of `nn` ops only: a conversion in it is an `nn.cast` with the mark
``nn.conversion``.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter

from tessella.dialects import place
from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.nn.elementwise import CONVERSION, CastOp
from tessella.dialects.place import place_of
from tessella.kernels.registry import CPUS


def with_elementwise_casts(function: FuncOp) -> list[CastOp]:
    """Turn the `place.cast` ops with native code into elementwise `nn.cast` ops, so that they can
    join groups. Returns the new ops."""
    casts = [op for op in function.body.block.ops if isinstance(op, place.CastOp)]
    made: list[CastOp] = []
    for op in filter(_is_native, casts):
        type = tensor_type(op.res)
        new = CastOp.create(
            operands=[op.source],
            result_types=[type],
            properties={"to": type.element_type, "kernel": StringAttr("cast")},
            attributes={**op.attributes, CONVERSION: UnitAttr()},
        )
        new.res.name_hint = op.res.name_hint
        Rewriter.replace_op(op, new)
        made.append(new)
    return made


def _is_native(op: place.CastOp) -> bool:
    at = place_of(op.res.type)
    elements = (element_of(value.type) for value in (op.source, op.res))
    return at is not None and at.device.data in CPUS and all(each.is_native for each in elements)


def without_lone_casts(casts: list[CastOp]) -> None:
    """Turn the casts that joined no group back into `place.cast` ops."""
    for op in casts:
        at = place_of(op.res.type)
        if isinstance(op.parent_op(), FuncOp) and at is not None:
            new = place.CastOp(op.x, at)
            new.attributes |= {k: v for k, v in op.attributes.items() if k != CONVERSION}
            new.res.name_hint = op.res.name_hint
            Rewriter.replace_op(op, new)
