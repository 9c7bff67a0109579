"""Kernels and segments on buffers, and the ops that run them.

rt.kernel @relu_0(%x: memref<32xf32>) outs(%y: memref<32xf32>) threads(%thread, %threads) {...}
rt.segment @segment_0(%x: memref<32xf32>) outs(%y: memref<32xf32>) threads(%thread, %threads)
    attributes {arena_bytes = 128 : i64} {
  %a = rt.arena 0 : memref<32xf32>
  rt.call @relu_0(%x) outs(%a) threads(%thread, %threads)
  ...
  rt.return
}
%y = rt.launch @segment_0(%x) : tensor<4x8xf32>
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.memref import CopyOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    SymbolOpInterface,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import device
from tessella.dialects.assembly import parse_operand, parse_settings, print_settings
from tessella.dialects.calls import TensorCall
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.place import place_of
from tessella.dialects.rt.ops import ArenaOp, aligned, check_buffer
from tessella.dialects.rt.threads import ALONE, OWN, BarrierOp, Part, PartAttr
from tessella.dialects.sizes import dims, opt_size_def, size_of
from tessella.dialects.symbols import callee_of, check_types
from tessella.dialects.tile import SegmentOp as TileSegmentOp
from tessella.dialects.tile import check_order, taken_arguments
from tessella.support.conditions import always, decided
from tessella.support.sizes import Size

Buffer = MemRefType[Attribute]
THREADS = ("thread", "threads")


@lru_cache(4096)
def flat_buffer(element: Attribute, size: Size) -> Buffer:
    """Return the type of a buffer with ``size`` elements, cached, as xDSL verifies each new
    type."""
    return MemRefType(element, dims([size]))


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The terminator of a kernel or segment."""

    name = "rt.return"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


class _BufferFunction(IRDLOperation):
    """Base of kernels and segments on buffers: a function with groups of buffers as arguments,
    followed by the number of the thread and the number of threads.

    All threads of a call run the function on the same buffers.
    """

    sym_name = prop_def(StringAttr)
    group_sizes = prop_def(DenseArrayBase[I64])
    """The number of buffers in each group. The function has two more arguments after the groups,
    for ``threads``."""
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    GROUPS: ClassVar[Sequence[str]]
    """The keyword that precedes each group of buffers in the text, such as ``outs``; the keyword of
    the first group is empty."""

    def __init__(
        self,
        name: str,
        groups: Sequence[Sequence[Attribute]],
        properties: Mapping[str, Attribute | None] | None = None,
    ) -> None:
        types = [type for group in groups for type in group]
        block = Block(arg_types=[*types, IndexType(), IndexType()])
        block.args[-2].name_hint, block.args[-1].name_hint = THREADS
        sizes = DenseArrayBase.from_list(i64, [len(group) for group in groups])
        known = {"sym_name": StringAttr(name), "group_sizes": sizes}
        super().__init__(properties={**known, **(properties or {})}, regions=[Region(block)])

    def group(self, number: int) -> Sequence[BlockArgument]:
        """Return the arguments of a group."""
        sizes = self.group_sizes.get_values()
        start = sum(sizes[:number])
        return self.body.block.args[start : start + sizes[number]]

    @property
    def inputs(self) -> Sequence[BlockArgument]:
        return self.group(0)

    @property
    def outputs(self) -> Sequence[BlockArgument]:
        return self.group(1)

    @property
    def buffers(self) -> Sequence[BlockArgument]:
        """The arguments of all groups."""
        return self.body.block.args[:-2]

    @property
    def thread(self) -> BlockArgument:
        """The number of the thread that runs the function, from 0."""
        return self.body.block.args[-2]

    @property
    def threads(self) -> BlockArgument:
        """The number of threads that run the function."""
        return self.body.block.args[-1]

    def verify_(self) -> None:
        sizes = self.group_sizes.get_values()
        types = [argument.type for argument in self.body.block.args]
        if len(sizes) != len(self.GROUPS) or sum(sizes) != len(types) - 2 or min(sizes) < 0:
            raise VerifyException(f"{self.name}: group_sizes do not fit the arguments")
        if types[-2:] != [IndexType(), IndexType()]:
            raise VerifyException(f"{self.name}: expected threads of type index")
        for type in types[:-2]:
            check_buffer(self.name, type)
        if not isinstance(self.body.block.last_op, ReturnOp):
            raise VerifyException(f"{self.name} ends in rt.return")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for number, keyword in enumerate(self.GROUPS):
            arguments = self.group(number)
            if arguments or not keyword:
                printer.print_string(f" {keyword}(" if keyword else "(")
                printer.print_list(arguments, printer.print_block_argument)
                printer.print_string(")")
        printer.print_string(" threads(")
        printer.print_list((self.thread, self.threads), printer.print_ssa_value)
        printer.print_string(")")
        listed = {"sym_name", "group_sizes"}
        properties = {k: v for k, v in self.properties.items() if k not in listed}
        printer.print_op_attributes(properties | self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def threads() -> Parser.Argument:
            parsed = parser.parse_argument(expect_type=False)
            return Parser.Argument(parsed.name, IndexType())

        def group(keyword: str) -> list[Parser.Argument]:
            if keyword and not parser.parse_optional_keyword(keyword):
                return []
            return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)

        name = parser.parse_symbol_name()
        groups = [group(keyword) for keyword in cls.GROUPS]
        parser.parse_keyword("threads")
        numbers = parser.parse_comma_separated_list(parser.Delimiter.PAREN, threads)
        if len(numbers) != 2:
            parser.raise_error("expected the numbers of this thread and of all threads")
        given = parser.parse_optional_attr_dict_with_keyword()
        attributes = dict(given.data) if given is not None else {}
        body = parser.parse_region([*(a for g in groups for a in g), *numbers])
        known = cls.get_irdl_definition().properties
        properties: dict[str, Attribute] = {
            k: attributes.pop(k) for k in list(attributes) if k in known
        }
        properties["sym_name"] = name
        properties["group_sizes"] = DenseArrayBase.from_list(i64, [len(g) for g in groups])
        return cls.create(properties=properties, attributes=attributes, regions=[body])


@irdl_op_definition
class KernelOp(_BufferFunction):
    """A kernel as loops over buffers. The buffers that a kernel writes do not overlap its other
    buffers."""

    name = "rt.kernel"
    code = opt_prop_def(IntegerAttr[I64])
    """The code that failed checks of the kernel write to the status of the call."""
    nodes = opt_prop_def(ArrayAttr[StringAttr])
    """The names of the nodes of the model's graph that the kernel computes."""
    parts = opt_prop_def(ArrayAttr[PartAttr])
    """The part of each buffer that a thread accesses. If it is absent, the first thread runs the
    kernel alone."""

    GROUPS: ClassVar[Sequence[str]] = ("", "outs", "scratch")

    def __init__(
        self,
        name: str,
        inputs: Sequence[Attribute],
        outputs: Sequence[Attribute],
        scratch: Sequence[Attribute] = (),
        *,
        code: IntegerAttr[I64] | None = None,
        nodes: ArrayAttr[StringAttr] | None = None,
        parts: ArrayAttr[PartAttr] | None = None,
    ) -> None:
        properties = {"code": code, "nodes": nodes, "parts": parts}
        super().__init__(name, (inputs, outputs, scratch), properties)

    @property
    def scratch(self) -> Sequence[BlockArgument]:
        return self.group(2)

    @property
    def is_divided(self) -> bool:
        """True if several threads run the kernel together. If not, the first thread runs it
        alone."""
        return self.parts is not None

    def part(self, number: int) -> Part:
        """Return the part of the buffer ``number`` that a thread accesses."""
        return ALONE if self.parts is None else self.parts.data[number].data

    def verify_(self) -> None:
        super().verify_()
        if self.parts is None:
            return
        if len(self.parts) != len(self.buffers):
            raise VerifyException(
                f"rt.kernel: expected parts of {len(self.buffers)} buffers, found {len(self.parts)}"
            )
        passed = len(self.buffers) - len(self.scratch)
        if OWN in (part.data for part in self.parts.data[:passed]):
            raise VerifyException("rt.kernel: only scratch is a thread's own")


@irdl_op_definition
class SegmentOp(_BufferFunction):
    """A part of the program that runs as native code: calls of kernels, loops around other
    segments, and copies."""

    name = "rt.segment"
    arena_bytes = opt_size_def()
    """The size of the arena in bytes, which the pass `plan-arena` sets."""
    private_bytes = opt_size_def()
    """The size in bytes of the memory that each thread has for itself. It follows the arena."""
    device = opt_prop_def(StringAttr)
    """The device that runs the segment, if it is not the CPU."""
    fields = opt_prop_def(DictionaryAttr)
    """The device-defined parts, such as a memory space, of the places of all values that the
    segment computes; absent if the device defines none."""
    brief = opt_prop_def(UnitAttr)
    """Set if a run of the segment takes about as long as waking threads would: only threads that
    are awake then take part."""

    GROUPS: ClassVar[Sequence[str]] = ("", "outs")

    def __init__(
        self, name: str, inputs: Sequence[Attribute], outputs: Sequence[Attribute]
    ) -> None:
        super().__init__(name, (inputs, outputs))

    @property
    def arena_size(self) -> Size:
        """The size of the arena in bytes; 0 if there is none."""
        return size_of(self.arena_bytes)

    @property
    def private_size(self) -> Size:
        """The size in bytes of the memory that each thread has for itself; 0 if there is none."""
        return size_of(self.private_bytes)

    def verify_(self) -> None:
        super().verify_()
        if decided(self.arena_size < 0) or decided(self.private_size < 0):
            raise VerifyException(
                "rt.segment: the size of the arena is negative: "
                f"{self.arena_size} or {self.private_size}"
            )
        for op in self.body.block.ops:
            if not isinstance(op, ArenaOp):
                continue
            size = self.private_size if op.private is not None else self.arena_size
            if decided(op.extent[1] > size):
                raise VerifyException(
                    f"rt.arena: {op.res.type} at {op.extent[0]} reaches out of the arena of "
                    f"{size} bytes"
                )
        self._check_private()

    def _check_private(self) -> None:
        """Raise VerifyException if a buffer in a thread's private memory is used on both sides of a
        barrier.

        The number of threads that divide the work may change at a barrier.
        """
        phase, phases = 0, dict[SSAValue, int]()
        for op in self.body.block.ops:
            phase += isinstance(op, BarrierOp)
            for value in op.operands:
                is_own = isinstance(value.owner, ArenaOp) and value.owner.private is not None
                if is_own and phases.setdefault(value, phase) != phase:
                    raise VerifyException(
                        "rt.arena: a barrier lies between uses of memory that shares have for "
                        "themselves"
                    )


class _CallsBufferKernel(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        kernel = callee_of(op, op.callee, KernelOp, device.KernelOp)
        if isinstance(kernel, device.KernelOp):
            check_types(op, "inputs", kernel.inputs, op.inputs.types)
            check_types(op, "outputs", kernel.outputs, op.outputs.types)
            return
        for what, arguments, values in (
            ("inputs", kernel.inputs, op.inputs),
            ("outputs", kernel.outputs, op.outputs),
            ("scratch buffers", kernel.scratch, op.scratch),
        ):
            check_types(op, what, [a.type for a in arguments], values.types)


_GROUPS = ("outs", "scratch", "threads")
"""The keywords that precede the groups of a call's operands, after its inputs."""


class BufferCall(IRDLOperation):
    """Base of the calls on buffers. The buffers that a call writes do not overlap its other
    buffers."""

    callee = prop_def(FlatSymbolRefAttr)
    inputs = var_operand_def(base(MemRefType))
    outputs = var_operand_def(base(MemRefType))
    scratch = var_operand_def(base(MemRefType))
    thread = operand_def(IndexType)
    threads = operand_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        callee: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        scratch: Sequence[SSAValue],
        threads: tuple[SSAValue, SSAValue],
    ) -> None:
        super().__init__(
            operands=[list(inputs), list(outputs), list(scratch), *threads],
            properties={"callee": SymbolRefAttr(callee)},
        )

    @property
    def callee_name(self) -> str:
        """The callee's symbol, without the `@`."""
        return self.callee.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee_name)
        printer.print_operands(self.inputs)
        groups = (self.outputs, self.scratch, (self.thread, self.threads))
        for name, group in zip(_GROUPS, groups, strict=True):
            if group:
                printer.print_string(f" {name}")
                printer.print_operands(group)
        listed = {"callee", "operandSegmentSizes"}
        print_settings(printer, {k: v for k, v in self.properties.items() if k not in listed})
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def group(keyword: str | None) -> list[SSAValue]:
            if keyword is not None and parser.parse_optional_keyword(keyword) is None:
                return []
            return parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_operand(parser)
            )

        name = parser.parse_symbol_name()
        inputs, outputs, scratch, threads = map(group, (None, *_GROUPS))
        if len(threads) != 2:
            parser.raise_error("expected the number of the thread, and that of all threads")
        listed = {"callee", "operandSegmentSizes"}
        defined = cls.get_irdl_definition().properties
        known = {name: defined[name] for name in defined.keys() - listed}
        sizes = [*map(len, (inputs, outputs, scratch)), 1, 1]
        op = cls.create(
            operands=[*inputs, *outputs, *scratch, *threads],
            properties={
                "callee": SymbolRefAttr(name.data),
                "operandSegmentSizes": DenseArrayBase.from_list(i32, sizes),
                **parse_settings(parser, known),
            },
        )
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    @property
    def buffers(self) -> Sequence[SSAValue]:
        """The operands that are passed as the kernel's buffers, in the order of its arguments."""
        return self.operands[:-2]

    def verify_(self) -> None:
        self.check_apart(self.inputs, (*self.outputs, *self.scratch))

    def check_apart(self, read: Sequence[SSAValue], written: Sequence[SSAValue]) -> None:
        """Raise VerifyException if a buffer in ``written`` overlaps another one in ``written``, or
        one in ``read``."""
        for i, value in enumerate(written):
            others = (*read, *written[:i])
            if any(_overlap(value, other) for other in others):
                raise VerifyException(
                    f"{self.name}: @{self.callee_name} writes to a buffer that overlaps another "
                    "one of the call"
                )


@irdl_op_definition
class CallOp(BufferCall):
    """A call that runs a kernel on all threads of the segment.

    `rt.call @k(%x) outs(%y) scratch(%t) threads(%thread, %threads)`
    """

    name = "rt.call"
    traits = traits_def(_CallsBufferKernel())


def timed(block: Block) -> list[Operation]:
    """Return the operations of a module's segments that profiling times, in order: kernel calls,
    barriers and copies."""
    segments = (op for op in block.ops if isinstance(op, SegmentOp) and op.device is None)
    every = (op for segment in segments for op in segment.body.block.ops)
    return [op for op in every if isinstance(op, CallOp | BarrierOp | CopyOp)]


def divided(block: Block) -> frozenset[str]:
    """Return the names of the kernels that several threads run together, and of the segments that
    call them.

    One thread runs each of the other kernels and segments alone.
    """
    kernels = (op for op in block.ops if isinstance(op, KernelOp))
    found = {op.sym_name.data for op in kernels if op.is_divided}
    # segments come after the segments that they call
    for segment in (op for op in block.ops if isinstance(op, SegmentOp)):
        calls = (op for op in segment.body.block.ops if isinstance(op, BufferCall))
        if any(call.callee_name in found for call in calls):
            found.add(segment.sym_name.data)
    return frozenset(found)


def _overlap(a: SSAValue, b: SSAValue) -> bool:
    """Return whether two buffers share memory for some values of the symbols."""
    if isinstance(a.owner, ArenaOp) and isinstance(b.owner, ArenaOp):
        same = a.owner.private == b.owner.private
        return same and not (_precedes(a.owner, b.owner) or _precedes(b.owner, a.owner))
    return a is b


def _precedes(a: ArenaOp, b: ArenaOp) -> bool:
    """Return whether a buffer ends before another begins, for all values of the symbols. Offsets in
    the arena are rounded up to its alignment, so that a comparison of rounded sizes may succeed
    where the exact symbolic sizes cannot be compared."""
    start, end = a.extent
    next_start = b.extent[0]
    return always(end <= next_start) or always(start + aligned(end - start) <= next_start)


class _LaunchesSegment(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, LaunchOp)
        segment = callee_of(op, op.callee, TileSegmentOp, SegmentOp)
        if isinstance(segment, TileSegmentOp):
            if taken_arguments(segment):
                raise VerifyException(f"rt.launch: @{op.callee_name} writes over an argument")
            check_types(op, "operands", segment.function_type.inputs.data, op.arguments.types)
            check_types(op, "results", segment.function_type.outputs.data, op.res.types)
        else:
            for what, arguments, values in (
                ("operands", segment.inputs, op.arguments),
                ("results", segment.outputs, op.res),
            ):
                needed = [argument.type for argument in arguments]
                check_types(op, what, needed, [_plain_buffer(value) for value in values])


def _plain_buffer(value: SSAValue) -> Buffer:
    return flat_buffer(tensor_type(value).element_type, math.prod(memory_shape(value)))


def memory_shape(value: SSAValue) -> tuple[Size, ...]:
    """Return the shape of the array that holds a value between program steps.

    It is the shape of the value, or one dimension with all of its memory if its layout has padding.
    """
    place, shape = place_of(value.type), shape_of(value)
    size = math.prod(shape) if place is None else place.layout.size(shape)
    return shape if size == math.prod(shape) else (size,)


@irdl_op_definition
class LaunchOp(TensorCall):
    """A program step that runs a native segment.

    `%y = rt.launch @segment_0(%x) : tensor<4xf32>`

    Between program steps, each value is an array of the value's shape, or of one dimension if its
    layout has padding.
    """

    name = "rt.launch"
    traits = traits_def(_LaunchesSegment())

    def verify_(self) -> None:
        for value in (*self.arguments, *self.res):
            check_order("rt.launch", value.type)
