"""Traits of ops. Passes query traits instead of op names."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.traits import OpTrait


@dataclass(frozen=True)
class MovesElements(OpTrait):
    """The op computes nothing: its results hold unchanged elements of its operands.

    ``indices`` are the numbers of the operands that only select elements. With ``fills``, the
    results also hold a number given by a property.
    """

    indices: tuple[int, ...] = ()
    fills: bool = False


class RunsFunction(OpTrait):
    """The op computes nothing: a function of the module does, at places of its own."""
