"""Layouts: the map from logical indices to memory, defined once and used by every stage.

A layout lists *pieces* from the outermost to the innermost. A piece is a digit of one dimension's
index: ``(index floordiv div) mod mod``. Plain dimensions have ``div = 1`` and no ``mod``. If the
digits of a dimension take more values than its index, memory holds padding. Orders:

- ``nchw``: the dimensions in their logical order (row-major), for tensors of any rank;
- ``nhwc``: dimension 1 moved to the end, for tensors of rank 3 and more;
- ``nchw16c``: dimension 1 in blocks of 16 (or another number), the elements of a block innermost,
  for tensors of rank 3 and more;
- ``packed<[0 floordiv 32, 2, 3, 1, 0 mod 32]>``: any order of the digits, with several per
  dimension if needed (``1 floordiv 64, 1 floordiv 16 mod 4, 1 mod 16``);
- ``image``: the texture of a device (an OpenCL image). It is not a memory order: the device defines
  it;
- any other name: an order of a plugin (``support/plugins.py``), for tensors of rank 3 and more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.decisions import at_most, decided_min, known_all
from tessella.support.errors import InternalError
from tessella.support.plugins import LAYOUTS, blamed, plugins
from tessella.support.sizes import Size, ceil_div, product

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Piece:
    """One digit of the index of dimension ``dim``: ``(index[dim] floordiv div) mod mod``; without
    the modulo operation if ``mod`` is 0."""

    dim: int
    div: int = 1
    mod: int = 0

    def extent(self, shape: Sequence[Size]) -> Size:
        """Return the number of values that the digit takes in memory for a logical shape, padding
        included."""
        return self.mod or ceil_div(shape[self.dim], self.div)

    def values(self, shape: Sequence[Size]) -> Size:
        """Return the number of values that the digit has for indices inside a logical shape,
        without padding."""
        values = ceil_div(shape[self.dim], self.div)
        return decided_min(values, self.mod) if self.mod else values

    def __str__(self) -> str:
        text = str(self.dim)
        if self.div != 1:
            text += f" floordiv {self.div}"
        return text + (f" mod {self.mod}" if self.mod else "")


Addresses = tuple[Size, Size, tuple[tuple[Size, Size], ...]]
"""The memory offsets of a tensor's elements: the number of elements, the number of elements in
memory, and one pair for each digit of an element's row-major number. The pair says by how much
the element number and the memory offset increase per step of the digit."""


@dataclass(frozen=True)
class Layout:
    """A named memory order; ``pieces`` are given for packed layouts only."""

    name: str
    pieces: tuple[Piece, ...] = ()

    def order(self, rank: int) -> tuple[Piece, ...]:
        """Return the pieces of the order from the outermost to the innermost, for a tensor of this
        rank."""
        return self.pieces if self.name == "packed" else _named_order(self.name, rank)

    @property
    def block(self) -> int | None:
        """The number of channels in a block if the layout is ``nchw<N>c``, otherwise None."""
        return _block_of(self.name)

    @property
    def is_split(self) -> bool:
        """True if the layout splits a dimension into blocks, at least for tensors of some rank."""
        return bool(self._widths)

    def splits(self, rank: int) -> bool:
        """Return whether the layout splits a dimension of tensors of this rank."""
        return any(piece.mod or piece.div > 1 for piece in self.order(rank))

    def for_rank(self, rank: int) -> Layout:
        """Return this layout if it applies to tensors of this rank, otherwise the row-major
        layout."""
        if self in (ANY_LAYOUT, IMAGE):
            return self
        suits = self.is_order(rank) if self.pieces else rank >= 3
        return self if suits else NCHW

    def is_order(self, rank: int) -> bool:
        """Return whether the layout gives each element of a tensor of this rank its own address:
        the digits of each dimension then determine its index."""
        if self.name != "packed":
            return self.block is not None or _find_order(self.name) is not None
        known = all(piece.dim in range(rank) for piece in self.pieces)
        return known and all(_spells_index(self.pieces, dim) for dim in range(rank))

    def strides(self, shape: Sequence[Size]) -> tuple[Size, ...]:
        """Return the stride of each piece of ``order``: the elements in memory between neighbouring
        values of the digit."""
        pieces = self.order(len(shape))
        strides: list[Size] = [1] * len(pieces)
        for i in range(len(pieces) - 2, -1, -1):
            strides[i] = strides[i + 1] * pieces[i + 1].extent(shape)
        return tuple(strides)

    def size(self, shape: Sequence[Size]) -> Size:
        """Return the number of elements that a tensor of this shape takes in memory, including the
        padding of split dimensions."""
        return product(piece.extent(shape) for piece in self.order(len(shape)))

    def addresses(self, shape: Sequence[Size]) -> Addresses:
        """Return the memory offsets of a shape's elements, in row-major order of the elements.

        Two tensors with equal addresses, of any shapes, hold the same elements at the same offsets.
        """
        number = [product(shape[d + 1 :]) for d in range(len(shape))]
        order = zip(self.order(len(shape)), self.strides(shape), strict=True)
        inner_first = sorted(order, key=lambda digit: (-digit[0].dim, digit[0].div))
        digits_of = [(number[p.dim] * p.div, p.values(shape), stride) for p, stride in inner_first]
        found = (digit for digit in digits_of if not at_most(digit[1], 1))
        digits: list[tuple[Size, Size, Size]] = []
        for step, count, stride in found:
            if digits:
                low, below, apart = digits[-1]
                if (low * below, apart * below) == (step, stride):
                    digits[-1] = low, below * count, apart
                    continue
            digits.append((step, count, stride))
        steps = tuple((step, stride) for step, _, stride in digits)
        return product(shape), self.size(shape), steps

    def same_memory(self, other: Layout, shape: Sequence[Size]) -> bool:
        """Return whether this layout and ``other`` put every element of a tensor of this shape at
        the same offset."""
        if self == other or IMAGE in (self, other):
            return self == other
        if not (self.is_split or other.is_split):  # the order of dimensions determines the strides
            return self._moving(shape) == other._moving(shape)
        return self.addresses(shape) == other.addresses(shape)

    def nests(self, other: Layout) -> bool:
        """Return whether the block sizes of both layouts nest in each dimension: of any two, one is
        a multiple of the other, such as 16 and 4.

        One statement can then convert one layout into the other.
        """
        widths = self._widths | other._widths
        return all(
            max(a, b) % min(a, b) == 0
            for dim, a in widths
            for other_dim, b in widths
            if dim == other_dim
        )

    @property
    def _widths(self) -> frozenset[tuple[int, int]]:
        """The dimension and the block size of each split."""
        return _widths(self)

    def _moving(self, shape: Sequence[Size]) -> list[int]:
        """Return the dimensions that may be larger than 1, in the layout's order from the outermost
        to the innermost."""
        return [p.dim for p in self.order(len(shape)) if not at_most(shape[p.dim], 1)]

    def __str__(self) -> str:
        return f"packed<[{', '.join(map(str, self.pieces))}]>" if self.pieces else self.name


def _spells_index(pieces: Sequence[Piece], dim: int) -> bool:
    """Return whether the digits of dimension ``dim`` are contiguous, from the lowest digit up to a
    highest digit without ``mod``, so that they determine the index."""
    weight = 1
    for digit in sorted((p for p in pieces if p.dim == dim), key=lambda p: p.div):
        if digit.div != weight:
            return False
        weight *= digit.mod
    return weight == 0


@cache
def _block_of(name: str) -> int | None:
    match = re.fullmatch(r"nchw([1-9][0-9]{0,3})c", name)
    return int(match[1]) if match and int(match[1]) > 1 else None


def _row_major(rank: int) -> Sequence[Piece]:
    return [Piece(dim) for dim in range(rank)]


def _channels_last(rank: int) -> Sequence[Piece]:
    return [Piece(dim) for dim in (0, *range(2, rank), 1)]


Order = Callable[[int], Sequence[Piece]]
"""A function that returns the pieces of an order for a rank of at least 3."""

_ORDERS: Mapping[str, Order] = {"nchw": _row_major, "nhwc": _channels_last}
_LEAST_RANK = 3
"""The least rank that named orders apply to. Tensors of lower rank are row-major."""
_RANKS = range(_LEAST_RANK, 7)
"""The ranks that an order of a plugin is checked for."""


def _find_order(name: str) -> Order | None:
    """Return the memory order with a name, from tessella or from a plugin; None if there is
    none."""
    return _ORDERS.get(name) or _plugged().get(name)


@cache
def _plugged() -> Mapping[str, Order]:
    """Return the memory orders of plugins by name. Raises PluginError for an invalid one."""
    found: dict[str, Order] = {}
    for plugin in plugins(LAYOUTS):
        order: Any = plugin.load()
        if plugin.name in (*LAYOUT_NAMES, *found) or _block_of(plugin.name) is not None:
            raise plugin.error(f"the layout {plugin.name!r} already exists")
        if plugin.name in SPARSE:
            raise plugin.error(
                f"the layout {plugin.name!r} has the name of a sparse one",
                expected="a name that other libraries do not give to sparse arrays",
                found=repr(plugin.name),
            )
        if not re.fullmatch(r"[A-Za-z_]\w*", plugin.name):
            raise plugin.error("invalid name of a layout", expected="letters, digits, underscores")
        with blamed(plugin, f"the layout {plugin.name!r}"):
            for rank in _RANKS:
                pieces = [*order(rank)]
                if not Layout("packed", tuple(pieces)).is_order(rank):
                    raise plugin.error(
                        "not a memory order",
                        expected="pieces that are the digits of each dimension's index",
                        found=f"{pieces} for rank {rank}",
                    )
        found[plugin.name] = order
    return found


@cache
def _widths(layout: Layout) -> frozenset[tuple[int, int]]:
    """Return the dimension and the block size of each split of a layout."""
    order = _blocked(block) if (block := layout.block) else _find_order(layout.name)
    orders = [layout.pieces] if order is None else map(order, _RANKS)
    weights = ((p.dim, w) for pieces in orders for p in pieces for w in (p.div, p.div * p.mod))
    return frozenset((dim, weight) for dim, weight in weights if weight > 1)


@cache
def _named_order(name: str, rank: int) -> tuple[Piece, ...]:
    order = _blocked(block) if (block := _block_of(name)) else _find_order(name)
    if order is None:
        raise InternalError(f"layout {name!r} is not a memory order")
    return tuple(order(rank) if rank >= _LEAST_RANK else _row_major(rank))


def _blocked(block: int) -> Order:
    """Return the memory order with dimension 1 in blocks of this size."""
    return lambda rank: [
        Piece(0),
        Piece(1, div=block),
        *(Piece(dim) for dim in range(2, rank)),
        Piece(1, mod=block),
    ]


NCHW = Layout("nchw")
NHWC = Layout("nhwc")
IMAGE = Layout("image")
ANY_LAYOUT = Layout("any")
BLOCKED = Layout("nchwc")
"""The layout ``nchw<N>c`` in a kernel's declaration, which stands for any block size that the
requested places name. It is not a memory order."""
LAYOUT_NAMES = ("nchw", "nhwc", "image", "any", "packed")


def layout_words() -> str:
    """Return the names of all layouts as a list for error messages."""
    return ", ".join(["nchw, nhwc, nchw<N>c, image, any, packed", *_plugged()])


SPARSE = ("coo", "csr", "csc", "bsr", "bsc", "dia", "sparse")
"""Names of sparse layouts in other libraries."""


def unknown_layout(name: str) -> str:
    """Return the text after ``found`` in the error message for an unknown layout: its name and, for
    a sparse layout, the reason why it is unsupported."""
    why = ", which is sparse: all tensors are dense" if name in SPARSE else ""
    return f"{name!r}{why}"


def is_layout_name(name: str) -> bool:
    """Return whether ``name`` is the name of a layout: one of ``LAYOUT_NAMES``, ``nchw<N>c`` with a
    block size, such as ``nchw16c``, or the name of a plugin's layout."""
    return name in LAYOUT_NAMES or _block_of(name) is not None or name in _plugged()


def pack(array: Array, layout: Layout) -> Array:
    """Return the array's elements in memory order, one-dimensional; split dimensions are
    zero-padded."""
    order, spelled = _digits(layout, array.shape)
    padded = _padded(spelled, array.shape)
    if padded != array.shape:
        array = np.pad(array, [(0, n - m) for n, m in zip(padded, array.shape, strict=True)])
    digits = array.reshape(known_all(piece.extent(array.shape) for piece in spelled))
    axes = [spelled.index(piece) for piece in order]
    return np.ascontiguousarray(digits.transpose(axes)).reshape(-1)


def unpack(memory: Array, layout: Layout, shape: Sequence[int]) -> Array:
    """Return the logical array of this shape without padding, the inverse of ``pack``."""
    order, spelled = _digits(layout, shape)
    digits = memory.reshape(known_all(piece.extent(shape) for piece in order))
    axes = [order.index(piece) for piece in spelled]
    padded = digits.transpose(axes).reshape(_padded(spelled, shape))
    return padded[tuple(map(slice, shape))]


def _digits(layout: Layout, shape: Sequence[int]) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces of the layout twice: in memory order, and sorted by dimension and from the
    highest digit to the lowest. Raises InternalError if the layout is not a memory order of this
    rank."""
    order = list(layout.order(len(shape)))
    if not layout.is_order(len(shape)):
        raise InternalError(f"{layout} is not a memory order of {len(shape)} dimensions")
    return order, sorted(order, key=lambda piece: (piece.dim, -piece.div))


def _padded(spelled: Sequence[Piece], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape with the padding of split dimensions added."""
    extents: list[Size] = [1] * len(shape)
    for piece in spelled:
        extents[piece.dim] = extents[piece.dim] * piece.extent(shape)
    return known_all(extents)
