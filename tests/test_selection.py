"""The selection of cases of parametrised tests."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.selection import left_out, rotation

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


@dataclass(frozen=True)
class Case:
    """A case of a test with one mark, as pytest collects it."""

    nodeid: str
    mark: pytest.Mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        """Return the mark if it has the name."""
        return self.mark if self.mark.name == name else None


@pytest.mark.parametrize("slow", [False, True])
def test_the_first_cases_of_a_long_sweep_run(slow: bool) -> None:
    names = [f"tests/x.py::test_x[{letter}]" for letter in "dcba"]
    cases: list[Any] = [Case(name, pytest.mark.sweep(first=1).mark) for name in names]
    assert left_out(cases, slow=slow) == {*names[1:]}


def test_a_sixth_of_a_sweep_runs_and_all_of_it_if_slow() -> None:
    names = [f"tests/x.py::test_x[{number}]" for number in range(18)]
    cases: list[Any] = [Case(name, pytest.mark.sweep.mark) for name in names]
    assert len(left_out(cases, slow=False)) == 15
    assert left_out(cases, slow=True) == set()
