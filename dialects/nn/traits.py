"""Traits of ops, which passes ask instead of names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.traits import OpTrait


@dataclass(frozen=True)
class MovesElements(OpTrait):
    """The op computes nothing: its results hold elements of its operands as they are.

    ``indices`` are the operands, by number, that only say which elements. With ``fills``, the
    results also hold a number that a property states.
    """

    indices: tuple[int, ...] = ()
    fills: bool = False
