"""Contractions at random, and their points counted one by one, as the language defines them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.maths import Affine, Bounded, Normal
from tessella.support.decisions import known, known_all
from tessella.support.sizes import Size

Point = tuple[int, ...]
Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Contraction:
    """The output, the inputs, and the constraints. Each of ``pins``, which are among them, bounds
    one index more: the points can be counted from the first to the last."""

    tensors: tuple[tuple[tuple[Affine, ...], tuple[Size, ...]], ...]
    constraints: tuple[Bounded, ...]
    pins: tuple[tuple[str, Bounded], ...]

    def __str__(self) -> str:
        accesses = [f"{[*map(str, forms)]} of {shape}" for forms, shape in self.tensors]
        return f"{'; '.join(accesses)}; {', '.join(map(str, self.constraints))}"

    @property
    def rows(self) -> list[Bounded]:
        """All constraints: those of tensors first."""
        pairs = ((f, e) for forms, shape in self.tensors for f, e in zip(forms, shape, strict=True))
        return [*(Bounded(f, e) for f, e in pairs), *self.constraints]


def constant(form: Affine) -> Fraction:
    """Return the constant of a form without symbols."""
    assert isinstance(form.constant, Fraction)
    return form.constant


def inside(form: Affine, extent: Size, point: Mapping[str, int]) -> bool:
    """Return whether the form is an integer in ``0 <= form < extent``."""
    value = constant(form) + sum((c * point[n] for n, c in form.terms), Fraction(0))
    return value.denominator == 1 and 0 <= value < known(extent)


def integer_points(pins: Sequence[tuple[str, Bounded]]) -> Iterator[dict[str, int]]:
    """All integers within the pins: each has one index that none before it has."""
    if not pins:
        yield {}
        return
    *before, (name, row) = pins
    c = row.form.coefficient(name)
    for point in integer_points(before):
        rest = constant(row.form) + sum(
            (d * point[n] for n, d in row.form.terms if n != name), Fraction(0)
        )
        ends = sorted((-rest / c, (known(row.extent) - 1 - rest) / c))
        for value in range(math.ceil(ends[0]), math.floor(ends[1]) + 1):
            full = point | {name: value}
            if inside(row.form, row.extent, full):
                yield full


def meant(contraction: Contraction) -> Counter[Point]:
    """Count how often the definition reaches each tuple of elements, the output's first."""
    names = [name for name, _ in contraction.pins]
    points = [[p[n] for n in names] for p in integer_points(contraction.pins)]
    at = np.array(points, np.int64).reshape(len(points), len(names))
    good = np.ones(len(points), bool)
    columns: list[Array] = []
    for row in contraction.rows:
        fixed = constant(row.form)
        scale = math.lcm(*(x.denominator for _, x in row.form.terms), fixed.denominator)
        weights = np.array([int(row.form.coefficient(n) * scale) for n in names], np.int64)
        value = at @ weights + int(fixed * scale)
        good &= (value % scale == 0) & (value >= 0) & (value < known(row.extent) * scale)
        columns.append(value // scale)
    dims = sum(len(shape) for _, shape in contraction.tensors)
    elements = np.stack(columns[:dims], 1) if dims else np.zeros((len(points), 0), np.int64)
    return Counter(map(tuple, elements[good].tolist()))


@dataclass(frozen=True)
class Box:
    """The points of a normal form: all of its box, and which of them count."""

    normal: Normal
    at: Array
    good: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @staticmethod
    def of(normal: Normal) -> Box:
        ranges = known_all(index.range for index in normal.indices)
        at = np.array([*itertools.product(*map(range, ranges))], np.int64)
        at = at.reshape(math.prod(ranges), len(ranges))
        box = Box(normal, at, np.ones(len(at), bool))
        for form, extent in normal.constraints:
            value = box.values(form)
            box.good[...] &= (value >= 0) & (value < known(extent))
        return box

    def values(self, form: Linear) -> Array:
        """A form at all points of the box."""
        weights = np.array([form.coefficient(x.name) for x in self.normal.indices], np.int64)
        return self.at @ weights + known(form.constant)

    @property
    def met(self) -> Counter[Point]:
        """Count how often the points reach each tuple of elements."""
        forms = [form for access in self.normal.accesses for form in access]
        columns = [self.values(form) for form in forms]
        elements = np.stack(columns, 1) if columns else np.zeros((len(self.at), 0), np.int64)
        return Counter(map(tuple, elements[self.good].tolist()))


# ** at random **

_STEPS = [1, 1, 1, -1, 2, -2, 3, Fraction(1, 2), Fraction(-1, 2), Fraction(2, 3), Fraction(1, 3)]
_NUMBERS = [0, 0, 0, 1, -1, 1, 2, -2, 3, 4, 6, -3, Fraction(1, 2), Fraction(-3, 2), Fraction(1, 3)]
_OFFSETS = [*range(-4, 5), Fraction(1, 2), Fraction(-1, 3)]


@st.composite
def contractions(draw: st.DrawFn) -> Contraction:
    """Up to four indices, each bounded by a form that may have those before it.

    Most forms are shifted such that a certain point is within all of them.
    """
    fractions = draw(st.booleans())
    names = draw(st.permutations("abcdxyzi"))[: draw(st.integers(1, 4))]
    point = {name: draw(st.integers(-3, 3)) for name in names}

    def pick(numbers: Sequence[int | Fraction]) -> Fraction:
        kept = numbers if fractions else [x for x in numbers if isinstance(x, int)]
        return Fraction(draw(st.sampled_from(kept)))

    def bounded(form: Affine) -> Bounded:
        extent = draw(st.integers(1, 6))
        if draw(st.integers(0, 15)) == 0:
            return Bounded(form + pick(_OFFSETS), extent - 1)
        value = sum((c * point[n] for n, c in form.terms), Fraction(0))
        return Bounded(form - value + draw(st.integers(0, extent - 1)), extent)

    def mixed(form: Affine, others: Sequence[str]) -> Affine:
        return sum((Affine.of(other, pick(_NUMBERS)) for other in others), form)

    pins: list[tuple[str, Bounded]] = []
    for k, name in enumerate(names):
        form = Affine.of(name, pick(_STEPS))
        pins.append((name, bounded(mixed(form, names[:k] if draw(st.booleans()) else ()))))
    more = [bounded(mixed(Affine(), names)) for _ in range(draw(st.integers(0, 3)))]
    rows = draw(st.permutations([*(row for _, row in pins), *more]))
    places = [draw(st.integers(0, 3)) for _ in rows]
    groups = [[r for r, at in zip(rows, places, strict=True) if at == k] for k in range(4)]
    tensors = tuple((tuple(r.form for r in g), tuple(r.extent for r in g)) for g in groups[:3])
    return Contraction(tensors, tuple(groups[3]), tuple(pins))
