"""Kernels of values computed from sizes, and of sizes that values determine."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW
from tessella.dialects.nn import symbolic
from tessella.dialects.tile import Linear
from tessella.kernels.builder import KernelBuilder
from tessella.kernels.elements import rows
from tessella.kernels.host_cost import host_seconds
from tessella.kernels.registry import CPU, Kernel, native, register

_I64 = rows(["i64"], reads=())


@native(symbolic.SizesOp, "sizes", NCHW, elements=_I64)
def sizes(k: KernelBuilder, op: symbolic.SizesOp) -> SSAValue:
    """Emit one statement for each size, which writes the size to its element of the result."""
    type = k.result_type(op)
    result = k.empty(type)
    for number, size in enumerate(op.settings["values"]):
        result = k.contract(
            "=",
            {"d0": 1},
            {},
            [],
            (type, [Linear.of("d0") + number]),
            lambda s, _, size=size: s.op(arith.IndexCastOp(s.size(size), i64)),
            init=result,
        )
    return result


@native(symbolic.IotaOp, "iota", NCHW, elements=_I64)
def iota(k: KernelBuilder, op: symbolic.IotaOp) -> SSAValue:
    """Emit R[d0] = d0, the integers from 0 on."""
    type, count = k.result_type(op), op.settings["count"]
    return k.contract(
        "=",
        {"d0": count},
        {},
        [],
        (type, ["d0"]),
        lambda s, _: s.op(arith.IndexCastOp(s.index("d0"), i64)),
    )


register(Kernel("trim", symbolic.TrimOp, CPU, (NCHW,), cost=host_seconds, function="nn.trim"))
