"""Tiles at the edges of a tensor: which they are, and which rows of theirs are inside."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tessella.dialects.tile import Linear
from tessella.dialects.tile.flat import Constraint
from tessella.lowering.boundary import Cut, cut_tiles, row_sets
from tessella.passes.tile.tiles import split
from tessella.support.decisions import known, known_all
from tests.sampling import sampled

windows = st.fixed_dictionaries(
    {
        "extent": st.integers(1, 40),
        "tile": st.integers(1, 9),
        "filter": st.integers(1, 7),
        "stride": st.integers(1, 3),
        "dilation": st.integers(1, 3),
        "padding": st.integers(0, 4),
        "overlap": st.booleans(),
    }
)


def _constraint(window: dict[str, int], size: int) -> Constraint:
    terms = (("x", window["stride"]), ("j", window["dilation"]))
    return Constraint(Linear(terms, -window["padding"]), size)


@settings(max_examples=sampled(200))
@given(windows, st.integers(1, 60))
def test_every_tile_comes_to_the_sets_of_rows_in_order(window: dict[str, int], size: int) -> None:
    constraint = _constraint(window, size)
    ranges = {"x": window["extent"], "j": window["filter"]}
    first, stop = known_all(constraint.interior("x", ranges))
    interior = max(0, first), max(first, min(stop, window["extent"]), 0)
    overlap = bool(window["overlap"]) and window["extent"] >= window["tile"]
    for tiles in split(window["extent"], window["tile"], (0, window["extent"]), overlap=overlap):
        cut = cut_tiles(tiles, interior)
        rows = tuple(range(tiles.size))
        sets = row_sets(constraint, "x", rows, "j", ranges, cut)
        begin, end = known(tiles.start), known(tiles.stop)
        starts = [min(x, end - tiles.size) for x in range(begin, end, tiles.size)]
        whole = [x for x in starts if interior[0] <= x and x + tiles.size <= interior[1]]
        assert cut == Cut(tuple(x for x in starts if x not in whole), bool(whole))
        for start in starts:
            seen = [_inside(window, size, start, rows, j) for j in range(window["filter"])]
            places = [sets.index(each) for each in seen if each]
            assert places == sorted(places)


def _inside(
    window: dict[str, int], size: int, start: int, rows: tuple[int, ...], j: int
) -> tuple[int, ...]:
    """Return which rows are inside, by a trial of each."""
    first = start * window["stride"] + j * window["dilation"] - window["padding"]
    return tuple(row for row in rows if 0 <= first + row * window["stride"] < size)
