"""Traits of ops. Passes query traits instead of op names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.traits import OpTrait


@dataclass(frozen=True)
class MovesElements(OpTrait):
    """The op computes nothing: its results hold unchanged elements of its operands.

    ``indices`` are the numbers of the operands that only select elements. With ``fills``, the
    results also hold a number given by a property.
    """

    indices: tuple[int, ...] = ()
    fills: bool = False


@dataclass(frozen=True)
class ComputesSizes(OpTrait):
    """The op maps sizes to sizes, element by element: numbers, and symbolic expressions."""

    function: Callable[..., Any]


@dataclass(frozen=True)
class ReducesSizes(OpTrait):
    """The op reduces sizes to a size, by a function of two arguments."""

    function: np.ufunc


class SumsProducts(OpTrait):
    """The op sums products of elements of its operands, which dominates its time."""


class ChoosesElements(OpTrait):
    """The op's results hold unchanged elements of its operand, selected by their values."""


class ReadAsAccess(OpTrait):
    """A kernel that needs the op's result can read its operands instead, with other accesses."""


class ReadsRows(OpTrait):
    """The op reads each element of its first operand once, or while it is in cache."""


class ReadsOnce(OpTrait):
    """The op reads each element of each operand once, and can compute the operand in place."""


@dataclass(frozen=True)
class CountsPositions(OpTrait):
    """The op's result counts positions if its operands do (`positions.py`).

    The function takes the op and its operands' positions, and returns the result's, if it counts.
    """

    function: Callable[..., Any]


class Idempotent(OpTrait):
    """f(f(x)) = f(x)"""


class Involution(OpTrait):
    """f(f(x)) = x"""


class Overrides(OpTrait):
    """f_q(f_p(x)) = f_q(x) for all properties p and q."""


class IdentityByType(OpTrait):
    """f(x) = x if the result has the type of x."""


@dataclass(frozen=True)
class Neutral(OpTrait):
    """f(x, number) = x, and f(number, x) = x if the op is commutative. The sign of a floating-point
    zero counts."""

    number: float


class RunsFunction(OpTrait):
    """The op computes nothing itself: it runs a function of the module, which has places of its
    own."""
