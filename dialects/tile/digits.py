"""Digits of affine expressions (forms), for accesses to a tensor whose layout splits a dimension.

``(form floordiv div) mod mod`` is affine if each term of the form lies on one side of the digit's
boundary: the digits of ``16*c_16 + c_1`` with ``c_1 < 16`` are ``c_16`` and ``c_1``. If not,
splitting an index may help: ``c`` becomes ``16*c_16 + c_1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from tessella.dialects.layout import Piece
from tessella.dialects.tile.access import Linear
from tessella.support.conditions import decided
from tessella.support.decisions import decided_min
from tessella.support.sizes import Size


def digit(form: Linear, piece: Piece, ranges: Mapping[str, Size]) -> Linear | None:
    """Return the digit ``piece`` of an affine expression of indices with these ranges; None if the
    digit is not affine."""
    parts = _divided(form, piece.div, ranges)
    if parts is None or not piece.mod:
        return parts and parts[0]
    rest = _divided(parts[0], piece.mod, ranges)
    return rest and rest[1]


def _divided(
    form: Linear, divisor: int, ranges: Mapping[str, Size]
) -> tuple[Linear, Linear] | None:
    """Return the affine expressions ``(high, low)`` with ``form = divisor * high + low`` and ``0 <=
    low < divisor``; None if the terms of ``form`` do not separate in this way."""
    whole, rest = form.constant // divisor, form.constant % divisor
    high = Linear(tuple((n, c // divisor) for n, c in form.terms if c % divisor == 0), whole)
    low = Linear(tuple((n, c) for n, c in form.terms if c % divisor), rest)
    least, greatest = low.bounds(ranges)
    return (high, low) if decided(least >= 0) and decided(greatest < divisor) else None


def cuts(form: Linear, divisor: int, ranges: Mapping[str, Size]) -> dict[str, int] | None:
    """Return the indices to split, each with its block size, so that the quotient and the remainder
    of ``form``, an affine expression, by ``divisor`` become affine. None if no split makes them
    affine."""
    found: dict[str, int] = {}
    greatest = form.constant % divisor
    for name, c in form.terms:
        if c % divisor == 0:
            continue
        if c < 0 or divisor % c:
            return None
        steps = divisor // c
        if decided(ranges[name] > steps):
            found[name] = steps
        greatest += c * (decided_min(ranges[name], steps) - 1)
    return found if decided(greatest < divisor) else None


def nested(widths: Iterable[int]) -> tuple[int, ...] | None:
    """Return the widths from the largest to the smallest if each is a multiple of the next;
    otherwise None."""
    ordered = sorted(set(widths), reverse=True)
    whole = all(a % b == 0 for a, b in pairwise(ordered))
    return tuple(ordered) if whole else None
