"""Changes of variables: indices as integer forms of variables that are easier to bound.

`reduced` makes variables of the output's index expressions; `split` makes variables for which all
forms are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from tessella.dialects.tile.maths.forms import Affine, Constant
from tessella.dialects.tile.maths.lattice import Digit, digits
from tessella.dialects.tile.maths.rowspace import RowSpace
from tessella.support.errors import UnboundedIndexError
from tessella.support.sizes import Expr, Size, estimated


@dataclass(frozen=True)
class Bounded:
    """A constraint on the indices: ``0 <= form < extent``, and the form must be an integer."""

    form: Affine
    extent: Size

    def __str__(self) -> str:
        return f"0 <= {self.form} < {self.extent}"


@dataclass(frozen=True)
class Variables:
    """Integer variables that replace the indices of a contraction."""

    free: tuple[str, ...]
    """The variables of the output."""
    others: tuple[str, ...]
    values: Mapping[str, Affine] = field(default_factory=dict[str, Affine])
    """The indices as forms of the variables. An index that is not listed is itself a variable."""
    extents: tuple[tuple[str, int], ...] = ()
    """The ranges of variables that have one by construction: ``0 <= variable < extent``."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.free + self.others

    def apply(self, form: Affine) -> Affine:
        """Return a form of the indices as a form of the variables."""
        return form.substitute(self.values) if self.values else form


def names_of(forms: Iterable[Affine]) -> tuple[str, ...]:
    """Return the names of the indices that occur in forms, in order of occurrence."""
    return tuple(dict.fromkeys(name for form in forms for name in form.names))


def reduced(output: Sequence[Bounded], others: Sequence[Bounded]) -> Variables:
    """Return variables for which each dimension of the output depends on one variable.

    If no form of the output has two or more indices, they are the indices themselves. Otherwise
    they are variables ``v0, v1, ...``, each equal to one of the first independent forms: the forms
    of the output, then the others by extent. Raises `UnboundedIndexError` if the forms leave an
    index without bounds.
    """
    free = names_of(row.form for row in output)
    names = tuple(dict.fromkeys((*free, *names_of(row.form for row in others))))
    candidates = [*output, *sorted(others, key=lambda row: estimated(row.extent))]
    space, chosen = _independent([row.form for row in candidates], names)
    unbounded = [name for i, name in enumerate(names) if not space.determines(i)]
    if unbounded:
        raise UnboundedIndexError(unbounded)
    if all(len(row.form.terms) < 2 for row in output):
        return Variables(free, names[len(free) :])
    fresh = tuple(f"v{k}" for k in range(len(chosen)))
    forms = [
        Affine.of(v) - candidates[at].form.constant for v, at in zip(fresh, chosen, strict=True)
    ]
    values = {name: _solution(space.rows[i], i, forms) for i, name in enumerate(names)}
    count = sum(at < len(output) for at in chosen)
    return Variables(fresh[:count], fresh[count:], values)


def _independent(forms: Sequence[Affine], names: Sequence[str]) -> tuple[RowSpace, list[int]]:
    """Return the span of the rows ``[coefficients | unit vector]`` of independent forms, and the
    numbers of these forms, the first independent ones."""
    width = len(names)
    space = RowSpace(width)
    chosen: list[int] = []
    for at, form in enumerate(forms):
        if space.rank == width:
            break
        scale = lcm(*(c.denominator for _, c in form.terms))
        row = [int(form.coefficient(name) * scale) for name in names] + [0] * width
        row[width + len(chosen)] = scale
        if space.add(row):
            chosen.append(at)
    return space, chosen


def _solution(row: Sequence[int], pivot: int, forms: Sequence[Affine]) -> Affine:
    """Return an index as a combination of ``forms``: the solution of ``row[pivot] * index =
    sum(row[width + k] * forms[k])``."""
    weights = row[-len(forms) :]
    terms = (f * Fraction(c, row[pivot]) for c, f in zip(weights, forms, strict=True))
    return sum(terms, Affine())


def split(variables: Variables, forms: Sequence[Affine]) -> Variables | None:
    """Return variables for which all forms are integers at all integer values; None if no integers
    make all forms integers.

    A variable ``v`` becomes ``v_0 + m*v_1 + ...``. Other variables, further from the output, share
    its lower digits.
    """
    columns = _columns(variables, forms)
    rows = [[*map(form.coefficient, columns), _fraction(form.constant)] for form in forms]
    found = digits(rows, len(columns) + 1)
    # The last coordinate represents the constants. It must be 1, which its first digit determines.
    steps = [d for d in found if d.coordinate < len(columns)]
    offset = next(d.step for d in found if d.coordinate == len(columns))
    if offset[-1] != 1:
        return None
    return _from_digits(variables, columns, steps, offset)


def _fraction(constant: Constant) -> Fraction:
    """Return a constant as a fraction. A symbolic constant is an integer, so it does not change
    whether a form is an integer: return 0 for it."""
    return Fraction(0) if isinstance(constant, Expr) else constant


def _columns(variables: Variables, forms: Sequence[Affine]) -> list[str]:
    """Return the variables in an order in which later variables share digits with earlier ones.

    The variables of the output come last, so that its forms have only their own digits. If the
    coefficients already belong to digits, the variable of the lowest digit has the greatest
    denominator.
    """
    denominators = {
        name: lcm(*(form.coefficient(name).denominator for form in forms))
        for name in variables.names
    }
    place = {name: (name in variables.free, -i) for i, name in enumerate(variables.names)}
    return sorted(place, key=lambda name: (place[name][0], denominators[name], place[name][1]))


def _from_digits(
    variables: Variables, columns: Sequence[str], steps: Sequence[Digit], offset: Sequence[int]
) -> Variables:
    own: dict[str, list[str]] = {name: [] for name in columns}
    values = {name: Affine.number(c) for name, c in zip(columns, offset, strict=False)}
    extents: list[tuple[str, int]] = []
    for digit in steps:
        name = columns[digit.coordinate]
        fresh = f"{name}_{len(own[name])}"
        own[name].append(fresh)
        for column, c in zip(columns, digit.step, strict=False):
            values[column] += Affine.of(fresh, c)
        if digit.extent is not None:
            extents.append((fresh, digit.extent))
    indices = {name: form.substitute(values) for name, form in variables.values.items()} or values
    free = tuple(fresh for name in variables.free for fresh in reversed(own[name]))
    others = tuple(fresh for name in variables.others for fresh in reversed(own[name]))
    return Variables(free, others, indices, tuple(extents))
