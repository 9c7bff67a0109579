"""The `rt` dialect: what upstream dialects lack at the `loops` stage, and no more.

Kernels and segments reach the world outside their arguments through these ops: the context of a
call, the arena, the weights, and the launch of a segment from the program's list of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    FlatSymbolRefAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

UNROLL = "rt.unroll"
"""Attribute of an `scf.for`: how many of its steps become one; 0 where none may, even where LLVM
would."""
CONTEXT_SLOTS = 16
"""Number of i64 slots in a call's context; slot 0 is the status."""

ARENA_ALIGNMENT = 64
"""Bytes: every buffer in the arena and every weight starts at a multiple of this."""


@irdl_op_definition
class ContextOp(IRDLOperation):
    """The context of the call: `%c = rt.context : memref<16xi64>`. Slot 0 is the status."""

    name = "rt.context"
    res = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self) -> None:
        super().__init__(result_types=[MemRefType(i64, [CONTEXT_SLOTS])])


@irdl_op_definition
class CheckOp(IRDLOperation):
    """Record a failed check: `rt.check %ok, 3 : i64` writes `1 + 3` to the status unless `%ok`.

    The call goes on, so every access stays inside its buffer whatever the values are.
    """

    name = "rt.check"
    ok = operand_def(eq(i1))
    code = prop_def(IntegerAttr[I64])
    message = opt_prop_def(StringAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ok `,` $code attr-dict"

    def __init__(self, ok: SSAValue, code: int) -> None:
        super().__init__(operands=[ok], properties={"code": IntegerAttr(code, i64)})


@irdl_op_definition
class IotaOp(IRDLOperation):
    """The lane numbers: `%v = rt.iota : vector<16xindex>` is 0, 1, ... 15; or as i32."""

    name = "rt.iota"
    res = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, lanes: int, element: Attribute | None = None) -> None:
        super().__init__(result_types=[VectorType(element or IndexType(), [lanes])])


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Ask for an element's line to come into the second level of cache: `rt.prefetch %w[%i] :
    memref<4096xf32>`. The element need not be inside the buffer."""

    name = "rt.prefetch"
    buffer = operand_def(MemRefType)
    index = operand_def(IndexType)
    assembly_format = "$buffer `[` $index `]` attr-dict `:` type($buffer)"

    def __init__(self, buffer: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[buffer, index])


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """A buffer in the arena, at an offset in bytes: `%b = rt.arena 4096 : memref<1024xf32>`."""

    name = "rt.arena"
    offset = prop_def(IntegerAttr[I64])
    res = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$offset attr-dict `:` type($res)"

    def __init__(self, offset: int, type: MemRefType) -> None:
        super().__init__(properties={"offset": IntegerAttr(offset, i64)}, result_types=[type])

    def verify_(self) -> None:
        offset = self.offset.value.data
        if offset < 0 or offset % ARENA_ALIGNMENT:
            raise VerifyException(
                f"rt.arena: expected an offset that is a multiple of {ARENA_ALIGNMENT}, "
                f"found {offset}"
            )


@irdl_op_definition
class WeightOp(IRDLOperation):
    """A weight's buffer: `%w = rt.weight @conv1.w : memref<9408xf32>`."""

    name = "rt.weight"
    symbol = prop_def(FlatSymbolRefAttr)
    res = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$symbol attr-dict `:` type($res)"

    def __init__(self, symbol: str, type: MemRefType) -> None:
        super().__init__(properties={"symbol": SymbolRefAttr(symbol)}, result_types=[type])


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """A step of the program: run a native segment.

    `%y = rt.launch @segment_0(%x) : (tensor<4xf32>) -> tensor<4xf32>`
    """

    name = "rt.launch"
    callee = prop_def(FlatSymbolRefAttr)
    arguments = var_operand_def(base(TensorType))
    res = var_result_def(base(TensorType))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    def __init__(
        self, callee: str, arguments: Sequence[SSAValue | Operation], types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[list(arguments)],
            properties={"callee": SymbolRefAttr(callee)},
            result_types=[list(types)],
        )


Rt = Dialect("rt", [ContextOp, CheckOp, IotaOp, PrefetchOp, ArenaOp, WeightOp, LaunchOp], [])
