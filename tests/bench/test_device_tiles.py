"""Tiles of device kernels in turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.device_tiles import CASES, measure, problem_of
from tessella.runtime.opencl import OPENCL

pytestmark = pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")


def test_tiles_are_compared_with_others() -> None:
    row = measure("reduction", "opencl", others=1, repeat=1, seed=1)
    assert row.others == 1
    assert row.tile != row.best_tile
    assert row.ratio > 0


def test_a_wrong_result_is_no_figure() -> None:
    problem = problem_of(CASES["reduction"], "opencl")
    wrong = replace(problem, wanted=np.negative(problem.wanted))
    with pytest.raises(ValueError, match="differs from NumPy's"):
        wrong.launcher(wrong.source(wrong.found.chosen))
