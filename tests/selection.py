"""The selection of cases of parametrised tests: parameters rotate instead of multiplying.

A case is a point of a grid, with one axis for each `parametrize`:

    target      sse avx2 avx512          sse  avx2  avx512
    threads     1 2                ->    1    2     1         every value, by default
    open        False True               False True True      every pair of the two longest, --slow

A test that is chosen by name runs all of its cases.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

import pytest

Point = tuple[int, ...]

PART_OF_A_SWEEP = 6
LEAST_OF_A_SWEEP = 2


def left_out(items: Sequence[pytest.Item], *, slow: bool) -> set[str]:
    """The ids of the cases that do not run. Without ``slow``, tests marked `slow` do not count."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if slow or item.get_closest_marker("slow") is None:
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {name for cases in functions.values() for name in _left_out(cases, slow=slow)}


def rotation(extents: Sequence[int], *, pairs: bool) -> Iterator[Point]:
    """Points of a grid with these extents in which each index of each axis occurs; with ``pairs``,
    each pair of indices of the two longest axes."""
    axes = sorted(range(len(extents)), key=lambda axis: -extents[axis])
    for i in range(math.prod(extents[axis] for axis in axes[: 1 + pairs])):
        point, before = [0] * len(extents), 1
        for rank, axis in enumerate(axes):
            # the quotient keeps axes of one extent from moving together
            step = i // before if pairs and rank == 1 else i + (rank > 1) * (i // before)
            point[axis] = step % extents[axis]
            before *= 1 if rank == 0 and not pairs else extents[axis]
        yield tuple(point)


def _left_out(cases: Sequence[pytest.Item], *, slow: bool) -> set[str]:
    names = [case.nodeid for case in cases]
    sweep = cases[0].get_closest_marker("sweep")
    if sweep is not None and (first := sweep.kwargs.get("first")) is not None:
        return {*names[first:]}
    if sweep is not None and not slow:
        count = max(len(cases) // PART_OF_A_SWEEP, LEAST_OF_A_SWEEP)
        return {*names} - {*_shuffled(sorted(names))[:count]}
    points = _grid([_point(case) for case in cases])
    extents = [max(axis) + 1 for axis in zip(*points, strict=True)]
    if len(extents) < 2 or math.prod(extents) != len(cases):
        return set()
    chosen = {*rotation(extents, pairs=slow)}
    return {case.nodeid for case, point in zip(cases, points, strict=True) if point not in chosen}


def _point(case: pytest.Item) -> Sequence[object]:
    """Return the values that the `parametrize` marks and parametrised fixtures give the case."""
    spec = getattr(case, "callspec", None)
    if spec is None:
        return ()
    # a mark gives all of its cases the same objects
    params = {name: id(value) for name, value in spec.params.items()}
    point: list[object] = []
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        point.append(tuple(params.pop(name.strip()) for name in names))
    return (*point, *params.values())


def _grid(points: Sequence[Sequence[object]]) -> Sequence[Point]:
    """The points as indices into the values that occur, without axes of one value."""
    axes = [[*dict.fromkeys(axis)] for axis in zip(*points, strict=True)]
    long = [(i, axis) for i, axis in enumerate(axes) if len(axis) > 1]
    return [tuple(axis.index(point[i]) for i, axis in long) for point in points]


def _shuffled(names: Sequence[str]) -> Sequence[str]:
    """The names in an order that has nothing to do with them, and is always the same."""
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))
