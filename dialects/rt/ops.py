"""Ops in kernels and segments at stage `loops` that upstream dialects lack.

They give access to the context of a call, the arena, and the weights.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    I64,
    FlatSymbolRefAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.elements import bytes_of, elements_in
from tessella.dialects.sizes import (
    parse_number,
    size_attribute,
    size_def,
    size_of,
)
from tessella.runtime.pool import CONTEXT as CONTEXT_ENTRIES
from tessella.runtime.pool import CONTEXT_SLOTS
from tessella.support.conditions import decided
from tessella.support.sizes import Size, round_up

UNROLL = "rt.unroll"
"""The name of the attribute with the unroll factor of an `scf.for`; 0 forbids unrolling, including
LLVM's."""
PRIVATE = "rt.private"
"""The name of the attribute that marks a `memref.alloc` as memory that is private to each
thread."""
LAUNCH_SLOT = CONTEXT_ENTRIES.index("launch")
"""The number of the context slot with the address of ``void (context, phase, args)``, a function
that runs a phase on several threads. If the address is 0, the caller runs the phase alone."""
SIZES_SLOT = CONTEXT_ENTRIES.index("sizes")
"""The number of the context slot with the address of the array of the symbols' values, in the order
of their numbers."""

ARENA_ALIGNMENT = 64
"""The alignment of buffers in the arena and of weights, in bytes."""

CONTEXT = MemRefType(i64, [CONTEXT_SLOTS])
"""The type of a call's context, a block of status, addresses and settings that the generated code
receives."""

CONDITION = MemRefType(i1, [1])
"""The type of the first carried value of a conditional loop."""


def check_buffer(what: str, type: Attribute) -> None:
    """Raise VerifyException unless the type is a buffer: a contiguous one-dimensional memref of
    static size."""
    if not (
        isinstance(type, MemRefType)
        and len(type.get_shape()) == 1
        and decided(elements_in(type) >= 0)
        and isinstance(type.layout, NoneAttr)
    ):
        raise VerifyException(
            f"{what}: expected a one-dimensional memref of known size, found {type}"
        )


def buffer_bytes(type: Attribute) -> Size:
    """Return the size of a buffer type in bytes."""
    assert isinstance(type, MemRefType)
    return bytes_of(type)


def aligned(size: Size) -> Size:
    """Return a number of bytes rounded up to a multiple of ``ARENA_ALIGNMENT``."""
    return round_up(size, ARENA_ALIGNMENT)


@irdl_op_definition
class ContextOp(IRDLOperation):
    """The context of the call, a block of addresses and settings: `%c = rt.context :
    memref<16xi64>`. Slot 0 is the status."""

    name = "rt.context"
    res = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self) -> None:
        super().__init__(result_types=[CONTEXT])

    def verify_(self) -> None:
        if self.res.type != CONTEXT:
            raise VerifyException(
                f"rt.context: expected the context as {CONTEXT}, found {self.res.type}"
            )


@irdl_op_definition
class CheckOp(IRDLOperation):
    """A check: `rt.check %ok, 3 : i64` writes `1 + 3` to the status of the call unless `%ok` is
    true.

    The call continues after a failed check, so every access must stay inside its buffer for all
    values.
    """

    name = "rt.check"
    ok = operand_def(eq(i1))
    code = prop_def(IntegerAttr[I64])
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ok `,` $code attr-dict"

    def __init__(self, ok: SSAValue, code: int) -> None:
        super().__init__(operands=[ok], properties={"code": IntegerAttr(code, i64)})


@irdl_op_definition
class StopOp(IRDLOperation):
    """An op that ends a loop after a failed check.

    `rt.stop %go : memref<1xi1>` sets the condition to false if the status of any thread of the call
    is nonzero.
    """

    name = "rt.stop"
    condition = operand_def(eq(CONDITION))
    assembly_format = "$condition attr-dict `:` type($condition)"

    def __init__(self, condition: SSAValue) -> None:
        super().__init__(operands=[condition])


@irdl_op_definition
class WatchOp(IRDLOperation):
    """An op that ends a loop if the caller was interrupted: `rt.watch %go : memref<1xi1>` then sets
    the condition to false.

    Only thread 0, which is the caller, checks for interruptions.
    """

    name = "rt.watch"
    condition = operand_def(eq(CONDITION))
    assembly_format = "$condition attr-dict `:` type($condition)"

    def __init__(self, condition: SSAValue) -> None:
        super().__init__(operands=[condition])


@irdl_op_definition
class IotaOp(IRDLOperation):
    """A vector of the lane numbers: `%v = rt.iota : vector<16xindex>` is 0, 1, ... 15. The elements
    may also be i32."""

    name = "rt.iota"
    res = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, lanes: int, element: Attribute | None = None) -> None:
        super().__init__(result_types=[VectorType(element or IndexType(), [lanes])])


@irdl_op_definition
class GatherOp(IRDLOperation):
    """A vector of elements at given distances from an element: lane `l` of `%v = rt.gather %b[%i]
    at %d : memref<4096xf32>, vector<16xindex> -> vector<16xf32>` is the element `%i + %d[l]`.
    Each of these elements must be inside the buffer."""

    name = "rt.gather"
    buffer = operand_def(MemRefType)
    index = operand_def(IndexType)
    distances = operand_def(VectorType)
    res = result_def(VectorType)
    assembly_format = (
        "$buffer `[` $index `]` `at` $distances attr-dict `:` type($buffer) `,` type($distances)"
        " `->` type($res)"
    )

    def __init__(self, buffer: SSAValue, index: SSAValue, distances: SSAValue) -> None:
        assert isinstance(buffer.type, MemRefType)
        assert isinstance(distances.type, VectorType)
        type = VectorType(buffer.type.element_type, distances.type.get_shape())
        super().__init__(operands=[buffer, index, distances], result_types=[type])

    def verify_(self) -> None:
        buffer, distances, found = self.buffer.type, self.distances.type, self.res.type
        assert isinstance(buffer, MemRefType)
        if distances != VectorType(IndexType(), found.get_shape()):
            raise VerifyException(
                f"rt.gather: expected an index for each lane of {found}, found {distances}"
            )
        if found.element_type != buffer.element_type:
            raise VerifyException(
                f"rt.gather: expected elements of {buffer}, found {found.element_type}"
            )


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """A prefetch of the cache line of an element into the cache of a level, 1 or 2, for reading or
    for writing: `rt.prefetch %w[%i] {level = 2 : i64} : memref<4096xf32>`. The element may lie
    outside the buffer."""

    name = "rt.prefetch"
    buffer = operand_def(MemRefType)
    index = operand_def(IndexType)
    level = prop_def(IntegerAttr[I64])
    write = opt_prop_def(UnitAttr)
    assembly_format = "$buffer `[` $index `]` attr-dict `:` type($buffer)"
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self, buffer: SSAValue, index: SSAValue, *, level: int = 2, write: bool = False
    ) -> None:
        super().__init__(
            operands=[buffer, index],
            properties={
                "level": IntegerAttr(level, i64),
                "write": UnitAttr() if write else None,
            },
        )

    def verify_(self) -> None:
        if self.level.value.data not in (1, 2):
            raise VerifyException("rt.prefetch: expected a cache of level 1 or 2")


@irdl_op_definition
class ArenaOp(IRDLOperation):
    """A buffer in the arena, at an offset in bytes: `%b = rt.arena 4096 : memref<1024xf32>`.

    With `{private}`, the buffer is in the memory that each thread has for itself, which follows the
    arena.
    """

    name = "rt.arena"
    offset = size_def()
    private = opt_prop_def(UnitAttr)
    res = result_def(MemRefType)
    traits = traits_def(Pure())

    def __init__(self, offset: Size, type: MemRefType, *, private: bool = False) -> None:
        super().__init__(
            properties={
                "offset": size_attribute(offset),
                "private": UnitAttr() if private else None,
            },
            result_types=[type],
        )

    @property
    def extent(self) -> tuple[Size, Size]:
        """The range of bytes of the buffer in its arena, half-open."""
        start = size_of(self.offset)
        return start, start + buffer_bytes(self.res.type)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {size_of(self.offset):d}")
        own = {} if self.private is None else {"private": self.private}
        printer.print_op_attributes({**own, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.res.type)

    @classmethod
    def parse(cls, parser: Parser) -> ArenaOp:
        offset = parse_number(parser)
        attributes = parser.parse_optional_attr_dict()
        private = attributes.pop("private", None) is not None
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if not isinstance(type, MemRefType):
            parser.raise_error("expected the type of a buffer")
        op = cls(offset, type, private=private)
        op.attributes.update(attributes)
        return op

    def verify_(self) -> None:
        check_buffer("rt.arena", self.res.type)
        start = size_of(self.offset)
        if decided(start < 0) or start % ARENA_ALIGNMENT != 0:
            raise VerifyException(
                "rt.arena: expected an offset that is a multiple of "
                f"{ARENA_ALIGNMENT}, found {start}"
            )


@irdl_op_definition
class WeightOp(IRDLOperation):
    """The buffer of a weight: `%w = rt.weight @conv1.w slot 3 : memref<9408xf32>`.

    `slot` is an index into the table of pointers to the program's weights. The pass `plan-weights`
    assigns it.
    """

    name = "rt.weight"
    symbol = prop_def(FlatSymbolRefAttr)
    slot = opt_prop_def(IntegerAttr[I64])
    res = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$symbol (`slot` $slot^)? attr-dict `:` type($res)"

    def __init__(self, symbol: str, type: MemRefType) -> None:
        super().__init__(properties={"symbol": SymbolRefAttr(symbol)}, result_types=[type])

    @property
    def weight_name(self) -> str:
        return self.symbol.root_reference.data

    def verify_(self) -> None:
        check_buffer("rt.weight", self.res.type)
        if self.slot is not None and self.slot.value.data < 0:
            raise VerifyException(
                f"rt.weight: expected a slot of 0 or more, found {self.slot.value.data}"
            )
