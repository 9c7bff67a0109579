"""The selection of cases of parametrised tests."""

from __future__ import annotations

from itertools import product

import pytest

from tests.selection import rotation

GRIDS = ((4, 2, 2), (3, 3, 3), (2, 5), (2, 2), (7, 2, 3, 2), (2, 3, 4), (6, 6, 2))


@pytest.mark.parametrize("extents", GRIDS)
def test_every_value_occurs(extents: tuple[int, ...]) -> None:
    points = [*rotation(extents, pairs=False)]
    assert len({*points}) == len(points) == max(extents)
    for axis, extent in zip(zip(*points, strict=True), extents, strict=True):
        assert {*axis} == {*range(extent)}


@pytest.mark.parametrize("extents", GRIDS)
def test_every_pair_of_the_longest_axes_occurs(extents: tuple[int, ...]) -> None:
    points = [*rotation(extents, pairs=True)]
    first, second = sorted(range(len(extents)), key=lambda axis: -extents[axis])[:2]
    wanted = {*product(range(extents[first]), range(extents[second]))}
    assert {(point[first], point[second]) for point in points} == wanted
    assert len(points) == len(wanted)
    for axis, extent in zip(zip(*points, strict=True), extents, strict=True):
        assert {*axis} == {*range(extent)}


def test_short_axes_do_not_move_together() -> None:
    assert {point[1:] for point in rotation((4, 2, 2), pairs=False)} == {*product((0, 1), (0, 1))}
