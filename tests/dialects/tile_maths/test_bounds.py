"""Integer bounds against enumeration, and merged constraints."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.maths.intervals import Constraint, bounds, merge
from tessella.support.decisions import known

SIDE = 8

x, y, z = map(Linear.of, "xyz")
i0, i1, k0 = map(Linear.of, ("i0", "i1", "k0"))


@st.composite
def spaces(draw: st.DrawFn, least: int = 1) -> list[Constraint]:
    """A box of up to four variables, and forms of them."""
    names = "xyzw"[: draw(st.integers(least, 4))]
    box = [(Linear.of(n), draw(st.integers(1, SIDE))) for n in names]
    forms: list[Constraint] = []
    for _ in range(draw(st.integers(0, 4))):
        form = Linear((), draw(st.integers(-20, 20)))
        for name in names:
            form += Linear.of(name, draw(st.integers(-7, 7)))
        forms.append((form, draw(st.integers(0, 22))))
    return draw(st.permutations([*box, *forms]))


def value(form: Linear, point: dict[str, int]) -> int:
    return known(form.constant) + sum(c * point[name] for name, c in form.terms)


def points(space: list[Constraint]) -> list[dict[str, int]]:
    names = sorted({name for form, _ in space for name, _ in form.terms})
    box = (
        dict(zip(names, p, strict=True)) for p in itertools.product(range(SIDE), repeat=len(names))
    )
    return [p for p in box if all(0 <= value(form, p) < extent for form, extent in space)]


@given(spaces())
def test_bounds(space: list[Constraint]) -> None:
    inside = points(space)
    if not inside:
        assert bounds(space) is None
        return
    expected = {n: (min(p[n] for p in inside), max(p[n] for p in inside)) for n in inside[0]}
    assert bounds(space) == expected


@given(spaces(least=2), st.integers(-3, 3), st.integers(-3, 3))
def test_bounds_without_a_box(space: list[Constraint], a: int, b: int) -> None:
    """With u and v for which x = u + a*v and y = v + b*x, no constraint bounds one of them
    alone."""
    u, v = Linear.of("u"), Linear.of("v")
    x_form = u + v * a
    forms = {"x": x_form, "y": v + x_form * b}
    found = bounds([(form.substitute(forms), extent) for form, extent in space])
    values = [(p["x"] - a * (p["y"] - b * p["x"]), p["y"] - b * p["x"]) for p in points(space)]
    if not values:
        assert found is None
        return
    assert found is not None
    us, vs = zip(*values, strict=True)
    assert (found["u"], found["v"]) == ((min(us), max(us)), (min(vs), max(vs)))


@given(spaces())
def test_merged_constraints_have_the_same_points(space: list[Constraint]) -> None:
    merged = merge(space)
    inside = points(space)
    if merged is None:
        assert not inside
        return
    assert points([interval.constraint for interval in merged]) == inside
    directions = [frozenset(x.form.terms) for x in merged]
    assert len({*directions, *(frozenset((x.form * -1).terms) for x in merged)}) == 2 * len(merged)


def test_parallel_constraints_of_plaidml() -> None:
    """0 <= 2x + y + 1 < 8 and 0 <= -4x - 2y - 2 < 2 leave 0 <= -2x - y - 1 < 1."""
    merged = merge([(x * 2 + y + 1, 8), (x * -4 + y * -2 - 2, 2)])
    assert merged is not None
    assert [(str(form), extent) for form, extent in (m.constraint for m in merged)] == [
        ("2*x + y + 1", 1)
    ]


def test_bounds_of_plaidml() -> None:
    """The cases of `tile/lang/lang_test.cc` and `tile/bilp/test.cc`."""
    assert bounds([(x, 5), (x + y, 7), (y, 3)]) == {"x": (0, 4), "y": (0, 2)}
    assert bounds([(x, 7), (x + y, 7), (y + 1, 3)]) == {"x": (0, 6), "y": (-1, 1)}
    assert bounds([(i0, 2), (i0 + k0 * 2, 5), (i0 + i1 + k0, 35), (i0 + i1 * 2, 70)]) == {
        "i0": (0, 1),
        "k0": (0, 2),
        "i1": (0, 34),
    }


def test_no_integers_between_fractions() -> None:
    """The real points are a segment on which no two coordinates are integers."""
    assert bounds([(x * 3 - y * 5 - 1, 1), (x * 2 + y * 7 - 6, 2), (x, 9), (y, 9)]) is None


def test_long_edges() -> None:
    """Ranges of millions are not searched value by value."""
    size = 10**9
    found = bounds([(x - y * 1000, 1000), (x, size), (y + z, size), (y - z, 2)])
    assert found == {"x": (0, size - 1), "y": (0, 10**6 - 1), "z": (0, 10**6 - 1)}
