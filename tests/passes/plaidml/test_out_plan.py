"""Threads divide a tile of the output."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessella.passes.plaidml.out_plan import OutPlan, share
from tessella.passes.plaidml.stride_table import Column, stride_table
from tests.passes.tile_statements import article

powers = st.integers(0, 6).map(lambda n: 1 << n)


def test_article() -> None:
    """256 threads have 8 accumulators each for 2 x 2 x 16 x 32 outputs."""
    plan = OutPlan.of(stride_table(article()).out, (8, 32, 2, 3, 16, 2, 2), 256, 32)
    assert prod(plan.tile) == 2048
    assert (prod(plan.threads), plan.elements) == (256, 8)


@given(st.lists(powers, max_size=4), powers, powers)
def test_powers_of_two_leave_no_thread_idle(tile: list[int], threads: int, line: int) -> None:
    counts = share(tile, threads, line)
    assert prod(counts) == (min(threads, prod(tile)) if tile else 1)
    assert all(count <= size for count, size in zip(counts, tile, strict=True))


@given(st.lists(st.integers(1, 40), max_size=4), powers, powers)
def test_each_output_has_a_thread(tile: list[int], threads: int, line: int) -> None:
    counts = share(tile, threads, line)
    assert prod(counts) <= threads
    assert all(count & (count - 1) == 0 for count in counts)
    assert all(count < 2 * size for count, size in zip(counts, tile, strict=True))
    plan = OutPlan((1,) * len(tile), tuple(tile), counts, line)
    assert plan.elements * prod(counts) >= prod(tile)


def test_threads_go_where_they_divide() -> None:
    assert share((32, 2, 2, 16), 256, 8) == (8, 2, 2, 8)
    assert share((3, 4), 8, 1) == (2, 4)
    assert share((), 8, 1) == ()


@given(powers, st.lists(st.integers(1, 4), max_size=2), st.integers(0, 5))
def test_lines(run: int, outer: list[int], log_line: int) -> None:
    """A tile at the beginning of rows of 64 elements."""
    strides = (1, 64, 4096)[: len(outer) + 1]
    tile = (run, *outer)
    plan = OutPlan.of(Column("O", strides, 0, 1 << 18, 4), tile, 16, 4 << log_line)
    points = itertools.product(*map(range, tile))
    assert plan.lines == len({int(np.dot(strides, p)) >> log_line for p in points})
