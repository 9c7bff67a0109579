"""How logical indices map to memory: a layout is a map, written once and used by every stage.

A layout lists *pieces* from the outermost to the innermost. A piece is a digit of one dimension's
index:
``(index floordiv div) mod mod``. Plain dimensions have ``div = 1`` and no ``mod``:

- ``nchw``: the dimensions in their logical order (row-major), for tensors of any rank;
- ``nhwc``: dimension 1 moved to the end, for tensors of rank 3 and more;
- ``packed<[0 floordiv 32, 2, 3, 1, 0 mod 32]>``: weights in the order in which a kernel reads them;
- ``image``: the texture of a device (OpenCL's images). It is no memory order: the device knows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import InternalError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Piece:
    """One digit of a dimension's index: ``(index[dim] floordiv div) mod mod``; no mod where 0."""

    dim: int
    div: int = 1
    mod: int = 0

    def extent(self, shape: Sequence[int]) -> int:
        """Number of values the digit takes for a logical shape."""
        return self.mod or -(-shape[self.dim] // self.div)

    def __str__(self) -> str:
        if self.mod:
            return f"{self.dim} mod {self.mod}"
        return f"{self.dim} floordiv {self.div}" if self.div != 1 else str(self.dim)


@dataclass(frozen=True)
class Layout:
    """A named memory order; ``pieces`` are given for packed layouts only."""

    name: str
    pieces: tuple[Piece, ...] = ()

    def order(self, rank: int) -> tuple[Piece, ...]:
        """The pieces from the outermost to the innermost, for a tensor of this rank."""
        return self.pieces if self.name == "packed" else _named_order(self.name, rank)

    def is_order(self, rank: int) -> bool:
        """Whether each element of a tensor of this rank has a place of its own in memory: the
        digits of every dimension spell its index."""
        if self.name != "packed":
            return self.name in ("nchw", "nhwc")
        known = all(piece.dim in range(rank) for piece in self.pieces)
        return known and all(_spells_index(self.pieces, dim) for dim in range(rank))

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Elements between neighbours, one for each piece of ``order``."""
        pieces = self.order(len(shape))
        strides = [1] * len(pieces)
        for i in range(len(pieces) - 2, -1, -1):
            strides[i] = strides[i + 1] * pieces[i + 1].extent(shape)
        return tuple(strides)

    def size(self, shape: Sequence[int]) -> int:
        """Number of elements in memory, padding of split dimensions included."""
        return math.prod(piece.extent(shape) for piece in self.order(len(shape)))

    def normalised(self, shape: Sequence[int]) -> tuple[tuple[Piece, int], ...]:
        """The pieces that matter with their strides: those of extent 1 left out."""
        pieces = zip(self.order(len(shape)), self.strides(shape), strict=True)
        return tuple((p, s) for p, s in pieces if p.extent(shape) > 1)

    def same_memory(self, other: Layout, shape: Sequence[int]) -> bool:
        """Whether both orders put every element of this shape at the same place."""
        if self == other or IMAGE in (self, other):
            return self == other
        if not self.pieces and not other.pieces:  # then the order alone gives the strides
            return self._moving(shape) == other._moving(shape)
        return self.normalised(shape) == other.normalised(shape)

    def _moving(self, shape: Sequence[int]) -> list[int]:
        """The dimensions of more than one index, from the outermost to the innermost."""
        return [piece.dim for piece in self.order(len(shape)) if shape[piece.dim] > 1]

    def __str__(self) -> str:
        return f"packed<[{', '.join(map(str, self.pieces))}]>" if self.pieces else self.name


def _spells_index(pieces: Sequence[Piece], dim: int) -> bool:
    """Whether the digits of a dimension follow each other from the lowest to one without a mod."""
    weight = 1
    for digit in sorted((p for p in pieces if p.dim == dim), key=lambda p: p.div):
        if digit.div != weight:
            return False
        weight *= digit.mod
    return weight == 0


@cache
def _named_order(name: str, rank: int) -> tuple[Piece, ...]:
    if name == "nhwc" and rank >= 3:
        return tuple(Piece(d) for d in (0, *range(2, rank), 1))
    if name in ("nchw", "nhwc"):
        return tuple(Piece(d) for d in range(rank))
    raise InternalError(f"layout {name!r} is no memory order")


NCHW = Layout("nchw")
NHWC = Layout("nhwc")
IMAGE = Layout("image")
ANY_LAYOUT = Layout("any")
LAYOUT_NAMES = ("nchw", "nhwc", "image", "any", "packed")


def pack(array: Array, layout: Layout) -> Array:
    """The array's elements in memory order, one-dimensional; split dimensions padded with zeros."""
    shape = array.shape
    pieces = layout.order(array.ndim)
    splits = {p.dim: p.mod for p in pieces if p.mod}
    padding = [(0, -shape[d] % splits.get(d, 1)) for d in range(array.ndim)]
    if any(after for _, after in padding):
        array = np.pad(array, padding)
    digits: list[int] = []
    axes: dict[tuple[int, bool], int] = {}
    for d, extent in enumerate(array.shape):
        axes[d, False] = len(digits)
        if d in splits:
            axes[d, True] = len(digits) + 1
            digits += [extent // splits[d], splits[d]]
        else:
            digits.append(extent)
    order = [axes[p.dim, bool(p.mod)] for p in pieces]
    return np.ascontiguousarray(array.reshape(digits).transpose(order)).reshape(-1)
