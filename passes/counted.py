"""Values that count along their dimensions, as positions of tokens do, and what compares them.

    %0 = nn.iota count [seq]                       0, 1, 2..
    %1 = nn.add %0, %past                          past, past + 1..
    %rows = nn.reshape %1 shape [[seq], 1]         row + past
    %v = nn.less_equal %columns, %rows             column <= row + past

Where sizes are numbers, such values are constants, and are looked at as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, dtype_of, shape_of
from tessella.dialects.nn.movement import ExpandOp, ReshapeOp, SliceOp, TransposeOp
from tessella.dialects.nn.symbolic import IotaOp, SizesOp
from tessella.dialects.nn.traits import ComputesSizes
from tessella.passes.base import known_number
from tessella.runtime.elements import full, widened
from tessella.runtime.weights import WeightStore
from tessella.support.sizes import Size, bounds_of

Number = float | int


@dataclass(frozen=True)
class Counted:
    """A sum of positions times factors, and a constant."""

    factors: Mapping[int, int]
    """By dimension, counted from the last, which is -1."""
    constant: Size

    def __add__(self, other: Counted) -> Counted:
        axes = {**self.factors, **other.factors}
        factors = {d: self.factors.get(d, 0) + other.factors.get(d, 0) for d in axes}
        return Counted({d: k for d, k in factors.items() if k}, self.constant + other.constant)

    def __mul__(self, factor: int) -> Counted:
        factors = {d: k * factor for d, k in self.factors.items() if factor}
        return Counted(factors, self.constant * factor)

    def __sub__(self, other: Counted) -> Counted:
        return self + other * -1

    def ends(self, shape: Sequence[Size]) -> tuple[Size, Size]:
        """The least and the greatest value in a tensor of this shape, which has elements."""
        ends = [k * (shape[d] - 1) for d, k in self.factors.items()]
        signs = list(self.factors.values())
        low = sum((end for end, k in zip(ends, signs, strict=True) if k < 0), self.constant)
        return low, sum((end for end, k in zip(ends, signs, strict=True) if k > 0), self.constant)


@dataclass(frozen=True)
class Diagonal:
    """A matrix, or a batch of equal ones, of one number up to column = row + past, and of another
    one beyond."""

    past: Size
    below: Number
    above: Number


def counted(value: SSAValue, weights: WeightStore) -> Counted | None:
    """The integers of a value as positions that are counted, if they are."""
    if not element_of(value.type).is_integer:
        return None
    if (number := known_number(value, weights)) is not None:
        return Counted({}, int(number))
    rule = _COUNTED.get(type(value.owner))
    found = None if rule is None else rule(value.owner, weights)
    if found is None:
        return None
    # what has one element does not count, and may broadcast
    shape = shape_of(value)
    return Counted({d: k for d, k in found.factors.items() if shape[d] != 1}, found.constant)


def diagonal(value: SSAValue, weights: WeightStore) -> Diagonal | None:
    """The diagonal of a value that is computed from positions, and of numbers."""
    op = value.owner
    if isinstance(op, ReshapeOp | ExpandOp):
        same = shape_of(op.x)[-2:] == shape_of(value)[-2:]
        plain = isinstance(op, ExpandOp) or all(n == 1 for n in shape_of(op.x)[:-2])
        return diagonal(op.x, weights) if same and plain else None
    if isinstance(op, ew.CompareOp) and type(op) in _UP_TO:
        return _compared(op, weights)
    return _computed(op, weights) if isinstance(op, ew.ElementwiseOp) else None


def compared(op: ew.CompareOp, weights: WeightStore) -> bool | None:
    """What a comparison of positions gives, if that is the same everywhere."""
    compares = op.get_trait(ComputesSizes)
    found = _difference(op, weights) if type(op) in _UP_TO else None
    if compares is None or found is None:
        return None
    # what holds for the difference is monotone
    ends = (bounds_of(end)[i] for i, end in enumerate(found.ends(shape_of(op.res))))
    low, high = (compares.function(end, 0) for end in ends)
    return low if low == high else None


_UP_TO: Mapping[type, tuple[int, bool]] = {
    ew.LessEqualOp: (0, True),
    ew.LessOp: (-1, True),
    ew.GreaterOp: (0, False),
    ew.GreaterEqualOp: (-1, False),
}
"""Up to which column - row two positions compare alike, and how."""
_MIRRORED: Mapping[type, type] = {
    ew.LessEqualOp: ew.GreaterEqualOp,
    ew.GreaterEqualOp: ew.LessEqualOp,
    ew.LessOp: ew.GreaterOp,
    ew.GreaterOp: ew.LessOp,
}


def _difference(op: NnOp, weights: WeightStore) -> Counted | None:
    lhs, rhs = (counted(x, weights) for x in op.operands)
    return None if lhs is None or rhs is None else lhs - rhs


def _compared(op: NnOp, weights: WeightStore) -> Diagonal | None:
    found, kind = _difference(op, weights), type(op)
    if found is not None and found.factors == {-1: -1, -2: 1}:
        found, kind = found * -1, _MIRRORED[kind]
    if found is None or found.factors != {-1: 1, -2: -1}:
        return None
    last, below = _UP_TO[kind]
    return Diagonal(last - found.constant, below, not below)


def _computed(op: ew.ElementwiseOp, weights: WeightStore) -> Diagonal | None:
    """What an op makes of the two numbers of a diagonal."""
    columns: list[tuple[Number, Number]] = []
    pasts: set[Size] = set()
    for x in op.operands:
        number = known_number(x, weights)
        found = None if number is not None else diagonal(x, weights)
        if number is not None:
            columns.append((number, number))
        elif found is not None and shape_of(x)[-2:] == shape_of(op.res)[-2:]:
            columns.append((found.below, found.above))
            pasts.add(found.past)
        else:
            return None
    if len(pasts) != 1:
        return None
    dtypes = [dtype_of(x.type) for x in op.operands]
    below, above = (
        widened(op.evaluate(*(full((1,), n, t) for n, t in zip(each, dtypes, strict=True)))[0])
        for each in zip(*columns, strict=True)
    )
    return Diagonal(pasts.pop(), below.item(), above.item())


# ** what counts **

_Rule = Callable[..., Counted | None]


def _iota(op: IotaOp, _: WeightStore) -> Counted:
    return Counted({-1: 1}, 0)


def _size(op: SizesOp, _: WeightStore) -> Counted | None:
    values = op.settings["values"]
    return Counted({}, values[0]) if len(values) == 1 else None


def _sum(op: ew.BinaryOp, weights: WeightStore) -> Counted | None:
    lhs, rhs = (counted(x, weights) for x in op.operands)
    return None if lhs is None or rhs is None else lhs + rhs


def _reshaped(op: ReshapeOp, weights: WeightStore) -> Counted | None:
    """Dimensions of 1 come and go."""
    found = counted(op.x, weights)
    before, after = (
        [d - len(shape) for d, n in enumerate(shape) if n != 1]
        for shape in map(shape_of, (op.x, op.res))
    )
    sizes = [[shape_of(x)[d] for d in axes] for x, axes in ((op.x, before), (op.res, after))]
    if found is None or sizes[0] != sizes[1]:
        return None
    moved = dict(zip(before, after, strict=True))
    return Counted({moved[d]: k for d, k in found.factors.items()}, found.constant)


def _expanded(op: ExpandOp, weights: WeightStore) -> Counted | None:
    return counted(op.x, weights)


def _transposed(op: TransposeOp, weights: WeightStore) -> Counted | None:
    found, perm = counted(op.x, weights), op.settings["perm"]
    if found is None:
        return None
    moved = {old - len(perm): new - len(perm) for new, old in enumerate(perm)}
    return Counted({moved[d]: k for d, k in found.factors.items()}, found.constant)


def _sliced(op: SliceOp, weights: WeightStore) -> Counted | None:
    found, settings = counted(op.x, weights), op.settings
    if found is None:
        return None
    first = sum((k * settings["starts"][d] for d, k in found.factors.items()), found.constant)
    return Counted({d: k * settings["steps"][d] for d, k in found.factors.items()}, first)


_COUNTED: Mapping[type, _Rule] = {
    IotaOp: _iota,
    SizesOp: _size,
    ew.AddOp: _sum,
    ew.SubOp: _difference,
    ReshapeOp: _reshaped,
    ExpandOp: _expanded,
    TransposeOp: _transposed,
    SliceOp: _sliced,
}
