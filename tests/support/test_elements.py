"""The table of elements agrees with NumPy and ml_dtypes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tessella.support.elements import ELEMENTS, FLOATS, widens

TAGGED = [name for name, element in ELEMENTS.items() if element.is_tagged]
OWN = [name for name in ELEMENTS if name not in TAGGED]


def _dtype(name: str) -> np.dtype[Any]:
    element = ELEMENTS[name]
    return np.dtype(getattr(ml_dtypes, element.foreign) if element.foreign else element.dtype)


@pytest.mark.parametrize("name", OWN)
def test_elements_that_numpy_has(name: str) -> None:
    element = ELEMENTS[name]
    dtype = np.dtype(element.dtype)
    assert dtype.itemsize * 8 == element.bits
    assert (
        dtype.kind == {"float": "f", "signed": "i", "unsigned": "u", "boolean": "b"}[element.kind]
    )


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
    assert narrow == {"f16", "bf16", "f8E4M3FN", "f8E5M2"}
    assert {ELEMENTS[name].arithmetic for name in narrow} == {"f32"}


def test_what_widens() -> None:
    f8 = ("f8E4M3FN", "f8E5M2")
    wider = {
        *itertools.product(f8, ("f16", "bf16", "f32", "f64")),
        *itertools.product(("f16", "bf16"), ("f32", "f64")),
        ("f32", "f64"),
        *(
            (f"{sign}{a}", f"{sign}{b}")
            for sign in "iu"
            for a, b in itertools.combinations((2, 4, 8, 16, 32, 64), 2)
        ),
        *((f"u{a}", f"i{b}") for a, b in itertools.combinations((2, 4, 8, 16, 32, 64), 2)),
    }
    assert {pair for pair in itertools.product(ELEMENTS, ELEMENTS) if widens(*pair)} == wider


def test_the_table_of_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "stages" / "nn.md").read_text()
    for e in ELEMENTS.values():
        native = "yes" if e.is_native else "no"
        row = f"| `{e.name}` | {e.bits} | {e.kind} | `{e.dtype}` | {native} | `{e.arithmetic}` |"
        assert row in text
