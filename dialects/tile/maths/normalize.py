"""The normal form of a contraction: each index runs from 0 to its own range.

A contraction in the Tile language has no ranges. It aggregates over all integers for which all
index expressions are integers inside their dimensions and all constraints hold. `normalize` finds
the exact ranges of the indices and makes fractional expressions integral:

    O[2*x + i : 100] = +(I[x]), i < 4, with 50 elements in I
    -> [v0_1: 50, v0_0: 2 | v1_0: 2], O[v0_0 + 2*v0_1], I[v0_1 - v1_0], v0_1 - v1_0 < 50

The steps and names are those of PlaidML 0.7 (`tile/lang/compile.cc`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.attributes import Index
from tessella.dialects.tile.maths.forms import Affine
from tessella.dialects.tile.maths.intervals import Constraint, Interval, bounds, merge
from tessella.dialects.tile.maths.limits import (
    MAX_FORMS,
    MAX_INDICES,
    check_count,
    check_numbers,
)
from tessella.dialects.tile.maths.variables import Bounded, Variables, names_of, reduced, split
from tessella.support.conditions import always
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Expr, Size

TensorAccess = tuple[Sequence[Affine], Sequence[Size]]
"""An access to a tensor: one form for each dimension, and the shape of the tensor."""

_NEVER: Constraint = (Linear((), -1), 1)


@dataclass(frozen=True)
class Normal:
    """The normal form of a contraction: a box of indices, each with its own range, and constraints.

    The points of the contraction are the points of the box at which all constraints hold. They
    correspond one to one to the points of the program, with the same elements accessed. Different
    values of the free indices are different elements of the output.
    """

    indices: tuple[Index, ...]
    """The indices: first the free indices, which occur in the output's access, then the reduced
    indices.

    No range is the number 0 or 1. If the range of an index follows from numbers alone, the index
    takes its first value and its last at some points of the space.
    """
    accesses: tuple[Access, ...]
    """The accesses, one form for each dimension: first the output's access, then the inputs'
    accesses in the given order."""
    constraints: tuple[Constraint, ...]
    """The constraints ``0 <= form < extent`` that the program and the tensors' dimensions impose,
    except those that the box implies. No two of them have parallel forms."""

    @property
    def empty(self) -> bool:
        """True if the contraction has no points.

        If so, the only constraint is a constant out of its range, there are no indices, and all
        accesses are zero.
        """
        return self.constraints == (_NEVER,)


def normalize(tensors: Sequence[TensorAccess], constraints: Sequence[Bounded] = ()) -> Normal:
    """Return the normal form of a contraction. Some of its extents and constants may depend on
    symbols.

    ``tensors`` lists the output first. Raises `UnboundedIndexError`, which names the indices
    without bounds, `ResourceError`, which names the exceeded limit of `limits`, and
    `UndecidedSizeError` if the normal form is different for some values of symbols.
    """
    output, *inputs = [_dimensions(forms, shape) for forms, shape in tensors]
    others = [*constraints, *chain(*inputs)]
    _check([*output, *others])
    variables = _variables(output, others)
    if variables is None:
        return _nothing(tensors)
    return _normal(variables, tensors, [*constraints, *output, *chain(*inputs)])


def _dimensions(forms: Sequence[Affine], shape: Sequence[Size]) -> list[Bounded]:
    if len(forms) != len(shape):
        raise InvalidModelError(
            "a tensor is accessed by another number of index expressions than it has dimensions",
            expected=f"{len(shape)}, one for each dimension of {list(shape)}",
            found=f"[{', '.join(map(str, forms))}]",
        )
    return [Bounded(form, extent) for form, extent in zip(forms, shape, strict=True)]


def _check(rows: Sequence[Bounded]) -> None:
    """Raise `ResourceError` for a contraction that is too large to normalize in reasonable time."""
    check_count("dimensions and constraints", len(rows), MAX_FORMS)
    check_count("indices", len(names_of(row.form for row in rows)), MAX_INDICES)
    for row in rows:
        numbers = (row.extent, row.form.constant, *(c for _, c in row.form.terms))
        known = (x for x in numbers if not isinstance(x, Expr))
        check_numbers(chain.from_iterable((x.numerator, x.denominator) for x in known), row)


def _variables(output: Sequence[Bounded], others: Sequence[Bounded]) -> Variables | None:
    """Return variables in which all forms are integral; None if there is no point at which all
    forms are integers."""
    variables = reduced(output, others)
    integers = [row.form for row in chain(output, others)]
    integers += [Affine.of(name) for name in names_of(integers)]
    forms = [variables.apply(form) for form in integers]
    return variables if all(form.integral for form in forms) else split(variables, forms)


def _normal(
    variables: Variables, tensors: Sequence[TensorAccess], rows: Sequence[Bounded]
) -> Normal:
    """Return the normal form, given variables in which all forms are integral."""
    accesses = [tuple(variables.apply(f).linear() for f in forms) for forms, _ in tensors]
    constraints = [(variables.apply(row.form).linear(), row.extent) for row in rows]
    constraints += [(Linear.of(name), extent) for name, extent in variables.extents]
    for form, _ in constraints:
        numbers = (form.constant, *(c for _, c in form.terms))
        check_numbers((x for x in numbers if not isinstance(x, Expr)), form)
    ranges = bounds(constraints)
    if ranges is None:
        return _nothing(tensors)
    shifted = {name: _from_zero(name, *ends) for name, ends in ranges.items()}
    box = {n: high - low + 1 for n, (low, high) in ranges.items() if not always(low >= high)}
    accesses = [tuple(form.substitute(shifted) for form in access) for access in accesses]
    kept = _kept(((f.substitute(shifted), extent) for f, extent in constraints), box)
    free = {name for form in accesses[0] for name, _ in form.terms}
    indices = [Index(name, box[name], name not in free) for name in variables.names if name in box]
    return Normal(tuple(indices), tuple(accesses), kept)


def _from_zero(name: str, low: Size, high: Size) -> Linear:
    """Return the form that replaces a variable from ``low`` to ``high``: a variable of the same
    name that starts at 0, plus ``low``. The form is a constant if the variable has a single
    value."""
    return Linear((), low) if always(low >= high) else Linear.of(name) + low


def _kept(constraints: Iterable[Constraint], box: Mapping[str, Size]) -> tuple[Constraint, ...]:
    """Return the constraints that do not hold at all points of the box, with parallel constraints
    merged."""
    merged = merge(constraints)
    assert merged is not None, "a space that has points has none"
    return tuple(x.constraint for x in merged if not _implied(x, box))


def _implied(interval: Interval, box: Mapping[str, Size]) -> bool:
    low, high = interval.form.bounds(box)
    return always(interval.low <= low) and always(high <= interval.high)


def _nothing(tensors: Sequence[TensorAccess]) -> Normal:
    accesses = tuple((Linear(),) * len(forms) for forms, _ in tensors)
    return Normal((), accesses, (_NEVER,))
