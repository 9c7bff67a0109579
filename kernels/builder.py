"""The builder of statements in a `tile.kernel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from xdsl.dialects.arith import AddiOp, CmpfOp, CmpiOp, IndexCastOp, MuliOp, SelectOp
from xdsl.dialects.builtin import IndexType, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tessella.dialects.arith import CASTS, ConstantOp
from tessella.dialects.elements import attribute_of, element_of, find_element
from tessella.dialects.nn.core import Array, NnOp, Tensor, number, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile import (
    Access,
    ContractOp,
    EmptyOp,
    ExtractOp,
    Index,
    IndexOp,
    JoinOp,
    Linear,
    Running,
    SortOp,
    SuppressOp,
    YieldOp,
    access,
    identity_access,
    scalar_region,
    yielded,
)
from tessella.support.elements import ELEMENTS, Element, widens
from tessella.support.errors import InternalError
from tessella.support.sizes import Expr, Size

Body = Callable[["Scalars", Sequence[SSAValue]], SSAValue]
Places = Callable[["Scalars", Sequence[SSAValue]], tuple[SSAValue, Sequence[SSAValue]]]
Form = Linear | str | int

F32, F64 = attribute_of("f32"), attribute_of("f64")


class Scalars:
    """Builds the scalar body of a statement, op by op."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def op(self, op: Operation) -> SSAValue:
        """Add an op and return its result."""
        self._block.add_op(op)
        return op.results[0]

    def constant(self, value: float, type: Attribute) -> SSAValue:
        """Add a constant of an element type (or `index`)."""
        return self.op(ConstantOp(number(value, type)))

    def cast(self, x: SSAValue, to: Attribute) -> SSAValue:
        """Convert an element to another type, as `nn.cast` does."""
        return x if x.type == to else self.op(_conversion(self, x, to))

    def bits(self, x: SSAValue, to: Attribute) -> SSAValue:
        """Read the bits of an element as another type of the same width."""
        return x if x.type == to else self.op(CASTS["arith.bitcast"](x, to))

    def like(self, value: float, other: SSAValue) -> SSAValue:
        """Add a constant of the type of ``other``."""
        return self.constant(value, other.type)

    def index(self, name: str) -> SSAValue:
        """Return the value of an index of the statement."""
        return self.op(IndexOp(name))

    def size(self, size: Size) -> SSAValue:
        """Return a size as a value of type `index`."""
        if isinstance(size, Expr):
            return self.op(SizeOp(size))
        return self.constant(size, IndexType())

    def up_to(self, name: str, last: Linear, value: SSAValue, beyond: float) -> SSAValue:
        """Return ``value`` where the index ``name`` is at most ``last``, an affine expression of
        other indices, and the number ``beyond`` elsewhere.

        Loops that share the indices of ``last`` skip the points beyond it if no reader needs them
        (`tile.reach`).
        """
        if isinstance(last.constant, Expr):
            bound = self.op(IndexCastOp(self.size(last.constant), i32))
        else:
            bound = self.constant(last.constant, i32)
        for other, factor in last.terms:
            term = self._integer(other)
            if factor != 1:
                term = self.op(MuliOp(term, self.constant(factor, i32)))
            bound = self.op(AddiOp(term, bound))
        inside = self.op(CmpiOp(self._integer(name), bound, "sle"))
        return self.op(SelectOp(inside, value, self.like(beyond, value)))

    def below(self, name: str, end: SSAValue) -> SSAValue:
        """Return whether the index ``name`` is below ``end``, an integer of 32 bits.

        A loop over a reduced index ends at ``end`` if the body yields a value that changes no
        aggregate from there on (`tile.limits`).
        """
        return self.op(CmpiOp(self._integer(name), end, "slt"))

    def _integer(self, name: str) -> SSAValue:
        """Return the value of an index in 32 bits, the width in which vectors compare indices."""
        return self.op(IndexCastOp(self.index(name), i32))

    def extract(self, source: SSAValue, coordinates: Sequence[SSAValue]) -> SSAValue:
        """Return the element of a tensor at computed coordinates, which are checked."""
        return self.op(ExtractOp(source, coordinates))


def _conversion(s: Scalars, x: SSAValue, to: Attribute) -> Operation:
    """Return the last op of a conversion, which is not yet in the block. The ops before it are
    added."""
    start, end = element_of(x.type), element_of(to)
    if start.narrow and not (end.is_float and end.bits > start.bits):
        x, start = s.cast(x, F32), ELEMENTS["f32"]
    if end.kind == "boolean":
        zero = s.like(0, x)
        return CmpfOp(x, zero, "une") if start.is_float else CmpiOp(x, zero, "ne")
    if end.narrow and not start.is_float:
        # The intermediate float represents all integers of the type (nearly all of 64 bits), so
        # only the conversion to the narrow float rounds.
        x, start = s.cast(x, F32 if start.bits < 32 else F64), ELEMENTS["f64"]
    return CASTS[_cast_name(start, end)](x, to)


def _cast_name(start: Element, end: Element) -> str:
    """Return the `arith` op that converts one element type to another, except to booleans."""
    unsigned = start.kind != "signed"
    if start.is_float and end.is_float:
        return "arith.truncf" if end.bits < start.bits else "arith.extf"
    if start.is_float:
        return "arith.fptoui" if end.kind == "unsigned" else "arith.fptosi"
    if end.is_float:
        return "arith.uitofp" if unsigned else "arith.sitofp"
    more = end.bits - (1 if start.kind == "boolean" else start.bits)
    if more == 0:
        return "arith.bitcast"
    if more < 0:
        return "arith.trunci"
    return "arith.extui" if unsigned else "arith.extsi"


def retyped(type: Tensor, element: Attribute) -> Tensor:
    """Return a tensor type with another element type, which also becomes the precision of the
    type's place."""
    place = place_of(type)
    if place is None:
        return TensorType(element, type.shape)
    precision = element_of(element).name
    return placed(type, PlaceAttr.get(place.device.data, precision, place.layout))


def access_of(forms: Sequence[Form]) -> Access:
    """Return an access, given an affine expression, an index name or a constant for each
    dimension."""
    return access(*forms)


def broadcast_access(shape: Sequence[Size], out: Sequence[Size], prefix: str = "d") -> Access:
    """Return the access to an operand that is broadcast (as in NumPy) to the output's index
    space."""
    skip = len(out) - len(shape)
    forms: list[Form] = [
        f"{prefix}{skip + d}" if shape[d] == out[skip + d] else 0 for d in range(len(shape))
    ]
    return access_of(forms)


def _alone(*_: object) -> NoReturn:
    raise InternalError("a kernel that is built alone has no tensors outside")


class KernelBuilder:
    """Adds statements to a kernel's block.

    A lowering receives the op's operands as values of the kernel and returns the results.
    ``constant`` adds a weight. ``derived`` adds a weight of a given shape that a function computes
    from an operand's elements; it returns None if the elements are not known at compile time.
    ``reshaped`` views an operand under another shape.
    """

    def __init__(
        self,
        block: Block,
        constant: Callable[[Array, str], SSAValue] = _alone,
        reshaped: Callable[[SSAValue, Sequence[Size]], SSAValue] = _alone,
        splat: Callable[[SSAValue], float | None] = lambda _: None,
        derived: Callable[
            [SSAValue, Sequence[Size], Callable[[Array], Array]], SSAValue | None
        ] = lambda value, shape, compute: None,
    ) -> None:
        self._block = block
        self.computes: str | None = None
        """The element type in which the kernel computes; None for kernels that only move elements.

        Narrower elements are widened when they are read, and results are stored as their types say.
        """
        self.constant = constant
        self.derived = derived
        self.reshaped = reshaped
        self.splat = splat
        """Function that returns the number in all elements of a splat operand; None for other
        operands."""

    def computed(self, type: Attribute) -> Attribute:
        """Return the element type in which the kernel computes with elements of ``type``."""
        element = find_element(type)
        if element is None or self.computes is None or not widens(element.name, self.computes):
            return type
        return attribute_of(self.computes)

    def result_type(self, op: NnOp, result: int = 0) -> Tensor:
        """Return the type of result number ``result`` of an op, with the device, element type and
        layout that the op's kernel requires."""
        places = op.places
        type = tensor_type(op.results[result])
        return placed(type, places[len(op.operands) + result]) if places else type

    def contract(
        self,
        aggregation: str,
        free: Mapping[str, Size],
        reduced: Mapping[str, Size],
        inputs: Sequence[tuple[SSAValue, Sequence[Form]]],
        out: tuple[Tensor, Sequence[Form]],
        body: Body,
        *,
        init: SSAValue | None = None,
        default: float | None = None,
        parts: int | None = None,
        running: Mapping[str, Running] | None = None,
    ) -> SSAValue:
        """Add a `tile.contract` and return its result.

        ``free`` and ``reduced`` map index names to ranges. ``inputs`` are tensors with their
        accesses; ``out`` is the type of the result and the access to it. ``body`` computes a value
        from the elements of the inputs, and ``aggregation`` combines the values. ``init`` is the
        tensor that the statement writes into, ``default`` the result where an operand is out of
        bounds. ``parts`` limits the values of a partial sum. ``running`` maps a reduced index along
        which the aggregation is cumulative to its direction and kind.
        """
        along = running or {}
        indices = [Index(n, r) for n, r in free.items()]
        indices += [Index(n, r, reduced=True, running=along.get(n)) for n, r in reduced.items()]
        type, forms = out
        region = scalar_region(
            [tensor_type(value).element_type for value, _ in inputs],
            lambda block, args: self._widened(Scalars(block), args, body),
        )
        made, post = yielded(region.block).type, None
        if made != type.element_type:
            if init is None and default is None:
                type = retyped(type, made)
            else:
                to = type.element_type
                post = scalar_region([made], lambda block, args: Scalars(block).cast(args[0], to))
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
            parts=parts,
        )
        self._block.add_op(op)
        return op.res

    def scatter(
        self,
        aggregation: str,
        loops: tuple[Mapping[str, Size], Mapping[str, Size]],
        scattered: Mapping[str, Size],
        inputs: Sequence[tuple[SSAValue, Sequence[Form]]],
        out: tuple[SSAValue, Sequence[Form]],
        body: Places,
    ) -> SSAValue:
        """Add a checked indexed write into a tensor of the kernel.

        ``loops`` are the free and reduced indices; ``body`` returns a value and its coordinates.
        """
        init, forms = out
        block = Block(arg_types=[tensor_type(value).element_type for value, _ in inputs])
        element = tensor_type(init).element_type
        s = Scalars(block)
        value, places = body(s, block.args)
        block.add_op(YieldOp(s.cast(value, element), places))
        free, reduced = loops
        indices = [Index(n, r) for n, r in free.items()]
        indices += [Index(n, r, reduced=True) for n, r in reduced.items()]
        indices += [Index(n, r, scattered=True) for n, r in scattered.items()]
        op = ContractOp(
            aggregation,
            indices,
            [(value, access_of(f)) for value, f in inputs],
            access_of(forms),
            tensor_type(init),
            Region(block),
            init=init,
            checked=True,
        )
        self._block.add_op(op)
        return op.res

    def sort(
        self,
        shape: Sequence[Size],
        axis: int,
        count: Size,
        inputs: Sequence[SSAValue],
        types: Sequence[Tensor],
        body: Body,
        *,
        descending: bool,
    ) -> Sequence[SSAValue]:
        """Add a sort along an axis that keeps the first ``count`` values. ``body`` computes the key
        of a value from the elements of operands of one shape.

        Returns the keys and their positions.
        """
        names = [f"d{i}" for i in range(len(shape))]
        indices = [Index(n, r) for n, r in zip(names, shape, strict=True)]
        rows = [index for d, index in enumerate(indices) if d != axis]
        along = Index(names[axis], shape[axis], reduced=True)
        region = scalar_region(
            [tensor_type(value).element_type for value in inputs],
            lambda block, args: self._widened(Scalars(block), args, body),
        )
        keys, places = types
        own = retyped(keys, yielded(region.block).type)
        read = [(value, access_of(names)) for value in inputs]
        op = SortOp(
            [*rows, along],
            read,
            access_of(names),
            count,
            [own, places],
            region,
            descending=descending,
        )
        self._block.add_op(op)
        return self.stored(op.values, keys), op.places

    def suppress(
        self,
        free: Mapping[str, Size],
        along: Mapping[str, Size],
        inputs: Sequence[tuple[SSAValue, Sequence[Form]]],
        items: Sequence[tuple[SSAValue, Sequence[Form]]],
        limit: tuple[SSAValue, Sequence[Form]],
        count: Size,
        key: Body,
        rules_out: Body,
    ) -> tuple[SSAValue, SSAValue]:
        """Add a greedy selection of values in each row, by falling keys. A value is skipped if a
        selected value rules it out.

        At most ``count`` values of a row are selected, and at most ``limit``. ``rules_out``
        receives the items of a selected value and the items of a candidate. Returns the positions
        of the selected values, and their number in each row.
        """
        indices = [Index(n, r) for n, r in free.items()]
        indices += [Index(n, r, reduced=True) for n, r in along.items()]
        read, own = ([(v, access_of(f)) for v, f in group] for group in (inputs, items))
        bodies = ((read, key), ([*own, *own], rules_out))
        regions = (
            scalar_region(
                [tensor_type(value).element_type for value, _ in group],
                lambda block, args, body=body: self._widened(Scalars(block), args, body),
            )
            for group, body in bodies
        )
        op = SuppressOp(indices, read, own, (limit[0], access_of(limit[1])), count, *regions)
        self._block.add_op(op)
        return op.places, op.counts

    def join(
        self, places: SSAValue, counts: SSAValue, types: Sequence[Tensor]
    ) -> Sequence[SSAValue]:
        """Add a concatenation of the selected values of all rows.

        Returns the coordinates of each value (those of its row, and its position), and the number
        of values.
        """
        op = JoinOp(places, counts, types)
        self._block.add_op(op)
        return op.results

    def _widened(self, s: Scalars, args: Sequence[SSAValue], body: Body) -> SSAValue:
        return body(s, [s.cast(x, self.computed(x.type)) for x in args])

    def stored(self, value: SSAValue, type: Tensor) -> SSAValue:
        """Return ``value`` converted to the element type in which it is stored, that of
        ``type``."""
        if tensor_type(value).element_type == type.element_type:
            return value
        to = type.element_type
        return self.map([value], type, lambda s, args: s.cast(args[0], to))

    def map(self, inputs: Sequence[SSAValue], type: Tensor, body: Body) -> SSAValue:
        """Add an elementwise statement over the output's index space; operands broadcast as in
        NumPy."""
        shape = shape_of(type)
        return self.contract(
            "=",
            {f"d{i}": n for i, n in enumerate(shape)},
            {},
            [(value, broadcast_access(shape_of(value), shape)) for value in inputs],
            (type, identity_access(len(shape))),
            body,
        )

    def elementwise(self, operands: Sequence[SSAValue], op: NnOp, body: Body) -> SSAValue:
        """Add the statement of an elementwise op; splat operands become constants of the body."""
        result = self.result_type(op)
        known = [self.splat(value) for value in operands]
        tensors = [v for v, number in zip(operands, known, strict=True) if number is None]

        def scalar(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
            rest = iter(args)
            full = [
                next(rest)
                if number is None
                else s.constant(number, self.computed(tensor_type(v).element_type))
                for v, number in zip(operands, known, strict=True)
            ]
            return body(s, full)

        return self.map(tensors, result, scalar)

    def empty(self, type: Tensor) -> SSAValue:
        """Return a tensor that later statements write."""
        op = EmptyOp(type)
        self._block.add_op(op)
        return op.res
