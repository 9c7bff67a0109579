"""Flattening: each access of a statement becomes strides and an offset, as in PlaidML's stride
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Generic

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import BlockArgument, SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.layout import ANY_LAYOUT, NCHW, Layout, Piece
from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import PlaceAttr, place_of
from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.attributes import PACKED, Index, N, S_co
from tessella.dialects.tile.bodies import IndexOp
from tessella.dialects.tile.digits import digit as digit_of
from tessella.dialects.tile.nest import memory_shape, shared_loops
from tessella.dialects.tile.ops import ContractOp
from tessella.support.conditions import decided
from tessella.support.elements import ELEMENTS, Element
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size


@dataclass(frozen=True)
class FlatAccess(Generic[S_co]):
    """An operand's address as a function of the indices: ``offset + sum(stride * index)``, in
    elements."""

    strides: Mapping[str, S_co]
    """The distance in elements per step of each index. If the layout splits the dimension that an
    index runs along into blocks, it is the distance per whole block."""
    offset: S_co
    size: S_co
    """The number of elements of the operand in memory."""
    lanes: Mapping[str, S_co]
    """The distance in elements per step within a block, for each index of a dimension that the
    layout splits into blocks."""
    room: Mapping[str, S_co] = field(default_factory=dict[str, S_co])
    """The number of contiguous elements from the first value of an index on, or from its first
    value in each block, for each index of a dimension that the layout splits into blocks."""
    inner: Mapping[str, S_co] = field(default_factory=dict[str, S_co])
    """The distance in elements per step of each index over which no loop runs: digits of merged
    indices, and indices with one value in each iteration of shared loops."""
    element: Element = ELEMENTS["f32"]
    """The element type in memory."""

    def stride(self, name: str) -> S_co | int:
        return self.strides[name] if name in self.strides else self.inner.get(name, 0)

    def along(self, loops: Sequence[Index]) -> FlatAccess[S_co]:
        """Return the access with ``strides`` only for the indices in ``loops``. The strides of all
        others move to ``inner``."""
        known = {**self.inner, **self.strides}
        last = {index.name: index.parts[-1].name for index in loops}
        strides = {name: known[part] for name, part in last.items() if part in known}
        inner = {name: stride for name, stride in known.items() if name not in last}
        return FlatAccess(
            strides, self.offset, self.size, self.lanes, self.room, inner, self.element
        )

    def is_one(self, indices: Iterable[Index]) -> bool:
        """Return whether the indices traverse the operand with a single stride: one step of each
        index equals a full run of the next one."""
        return all(
            self.stride(outer.parts[-1].name) == self.stride(inner.parts[-1].name) * inner.range
            for outer, inner in pairwise(indices)
        )

    def lane_stride(self, name: str) -> S_co | int:
        """Return the stride in elements of an index within one block of the layout; its plain
        stride if the layout does not split its dimension into blocks."""
        return self.lanes.get(name, self.stride(name))

    def with_sizes(self, of: Callable[[Size], N]) -> FlatAccess[N]:
        """Return the access with every size replaced by the result of ``of``."""
        strides, lanes, room, inner = (
            {name: of(size) for name, size in sizes.items()}
            for sizes in (self.strides, self.lanes, self.room, self.inner)
        )
        return FlatAccess(strides, of(self.offset), of(self.size), lanes, room, inner, self.element)


@dataclass(frozen=True)
class Constraint:
    """A constraint of a statement: a point is valid only if ``0 <= form < extent``."""

    form: Linear
    extent: Size
    operands: tuple[int, ...] = ()
    """The numbers of the operands that would be accessed out of bounds without the constraint;
    empty if only `where` requires it."""

    def with_sizes(self, of: Callable[[Size], Size]) -> Constraint:
        """Return the constraint with every size replaced by the result of ``of``."""
        return Constraint(self.form.with_sizes(of), of(self.extent), self.operands)

    def is_of_results(self, inputs: int) -> bool:
        """Return whether the constraint keeps the access to the result or to a post operand in
        bounds. ``inputs`` is the number of inputs."""
        return any(operand >= inputs for operand in self.operands)

    def interior(self, name: str, ranges: Mapping[str, Size]) -> tuple[Size, Size]:
        """Return the half-open range of the index ``name`` in which the constraint holds for all
        values of the other indices. The coefficient of the index must be positive."""
        scale = self.form.coefficient(name)
        rest = self.form.substitute({name: Linear()})
        least, greatest = rest.bounds(ranges)
        return -(least // scale), (self.extent - 1 - greatest) // scale + 1


@dataclass(frozen=True)
class Flat(Generic[S_co]):
    """A flattened statement: each access is an offset and strides. ``accesses`` lists the inputs,
    the post inputs, and the output."""

    indices: tuple[Index[S_co], ...]
    """The indices over which loops run. An index with a single value is listed only if the
    statement uses the value."""
    accesses: tuple[FlatAccess[S_co], ...]
    inputs: int
    constraints: tuple[Constraint, ...]
    pinned: frozenset[str]
    """The indices that cannot be merged: a body or constraint uses their values, or they are
    scattered or running."""
    floating: frozenset[str] = frozenset()
    """The indices of shared loops that a constraint uses. An iteration may begin at any of their
    values."""

    @cached_property
    def ranges(self) -> dict[str, S_co]:
        return {index.name: index.range for index in self.indices}

    @cached_property
    def scattered(self) -> tuple[str, ...]:
        """The scattered indices of an indexed write. Its body yields their values, and no loop runs
        over them."""
        return tuple(i.name for i in self.indices if i.scattered)

    @cached_property
    def free(self) -> tuple[str, ...]:
        """The indices of loops outside the reduction; for an indexed write, all loops."""
        loops = (i for i in self.indices if not i.scattered)
        return tuple(i.name for i in loops if self.scattered or not i.reduced)

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        """The indices of the loops that sum in registers; none for an indexed write."""
        return tuple(i.name for i in self.indices if i.reduced and not self.scattered)

    @cached_property
    def running(self) -> str | None:
        """The running index, along which the aggregation is cumulative; None if there is none."""
        return next((i.name for i in self.indices if i.running is not None), None)

    @property
    def out(self) -> FlatAccess[S_co]:
        return self.accesses[-1]

    def with_sizes(self, of: Callable[[Size], N]) -> Flat[N]:
        """Return the flattened statement with every size replaced by the result of ``of``."""
        indices = tuple(i.with_sizes(of) for i in self.indices)
        accesses = tuple(a.with_sizes(of) for a in self.accesses)
        constraints = tuple(c.with_sizes(of) for c in self.constraints)
        return Flat(indices, accesses, self.inputs, constraints, self.pinned, self.floating)


def layout_of(value: SSAValue, packed: PlaceAttr | None = None) -> Layout:
    """Return the layout of a value in memory, or of the place into which it is to be packed. A
    value without a place is row-major."""
    if packed is not None and packed.layout != ANY_LAYOUT:
        return packed.layout
    place = _packed(value) or place_of(value.type)
    return place.layout if place is not None else NCHW


def stored_element(value: SSAValue, packed: PlaceAttr | None = None) -> Element:
    """Return the element type of a value in memory, or that of the place into which the value is to
    be packed."""
    place = packed or _packed(value)
    element = element_of(value.type)
    return element if place is None else ELEMENTS.get(place.precision.data, element)


def _packed(value: SSAValue) -> PlaceAttr | None:
    """Return the place into which a kernel's argument is to be packed before the kernel's loops
    read it. None if the argument already has that place, and for any other value."""
    if not isinstance(value, BlockArgument):
        return None
    kernel = value.block.parent_op()
    marks = kernel.properties.get("arg_attrs") if kernel is not None else None
    if not isinstance(marks, ArrayAttr):
        return None
    mark = marks.data[value.index]
    place = mark.data.get(PACKED) if isinstance(mark, DictionaryAttr) else None
    return place if isinstance(place, PlaceAttr) else None


def strides_of(value: SSAValue) -> dict[int, Size]:
    """Return the stride of each dimension of a tensor, in elements.

    Raises InvalidModelError if the layout splits a dimension.
    """
    shape, layout = shape_of(value), layout_of(value)
    pieces = layout.order(len(shape))
    if layout.splits(len(shape)):
        raise _misfit("elements that are taken by number", layout)
    return {p.dim: s for p, s in zip(pieces, layout.strides(shape), strict=True)}


def flatten_access(
    forms: Access,
    shape: Sequence[Size],
    layout: Layout,
    ranges: Mapping[str, Size],
    element: Element = ELEMENTS["f32"],
) -> FlatAccess:
    """Return the address of an access to a tensor of this shape and layout, as a function of the
    indices.

    ``forms`` has the affine expression of each dimension. Raises InvalidModelError if the digits of
    an expression in the layout are not affine.
    """
    strides: dict[str, Size] = {}
    lanes: dict[str, Size] = {}
    room: dict[str, Size] = {}
    offset: Size = 0
    pieces = layout.order(len(shape))
    for piece, step in zip(pieces, layout.strides(shape), strict=True):
        form = forms[piece.dim]
        if piece.mod or piece.div > 1:
            digit = digit_of(form, piece, ranges)
            if digit is None:
                _walk_tiles(form, piece, step, strides, lanes, room, layout)
                continue
            if piece.div == 1 and (name := form.single) is not None:
                room[name] = piece.mod
            form = digit
        offset += step * form.constant
        for name, c in form.terms:
            strides[name] = strides.get(name, 0) + step * c
    return FlatAccess(strides, offset, layout.size(shape), lanes, room, {}, element)


def _walk_tiles(
    form: Linear,
    piece: Piece,
    step: Size,
    strides: dict[str, Size],
    lanes: dict[str, Size],
    room: dict[str, Size],
    layout: Layout,
) -> None:
    """Add the strides of an access along a dimension that the layout splits into blocks to
    ``strides``, ``lanes`` and ``room``. ``form`` is the affine expression of the dimension.

    Raises InvalidModelError unless the form is a single index, and the piece is the highest or the
    lowest digit.
    """
    name = form.single
    if name is None or (piece.mod and piece.div > 1):
        raise _misfit(f"the access {form}", layout)
    if piece.mod:
        lanes[name], room[name] = step, piece.mod
    else:
        strides[name] = strides.get(name, 0) + step // piece.div


def _misfit(what: str, layout: Layout) -> InvalidModelError:
    return InvalidModelError(
        f"{what} cannot be read at the layout {layout}",
        expected="accesses that fall into the digits of the layout",
        hint="tile-split-indices splits indices",
    )


def _constraints(op: ContractOp, ranges: Mapping[str, Size]) -> list[Constraint]:
    found: dict[tuple[Linear, Size], tuple[int, ...]] = dict.fromkeys(op.where_list, ())
    values = op.tensors
    for i, (value, forms) in enumerate(zip(values, op.access_list, strict=True)):
        for form, extent in zip(forms, shape_of(value), strict=True):
            low, high = form.bounds(ranges)
            if decided(low < 0) or decided(high >= extent):
                found[form, extent] = (*found.get((form, extent), ()), i)
    return [Constraint(form, extent, operands) for (form, extent), operands in found.items()]


def flatten(op: ContractOp, packed: Mapping[int, PlaceAttr] | None = None) -> Flat:
    """Flatten a statement: return its accesses as offsets and strides. In shared loops, the result
    describes the part of the statement that one iteration runs.

    ``packed`` gives places (element type and layout) for operands, by number, as if these were
    packed. Raises InvalidModelError if a tensor is not traversed along a merged index with a single
    stride.
    """
    steps = {name: loop.step for name, loop in shared_loops(op).items()}
    ranges = {**op.ranges, **steps}
    places = packed or {}
    accesses = tuple(
        _read_at(value, forms, places.get(i), ranges)
        for i, (value, forms) in enumerate(zip(op.tensors, op.access_list, strict=True))
    )
    indices = [_in_step(index, ranges) for index in op.loop_list]
    constraints = _constraints(op, op.ranges)
    constrained = {name for c in constraints for name, _ in c.form.terms}
    pinned, floating = constrained, frozenset(constrained & steps.keys())
    pinned = pinned | {index.name for index in op.scattered}
    for region in (op.combine, op.post):
        pinned = pinned | {x.index.data for x in region.walk() if isinstance(x, IndexOp)}
    pinned = pinned | {i.name for i in op.index_list if i.running is not None}
    loops = tuple(i for i in indices if i.range != 1 or i.name in pinned)
    _check_merged(loops, accesses)
    accesses = tuple(a.along(loops) for a in accesses)
    return Flat(loops, accesses, len(op.inputs), tuple(constraints), frozenset(pinned), floating)


def _read_at(
    value: SSAValue, forms: Access, packed: PlaceAttr | None, ranges: Mapping[str, Size]
) -> FlatAccess:
    layout = layout_of(value, packed)
    element = stored_element(value, packed)
    return flatten_access(forms, memory_shape(value), layout, ranges, element)


def _in_step(index: Index, ranges: Mapping[str, Size]) -> Index:
    """Return an index with its range in an iteration of shared loops, and the same for its
    digits."""
    if not index.digits:
        extent = ranges[index.name]
        return index if extent is index.range else replace(index, range=extent)
    return Index.merged(index.name, [_in_step(digit, ranges) for digit in index.digits])


def _check_merged(loops: Sequence[Index], accesses: Sequence[FlatAccess]) -> None:
    for index in loops:
        if not all(a.is_one(index.digits) for a in accesses):
            raise InvalidModelError(
                f"a tensor is not traversed along {index} as along one index",
                expected="digits that each step over all values of the next one",
                hint="tile-merge-indices merges those that are one",
            )
