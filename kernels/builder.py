"""Building the statements of a `tile.kernel`: what a kernel's lowering is written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from tessella.dialects.arith import CASTS, ConstantOp
from tessella.dialects.elements import arithmetic_of, element_of
from tessella.dialects.nn.core import Array, NnOp, Tensor, number, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed
from tessella.dialects.tile import (
    Access,
    ContractOp,
    EmptyOp,
    ExtractOp,
    Index,
    IndexOp,
    Linear,
    access,
    identity_access,
    scalar_region,
    yielded,
)

Body = Callable[["Scalars", Sequence[SSAValue]], SSAValue]
Form = Linear | str | int


class Scalars:
    """Builds the scalar body of a statement, op by op."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def op(self, op: Operation) -> SSAValue:
        """Add an op; its result."""
        self._block.add_op(op)
        return op.results[0]

    def constant(self, value: float, type: Attribute) -> SSAValue:
        """A constant of an element type (or `index`)."""
        return self.op(ConstantOp(number(value, type)))

    def widened(self, x: SSAValue) -> SSAValue:
        """An element in the type that kernels compute in."""
        to = arithmetic_of(x.type)
        return x if to == x.type else self.op(CASTS["arith.extf"](x, to))

    def narrowed(self, x: SSAValue, to: Attribute) -> SSAValue:
        """What has been computed as an element of a type."""
        return x if to == x.type else self.op(CASTS["arith.truncf"](x, to))

    def like(self, value: float, other: SSAValue) -> SSAValue:
        """A constant of another value's type."""
        return self.constant(value, other.type)

    def index(self, name: str) -> SSAValue:
        """The value of an index of the statement."""
        return self.op(IndexOp(name))

    def extract(self, source: SSAValue, coordinates: Sequence[SSAValue]) -> SSAValue:
        """The element of a tensor at computed coordinates, which are checked."""
        return self.op(ExtractOp(source, coordinates))


def computed_type(value: SSAValue) -> Attribute:
    """The type in which kernels compute with a tensor's elements."""
    return arithmetic_of(tensor_type(value).element_type)


def _computed(
    block: Block, args: Sequence[SSAValue], body: Body, moved: Attribute | None
) -> SSAValue:
    """What a body makes of elements that are widened first; an element of the type ``moved`` that
    it only passes on stays as it is."""
    s = Scalars(block)
    wide = [s.widened(x) for x in args]
    result = body(s, wide)
    for x, w in zip(args, wide, strict=True):
        if w is result and x.type == moved:
            result = x
    for x, w in zip(args, wide, strict=True):
        if w is not x and w is not result and w.first_use is None:
            assert isinstance(w.owner, Operation)
            Rewriter.erase_op(w.owner)
    return result


def _narrowing(start: Attribute, to: Attribute) -> Region:
    return scalar_region([start], lambda block, args: Scalars(block).narrowed(args[0], to))


def _wide(type: Tensor) -> Tensor:
    """The tensor with elements of the type that kernels compute in."""
    element, place = arithmetic_of(type.element_type), place_of(type)
    if place is None:
        return TensorType(element, type.get_shape())
    precision = element_of(element).name
    return placed(type, PlaceAttr.get(place.device.data, precision, place.layout))


def access_of(forms: Sequence[Form]) -> Access:
    """An access from forms, index names and constants."""
    return access(*forms)


def broadcast_access(shape: Sequence[int], out: Sequence[int], prefix: str = "d") -> Access:
    """The access to an operand that is broadcast (as NumPy does) to the output's index space."""
    skip = len(out) - len(shape)
    forms: list[Form] = [
        f"{prefix}{skip + d}" if shape[d] == out[skip + d] else 0 for d in range(len(shape))
    ]
    return access_of(forms)


class KernelBuilder:
    """Adds statements to a kernel's block.

    Lowerings receive the op's operands as values of the kernel and return the results;
    ``constant`` brings in further weights, ``derived`` one of a shape that a function computes from
    an operand's elements (None where they are not known at compile time), and ``reshaped`` views an
    operand under another shape.
    """

    def __init__(
        self,
        block: Block,
        constant: Callable[[Array, str], SSAValue],
        reshaped: Callable[[SSAValue, Sequence[int]], SSAValue],
        splat: Callable[[SSAValue], float | None],
        derived: Callable[[SSAValue, Sequence[int], Callable[[Array], Array]], SSAValue | None],
    ) -> None:
        self._block = block
        self.constant = constant
        self.derived = derived
        self.reshaped = reshaped
        self.splat = splat
        """The value of an operand whose elements are equal and known, else None."""

    def result_type(self, op: NnOp, result: int = 0) -> Tensor:
        """The type of an op's result, at the place its kernel gives it."""
        places = op.places
        type = tensor_type(op.results[result])
        return placed(type, places[len(op.operands) + result]) if places else type

    def contract(
        self,
        aggregation: str,
        free: Mapping[str, int],
        reduced: Mapping[str, int],
        inputs: Sequence[tuple[SSAValue, Sequence[Form]]],
        out: tuple[Tensor, Sequence[Form]],
        body: Body,
        *,
        init: SSAValue | None = None,
        default: float | None = None,
    ) -> SSAValue:
        """Add a statement; ``free`` and ``reduced`` give the ranges of the indices by name."""
        indices = [Index(n, r) for n, r in free.items()]
        indices += [Index(n, r, reduced=True) for n, r in reduced.items()]
        types = [tensor_type(value).element_type for value, _ in inputs]
        type, forms = out
        is_map = aggregation == "="
        # an operand that is only moved is not widened
        moved = type.element_type if is_map else None
        region = scalar_region(types, lambda block, args: _computed(block, args, body, moved))
        made, post = yielded(region.block).type, None
        if made != type.element_type and init is None and default is None:
            type = _wide(type)
        if made != type.element_type:
            post = _narrowing(made, type.element_type)
        op = ContractOp(
            aggregation,
            indices,
            [(value, access_of(f)) for value, f in inputs],
            access_of(forms),
            type,
            region,
            post=post,
            init=init,
            default=None if default is None else number(default, type.element_type),
        )
        self._block.add_op(op)
        return op.res

    def narrowed(self, value: SSAValue, type: Tensor) -> SSAValue:
        """A result of the kernel as it is stored."""
        if tensor_type(value).element_type == type.element_type:
            return value
        to = type.element_type
        return self.map([value], type, lambda s, args: s.narrowed(args[0], to))

    def map(self, inputs: Sequence[SSAValue], type: Tensor, body: Body) -> SSAValue:
        """An elementwise statement over the output's index space, operands broadcast as NumPy
        does."""
        shape = type.get_shape()
        return self.contract(
            "=",
            {f"d{i}": n for i, n in enumerate(shape)},
            {},
            [(value, broadcast_access(shape_of(value), shape)) for value in inputs],
            (type, identity_access(len(shape))),
            body,
        )

    def elementwise(self, operands: Sequence[SSAValue], op: NnOp, body: Body) -> SSAValue:
        """The map of an elementwise op; operands that are splats become constants of the body."""
        result = self.result_type(op)
        known = [self.splat(value) for value in operands]
        tensors = [v for v, number in zip(operands, known, strict=True) if number is None]

        def scalar(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
            rest = iter(args)
            full = [
                next(rest) if number is None else s.constant(number, computed_type(v))
                for v, number in zip(operands, known, strict=True)
            ]
            return body(s, full)

        return self.map(tensors, result, scalar)

    def empty(self, type: Tensor) -> SSAValue:
        """A tensor that later statements write."""
        op = EmptyOp(type)
        self._block.add_op(op)
        return op.res
