"""The tile-size search against brute force over all tiles, with statistics counted in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import pytest

from tessella.passes.plaidml.log import choice_lines, tile_lines
from tessella.passes.plaidml.model import PlaidmlSettings, Tile, TileStats, override, preset
from tessella.passes.plaidml.search import search
from tessella.passes.plaidml.stride_table import StrideTable, stride_table
from tessella.support.errors import OptionError
from tests.native import Array
from tests.passes.tile_statements import article, contraction

SMALL = PlaidmlSettings(
    threads=16, mem_width=16, max_mem=800, max_regs=512, goal_groups=4, goal_flops_per_byte=3
)
LINE = 4
"""Elements of f32 in an access of ``SMALL``."""

Address = Callable[..., Array]


def points(ranges: Sequence[int]) -> Array:
    """All points, one to a column."""
    return np.indices(ranges).reshape(len(ranges), -1)


def distinct(rows: Array) -> int:
    return len(np.unique(rows, axis=-1).T) if rows.size else 1


def touched(tile: Tile, address: Address) -> Array:
    """The addresses of the elements that the first tile reads."""
    return np.unique(address(*points(tile)))


def counted(
    table: StrideTable, tile: Tile, reads: Sequence[Address], out: Address
) -> dict[str, int]:
    """Statistics of a tile, by going through all points."""
    every = points(table.ranges)
    tiles = every // np.array(tile)[:, None]
    work_groups = distinct(tiles[list(table.free)])
    writes = np.unique(touched(tile, out) // LINE)
    return {
        "true_ops": every.shape[1] * table.point_ops,
        "work_groups": work_groups,
        "inner_loops": distinct(tiles) // work_groups,
        "mem_read": 16 * sum(len(np.unique(touched(tile, a) // LINE)) for a in reads),
        "mem_write": 16 * len(writes),
        "operations": min(16, points(tile).shape[1]),
    }


# ** a matrix product: all sizes are powers of two, so that nothing is rounded **

MATMUL = stride_table(
    contraction(
        "m: 16, n: 16 | k: 16", [("[m, k]", "16x16"), ("[k, n]", "16x16")], ("[m, n]", "16x16")
    )
)


def padded(elements: Array, rows: int, columns: int) -> int:
    """A tile of a matrix in local memory; one that is a block of memory needs no padding."""
    if elements[-1] - elements[0] + 1 == len(elements) or 1 in (rows, columns):
        return len(elements)
    return (max(rows, columns) + 1) * min(rows, columns)


def a(k: Array, m: Array, n: Array) -> Array:
    return 16 * m + k


def b(k: Array, m: Array, n: Array) -> Array:
    return 16 * k + n


def c(k: Array, m: Array, n: Array) -> Array:
    return 16 * m + n


def matmul_score(tile: Tile) -> float:
    """The score by its definition, from counted statistics."""
    k, m, n = tile
    s = counted(MATMUL, tile, [a, b], c)
    outputs = len(touched(tile, c))
    held = padded(touched(tile, a), m, k) + padded(touched(tile, b), k, n)
    sums = 16 if outputs < s["operations"] else 0
    if 4 * (held + sums) > SMALL.max_mem or 4 * 16 * max(1, outputs // 16) > SMALL.max_regs:
        return -1.0
    moved = s["work_groups"] * (s["inner_loops"] * s["mem_read"] + s["mem_write"])
    roof = min(s["true_ops"] / moved, 3) / 3
    return roof * min(s["work_groups"], 4) / 4 * s["operations"] / 16


def test_matmul_is_searched_to_the_best() -> None:
    sizes = [1, 2, 4, 8, 16]
    scores = {tile: matmul_score(tile) for tile in itertools.product(sizes, repeat=3)}
    assert min(scores.values()) == -1.0  # some do not fit
    best = max(scores.values())
    for full in (False, True):
        found = search(MATMUL, SMALL, full=full)
        assert found.scores == pytest.approx({tile: scores[tile] for tile in found.scores})
        assert found.score == pytest.approx(best)
        assert scores[found.chosen] == pytest.approx(best)


def test_full_search_reaches_all_that_fit() -> None:
    found = search(MATMUL, SMALL, full=True)
    fit = {t for t in itertools.product([1, 2, 4, 8, 16], repeat=3) if matmul_score(t) > 0}
    assert fit == {tile for tile, score in found.scores.items() if score > 0}
    assert found.expanded == len(fit)


# ** a convolution with stride 2 **

STRIDED = stride_table(
    contraction(
        "x: 8, co: 4 | i: 3, ci: 8",
        [("[2*x + i - 1, ci]", "16x8"), ("[i, ci, co]", "3x8x4")],
        ("[x, co]", "8x4"),
    )
)


def data(ci: Array, co: Array, i: Array, x: Array) -> Array:
    return 8 * (2 * x + i - 1) + ci


def kernel(ci: Array, co: Array, i: Array, x: Array) -> Array:
    return 4 * (8 * i + ci) + co


def output(ci: Array, co: Array, i: Array, x: Array) -> Array:
    return 4 * x + co


def test_statistics_of_a_strided_convolution() -> None:
    assert STRIDED.names == ("ci", "co", "i", "x")
    for tile in itertools.product([1, 2, 4, 8], [1, 2, 4], [1, 2, 3], [1, 2, 4, 8]):
        stats = TileStats(STRIDED, tile, SMALL)
        wanted = counted(STRIDED, tile, [data, kernel], output)
        assert {name: getattr(stats, name) for name in wanted} == wanted


def test_every_reachable_tile_of_a_strided_convolution() -> None:
    everything = search(STRIDED, SMALL, full=True)
    sizes = ([1, 2, 4, 8], [1, 2, 4], [1, 2, 3], [1, 2, 4, 8])
    for tile in itertools.product(*sizes):
        score = TileStats(STRIDED, tile, SMALL).score
        assert score <= everything.score
        assert score < 0 or everything.scores[tile] == score


# ** the order **


def test_article() -> None:
    """PlaidML's article publishes four entries of the log, and the choice."""
    found = search(stride_table(article()), preset("article"))
    assert found.chosen == (8, 32, 2, 3, 16, 2, 2)
    assert (len(found.scores), found.expanded, len(found.ties)) == (505, 156, 112)
    stats = found.stats((8, 32, 2, 1, 16, 2, 2))
    assert list(tile_lines(stats)) == [
        "  Compute score: to=236760072192 wg=50176 il=48 sm=5264 or=8192 mr=5120 mw=8192 op=256"
        " rp=0 tu=256",
        "  flops_per_byte=18.5806 occupancy=20",
        "  roof_ratio=0.929032 occ_ratio=1 thread_ratio=1 score=0.929032",
    ]


def test_order_of_the_search() -> None:
    """Among equal scores the greatest tile is expanded first, and the last scored one is chosen."""
    goals = override(SMALL, threads=1, goal_groups=1, goal_flops_per_byte=1)
    table = stride_table(contraction("a: 4, b: 4", [("[a, b]", "4x4")], ("[a, b]", "4x4")))
    settings = override(goals, mem_width=4, max_regs=64)
    found = search(table, settings)
    first = search(table, override(settings, max_mem=4))
    assert set(first.scores) == {(1, 1), (2, 1), (1, 2)}
    assert len(set(found.scores.values())) == 1  # so that the order is that of the tiles alone
    assert list(found.scores)[:7] == [(1, 1), (2, 1), (1, 2), (4, 1), (2, 2), (4, 2), (4, 4)]
    assert found.chosen == list(found.scores)[-1]


def test_the_number_of_tiles_is_bounded() -> None:
    found = search(stride_table(article()), preset("article"), full=True, max_tiles=50)
    assert 50 <= len(found.scores) < 50 + 7
    assert not found.complete
    assert "  stopped at max-tiles: there may be better ones" in choice_lines(found)
    assert found.score == max(found.scores.values())


def test_no_index() -> None:
    table = stride_table(contraction("u: 1", [("[u]", "1")], ("[u]", "1")))
    found = search(table, preset("article"))
    assert (found.chosen, found.expanded, prod(found.chosen)) == ((), 1, 1)


def test_threads_in_turn_have_work_if_they_have_outputs_of_their_own() -> None:
    """Sums of rows: the threads of a GPU share an output, and those of a core have several."""
    table = stride_table(contraction("i: 512 | k: 2048", [("[i, k]", "512x2048")], ("[i]", "512")))
    settings = override(preset("amd"), threads=64, max_regs=2048, goal_groups=2, use_global=True)
    together, in_turn = (override(settings, in_turn=value) for value in (False, True))
    tiles = {tile: TileStats(table, tile, in_turn) for tile in ((1, 64), (64, 64), (256, 64))}
    assert [stats.threads_used for stats in tiles.values()] == [1, 16, 64]
    assert {TileStats(table, tile, together).threads_used for tile in tiles} == {64}
    assert search(table, together).chosen[0] < 64
    assert search(table, in_turn).chosen[0] == 256


# ** settings **


def test_presets() -> None:
    """Against PlaidML's configuration: threads, vectors, line, memory, registers, goals."""
    rows = {
        "amd": (256, 1, 128, 32768, 16384, 16, 50, False),
        "nvidia": (256, 1, 64, 15360, 32768, 16, 46, False),
        "intel-gpu": (64, 1, 256, 7300, 4000, 1, 50, False),
        "cpu": (1, 4, 64, 32768, 32, 1, 1, True),
    }
    names = "threads vec_size mem_width max_mem max_regs goal_groups goal_flops_per_byte use_global"
    for name, row in rows.items():
        assert tuple(getattr(preset(name), field) for field in names.split()) == row


def test_settings_are_checked() -> None:
    for name in ("threads", "mem_width", "max_mem", "goal_groups", "vec_size"):
        with pytest.raises(OptionError, match="out of range"):
            override(SMALL, **{name: 0})
    with pytest.raises(OptionError, match="out of range"):
        override(SMALL, threads=1 << 63)
    with pytest.raises(OptionError, match="did you mean 'amd'"):
        preset("AMD")
