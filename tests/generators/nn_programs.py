"""Random small programs for Hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random

from tessella.support.conditions import UndecidedSizeError
from tessella.support.sizes import MOST, Symbol
from tests.generators.nn_sketch import DTypes, Program, Sketch
from tests.generators.nn_steps import EXACT, EXACT_ON_FLOATS, INEXACT, on_host

OPEN = {Symbol(name, 2, MOST): sample for name, sample in (("n", 33), ("m", 16))}
"""The sizes that programs may leave open."""


def program(
    random: Random,
    dtype: DTypes,
    count: int,
    *,
    exact: bool = True,
    host: bool = False,
    symbols: Mapping[Symbol, int] | None = None,
) -> Program:
    """A program of so many ops, mostly, and the constants that those need.

    With ``host`` there are ops among them that have no native kernel. ``symbols`` are sizes that
    its inputs may have, with those that its arrays have.
    """
    sketch = Sketch(random, dtype, exact=exact, symbols=symbols)
    drawers = [*(EXACT if exact else (*EXACT_ON_FLOATS, *INEXACT)), *([on_host] * 8 * host)]
    for _ in range(count):
        before, tries = len(sketch.values), 0
        # not every op has an operand that suits it
        while len(sketch.values) == before and tries < 8:
            with suppress(UndecidedSizeError):
                sketch.one_of(*drawers)(sketch)
            tries += 1
    return sketch.finish()
