"""The dimensions that a model leaves open, and what they are in programs."""

from __future__ import annotations

import pytest

from tessella.driver.specialise.open_sizes import FEW, MANY, OpenSizes, check_dims
from tessella.runtime.signature import ValueInfo
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import differs
from tessella.support.errors import InputError, OptionError, ResourceError
from tessella.support.sizes import MOST, Expr, Size, Symbol, bounds_of
from tessella.tools.commands.dims import dims_of

SIGNATURE = (
    ValueInfo("x", "float32", ("batch", "seq", 64)),
    ValueInfo("mask", "float32", ("batch", "past + seq")),
    ValueInfo("cache", "float32", ("batch", "past")),
)
BATCH, SEQ, PAST = (Symbol(name, MANY, MOST).size for name in ("batch", "seq", "past"))


def shapes(batch: int, seq: int, past: int) -> tuple[tuple[int, ...], ...]:
    return ((batch, seq, 64), (batch, seq + past), (batch, past))


def test_ranges() -> None:
    sizes = OpenSizes(SIGNATURE, {})
    assert sizes.made(shapes(16, 20, 99)) == ((BATCH, SEQ, 64), (BATCH, PAST + SEQ), (BATCH, PAST))
    assert sizes.made(shapes(1, 20, 0)) == ((1, SEQ, 64), (1, SEQ), (1, 0))
    few = Symbol("seq", FEW, MANY - 1).size
    assert sizes.made(shapes(16, 15, 16)) == sizes.made(shapes(900, 2, 1000))
    assert sizes.made(shapes(16, 15, 16))[0] == (BATCH, few, 64)


def test_numbers_alone() -> None:
    sizes = OpenSizes(SIGNATURE, "fixed")
    assert sizes.made(shapes(16, 20, 99)) == shapes(16, 20, 99)
    assert sizes.told(shapes(16, 20, 99)) == []


def test_versions_whose_sizes_fit() -> None:
    """Inferred sizes must not be negative, and shapes must agree."""
    names = [ValueInfo("x", "float32", ("a", "b", "a - b"))]
    sizes = OpenSizes(names, {})
    versions = sizes.versions()
    assert len(versions) == 10
    for made, [served] in versions.items():
        assert served[2] == served[0] - served[1]
        assert sizes.made((served,)) == made


def test_names_that_divide_by_zero_are_names() -> None:
    [[size]] = OpenSizes([ValueInfo("x", "float32", ("n + 1//0",))], {}).made(((20,),))
    assert isinstance(size, Expr)


def test_symbols_of_a_source_are_never_numbers() -> None:
    symbol = Symbol("n", 16, 64)
    sizes = OpenSizes([ValueInfo("x", "float32", ("n",))], {}, [symbol])
    assert not sizes.narrow(sizes.made(((20,),)), ResourceError("no memory"))


def test_sizes_are_open_once_they_vary() -> None:
    sizes = OpenSizes(SIGNATURE, "auto")
    assert sizes.made(shapes(16, 20, 99)) == shapes(16, 20, 99)
    assert sizes.told(shapes(16, 20, 99))[0] == "batch: 16, not open so far"
    assert sizes.made(shapes(16, 30, 99)) == ((16, SEQ, 64), (16, SEQ + 99), (16, 99))
    assert sizes.made(shapes(16, 20, 99)) == shapes(16, 20, 99)
    assert sizes.made(shapes(20, 20, 99)) == ((BATCH, SEQ, 64), (BATCH, SEQ + 99), (BATCH, 99))
    assert sizes.made(shapes(1, 1, 99)) == shapes(1, 1, 99)


def test_shapes_that_are_asked_for_have_programs_of_their_own() -> None:
    sizes = OpenSizes(SIGNATURE, "auto")
    for each in (shapes(16, 20, 99), shapes(16, 30, 99)):
        sizes.make_own(each)
        assert sizes.made(each) == each
    assert sizes.made(shapes(16, 40, 99))[0] == (16, SEQ, 64)
    bounded = OpenSizes(SIGNATURE, {})
    bounded.make_own(shapes(16, 20, 99))
    assert bounded.made(shapes(16, 20, 99))[0] == (BATCH, SEQ, 64)


def test_a_sum_that_is_none() -> None:
    """The name of a dimension is no promise: where it is not the sum, it is a symbol as others."""
    sizes = OpenSizes(SIGNATURE, {})
    made = sizes.made(((16, 20, 64), (16, 7), (16, 99)))
    assert made == (
        (BATCH, SEQ, 64),
        (BATCH, Symbol("past___seq", FEW, MANY - 1).size),
        (BATCH, PAST),
    )


def test_inputs_by_value_have_numbers() -> None:
    sizes = OpenSizes(SIGNATURE, {})
    assert sizes.made(shapes(16, 20, 99), (1,)) == ((16, SEQ, 64), (16, 119), (16, PAST))


@pytest.mark.parametrize(
    "bounds, size, expected",
    [
        ((4, 100), 4, Symbol("seq", 4, 15).size),
        ((4, 100), 100, Symbol("seq", 16, 100).size),
        ((20, 100), 30, Symbol("seq", 20, 100).size),
        ((0, 1), 1, 1),
        ((16, 16), 16, 16),
    ],
)
def test_bounds(bounds: tuple[int, int], size: int, expected: Size) -> None:
    sizes = OpenSizes(SIGNATURE, {"seq": bounds})
    assert sizes.made(shapes(1, size, 1))[0] == (1, expected, 64)
    for outside in (bounds[0] - 1, bounds[1] + 1):
        with pytest.raises(InputError, match="the dimension 'seq' is out of its bounds"):
            sizes.made(shapes(1, outside, 1))


def test_all_versions() -> None:
    sizes = OpenSizes(SIGNATURE, {"batch": (1, 1), "seq": (1, 512), "past": (0, 15)})
    made = list(sizes.versions())
    assert len(made) == 3 * 3
    assert sizes.count == len(made)
    for openness in ({}, "auto"):
        every = OpenSizes(SIGNATURE, openness)
        every.made(shapes(16, 20, 99))
        assert every.count == len(every.versions()) == 4**3
        assert every.made(shapes(16, 20, 99))[0] == (BATCH, SEQ, 64)
    assert made[-1] == (
        (1, Symbol("seq", 16, 512).size, 64),
        (1, Symbol("seq", 16, 512).size + Symbol("past", 2, 15).size),
        (1, Symbol("past", 2, 15).size),
    )


def test_what_cannot_be_left_open() -> None:
    sizes = OpenSizes(SIGNATURE, {})
    made = sizes.made(shapes(20, 30, 1))
    error = UndecidedSizeError("seq < 4 holds for some sizes only", ["seq"])
    assert sizes.narrow(made, error)
    again = sizes.made(shapes(20, 30, 1))
    assert again[0] == (BATCH, 30, 64)
    assert sizes.told(again)[1] == "seq: 30, as seq < 4 holds for some sizes only"
    assert sizes.made(shapes(20, 9, 1))[0] == (BATCH, Symbol("seq", FEW, MANY - 1).size, 64)
    assert sizes.narrow(again, ValueError("anything"))
    assert sizes.made(shapes(20, 30, 1)) == shapes(20, 30, 1)
    assert not sizes.narrow(shapes(20, 30, 1), ValueError("anything"))


def test_what_is_told() -> None:
    sizes = OpenSizes(SIGNATURE, {"batch": (1, 64)})
    told = sizes.told(sizes.made(shapes(1, 20, 99)))
    assert told == [
        "batch: 1",
        "seq: open, from 16",
        "past + seq: past + seq",
        "past: open, from 16",
    ]
    assert sizes.told(sizes.made(shapes(30, 20, 99)))[0] == "batch: open, from 16 to 64"


def test_names_may_hold_anything() -> None:
    names = ("2d", "a b", "a-b", "日本", "a_b", "")
    sizes = OpenSizes([ValueInfo("x", "float32", names)], {})
    [shape] = sizes.made(((20,) * len(names),))
    texts = [str(size) for size in shape]
    assert len(set(texts)) == len(names)
    assert all(text.isidentifier() and text.isascii() for text in texts)


def test_a_source_with_symbols() -> None:
    symbol = Symbol("n", 5, 50)
    inputs = [ValueInfo("x", "float32", ("n", "2 * n + 1"))]
    sizes = OpenSizes(inputs, {}, [symbol])
    assert sizes.made(((7, 15),)) == ((symbol.size, 2 * symbol.size + 1),)
    with pytest.raises(InputError, match="does not fit the others"):
        sizes.made(((7, 16),))
    with pytest.raises(InputError, match="out of its bounds"):
        sizes.made(((4, 9),))


def test_options() -> None:
    assert [check_dims(text) for text in ("auto", "fixed")] == ["auto", "fixed"]
    assert check_dims({"a": 3, "b": (1, 5), "c": [0, 2]}) == {"a": (3, 3), "b": (1, 5), "c": (0, 2)}
    wrong: list[object] = [3, {"a": "3"}, {1: 3}, {"a": (1, 2, 3)}, {"a": (5, 1)}, {"a": -1}]
    for dims in [*wrong, {"a": True}, {"a": (0, True)}]:
        with pytest.raises(OptionError, match=r"dims|bounds"):
            check_dims(dims)
    with pytest.raises(OptionError, match="no open dimension 'height'"):
        OpenSizes(SIGNATURE, {"height": (1, 2)})


def test_options_of_commands() -> None:
    given = ["a=3", "b=2..5", "c=16.."]
    assert dims_of(given) == {"a": (3, 3), "b": (2, 5), "c": (16, MOST)}
    for text in ("3", "a=", "a=..3", "a=x", "a=1...3", "a=-1"):
        with pytest.raises(OptionError, match="cannot read"):
            dims_of([text])


def test_a_name_has_one_value() -> None:
    """An element and a dimension, which another thread may have changed."""
    inputs = [ValueInfo("x", "float32", ("n",)), ValueInfo("k", "int64", (1,))]
    sizes = OpenSizes(inputs, {}, elements={1: ("n",)})
    symbol = Symbol("n", MANY, MOST).size
    assert sizes.made(((20,), (1, 20))) == ((symbol,), (1, symbol))
    with pytest.raises(InputError, match="two sizes"):
        sizes.made(((20,), (1, 900)))


def test_a_range_is_divided_where_a_decision_changes() -> None:
    """The error says at which size; four divisions are the most."""
    sizes = OpenSizes([ValueInfo("x", "float32", ("n",))], {})

    def first_and_last(size: int) -> tuple[int, int]:
        return bounds_of(sizes.made(((size,),))[0][0])

    for row, most in enumerate((1000, 40, 2000, 100)):
        [[n]] = sizes.made(((most,),))
        with pytest.raises(UndecidedSizeError) as caught:
            decided(n > most)
        assert sizes.narrow(sizes.made(((most,),)), caught.value)
        assert first_and_last(most)[1] == most
        assert sizes.count == 5 + row
    assert first_and_last(41) == (41, 100)
    assert first_and_last(20) == (16, 40)
    assert first_and_last(5000) == (2001, MOST)
    [[n]] = sizes.made(((5000,),))
    with pytest.raises(UndecidedSizeError) as caught:
        decided(n < 9000)
    assert sizes.narrow(sizes.made(((5000,),)), caught.value)
    assert sizes.made(((5000,),)) == ((5000,),)
    assert sizes.made(((1500,),)) != ((1500,),)
    assert sizes.told(((5000,),)) == ["n: 5000, as n < 9000 holds for some sizes only"]


def test_a_dimension_that_equals_a_sum() -> None:
    """Programs for sizes with the relation have the sum; others have a symbol."""
    inputs = [ValueInfo("x", "float32", ("seq", "past")), ValueInfo("m", "float32", ("total",))]
    sizes = OpenSizes(inputs, {})
    made = sizes.made(((20, 99), (119,)))
    total = Symbol("total", MANY, MOST).size
    assert made == ((SEQ, PAST), (total,))
    with pytest.raises(UndecidedSizeError) as caught:
        differs(PAST + SEQ, total)
    assert sizes.narrow(made, caught.value)
    assert sizes.made(((20, 99), (119,))) == ((SEQ, PAST), (SEQ + PAST,))
    assert sizes.told(sizes.made(((20, 99), (119,))))[2] == "total: past + seq"
    assert sizes.made(((20, 99), (100,))) == made
    assert sizes.made(((1, 99), (100,))) == ((1, PAST), (PAST + 1,))
    assert sizes.narrow(made, caught.value)  # the other sizes need numbers
    assert sizes.made(((20, 99), (100,))) == ((20, 99), (100,))


def test_a_dimension_that_equals_two_sums() -> None:
    inputs = [ValueInfo("x", "float32", ("seq", "past")), ValueInfo("m", "float32", ("total",))]
    sizes = OpenSizes(inputs, {})
    total = Symbol("total", MANY, MOST).size
    for shapes_of, sum_of in ((((1, 20), (21,)), PAST + 1), (((30, 0), (30,)), SEQ)):
        with pytest.raises(UndecidedSizeError) as caught:
            differs(total, sum_of)
        assert sizes.narrow(sizes.made(shapes_of), caught.value)
        assert sizes.made(shapes_of)[1] == (sum_of,)
    assert sizes.made(((1, 20), (21,)))[1] == (PAST + 1,)
    assert sizes.told(sizes.made(((30, 0), (30,))))[2] == "total: seq"


def test_a_derived_dimension_of_one_that_equals_a_sum() -> None:
    inputs = [ValueInfo("x", "float32", ("seq", "past", "total", "total + 1"))]
    sizes = OpenSizes(inputs, {})
    with pytest.raises(UndecidedSizeError) as caught:
        differs(PAST + SEQ, Symbol("total", MANY, MOST).size)
    given = ((20, 99, 119, 120),)
    assert sizes.narrow(sizes.made(given), caught.value)
    assert sizes.made(given) == ((SEQ, PAST, SEQ + PAST, SEQ + PAST + 1),)
