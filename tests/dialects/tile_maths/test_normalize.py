"""The normal form against the definition: the same elements meet, as often."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, reject, settings

from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.maths import Affine, Bounded, normalize
from tessella.dialects.tile.maths.limits import MAX_FORMS, MAX_INDICES, MAX_NUMBER
from tessella.support.decisions import known_all
from tessella.support.errors import InvalidModelError, ResourceError, UnboundedIndexError
from tests.dialects.tile_maths.enumeration import Box, Contraction, contractions, meant
from tests.sampling import sampled

MAX_POINTS = 200_000

i, j, k, x, y = map(Affine.of, "ijkxy")


def box_of(contraction: Contraction) -> Box:
    """The normal form's points, if they are not too many to be listed."""
    normal = normalize(contraction.tensors, contraction.constraints)
    if math.prod(known_all(index.range for index in normal.indices)) > MAX_POINTS:
        reject()
    return Box.of(normal)


def distinct(rows: Sequence[np.ndarray]) -> int:
    return len(np.unique(np.stack(rows, 1), axis=0)) if rows else 1


@given(contractions())
@settings(max_examples=sampled(200))
def test_the_same_elements_meet(contraction: Contraction) -> None:
    box = box_of(contraction)
    expected = meant(contraction)
    assert box.met == expected
    assert box.normal.empty == (not expected)


@given(contractions())
@settings(max_examples=sampled(100))
def test_the_box_is_tight(contraction: Contraction) -> None:
    """Each index takes its first value and its last, and each constraint is needed."""
    box = box_of(contraction)
    if box.normal.empty:
        return
    points = box.at[box.good]
    assert points.min(axis=0, initial=MAX_POINTS).tolist() == [0] * len(box.normal.indices)
    assert points.max(axis=0).tolist() == [index.range - 1 for index in box.normal.indices]
    assert all(index.range > 1 for index in box.normal.indices)
    for form, extent in box.normal.constraints:
        values = box.values(form)
        assert values.min() < 0 or values.max() >= extent


@given(contractions())
@settings(max_examples=sampled(100))
def test_free_indices_are_elements_of_the_output(contraction: Contraction) -> None:
    """No two values of the free indices, which come first, are the same element."""
    box = box_of(contraction)
    reduced = [index.reduced for index in box.normal.indices]
    assert reduced == sorted(reduced)
    free = [box.at[:, n] for n in range(reduced.count(False))]
    out = [box.values(form) for form in box.normal.accesses[0]]
    assert distinct(free) == distinct(out)
    used = {name for form in box.normal.accesses[0] for name, _ in form.terms}
    assert used == {index.name for index in box.normal.indices if not index.reduced}


# ** names **


def test_indices_keep_their_names() -> None:
    normal = normalize([([y, x], [4, 5]), ([x + i - 1, y], [5, 4]), ([i], [3])])
    assert [(x.name, x.range, x.reduced) for x in normal.indices] == [
        ("y", 4, False),
        ("x", 5, False),
        ("i", 3, True),
    ]
    assert str(normal.accesses[1][0]) == "x + i - 1"
    assert [(str(form), extent) for form, extent in normal.constraints] == [("x + i - 1", 5)]


def test_indices_that_share_digits() -> None:
    """If two indices have the same parity, only the output's is split into bits and the rest."""
    normal = normalize([([k], [8]), ([(i + k) / 2], [8]), ([i], [7])])
    assert [(x.name, x.range) for x in normal.indices] == [("k_1", 4), ("k_0", 2), ("i_0", 4)]
    assert [str(forms[0]) for forms in normal.accesses] == [
        "k_0 + 2*k_1",
        "i_0 + k_0 + k_1",
        "2*i_0 + k_0",
    ]


def test_a_flattened_tensor_has_no_constraints() -> None:
    """A row-major position is made of digits: there are as many points as elements."""
    shape = [7, 3, 2, 4]
    a, b, c, d = map(Affine.of, "abcd")
    normal = normalize([([24 * a + 8 * b + 4 * c + d], [168]), ([a, b, c, d], shape)])
    assert [index.range for index in normal.indices] == shape
    assert normal.constraints == ()


def test_digits_of_digits() -> None:
    """x = y + 2, modulo 4, and y = z + 1, modulo 2, for an output that moves with z."""
    z = Affine.of("z")
    rows = [Bounded((x - y - 2) / 4 + 9, 20), Bounded((y - z - 1) / 2 + 9, 20)]
    tensors = (((z,), (6,)), ((y,), (6,)), ((x,), (6,)))
    pins = (("z", Bounded(z, 6)), ("y", Bounded(y, 6)), ("x", Bounded(x, 6)))
    contraction = Contraction(tensors, tuple(rows), pins)
    assert box_of(contraction).met == meant(contraction)


# ** empty spaces **


@pytest.mark.parametrize(
    "constraints",
    [
        [Bounded(Affine.number(5), 5)],
        [Bounded(Affine.number(-1), 5)],
        [Bounded(Affine.number(1) / 2, 5)],
        [Bounded(i, 0)],
        [Bounded(i, -3)],
        [Bounded(i - 20, 5)],
        [Bounded(i / 2, 5), Bounded(i / 2 + Affine.number(1) / 2, 5)],
        [Bounded(2 * i - 2 * j + 1, 1), Bounded(j, 5)],
        [Bounded(3 * i - 5 * j - 2, 1), Bounded(j, 2)],
    ],
    ids=lambda rows: ", ".join(map(str, rows)),
)
def test_empty(constraints: list[Bounded]) -> None:
    normal = normalize([([i], [10]), ([i, i + 1], [11, 11])], constraints)
    assert normal.empty
    assert normal.indices == ()
    assert normal.accesses == ((Linear(),), (Linear(), Linear()))
    assert not Box.of(normal).met


def test_one_point() -> None:
    normal = normalize([([], []), ([], [])], [Bounded(Affine.number(3), 4)])
    assert not normal.empty
    assert (normal.indices, normal.accesses, normal.constraints) == ((), ((), ()), ())


def test_an_index_that_is_in_no_tensor_is_counted() -> None:
    normal = normalize([([], []), ([i], [3])], [Bounded(j, 5)])
    assert [(x.name, x.range, x.reduced) for x in normal.indices] == [
        ("j", 5, True),
        ("i", 3, True),
    ]


# ** errors **


def test_an_index_without_bounds_is_named() -> None:
    with pytest.raises(UnboundedIndexError, match="none for j, k") as caught:
        normalize([([i], [4]), ([i, j + k], [4, 4])])
    assert caught.value.names == ("j", "k")


def test_another_number_of_dimensions() -> None:
    with pytest.raises(InvalidModelError, match=r"found: \[i, j\]"):
        normalize([([i, j], [4])])


def test_too_many_indices() -> None:
    many = [Affine.of(f"i{n}") for n in range(MAX_INDICES + 1)]
    assert len(normalize([(many[1:], [2] * MAX_INDICES)]).indices) == MAX_INDICES
    with pytest.raises(ResourceError, match="too many indices"):
        normalize([(many, [2] * len(many))])


def test_too_many_forms() -> None:
    with pytest.raises(ResourceError, match="too many dimensions and constraints"):
        normalize([([i], [4])], [Bounded(i, 4)] * MAX_FORMS)


@pytest.mark.parametrize("form", [MAX_NUMBER * i, i / MAX_NUMBER, i + MAX_NUMBER], ids=str)
def test_too_large_numbers(form: Affine) -> None:
    with pytest.raises(ResourceError, match="too large"):
        normalize([([i], [4]), ([form], [4])])


def test_numbers_that_become_too_large() -> None:
    primes = [2**31 - 1, 2**61 - 1]
    with pytest.raises(ResourceError, match="too large"):
        normalize([([i], [4]), ([i / p for p in primes], [4, 4])])


def test_too_much_work() -> None:
    """Random coefficients of three digits: the space has long edges, thinner than the integers."""
    forms = [
        -499 * j - 462 * i + 304 * k + 310,
        -377 * j - 131 * i + 9 * k - 884,
        -372 * k - 676 * j + 367 * i - 645,
    ]
    with pytest.raises(ResourceError, match="too long to find"):
        normalize(
            [(forms, [860802, 97254, 794579]), ([918 * i - 503 * j - 250 * k + 795], [45070])],
            [Bounded(i, 540530), Bounded(k, 844802)],
        )
