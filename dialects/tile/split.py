"""Splitting of a statement's indices where layouts split the dimensions that they traverse.

    %y = tile.contract = [n: 1, c: 36, x: 8] (%x[n, c, x]) -> [n, c, x]   // %x at nchw16c
    ->
    %e = tile.empty
    %1 = tile.contract = [n: 1, c_16: 2, c_1: 16, x: 8] (%x[n, 16*c_16 + c_1, x]) init %e -> [..]
    %2 = tile.contract = [n: 1, c_1: 4, x: 8] (%x[n, c_1 + 32, x]) init %1 -> [n, c_1 + 32, x]

Every access is then strided: the digits of ``16*c_16 + c_1`` are ``c_16`` and ``c_1``. The
remainder of a free index becomes a separate statement. A reduced index runs over whole digits, and
`where` limits the points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.arith import ConstantOp
from tessella.dialects.layout import Layout, Piece
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.attributes import Index
from tessella.dialects.tile.bodies import ExtractOp, IndexOp
from tessella.dialects.tile.digits import cuts, nested
from tessella.dialects.tile.flat import layout_of
from tessella.dialects.tile.ops import ContractOp, EmptyOp
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero, known
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size, ceil_div

Widths = dict[str, tuple[int, ...]]
"""The indices to split, each with its block sizes, in descending order."""


@dataclass(frozen=True)
class Stretch:
    """A part of the range of an index that new indices, its digits, enumerate: the index equals
    ``value``, an affine expression of the new ``indices``."""

    value: Linear
    indices: tuple[Index, ...]
    bound: Size | None = None
    """The upper bound, exclusive, of ``value`` as a constraint of the statement; None if the ranges
    of the digits imply it."""


def is_split(op: ContractOp) -> bool:
    """Return whether a layout splits a dimension of one of the statement's tensors."""
    return any(layout_of(value).is_split for value in (*op.operands, op.res))


def unreadable(op: ContractOp) -> str | None:
    """Return why a statement cannot access its tensors in their layouts, even with split indices,
    as a sentence. None if it can."""
    found = _widths(op)
    return found if isinstance(found, str) else None


def split_indices(op: ContractOp) -> None:
    """Split the indices of a statement, in place, as the layouts of its tensors require.

    Raises InvalidModelError if no split makes the statement fit the layouts.
    """
    widths = _widths(op)
    if isinstance(widths, str):
        raise InvalidModelError("a statement does not fit the layouts of its tensors", found=widths)
    if not widths:
        return
    stretches = [list(_stretches(i, widths.get(i.name, ()))) for i in op.index_list]
    parts = list(product(*stretches))
    at, init = InsertPoint.before(op), op.init
    if len(parts) > 1 and init is None:
        empty = EmptyOp(tensor_type(op.res))
        Rewriter.insert_op(empty, at)
        init = empty.res
    for part in parts:
        new = _part(op, part, init)
        Rewriter.insert_op(new, at)
        init = new.res
    assert init is not None
    init.name_hint = op.res.name_hint
    op.res.replace_all_uses_with(init)
    Rewriter.erase_op(op)


# ** the indices to split **


def _widths(op: ContractOp) -> Widths | str:
    """Return the indices of a statement to split, each with its block sizes, or the reason why no
    split makes it fit the layouts of its tensors."""
    ranges = op.ranges
    found: dict[str, set[int]] = {}
    values = op.tensors
    for value, forms in zip(values, op.access_list, strict=True):
        for form, divisor in _divided(layout_of(value), forms):
            needed = cuts(form, divisor, ranges)
            if needed is None:
                return f"{form} does not fall into digits of {divisor} ({layout_of(value)})"
            running = op.running_index
            if running is not None and running.name in needed:
                return f"{running.name} runs along the output, without digits ({layout_of(value)})"
            for name, width in needed.items():
                found.setdefault(name, set()).add(width)
    for extract in _extracts(op):
        if layout_of(extract.source).splits(len(extract.coordinates)):
            return f"elements of a tensor at {layout_of(extract.source)} are taken by number"
    widths: Widths = {}
    for name, steps in found.items():
        whole = nested(steps)
        if whole is None:
            return f"{name} would be split by {' and by '.join(map(str, sorted(steps)))}"
        widths[name] = whole
    return widths


def _divided(layout: Layout, forms: Access) -> Iterator[tuple[Linear, int]]:
    """Yield the affine expression of each dimension that a layout splits into blocks, once for each
    of the block sizes, and the block size."""
    for piece in layout.order(len(forms)):
        for divisor in {piece.div, piece.div * piece.mod} - {0, 1}:
            yield forms[piece.dim], divisor


def _extracts(op: ContractOp) -> Iterator[ExtractOp]:
    for region in (op.combine, op.post):
        yield from (inner for inner in region.walk() if isinstance(inner, ExtractOp))


# ** the parts **


def _stretches(index: Index, widths: Sequence[int]) -> Iterator[Stretch]:
    """Yield the parts of an index's range that whole digits enumerate. A reduced index has a single
    part, which may be larger than the range and has a bound."""
    if not widths:
        yield Stretch(Linear.of(index.name), (index,))
    elif index.reduced:
        over = index.range % widths[0]
        whole = _digits(index, widths, ceil_div(index.range, widths[0]))
        yield replace(whole, bound=None if decided_zero(over) else index.range)
    else:
        yield from _whole_digits(index, widths)


def _whole_digits(index: Index, widths: Sequence[int], start: Size = 0) -> Iterator[Stretch]:
    """Yield the part of an index's range from ``start`` on that blocks of the first width cover,
    then the remainder in blocks of the next width, and so on."""
    width = widths[0] if widths else 1
    count, rest = divmod(index.range - start, width)
    if not decided_zero(count):
        whole = _digits(index, widths, count)
        yield replace(whole, value=whole.value + start)
    if not decided_zero(rest):
        yield from _whole_digits(index, widths[1:], start + count * width)


def _digits(index: Index, widths: Sequence[int], count: Size) -> Stretch:
    """Return ``count`` blocks of the first width as digits of an index: one digit for the blocks,
    and one for each smaller width."""
    weights = (*widths, 1)
    ranges = (count, *(a // b for a, b in pairwise(weights)))
    digits = [
        (weight, Index(f"{index.name}_{weight}", extent, index.reduced))
        for weight, extent in zip(weights, ranges, strict=True)
        if decided(extent > 1)
    ]
    value = sum((Linear.of(digit.name, weight) for weight, digit in digits), Linear())
    return Stretch(value, tuple(digit for _, digit in digits))


def _part(op: ContractOp, part: Sequence[Stretch], init: SSAValue | None) -> ContractOp:
    """Return a copy of a statement that computes one part of the range of each index, and writes
    into ``init``."""
    values = {i.name: s.value for i, s in zip(op.index_list, part, strict=True)}
    accesses = [tuple(form.substitute(values) for form in forms) for forms in op.access_list]
    inputs, count = list(zip(op.inputs, accesses, strict=False)), len(op.inputs)
    where = [(form.substitute(values), extent) for form, extent in op.where_list]
    new = ContractOp(
        op.aggregation.data,
        [index for stretch in part for index in stretch.indices],
        inputs,
        accesses[-1],
        tensor_type(op.res),
        body_at(op.combine, values),
        post_inputs=list(zip(op.post_inputs, accesses[count:], strict=False)),
        post=body_at(op.post, values) if op.post_block is not None else None,
        where=[*where, *((s.value, s.bound) for s in part if s.bound is not None)],
        init=init,
        default=op.default,
        parts=op.part_count,
    )
    new.attributes |= op.attributes
    return new


def body_at(region: Region, values: Mapping[str, Linear]) -> Region:
    """Return a copy of a body in which each index is computed by its affine expression in
    ``values``, for example a split index from its digits."""
    copy = region.clone()
    for inner in list(copy.walk()):
        if isinstance(inner, IndexOp) and values[inner.index.data].single != inner.index.data:
            value = _computed(values[inner.index.data], inner)
            inner.res.replace_all_uses_with(value)
            Rewriter.erase_op(inner)
    return copy


def _computed(form: Linear, before: Operation) -> SSAValue:
    """Insert ops that compute the value of an affine expression into a body, before the op
    ``before``, and return the value."""

    def add(op: Operation) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

    def constant(value: int) -> SSAValue:
        return add(ConstantOp(IntegerAttr(value, IndexType())))

    total = constant(known(form.constant))
    for name, c in form.terms:
        term = add(arith.MuliOp(add(IndexOp(name)), constant(c)))
        total = add(arith.AddiOp(total, term))
    return total


# ** constants **


def constant_layouts(op: ContractOp, constants: Sequence[int]) -> dict[int, Layout]:
    """Return layouts for constant inputs, by operand number, that have the digits of the split
    indices.

    High digits are outermost, in loop order; low digits are innermost, reduced ones first.
    """
    widths = _widths(op)
    if isinstance(widths, str) or op.is_map:
        return {}
    reduced = {index.name: index.reduced for index in op.index_list}
    layouts: dict[int, Layout] = {}
    for operand in constants:
        forms = op.input_accesses[operand]
        split = {d: widths[n] for d, f in enumerate(forms) if (n := f.single) in widths}
        if any(not reduced[forms[d].terms[0][0]] for d in split):
            layouts[operand] = _digits_inside(forms, split, reduced)
    return layouts


def _digits_inside(
    forms: Access, split: Mapping[int, Sequence[int]], reduced: Mapping[str, bool]
) -> Layout:
    def is_reduced(dim: int) -> bool:
        return any(reduced[name] for name, _ in forms[dim].terms)

    outer = [Piece(d, div=split[d][0] if d in split else 1) for d in range(len(forms))]
    inner = [Piece(d, b, a // b) for d, widths in split.items() for a, b in pairwise((*widths, 1))]
    outer.sort(key=lambda piece: is_reduced(piece.dim))
    inner.sort(key=lambda piece: not is_reduced(piece.dim))
    return Layout("packed", (*outer, *inner))
