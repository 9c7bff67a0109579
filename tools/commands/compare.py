"""Comparison of arrays beyond rounding."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from tessella.dialects.nn.core import Array
from tessella.runtime.elements import as_own, element_of, widened
from tessella.support.elements import ELEMENTS, FLOATS
from tessella.tools.commands.arrays import difference
from tessella.tools.commands.numbers import amount

ROUNDING: Mapping[str, float] = {
    "f64": 1e-9,
    "f32": 1e-4,
    "f16": 1e-2,
    "bf16": 5e-2,
    "c128": 1e-9,
    "c64": 1e-4,
    **{name: 0.5 for name in FLOATS if ELEMENTS[name].bits <= 8},
}
"""The rounding errors to expect in values of a network, relative to the largest value, by element
type."""


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Add the option for the tolerance of comparisons."""
    parser.add_argument(
        "--tolerance",
        type=amount,
        metavar="T",
        help="how much floats may differ: T * (|expected| + the largest |expected|); by default "
        "1e-4 for float32, 1e-2 for float16, 5e-2 for bfloat16, 1e-9 for float64. Other elements "
        "have to be equal",
    )


def beyond_rounding(found: Array, expected: Array, tolerance: float | None = None) -> str | None:
    """Return how an array differs from the expected one beyond rounding; None if it does not."""
    found, expected = as_own(found), as_own(expected)
    element = element_of(expected.dtype)
    if tolerance is None:
        tolerance = ROUNDING.get(element.name if element is not None else "", 0.0)
    if found.dtype == expected.dtype:
        found, expected = widened(found), widened(expected)
    return difference(found, expected, tolerance, tolerance * _largest(expected))


def _largest(array: Array) -> float:
    """Return the largest finite magnitude of floats and complex numbers; 0 for other elements."""
    if array.dtype.kind not in "fc":
        return 0.0
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max(initial=0.0))
