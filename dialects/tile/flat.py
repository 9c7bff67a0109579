"""Flattening: each access of a statement becomes strides and an offset, as in PlaidML's stride
tables.

``flatten`` reads a ``tile.contract``; ``simplify`` drops indices of range 1 and merges indices
that traverse all operands as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations

from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW, Layout, Piece
from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import place_of
from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.attributes import Index
from tessella.dialects.tile.bodies import IndexOp
from tessella.dialects.tile.digits import digit as digit_of
from tessella.dialects.tile.functions import packed_place
from tessella.dialects.tile.nest import memory_shape, shared_loops
from tessella.dialects.tile.ops import ContractOp
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size, decided, decided_zero


@dataclass(frozen=True)
class FlatAccess:
    """An operand's address as a function of the indices: ``offset + sum(stride * index)``, in
    elements."""

    strides: Mapping[str, Size]
    """Elements per step of each index; for a split dimension, per step of whole tiles."""
    offset: Size
    size: Size
    """Elements in memory."""
    lanes: Mapping[str, Size]
    """Elements per step inside a tile, for the indices of split dimensions."""
    room: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """For indices of split dimensions: how many elements of memory there are side by side, from the
    index's first value on, or from that of each tile."""

    def stride(self, name: str) -> Size:
        return self.strides.get(name, 0)

    def lane_stride(self, name: str) -> Size:
        """The stride in elements within one tile of the index."""
        return self.lanes.get(name, self.stride(name))

    def with_sizes(self, of: Callable[[Size], Size]) -> FlatAccess:
        """The access with every size replaced."""
        strides, lanes, room = (
            {name: of(size) for name, size in sizes.items()}
            for sizes in (self.strides, self.lanes, self.room)
        )
        return FlatAccess(strides, of(self.offset), of(self.size), lanes, room)


@dataclass(frozen=True)
class Constraint:
    """A constraint: a point counts only if ``0 <= form < extent``."""

    form: Linear
    extent: Size
    operands: tuple[int, ...] = ()
    """The operands whose accesses would leave their tensors elsewhere."""

    def is_of_results(self, inputs: int) -> bool:
        """Whether it keeps the result, or what the post body reads, inside its tensor."""
        return any(operand >= inputs for operand in self.operands)

    def interior(self, name: str, ranges: Mapping[str, Size]) -> tuple[Size, Size]:
        """The half-open range of values of an index for which the constraint holds for all values
        of the others. The index has a positive coefficient."""
        scale = self.form.coefficient(name)
        rest = self.form.substitute({name: Linear()})
        least, greatest = rest.bounds(ranges)
        return -(least // scale), (self.extent - 1 - greatest) // scale + 1


@dataclass(frozen=True)
class Flat:
    """A flattened statement. ``accesses`` lists the inputs, the post inputs, and the output."""

    indices: tuple[Index, ...]
    accesses: tuple[FlatAccess, ...]
    inputs: int
    constraints: tuple[Constraint, ...]
    pinned: frozenset[str]
    """Indices whose values the body or a constraint reads: they keep their names."""
    floating: frozenset[str] = frozenset()
    """Indices of shared loops that a constraint uses: a step begins at any of their values."""

    @cached_property
    def ranges(self) -> dict[str, Size]:
        return {index.name: index.range for index in self.indices}

    @cached_property
    def free(self) -> tuple[str, ...]:
        return tuple(i.name for i in self.indices if not i.reduced)

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        return tuple(i.name for i in self.indices if i.reduced)

    @property
    def out(self) -> FlatAccess:
        return self.accesses[-1]

    def with_sizes(self, of: Callable[[Size], Size]) -> Flat:
        """The statement with every size replaced."""
        indices = tuple(Index(i.name, of(i.range), i.reduced) for i in self.indices)
        accesses = tuple(a.with_sizes(of) for a in self.accesses)
        constraints = tuple(Constraint(c.form, of(c.extent), c.operands) for c in self.constraints)
        return Flat(indices, accesses, self.inputs, constraints, self.pinned, self.floating)


def layout_of(value: SSAValue) -> Layout:
    """The layout in which a tensor value is read; row-major if it has no place."""
    place = packed_place(value) or place_of(value.type)
    return place.layout if place is not None else NCHW


def strides_of(value: SSAValue) -> dict[int, Size]:
    """The strides of a tensor in elements, by dimension.

    Raises InvalidModelError if the layout splits a dimension.
    """
    shape, layout = shape_of(value), layout_of(value)
    pieces = layout.order(len(shape))
    if layout.splits(len(shape)):
        raise _misfit("elements that are taken by number", layout)
    return {p.dim: s for p, s in zip(pieces, layout.strides(shape), strict=True)}


def flatten_access(
    forms: Access, shape: Sequence[Size], layout: Layout, ranges: Mapping[str, Size]
) -> FlatAccess:
    """The address of an access to a tensor of this shape and layout.

    Raises InvalidModelError for a form whose digits in the layout are not affine.
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
    return FlatAccess(strides, offset, layout.size(shape), lanes, room)


def _walk_tiles(
    form: Linear,
    piece: Piece,
    step: Size,
    strides: dict[str, Size],
    lanes: dict[str, Size],
    room: dict[str, Size],
    layout: Layout,
) -> None:
    """An index that runs in tiles of the layout's width."""
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


def flatten(op: ContractOp, layouts: Mapping[int, Layout] | None = None) -> Flat:
    """Flatten a statement, or the part of it in one step of its kernel's shared loops. ``layouts``
    overrides the layouts of operands, by number."""
    steps = {name: loop.step for name, loop in shared_loops(op).items()}
    indices = tuple(
        replace(i, range=steps[i.name]) if i.name in steps else i for i in op.index_list
    )
    ranges = {index.name: index.range for index in indices}
    values = op.tensors
    overrides = layouts or {}
    accesses = tuple(
        flatten_access(forms, memory_shape(value), overrides.get(i, layout_of(value)), ranges)
        for i, (value, forms) in enumerate(zip(values, op.access_list, strict=True))
    )
    constraints = _constraints(op, op.ranges)
    constrained = {name for c in constraints for name, _ in c.form.terms}
    pinned, floating = constrained, frozenset(constrained & steps.keys())
    for region in (op.combine, op.post):
        pinned = pinned | {x.index.data for x in region.walk() if isinstance(x, IndexOp)}
    return Flat(indices, accesses, len(op.inputs), tuple(constraints), frozenset(pinned), floating)


def simplify(flat: Flat) -> Flat:
    """Drop indices of range 1, then merge pairs of indices until none can be merged."""
    flat = _drop_units(flat)
    while (pair := _mergeable(flat)) is not None:
        flat = _merge(flat, *pair)
    return flat


def _drop_units(flat: Flat) -> Flat:
    units = {i.name for i in flat.indices if i.range == 1 and i.name not in flat.pinned}
    if not units:
        return flat
    accesses = tuple(
        replace(a, strides={n: s for n, s in a.strides.items() if n not in units})
        for a in flat.accesses
    )
    indices = tuple(i for i in flat.indices if i.name not in units)
    return replace(flat, indices=indices, accesses=accesses)


def _mergeable(flat: Flat) -> tuple[Index, Index] | None:
    """A pair (outer, inner) such that one step of the outer equals a full run of the inner in all
    accesses."""
    kept = flat.pinned.union(*(a.lanes for a in flat.accesses))
    steps = [
        (index, [a.strides.get(index.name, 0) for a in flat.accesses])
        for index in flat.indices
        if index.name not in kept
    ]
    for (outer, far), (inner, near) in permutations(steps, 2):
        if outer.reduced == inner.reduced and far == [step * inner.range for step in near]:
            return outer, inner
    return None


def _merge(flat: Flat, outer: Index, inner: Index) -> Flat:
    name = f"{outer.name}_{inner.name}"
    merged = Index(name, outer.range * inner.range, outer.reduced)
    indices = tuple(merged if i is inner else i for i in flat.indices if i is not outer)
    accesses: list[FlatAccess] = []
    for a in flat.accesses:
        strides = {n: s for n, s in a.strides.items() if n not in (outer.name, inner.name)}
        if not decided_zero(a.stride(inner.name)):
            strides[name] = a.stride(inner.name)
        accesses.append(replace(a, strides=strides))
    return replace(flat, indices=indices, accesses=tuple(accesses))
