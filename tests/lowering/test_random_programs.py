"""Random programs, natively and by the interpreter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.generators.nn_programs import programs
from tests.generators.nn_sketch import Program
from tests.native import RUNNABLE, check
from tests.sampling import sampled

widths = pytest.mark.parametrize("target", RUNNABLE)
quick = settings(suppress_health_check=[HealthCheck.too_slow])


@widths
@settings(quick, max_examples=sampled(100))
@given(data=st.data())
def test_exact(target: str, data: st.DataObject) -> None:
    """Not one number differs, however the sums are ordered."""
    program = data.draw(programs())
    check(program.graph, program.inputs, target=target, rtol=0, atol=0)


@widths
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.float64])
@settings(quick, max_examples=sampled(12))
@given(data=st.data())
def test_exact_on_other_elements(target: str, dtype: npt.DTypeLike, data: st.DataObject) -> None:
    program = data.draw(programs(dtype))
    check(program.graph, program.inputs, target=target, rtol=0, atol=0)


@settings(quick, max_examples=sampled(40))
@given(program=programs(host=True))
def test_segments(program: Program) -> None:
    """Native code and NumPy take turns."""
    check(program.graph, program.inputs, rtol=0, atol=0, native=False)


@widths
@settings(quick, max_examples=sampled(30))
@given(data=st.data())
def test_inexact(target: str, data: st.DataObject) -> None:
    program = data.draw(programs(exact=False))
    check(program.graph, program.inputs, target=target, atol=1e-5 * program.scale)
