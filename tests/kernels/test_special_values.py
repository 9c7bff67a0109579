"""Native code and the NumPy kernels on NaN, infinities, zeros of both signs, denormal numbers and
the ends of integer types: all ops that take an element, in one program for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella.dialects import nn
from tessella.dialects.interpret import interpret
from tessella.driver.compile import compile_source
from tessella.kernels.elements import NATIVE
from tessella.runtime.elements import DTYPES, converted, widened
from tessella.support.elements import ELEMENTS
from tests.kernels.test_every_element import Program
from tests.native import FixedSource

Array = npt.NDArray[Any]

TESTED = [name for name in NATIVE if ELEMENTS[name].is_float or name in ("i8", "u8")]
"""The floats and the 8-bit integers. For other integers, `test_every_element.py` draws the whole
range."""
WEIGHTED = (nn.ConvOp, nn.ConvTransposeOp, nn.PackedMatmulOp)
"""Ops whose weights stay finite here: docs/operators.md says what others give."""


def ends_of(element: str) -> list[float]:
    """Return the special values of an element.

    Numbers near the largest float are omitted: whether their sums overflow depends on the order of
    the terms. So are denormal numbers of bf16, which some processors' products take for 0.
    """
    if ELEMENTS[element].is_float:
        least = {"f16": 3e-7, "bf16": 2e-38, "f64": 5e-320}.get(element, 1e-40)
        return [np.nan, np.inf, -np.inf, -0.0, 0.0, least, -least]
    ends = np.iinfo(DTYPES[element])
    return [ends.min, ends.min + 1, 0, 1, ends.max - 1, ends.max]


def strewn(array: Array, element: str, seed: int) -> Array:
    """Return an array in which some elements are special values."""
    rng = np.random.default_rng(seed)
    wide = np.array(widened(array))
    chosen = rng.integers(0, len(ends_of(element)), wide.shape)
    at = rng.random(wide.shape) < (0.1 if ELEMENTS[element].is_float else 0.5)
    wide[at] = np.array(ends_of(element), wide.dtype)[chosen[at]]
    return converted(wide, array.dtype)


def special(program: Program) -> dict[str, Array]:
    """Return the inputs of a program with special values in all operands of its element."""
    found = dict(program.inputs)
    for number, (case, names) in enumerate(program.cases):
        for name in names[:1] if case.op in WEIGHTED else names:
            array = program.inputs[name]
            if _is_of(array, program.element):
                found[name] = strewn(array, program.element, number)
    return found


def _is_of(array: Array, element: str) -> bool:
    """Return whether an array has the dtype of an element."""
    return array.dtype == DTYPES[element]


def check(name: str, found: Array, wanted: Array, tolerance: float) -> None:
    """Check that elements are equal up to rounding, where they are finite."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), name)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=10 * tolerance, err_msg=name)


@pytest.mark.sweep
@pytest.mark.parametrize("element", TESTED)
def test_special_values(element: str) -> None:
    program = Program(element)
    inputs = special(program)
    model = compile_source(FixedSource(program.graph), target="native")
    results = zip(program.cases, model.run(None, inputs), strict=True)
    wanted = interpret(program.graph(), inputs)
    tolerance = 16 * ELEMENTS[element].epsilon if ELEMENTS[element].is_float else 0.0
    for ((case, _), y), expected in zip(results, wanted, strict=True):
        check(case.op.name, widened(y), widened(expected), tolerance)
