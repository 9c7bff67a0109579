"""Sizes: ranges of indices, strides, and elements of buffers.

A size is an integer today. ``Size`` marks where one may later be an expression of bounded symbols:
ranges affine with floor-divisions by constants, strides sums of products. Code on sizes uses
``+ - * // %``, the functions here, and comparisons, which say what holds for all values of the
symbols. ``known`` gives the number where there has to be one, such as the shape of a type;
``at_most`` says where code may be unrolled. ``estimated`` gives the number that costs are modelled
for, in ``passes.tile.problem.Problem.model`` alone. A size becomes a value of the program in
``lowering.values.Emitter.index`` alone.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import TypeAlias

Size: TypeAlias = int


def product(sizes: Iterable[Size]) -> Size:
    """All sizes multiplied; 1 of none."""
    return reduce(operator.mul, sizes, 1)


def ceil_div(size: Size, divisor: Size) -> Size:
    """How many parts of a divisor cover a size."""
    return -(-size // divisor)


def round_up(size: Size, multiple: Size) -> Size:
    """The next multiple from a size on."""
    return ceil_div(size, multiple) * multiple


def known(size: Size) -> int:
    """The number that a size is. Raises TypeError for one that depends on symbols."""
    return operator.index(size)


def at_most(size: Size, most: int) -> bool:
    """Whether a size is no larger than this; not for one that depends on symbols."""
    try:
        return operator.index(size) <= most
    except TypeError:
        return False


def estimated(size: Size) -> int:
    """The number that stands for a size where schedules are compared: the size itself.

    Raises TypeError for one that depends on symbols, of which no usual value is known.
    """
    try:
        return operator.index(size)
    except TypeError:
        raise TypeError(f"expected a number to model costs for, found the size {size}") from None
