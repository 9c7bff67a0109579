"""Traits of ops. Passes query traits instead of op names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation
from xdsl.traits import OpTrait

from tessella.support.sizes import Size, Symbol


@dataclass(frozen=True)
class MovesElements(OpTrait):
    """The trait of ops that only move elements: the results hold unchanged elements of the
    operands.

    ``indices`` are the numbers of the operands that only select elements. With ``fills``, the
    results also hold a number given by a property.
    """

    indices: tuple[int, ...] = ()
    fills: bool = False


@dataclass(frozen=True)
class ComputesSizes(OpTrait):
    """The trait of ops that can compute with sizes elementwise: ``function`` takes and returns
    numbers or symbolic expressions."""

    function: Callable[..., Any]


@dataclass(frozen=True)
class ReducesSizes(OpTrait):
    """The trait of ops that can reduce sizes to one size: ``function`` combines two numbers or
    symbolic expressions."""

    function: np.ufunc


class SumsProducts(OpTrait):
    """The trait of ops that spend most of their time on sums of products of their operands'
    elements."""


class TakesComplex(OpTrait):
    """The trait of ops that compute with complex numbers too."""


class ChoosesElements(OpTrait):
    """The trait of ops with results that hold unchanged elements of the operand, selected by
    comparing values."""


class ReadAsAccess(OpTrait):
    """The trait of ops that another kernel can absorb into its index expressions: instead of the
    op's result, the kernel reads the op's operands at other indices."""


class ReadsRows(OpTrait):
    """The trait of ops that read each element of their first operand once, or repeatedly while the
    element is in cache."""


class ReadsOnce(OpTrait):
    """The trait of ops that read each element of each operand once, so that their kernel can
    compute an operand where it reads it."""


@dataclass(frozen=True)
class CountsPositions(OpTrait):
    """The trait of ops with a result that is a linear function of positions if the operands are
    (`positions.py`).

    ``function`` takes the op and the ``Positions`` of its operands, and returns those of its
    result, or None.
    """

    function: Callable[..., Any]


class Idempotent(OpTrait):
    """The trait of idempotent ops: f(f(x)) = f(x)."""


class Involution(OpTrait):
    """The trait of ops that are their own inverse: f(f(x)) = x."""


class Overrides(OpTrait):
    """The trait of ops that override an earlier op of the same kind: f_q(f_p(x)) = f_q(x) for all
    properties p and q."""


class IdentityByType(OpTrait):
    """The trait of ops that do nothing if the types agree: f(x) = x if the result has the type of
    x."""


@dataclass(frozen=True)
class Neutral(OpTrait):
    """The trait of binary ops with a neutral element: f(x, number) = x, and f(number, x) = x if the
    op is commutative.

    The sign of a floating-point zero counts: 0 is not neutral if -0 becomes 0.
    """

    number: float


class RunsFunction(OpTrait):
    """The trait of ops that compute nothing themselves, but run a function of the module. Kernels
    and places (devices, element types, layouts) are chosen for the ops of the function."""


@dataclass(frozen=True)
class Definition:
    """The definition of a symbol by an op: the symbol is the size of the dimension ``axis`` of the
    result number ``result``."""

    symbol: Symbol
    result: int
    axis: int
    most: Size
    """The upper bound, which may depend on symbols that are known before the op runs."""


@dataclass(frozen=True)
class DefinesSymbols(OpTrait):
    """The trait of ops with result dimensions that are known only after the op has run: the op
    defines symbols for these dimensions.

    ``function`` takes the op and returns the definitions. Types and properties may depend on such a
    symbol from the op on.
    """

    function: Callable[[Any], Sequence[Definition]]


def definitions(op: Operation) -> Sequence[Definition]:
    """Return the definitions of the symbols that an op defines."""
    trait = op.get_trait(DefinesSymbols)
    return () if trait is None else trait.function(op)
