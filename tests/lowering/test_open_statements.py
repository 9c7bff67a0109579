"""Statements whose ranges are open, under schedules that need code of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.support.sizes import MOST, Symbol
from tessella.targets import Target
from tests.codegen.harness import RUNNABLE
from tests.generators.nn_sketch import Program, Step
from tests.generators.open_sizes import OpenSizes
from tests.generators.schedules import Fences, scheduled
from tests.generators.tile_statements import Numbers, Statement
from tests.open import check_open

N = Symbol("n", 2, MOST)
SUM = "tile.contract + [m: 3 | k: n] (%a[m, k])"
PREFIX = "tile.contract + [m: n | k: n] (%a[m, k])"
CASES = {
    "parts": f"{SUM} -> [m] schedule #tile.schedule<[m] reduce [k] partial k 2>",
    "parts of lanes": (
        f"{SUM} -> [m] schedule #tile.schedule<[m] reduce [k] vector k 4 by 2 partial k 8>"
    ),
    "one part for few": (
        f"{SUM} -> [m] schedule #tile.schedule<[m] reduce [k] rows m 2 unroll 4 partial k 16>"
    ),
    "to the diagonal": (
        f"{PREFIX} -> [m] where [m - k < n] schedule #tile.schedule<[m] reduce [k]>"
    ),
    "from the diagonal": (
        f"{PREFIX} -> [m] where [k - m < n - 1] schedule #tile.schedule<[m] reduce [k]>"
    ),
    "to the other diagonal": (
        f"{PREFIX} -> [m] where [k + m < n] schedule #tile.schedule<[m] reduce [k]>"
    ),
    "from a number or a size": (
        f"{PREFIX} -> [m] where [k + [3 - n] < 7] schedule #tile.schedule<[m] reduce [k]>"
    ),
}


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda t: t.name)
@pytest.mark.parametrize("name", CASES)
def test_open_sums(name: str, target: Target) -> None:
    rows = N.size if "m: n" in CASES[name] else 3
    shape, result = (rows, N.size), (rows,)
    text = f"""
    tile.kernel @k(%a: tensor<{rows:d}x[n]xf32>) -> (tensor<{rows:d}xf32>) {{
      %r = {CASES[name]} {{
      ^bb0(%x: f32):
        tile.yield %x : f32
      }} : tensor<{rows:d}xf32>
      tile.return %r : tensor<{rows:d}xf32>
    }}"""
    a, r = (Numbers(each, np.dtype(np.float32), range(-3, 4), 0) for each in (shape, result))
    sizes = OpenSizes([N], [{"n": n} for n in (2, 3, 7, 8, 9, 16, 33)])
    statement = Statement(text, {"a": a}, r, sizes)
    fences = Fences()
    scheduled(statement, statement.parse(), target).check(fences.place)
    fences.check()


def test_rows_that_are_transposed_in_part() -> None:
    """The mean of few rows is computed in lanes, which the rows are transposed into."""
    a, b, c, d = (Symbol(name, 2, MOST).size for name in "abcd")
    program = Program(
        {"x": np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)},
        {"x": (a, b, c, d)},
        [
            Step(nn.ReshapeOp, (0,), {"shape": (a * b * c, d)}),
            Step(nn.ReduceMeanOp, (1,), {"axes": (1,), "keepdims": True}),
        ],
        (2,),
    )
    check_open(program, [{"a": 2, "b": 3, "c": 4, "d": 5}], atol=1e-5)
