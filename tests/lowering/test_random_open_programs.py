"""Random programs whose sizes stay open: compiled for ranges of sizes, run for several."""

from __future__ import annotations

from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella.dialects import nn
from tessella.support.sizes import MOST, Symbol
from tests.generators.nn_programs import OPEN, programs
from tests.generators.nn_sketch import Program, Step
from tests.native import RUNNABLE
from tests.open import check_open, drawn_sizes
from tests.sampling import sampled

seeds = st.integers(0, 1 << 32)
quick = settings(suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("target", RUNNABLE)
@settings(quick, max_examples=sampled(40))
@given(program=programs(symbols=OPEN), seed=seeds)
def test_exact(target: str, program: Program, seed: int) -> None:
    """Not one number differs from those of programs for one size."""
    check_open(program, drawn_sizes(program, 3, Random(seed)), target=target)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.float64])
@settings(quick, max_examples=sampled(8))
@given(data=st.data(), seed=seeds)
def test_exact_on_other_elements(dtype: npt.DTypeLike, data: st.DataObject, seed: int) -> None:
    program = data.draw(programs(dtype, symbols=OPEN))
    check_open(program, drawn_sizes(program, 3, Random(seed)))


@settings(quick, max_examples=sampled(20))
@given(program=programs(host=True, symbols=OPEN), seed=seeds)
def test_segments(program: Program, seed: int) -> None:
    """Native code and NumPy take turns."""
    check_open(program, drawn_sizes(program, 3, Random(seed)))


@settings(quick, max_examples=sampled(20))
@given(program=programs(exact=False, symbols=OPEN), seed=seeds)
def test_inexact(program: Program, seed: int) -> None:
    check_open(program, drawn_sizes(program, 3, Random(seed)), atol=1e-5 * program.scale)


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
