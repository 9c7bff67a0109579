"""Layouts against NumPy: the order in memory, strides, and when two orders are one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.dialects.layout import (
    ANY_LAYOUT,
    NCHW,
    NHWC,
    Layout,
    Piece,
    is_layout_name,
    pack,
    unpack,
)
from tessella.support.decisions import known
from tessella.support.errors import InternalError
from tessella.support.sizes import Symbol

SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 3, 4), (2, 5, 3, 4), (1, 2, 3, 2, 2)]


def numbered(shape: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Elements 1, 2, ... in row-major order."""
    return np.arange(1, math.prod(shape) + 1).reshape(tuple(shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pack_nchw(shape: tuple[int, ...]) -> None:
    x = numbered(shape)
    assert pack(x, NCHW).tolist() == x.reshape(-1).tolist()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pack_nhwc(shape: tuple[int, ...]) -> None:
    x = numbered(shape)
    expected = np.moveaxis(x, 1, -1) if len(shape) >= 3 else x
    assert pack(x, NHWC).tolist() == expected.reshape(-1).tolist()


def test_pack_splits_a_dimension() -> None:
    x = numbered((8, 3))
    layout = Layout("packed", (Piece(0, div=4), Piece(1), Piece(0, mod=4)))
    expected = x.reshape(2, 4, 3).transpose(0, 2, 1)
    assert pack(x, layout).tolist() == expected.reshape(-1).tolist()


def test_pack_fills_a_split_dimension_with_zeros() -> None:
    x = numbered((5, 2))
    layout = Layout("packed", (Piece(0, div=4), Piece(1), Piece(0, mod=4)))
    assert pack(x, layout).tolist() == [1, 3, 5, 7, 2, 4, 6, 8, 9, 0, 0, 0, 10, 0, 0, 0]
    assert layout.size((5, 2)) == 16


def test_pack_splits_two_dimensions() -> None:
    x = numbered((6, 5, 2))
    order = (Piece(1, div=2), Piece(0, div=4), Piece(2), Piece(1, mod=2), Piece(0, mod=4))
    padded = np.pad(x, [(0, 2), (0, 1), (0, 0)]).reshape(2, 4, 3, 2, 2)
    expected = padded.transpose(2, 0, 4, 3, 1)
    assert pack(x, Layout("packed", order)).tolist() == expected.reshape(-1).tolist()


def test_nested_digits() -> None:
    """The digits are printed as `[1 floordiv 8, 0, 1 floordiv 2 mod 4, 1 mod 2]`."""
    x = numbered((3, 16))
    layout = Layout("packed", (Piece(1, div=8), Piece(0), Piece(1, 2, 4), Piece(1, mod=2)))
    expected = x.reshape(3, 2, 4, 2).transpose(1, 0, 2, 3)
    assert pack(x, layout).tolist() == expected.reshape(-1).tolist()


@pytest.mark.parametrize("channels", [1, 3, 4, 9])
def test_channels_in_blocks(channels: int) -> None:
    x = numbered((2, channels, 3, 5))
    blocks = -(-channels // 4)
    padded = np.pad(x, [(0, 0), (0, 4 * blocks - channels), (0, 0), (0, 0)])
    expected = padded.reshape(2, blocks, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    assert pack(x, Layout("nchw4c")).tolist() == expected.reshape(-1).tolist()


def test_blocks_of_low_ranks_are_row_major() -> None:
    blocked = Layout("nchw16c")
    assert blocked.same_memory(NCHW, (3, 5))
    assert not blocked.same_memory(NCHW, (1, 5, 1))


def test_an_open_dimension_may_be_larger_than_one() -> None:
    n = Symbol("n", 1, 9).size
    assert NHWC.same_memory(NCHW, (n, 1, 4, 4))
    assert not NHWC.same_memory(NCHW, (1, n, 4, 4))


@pytest.mark.parametrize(
    "name, known",
    [
        ("nchw16c", True),
        ("nchw2c", True),
        ("nchw1c", False),
        ("nchw08c", False),
        ("nchwc", False),
        ("nhwc", True),
    ],
)
def test_names(name: str, known: bool) -> None:
    assert is_layout_name(name) == known


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], Layout]:
    """A shape, and a layout for it: some dimensions split, all pieces in any order."""
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    pieces: list[Piece] = []
    for dim in range(len(shape)):
        split = draw(st.sampled_from([0, 0, 2, 3, 4]))
        inner = draw(st.sampled_from([0, 2, 3])) if split else 0
        pieces += [Piece(dim, div=split * (inner or 1))] if split else [Piece(dim)]
        pieces += [Piece(dim, split, inner)] if inner else []
        pieces += [Piece(dim, mod=split)] if split else []
    if not pieces:
        return shape, draw(st.sampled_from([NCHW, NHWC]))
    packed = Layout("packed", tuple(draw(st.permutations(pieces))))
    blocked = Layout(f"nchw{draw(st.integers(2, 4))}c")
    return shape, draw(st.sampled_from([NCHW, NHWC, blocked, packed, packed]))


def digit(piece: Piece, index: Sequence[int]) -> int:
    """The value of a piece for an index, as the layout's text defines it."""
    value = index[piece.dim] // piece.div
    return value % piece.mod if piece.mod else value


@given(layouts())
def test_every_element_is_where_the_strides_say(case: tuple[tuple[int, ...], Layout]) -> None:
    shape, layout = case
    x = numbered(shape)
    memory = pack(x, layout)
    pieces, strides = layout.order(len(shape)), layout.strides(shape)
    assert memory.shape == (layout.size(shape),)
    offsets = list[int]()
    for index in itertools.product(*map(range, shape)):
        offset = known(sum(s * digit(p, index) for p, s in zip(pieces, strides, strict=True)))
        assert memory[offset] == x[index]
        offsets.append(offset)
    assert len(set(offsets)) == x.size
    padding = np.delete(memory, offsets)
    assert not padding.any()
    np.testing.assert_array_equal(unpack(memory, layout, shape), x)


@given(layouts(), st.data())
def test_same_memory_is_what_pack_does(
    case: tuple[tuple[int, ...], Layout], data: st.DataObject
) -> None:
    shape, layout = case
    other = data.draw(st.sampled_from([NCHW, NHWC]))
    same = pack(numbered(shape), layout).tolist() == pack(numbered(shape), other).tolist()
    if layout.same_memory(other, shape):
        assert same
    elif layout in (NCHW, NHWC) and 0 not in shape:
        assert not same
    assert layout.same_memory(layout, shape)
    assert layout.same_memory(other, shape) == other.same_memory(layout, shape)


@given(layouts(), layouts(), st.booleans())
def test_addresses_are_equal_where_memory_is(
    a: tuple[tuple[int, ...], Layout], b: tuple[tuple[int, ...], Layout], merged: bool
) -> None:
    """Also between shapes: the elements are numbered in row-major order."""
    (shape, layout), (other, second) = a, b
    if merged:
        other, second = (math.prod(shape),), NCHW
    same = pack(numbered(shape), layout).tolist() == pack(numbered(other), second).tolist()
    if layout.addresses(shape) == second.addresses(other):
        assert same
    elif {layout.name, second.name} <= {"nchw", "nhwc"}:
        assert not same
    assert layout.addresses(shape) == layout.addresses(shape)


@pytest.mark.parametrize(
    "shape, layout, other, second",
    [
        ((2, 3), NCHW, (6,), NCHW),
        ((2, 12), NCHW, (2, 3, 4), NCHW),
        ((2, 1, 3), NHWC, (6,), NCHW),
        ((2, 8, 3), NHWC, (2, 2, 4, 3), Layout("packed", tuple(map(Piece, (0, 3, 1, 2))))),
        (
            (6,),
            Layout("packed", (Piece(0, mod=3), Piece(0, div=3))),
            (2, 3),
            Layout("packed", (Piece(1), Piece(0))),
        ),
    ],
)
def test_equal_addresses_of_different_shapes(
    shape: tuple[int, ...], layout: Layout, other: tuple[int, ...], second: Layout
) -> None:
    assert layout.addresses(shape) == second.addresses(other)


@pytest.mark.parametrize(
    "shape, same",
    [
        ((2, 3), True),
        ((1, 3, 1, 1), True),
        ((5, 1, 4, 4), True),
        ((5, 3, 1, 1), True),
        ((1, 3, 1, 4), False),
        ((2, 3, 4), False),
    ],
)
def test_nchw_and_nhwc_are_one_where_it_does_not_matter(shape: tuple[int, ...], same: bool) -> None:
    assert NCHW.same_memory(NHWC, shape) == same


def test_same_memory_with_a_split_that_holds_it_all() -> None:
    layout = Layout("packed", (Piece(0, div=4), Piece(1), Piece(0, mod=4)))
    other = Layout("packed", (Piece(1), Piece(0, div=4), Piece(0, mod=4)))
    assert layout.same_memory(other, (4, 3))
    assert not layout.same_memory(other, (5, 3))
    assert not layout.same_memory(NCHW, (4, 3))


def test_text() -> None:
    layout = Layout("packed", (Piece(0, div=32), Piece(1), Piece(0, mod=32)))
    assert str(layout) == "packed<[0 floordiv 32, 1, 0 mod 32]>"
    assert str(Piece(1, 16, 4)) == "1 floordiv 16 mod 4"
    assert [str(x) for x in (NCHW, NHWC, ANY_LAYOUT)] == ["nchw", "nhwc", "any"]


def test_any_is_no_memory_order() -> None:
    with pytest.raises(InternalError, match="'any' is not a memory order"):
        pack(np.zeros((2, 3)), ANY_LAYOUT)
    with pytest.raises(InternalError):
        ANY_LAYOUT.strides((2, 3))
