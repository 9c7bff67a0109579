"""Stride tables against the article's, and against addresses that NumPy computes."""

from __future__ import annotations

import itertools

import numpy as np

from tessella.passes.plaidml.stride_table import Column, StrideTable, stride_table, vectorize
from tests.passes.tile_statements import article, contraction


def test_article() -> None:
    """The table of PlaidML's article, with the tensors' names of here."""
    table = stride_table(article())
    assert str(table) == (
        "             Range         O         A         B\n"
        "      ci        64         0         1         1\n"
        "      co        64         1         0        64\n"
        "       i         3         0     14336     12288\n"
        "       j         3         0        64      4096\n"
        "       n        32   3211264   3211264         0\n"
        "       x       224     14336     14336         0\n"
        "       y       224        64        64         0\n"
        "     off                   0    -14400         0"
    )
    assert table.point_ops == 4  # multiply, add, compare, select
    assert table.constrained
    assert vectorize(table, 4) == table


def test_addresses() -> None:
    """Each column gives the place of the element in the array, whatever the accesses are."""
    op = contraction(
        "x: 4, u: 1, y: 3 | i: 2",
        [("[2*x + i, -y + 2, 5]", "9x3x7"), ("[i, x, u + 1]", "2x4x2")],
        ("[y, x, u]", "3x4x1"),
    )
    table = stride_table(op)
    assert table.names == ("i", "x", "y")
    a = np.arange(9 * 3 * 7).reshape(9, 3, 7)
    b = np.arange(2 * 4 * 2).reshape(2, 4, 2)
    out = np.arange(3 * 4).reshape(3, 4, 1)
    for point in itertools.product(*map(range, table.ranges)):
        i, x, y = point
        found = [c.offset + np.dot(c.strides, point) for c in table.columns]
        assert found == [out[y, x, 0], a[2 * x + i, 2 - y, 5], b[i, x, 1]]


def elements(table: StrideTable, column: Column) -> set[tuple[tuple[int, ...], int]]:
    """All (point, address) of a column, in elements. A step is ``lanes`` neighbours."""
    found: set[tuple[tuple[int, ...], int]] = set()
    for step in itertools.product(*map(range, table.ranges)):
        first = (column.offset + int(np.dot(column.strides, step))) * column.lanes
        for lane in range(max(table.lanes)):
            point = tuple(s * n + lane * (n > 1) for s, n in zip(step, table.lanes, strict=True))
            found.add((point, first + (lane if column.lanes > 1 else 0)))
    return found


def test_vectors_access_the_same_elements() -> None:
    """A vector in the output is one in B and a single element in A."""
    op = contraction(
        "m: 3, n: 24 | k: 8", [("[m, k]", "3x8"), ("[k, n]", "8x24")], ("[m, n]", "3x24")
    )
    table = stride_table(op)
    vectors = vectorize(table, 16)
    assert vectors.lanes == (1, 1, 8)
    assert [c.lanes for c in vectors.columns] == [8, 1, 8]
    assert vectors.ranges == (8, 3, 3)
    for before, after in zip(table.columns, vectors.columns, strict=True):
        assert elements(table, before) == elements(vectors, after)
        assert before.size == after.size * after.lanes


def test_what_forbids_vectors() -> None:
    def of(a: str, b: str, shape: str, ranges: str = "m: 4, n: 8 | k: 4") -> StrideTable:
        return stride_table(contraction(ranges, [(a, "4x4"), (b, shape)], ("[m, n]", "4x8")))

    assert vectorize(of("[m, k]", "[k, n]", "4x8"), 4).out.lanes == 4
    assert vectorize(of("[m, k]", "[n, k]", "8x4"), 4).out.lanes == 1  # no unit stride
    assert vectorize(of("[m, k]", "[k, n + 2]", "4x12"), 4).out.lanes == 2  # the offset
    assert vectorize(of("[m, k]", "[k, n]", "4x10"), 4).out.lanes == 2  # the other stride
    assert vectorize(of("[m, k]", "[k, n]", "4x9"), 4).out.lanes == 1
    assert vectorize(of("[m, k]", "[k, n]", "4x8", "m: 4, n: 6 | k: 4"), 4).out.lanes == 2
