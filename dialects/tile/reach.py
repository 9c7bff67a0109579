"""The reach of an index: how far the index has to run in an iteration of the loops that statements
share.

    %s = tile.contract + [m: 512, n: 512 | k: 64] (..) post () -> [m, n] at [m]
           {select(n <= m + 3, .., -inf)}
    %x = tile.contract > [m: 512 | n: 512] (%s[m, n]) -> [m] at [m]

The maximum ignores -inf, so an iteration over `m` reads `n` only up to the iteration's last row
plus 3. No reader uses the rest of the scores, so the statement that writes them need not compute
it. The reach is inferred from the bodies, from readers to writers, as in Halide's bounds inference.
The statements keep their meaning over full ranges, with one exception: a product with 0 is taken as
0, also if the other factor is infinite or NaN (`attention` in docs/nn-ops.md).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects.sizes import SizeOp, is_static
from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.bodies import YieldOp, yielded
from tessella.dialects.tile.definitions import index_of, number_of, operands_of
from tessella.dialects.tile.nest import Steps, lives_within, shared_loops
from tessella.dialects.tile.ops import ContractOp
from tessella.support.decisions import decided_max, known
from tessella.support.sizes import estimated

GRANULE = 128
"""The unit of the ends of indices: in an iteration, an index ends at a multiple of this number of
values, or at the end of its range. Tiles divide this number, so that all statements of an iteration
end at the same value."""

SAMPLED = 64
"""The maximum number of iterations of each loop that ``Reach.share`` samples."""

_AT_MOST = IntegerAttr(3, i64)
"""The predicate `sle` (at most) of an `arith.cmpi`."""
_NEUTRAL = {"+": 0.0, ">": -math.inf, "<": math.inf}
"""The neutral value of each aggregation."""

Value = TypeVar("Value", int, AffineExpr)


@dataclass(frozen=True)
class Reach:
    """The reach of an index: ``last``, an affine expression of the indices of shared loops, is the
    last value of the index that is needed."""

    last: Linear

    def share(self, op: ContractOp, name: str) -> float:
        """Return the fraction of an index's values that are within the reach, averaged over the
        iterations of the shared loops."""
        extent = next(estimated(index.range) for index in op.index_list if index.name == name)
        loops, first = shared_loops(op), estimated(self.last.constant)
        values = [[k * v for v in _lasts(loops[shared], k)] for shared, k in self.last.terms]
        ends = [self.end(first + sum(each)) for each in product(*values)]
        return sum(max(0, min(extent, end)) for end in ends) / (len(ends) * extent)

    def end(self, last: Value) -> Value:
        """Return the end of the index, exclusive and rounded up to ``GRANULE``, in an iteration in
        which the expression ``Reach.last`` is at most ``last``."""
        return (last + GRANULE) // GRANULE * GRANULE


def _lasts(loop: Steps, factor: int) -> Iterator[int]:
    """Yield the value of a shared loop's index at which an affine expression is greatest, for each
    iteration of the loop or a sample of them. ``factor`` is the coefficient of the index in the
    expression."""
    shared = replace(loop.loop, extent=estimated(loop.loop.extent))
    loop = replace(loop, loop=shared, extent=estimated(loop.extent))
    trips = known(loop.trips)
    for i in range(0, trips, -(-trips // SAMPLED)):
        yield known(loop.first(i)) + (loop.step - 1 if factor > 0 else 0)


@dataclass(frozen=True)
class _Outside:
    """The region of a statement's result that is constant: the statement writes the constant
    ``fill`` where ``index`` is greater than ``last``, an affine expression of other indices."""

    index: str
    last: Linear
    fill: float


def reaches(op: ContractOp) -> Mapping[str, Reach]:
    """Return the reach of each index of a statement that need not run over its full range in an
    iteration of the shared loops, by name."""
    found: dict[str, Reach] = {}
    loops = shared_loops(op)
    block = op.parent_block()
    others = block.ops if block is not None and loops else ()
    if not any(isinstance(other, ContractOp) and _outside(other) for other in others):
        return found
    for index in op.index_list:
        if index.name not in loops and index.running is None:
            reach = _as_read(op, index.name) if index.reduced else _as_needed(op, index.name)
            if reach is not None:
                found[index.name] = reach
    return found


def _as_read(op: ContractOp, name: str) -> Reach | None:
    """Return the reach of a reduced index: beyond it, an operand has the neutral value of the
    aggregation. None if no operand has such a bound."""
    for number, value in enumerate(op.inputs):
        writer = value.owner
        if not isinstance(writer, ContractOp):
            continue
        outside = _outside(writer)
        if outside is None or not _is_neutral(op, number, outside.fill):
            continue
        pairs = zip(writer.out_access, op.access_list[number], strict=True)
        read = {written.single: form.single for written, form in pairs}
        loops = list(shared_loops(op))[: lives_within(value)]
        last = _renamed(outside.last, read)
        if read.get(outside.index) == name and last is not None and _is_among(last, loops):
            return Reach(last)
    return None


def _renamed(form: Linear, names: Mapping[str | None, str | None]) -> Linear | None:
    """Return an affine expression with its indices renamed as in ``names``; None if an index has no
    new name there."""
    found = [(names.get(name), k) for name, k in form.terms]
    terms = tuple((name, k) for name, k in found if name is not None)
    return Linear(terms, form.constant) if len(terms) == len(found) else None


def _is_among(form: Linear, names: Collection[str]) -> bool:
    return all(name in names for name, _ in form.terms)


def _as_needed(op: ContractOp, name: str) -> Reach | None:
    """Return the reach of a free index of a statement: the last value that any statement reads.
    None if a reader needs the full range, or the readers' bounds cannot be combined."""
    dims = [dim for dim, form in enumerate(op.out_access) if form.single == name]
    within = lives_within(op.res)
    if len(dims) != 1 or not within:
        return None
    needed: list[Linear] = []
    for use in op.res.uses:
        reader = use.operation
        assert isinstance(reader, ContractOp)
        if use.index >= len(reader.access_list) - 1:  # the reader writes more of the tensor
            return None
        if any(at.window is not None for each in (op, reader) for at in each.at_list):
            return None
        form = reader.access_list[use.index][dims[0]]
        reach = reaches(reader).get(form.single or "")
        if reach is None:
            return None
        pairs = zip(shared_loops(reader), list(shared_loops(op))[:within], strict=False)
        last = _renamed(reach.last, dict(pairs))
        if last is None:
            return None
        needed.append(last)
    alike = {form.terms for form in needed}
    ends = {form.constant for form in needed}
    if len(alike) != 1 or not (len(ends) == 1 or is_static(ends)):
        return None
    return Reach(Linear(alike.pop(), decided_max(*ends)))


def _is_neutral(op: ContractOp, operand: int, fill: float) -> bool:
    """Return whether points at which an operand has the value ``fill`` do not change the aggregate
    of a statement."""
    if op.is_multiply_add:
        return fill == 0.0
    number = op.greatest_number
    value = yielded(op.combine.block) if number is None else number.lhs
    return value is op.combine.block.args[operand] and fill == _NEUTRAL.get(op.aggregation.data)


def _outside(op: ContractOp) -> _Outside | None:
    """Return where a statement writes a constant beyond a diagonal of its result, if its last body
    is ``select(i <= j + offset, value, fill)``; otherwise None."""
    is_last = op.is_map and op.default is None
    block = op.post_block or (op.combine.block if is_last else None)
    last = block.last_op if block is not None else None
    select = operands_of(last.value, "arith.select") if isinstance(last, YieldOp) else None
    compare = select and operands_of(select[0], "arith.cmpi", predicate=_AT_MOST)
    if not (select and compare):
        return None
    index, bound, fill = index_of(compare[0]), _form(compare[1]), number_of(select[2])
    if index is None or bound is None or fill is None or not bound.terms:
        return None
    plain = [form.single for form in op.out_access]
    known = [index, *(name for name, _ in bound.terms)]
    return _Outside(index, bound, fill) if all(plain.count(n) == 1 for n in known) else None


def _form(value: SSAValue) -> Linear | None:
    """Return an integer value of a body as an affine expression of indices; None if no such
    expression is known."""
    if (number := number_of(value)) is not None:
        return Linear((), int(number))
    if (name := index_of(value)) is not None:
        return Linear.of(name)
    if (cast := operands_of(value, "arith.index_cast")) and isinstance(cast[0].owner, SizeOp):
        return Linear((), cast[0].owner.value)
    if parts := operands_of(value, "arith.addi"):
        first, second = map(_form, parts)
        return None if first is None or second is None else first + second
    if parts := operands_of(value, "arith.muli"):
        first, factor = _form(parts[0]), number_of(parts[1])
        return None if first is None or factor is None else first * int(factor)
    return None
