"""The table of elements agrees with NumPy and ml_dtypes."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tessella.support.elements import ELEMENTS, FLOATS, widens

TAGGED = [name for name, element in ELEMENTS.items() if element.is_tagged]
OWN = [name for name in ELEMENTS if name not in (*TAGGED, "string")]
NARROW = {"f16", "bf16", *(name for name in TAGGED if name in FLOATS)}


def _dtype(name: str) -> np.dtype[Any]:
    element = ELEMENTS[name]
    return np.dtype(getattr(ml_dtypes, element.foreign) if element.foreign else element.dtype)


@pytest.mark.parametrize("name", OWN)
def test_elements_that_numpy_has(name: str) -> None:
    element = ELEMENTS[name]
    dtype = np.dtype(element.dtype)
    assert dtype.itemsize * 8 == element.bits
    kinds = {"float": "f", "signed": "i", "unsigned": "u", "boolean": "b", "complex": "c"}
    assert dtype.kind == kinds[element.kind]


@pytest.mark.parametrize("name", TAGGED)
def test_elements_that_numpy_lacks(name: str) -> None:
    element = ELEMENTS[name]
    assert np.dtype(element.dtype).kind == "u"
    assert np.dtype(element.dtype).itemsize * 8 == max(8, element.bits)
    info = (ml_dtypes.finfo if element.is_float else ml_dtypes.iinfo)(_dtype(name))
    assert info.bits == element.bits


@pytest.mark.parametrize("name", FLOATS)
def test_limits_of_floats(name: str) -> None:
    element = ELEMENTS[name]
    info = ml_dtypes.finfo(_dtype(name))
    found = element.epsilon, element.least_normal, element.largest
    assert found == (float(info.eps), float(info.tiny), float(info.max))


def test_sizes_are_rounded_up() -> None:
    sizes = {"f64": 40, "bf16": 10, "f8E5M2": 5, "bool": 5, "i4": 3, "u2": 2}
    assert {name: ELEMENTS[name].bytes(5) for name in sizes} == sizes
    assert ELEMENTS["u4"].bytes(0) == 0


def test_narrow_floats_are_computed_in_f32() -> None:
    narrow = {name for name, e in ELEMENTS.items() if e.arithmetic != name}
    assert narrow == NARROW
    assert {ELEMENTS[name].arithmetic for name in narrow} == {"f32"}


def test_floats_that_widen() -> None:
    """Every number of the narrower element is one of the wider element."""
    codes = {name: np.arange(1 << min(ELEMENTS[name].bits, 16)) for name in NARROW}
    for name, end in itertools.product(NARROW, FLOATS):
        size = np.dtype(ELEMENTS[name].dtype).itemsize
        with np.errstate(all="ignore"):
            x = codes[name].astype(f"u{size}").view(_dtype(name)).astype(np.float64)
            there = x.astype(_dtype(end)).astype(np.float64)
        is_same = np.array_equal(np.stack([x, np.signbit(x)]), [there, np.signbit(there)], True)
        assert widens(name, end) == (is_same and ELEMENTS[name].bits < ELEMENTS[end].bits)


def test_integers_and_complex_numbers_that_widen() -> None:
    bits = (2, 4, 8, 16, 32, 64)
    wider = {
        (f"{a}{m}", f"{b}{n}")
        for a, b in ("ii", "uu", "ui")
        for m, n in itertools.combinations(bits, 2)
    }
    pairs = itertools.product(ELEMENTS, ELEMENTS)
    assert {p for p in pairs if p[0] not in FLOATS and widens(*p)} == wider | {("c64", "c128")}
