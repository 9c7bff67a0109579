"""Segments and kernels on tensors, calls, and views.

tile.kernel @relu_0(%x: tensor<4x8xf32, #p>) -> (tensor<4x8xf32, #p>) {
  %r = tile.contract = [i: 4, j: 8] (%x[i, j]) -> [i, j] {...} : ...
  tile.return %r : tensor<4x8xf32, #p>
}
tile.segment @segment_0(%x: tensor<4x8xf32, #p>) -> (tensor<32xf32, #p>) {
  %y = tile.call @relu_0(%x) : tensor<4x8xf32, #p>
  %v = tile.view %y : tensor<4x8xf32, #p> -> tensor<32xf32, #p>
  tile.return %v : tensor<32xf32, #p>
}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    SymbolOpInterface,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from tessella.dialects import device
from tessella.dialects.calls import TensorCall
from tessella.dialects.elements import element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, is_apart, place_of, placed, verify_place
from tessella.dialects.symbols import callee_of, check_types
from tessella.dialects.tile.attributes import PACKED
from tessella.dialects.tile.check_loops import check_loops
from tessella.dialects.tile.check_nest import check_nest
from tessella.dialects.tile.inits import check_inits, init_root, overwriter
from tessella.dialects.tile.loop_attributes import NestAttr
from tessella.dialects.tile.ops import ContractOp
from tessella.dialects.tile.selection import SelectionOp
from tessella.support.elements import widens

CONSTANT = "tile.constant"
"""The name of the attribute that marks a kernel's argument as constant: every caller passes a
weight."""


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The terminator of a kernel or segment, with the values that it returns."""

    name = "tile.return"
    values = var_operand_def(base(TensorType))
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


class _TensorFunction(IRDLOperation):
    """Base of kernels and segments on tensors: a name, arguments, and a block that ends in
    `tile.return`."""

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @property
    def returned(self) -> ReturnOp:
        """The terminator of the function. Raises VerifyException if it is not a `tile.return`."""
        last = self.body.block.last_op
        if not isinstance(last, ReturnOp):
            raise VerifyException(f"{self.name} ends in tile.return")
        return last

    def update_type(self) -> None:
        """Update the function type from the block's arguments and the returned values."""
        inputs = [a.type for a in self.body.block.args]
        self.function_type = FunctionType.from_lists(inputs, [v.type for v in self.returned.values])

    def verify_(self) -> None:
        if list(self.function_type.outputs) != [v.type for v in self.returned.values]:
            raise VerifyException(f"{self.name}: the returned types differ from the function type")
        if list(self.function_type.inputs) != [a.type for a in self.body.block.args]:
            raise VerifyException(f"{self.name}: the argument types differ from the function type")
        self._verify_tensors()

    def _verify_tensors(self) -> None:
        """Raise VerifyException unless the places of the arguments and results (device, element
        type and layout) are valid, their layouts are memory orders, and all are on one device."""
        types = (*self.function_type.inputs, *self.function_type.outputs)
        for type in types:
            verify_place(type)
            check_order(self.name, type)
        found = {place.device.data for type in types if (place := place_of(type)) is not None}
        if len(found) > 1:
            raise VerifyException(
                f"{self.name}: expected tensors at one device, found {' and '.join(sorted(found))}"
            )

    @property
    def statements(self) -> list[ContractOp]:
        return [op for op in self.body.block.ops if isinstance(op, ContractOp)]

    @property
    def selections(self) -> list[SelectionOp]:
        """The statements of the function that select values of rows. They are never in shared
        loops."""
        return [op for op in self.body.block.ops if isinstance(op, SelectionOp)]

    @property
    def all_statements(self) -> list[ContractOp | SelectionOp]:
        """The statements of the function of all kinds, in text order."""
        return [op for op in self.body.block.ops if isinstance(op, ContractOp | SelectionOp)]

    def marks(self, argument: int) -> DictionaryAttr:
        """Return the attributes of an argument."""
        return DictionaryAttr({})

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string("(")
        for i, argument in enumerate(self.body.block.args):
            printer.print_string(", " if i else "")
            printer.print_block_argument(argument)
            printer.print_op_attributes(self.marks(i).data)
        printer.print_string(") -> (")
        printer.print_list(self.function_type.outputs, printer.print_attribute)
        printer.print_string(")")
        listed = {"sym_name", "function_type", "arg_attrs"}
        properties = {k: v for k, v in self.properties.items() if k not in listed}
        printer.print_op_attributes(properties | self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def argument() -> tuple[Parser.Argument, DictionaryAttr]:
            parsed = parser.parse_argument()
            attributes = parser.parse_optional_attr_dict()
            return parsed, DictionaryAttr(attributes)

        name = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        given = parser.parse_optional_attr_dict_with_keyword()
        attributes = dict(given.data) if given is not None else {}
        body = parser.parse_region([a for a, _ in arguments])
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "function_type": FunctionType.from_lists([a.type for a, _ in arguments], outputs),
        }
        known = cls.get_irdl_definition().properties
        properties |= {k: attributes.pop(k) for k in list(attributes) if k in known}
        if "arg_attrs" in known:
            properties["arg_attrs"] = ArrayAttr(marks for _, marks in arguments)
        elif any(marks.data for _, marks in arguments):
            parser.raise_error(f"the arguments of {cls.name} have no attributes")
        return cls.create(properties=properties, attributes=attributes, regions=[body])


@irdl_op_definition
class KernelOp(_TensorFunction):
    """A kernel: statements over tensors whose types state device, element type and layout.
    `tile.call` runs it."""

    name = "tile.kernel"
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    code = opt_prop_def(IntegerAttr[I64])
    """The code that failed checks of the kernel write to the status of the call."""
    nodes = opt_prop_def(ArrayAttr[StringAttr])
    """The names of the nodes of the model's graph that the kernel computes."""
    nest = opt_prop_def(NestAttr)
    """The loops that the statements of the kernel share."""

    def __init__(
        self,
        name: str,
        type: FunctionType,
        body: Region,
        constants: Sequence[bool] = (),
        *,
        code: int | None = None,
        nodes: Sequence[str] | None = None,
    ) -> None:
        marks = [DictionaryAttr({CONSTANT: UnitAttr()} if c else {}) for c in constants]
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": type,
                "arg_attrs": ArrayAttr(marks) if marks else None,
                "code": None if code is None else IntegerAttr(code, i64),
                "nodes": None if nodes is None else ArrayAttr(map(StringAttr, nodes)),
            },
            regions=[body],
        )

    def marks(self, argument: int) -> DictionaryAttr:
        return DictionaryAttr({}) if self.arg_attrs is None else self.arg_attrs.data[argument]

    def is_constant(self, argument: int) -> bool:
        """Return whether every caller passes a weight as this argument."""
        return CONSTANT in self.marks(argument).data

    def packed(self, argument: int) -> PlaceAttr | None:
        """Return the place into which an argument is to be packed before the kernel's loops read
        it; None if the argument already has that place, or no place is set."""
        place = self.marks(argument).data.get(PACKED)
        return place if isinstance(place, PlaceAttr) else None

    def pack(self, argument: int, place: PlaceAttr | None) -> None:
        """Set the place into which an argument is to be packed before the kernel's loops read it.
        None removes it, once the argument has that place."""
        marks = [dict(self.marks(i).data) for i in range(len(self.body.block.args))]
        marks[argument].pop(PACKED, None)
        if place is not None:
            marks[argument][PACKED] = place
        self.arg_attrs = ArrayAttr(map(DictionaryAttr, marks))

    @property
    def device(self) -> str | None:
        """The device that runs the kernel; None for the CPU."""
        types = (*self.function_type.inputs, *self.function_type.outputs)
        names = (place.device.data for type in types if (place := place_of(type)) is not None)
        return next(filter(is_apart, names), None)

    @property
    def taken(self) -> Mapping[int, int]:
        """The number of the argument that each result overwrites, by the number of the result.
        Results in other memory are not listed."""
        found: dict[int, int] = {}
        for i, value in enumerate(self.returned.values):
            root = init_root(value)
            if isinstance(root, BlockArgument) and root is not value:
                found[i] = root.index
        return found

    def _verify_taken(self) -> None:
        taken = list(self.taken.values())
        for i, argument in enumerate(self.body.block.args):
            if overwriter(argument) is None:
                continue
            if taken.count(i) != 1 or self.is_constant(i):
                raise VerifyException(
                    "tile.kernel: expected an argument that is written over to be no constant, and "
                    f"to become one result, found %{argument.name_hint or i}"
                )

    def verify_(self) -> None:
        super().verify_()
        known = len(self.body.block.args)
        if self.arg_attrs is not None and len(self.arg_attrs.data) != known:
            raise VerifyException(f"tile.kernel: expected attributes of {known} arguments")
        for i, argument in enumerate(self.body.block.args):
            wrong = self.marks(i).data.keys() - {CONSTANT, PACKED}
            if wrong:
                raise VerifyException(f"tile.kernel: an argument has no {min(wrong)}")
            if PACKED in self.marks(i).data:
                place = self.packed(i)
                if place is None:
                    raise VerifyException(f"tile.kernel: {PACKED} is a place")
                packed = placed(tensor_type(argument), place)
                start, end = element_of(argument.type), element_of(packed)
                if start != end and not (start.is_integer and widens(start.name, end.name)):
                    raise VerifyException(f"tile.kernel: {PACKED} changes {argument.type}")
                check_order("tile.kernel", packed)
        check_inits(self.body.block)
        self._verify_taken()
        check_nest(self, self.nest)
        check_loops(self.body.block)


@irdl_op_definition
class SegmentOp(_TensorFunction):
    """A part of the program that runs as native code, by `rt.launch`: weights, ops, calls and
    views."""

    name = "tile.segment"
    brief = opt_prop_def(UnitAttr)
    """Set if a run of the segment takes about as long as waking threads would: only threads that
    are awake then take part."""

    def __init__(self, name: str, type: FunctionType, body: Region) -> None:
        super().__init__(
            properties={"sym_name": StringAttr(name), "function_type": type}, regions=[body]
        )

    @property
    def device(self) -> str | None:
        """The device that runs the segment; None for the CPU."""
        values = [*self.body.block.args, *(r for op in self.body.block.ops for r in op.results)]
        places = (place_of(value.type) for value in values)
        names = (place.device.data for place in places if place is not None)
        return next(filter(is_apart, names), None)

    @property
    def fields(self) -> DictionaryAttr | None:
        """The device-defined parts, such as a memory space, of the places of all values that the
        segment computes; None if there are none."""
        results = (value for op in self.body.block.ops for value in op.results)
        places = (place_of(value.type) for value in results)
        named = (place.named_fields for place in places if place is not None)
        return next((fields for fields in named if fields.data), None)


class _CallsKernel(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        kernel = callee_of(op, op.callee, KernelOp, device.KernelOp)
        check_types(op, "operands", kernel.function_type.inputs.data, op.arguments.types)
        check_types(op, "results", kernel.function_type.outputs.data, op.res.types)
        if isinstance(kernel, device.KernelOp):
            return
        for i, value in enumerate(op.arguments):
            if kernel.is_constant(i) and weight_of(value) is None:
                raise VerifyException(f"tile.call: operand {i} has to be a weight")
        for result, i in kernel.taken.items():
            if not can_take(op, i, result):
                raise VerifyException(
                    f"tile.call: @{op.callee_name} writes over operand {i}, which has to be a "
                    "tensor that the segment makes or carries, and does not read later"
                )


@irdl_op_definition
class CallOp(TensorCall):
    """A call that runs a kernel: `%y = tile.call @conv(%x, %w) : tensor<1x8xf32>`."""

    name = "tile.call"
    traits = traits_def(Pure(), _CallsKernel())

    def source(self, result: OpResult) -> SSAValue | None:
        """Return the operand that a result of the call overwrites; None if the result has memory of
        its own."""
        kernel = callee_of(self, self.callee, KernelOp, device.KernelOp)
        if isinstance(kernel, device.KernelOp):
            return None
        taken = kernel.taken.get(result.index)
        return None if taken is None else self.arguments[taken]


@irdl_op_definition
class ViewOp(IRDLOperation):
    """A tensor that shares the memory of another tensor: `%v = tile.view %x : tensor<2x3xf32> ->
    tensor<6xf32>`.

    Both tensors have the same elements in row-major order, as in `nn.reshape`, and each element has
    the same address in both.
    """

    name = "tile.view"
    source = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($res)"

    def __init__(self, source: SSAValue, type: Tensor) -> None:
        super().__init__(operands=[source], result_types=[type])

    def verify_(self) -> None:
        for type in (self.source.type, self.res.type):
            check_order("tile.view", type)
        if not same_memory(tensor_type(self.source), tensor_type(self.res)):
            raise VerifyException(
                f"tile.view: {self.source.type} and {self.res.type} have different elements, or "
                "the same at different places in memory"
            )


def check_order(what: str, type: Attribute) -> None:
    """Raise VerifyException for a tensor whose layout is not a memory order."""
    place = place_of(type)
    if place is not None and not place.layout.is_order(len(shape_of(type))):
        raise VerifyException(f"{what}: the layout of {type} is not a memory order")


def same_memory(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensor types with the same number of elements have the same element type
    and place their elements, in row-major order, at equal offsets."""
    if a.element_type != b.element_type:
        return False
    (first, rows), (second, columns) = (
        (place.layout if (place := place_of(t)) else NCHW, shape_of(t)) for t in (a, b)
    )
    return first.addresses(rows) == second.addresses(columns)


def through_views(value: SSAValue) -> SSAValue:
    """Return the tensor that a chain of `tile.view` ops starts from; any other value is returned
    unchanged."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.source
    return value


def origin(value: SSAValue) -> SSAValue:
    """Return the tensor of a segment that first used the memory of a value: an argument, or the
    result of an op that does not overwrite an operand."""
    value = through_views(value)
    while isinstance(value, OpResult) and isinstance(value.op, CallOp):
        source = value.op.source(value)
        if source is None:
            break
        value = through_views(source)
    return value


def can_take(call: CallOp, operand: int, result: int) -> bool:
    """Return whether a call may overwrite an operand with one of its results.

    The operand must be a tensor that the segment computes, or a carried argument with that result
    as its next value. Nothing may read it later.
    """
    root = through_views(call.arguments[operand])
    if isinstance(root.owner, WeightOp) or not _is_read_last(root, call, operand):
        return False
    if isinstance(root, OpResult):
        return True
    segment = call.parent_op()
    assert isinstance(segment, SegmentOp)
    assert isinstance(root, BlockArgument)
    memory = (root, call.res[result])
    found = [i for i, v in enumerate(segment.returned.values) if origin(v) in memory]
    return found == [root.index]


def _is_read_last(root: SSAValue, call: CallOp, operand: int) -> bool:
    """Return whether a call is the last reader of a tensor's memory, and reads it once."""
    for use in root.uses:
        op = use.operation
        if isinstance(op, ViewOp):
            if not _is_read_last(op.res, call, operand):
                return False
        elif op is call:
            if use.index != operand:
                return False
        elif not op.is_before_in_block(call):
            return False
    return True


def taken_arguments(segment: SegmentOp) -> frozenset[int]:
    """Return the numbers of the arguments of a segment that calls in the segment overwrite."""
    found: set[int] = set()
    for call in segment.body.block.ops:
        if isinstance(call, CallOp):
            kernel = callee_of(call, call.callee, KernelOp, device.KernelOp)
            taken = kernel.taken.values() if isinstance(kernel, KernelOp) else ()
            roots = (origin(call.arguments[i]) for i in taken)
            found |= {root.index for root in roots if isinstance(root, BlockArgument)}
    return frozenset(found)


def weight_of(value: SSAValue) -> WeightOp | None:
    """Return the `nn.weight` op that produces a value, directly or through views; None for any
    other value."""
    owner = through_views(value).owner
    return owner if isinstance(owner, WeightOp) else None
