"""Arrays of the elements that NumPy lacks, against ml_dtypes."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from numpy.testing import assert_array_equal

from tessella.runtime import elements
from tessella.runtime.host import run
from tessella.support.elements import ELEMENTS

Array = npt.NDArray[Any]

TAGGED = [name for name, element in ELEMENTS.items() if element.is_tagged]
FLOATS = [name for name in TAGGED if ELEMENTS[name].is_float]
SMALL = [name for name in TAGGED if ELEMENTS[name].bits < 8]


def foreign(name: str) -> np.dtype[Any]:
    """The dtype that ml_dtypes has for an element."""
    return np.dtype(getattr(ml_dtypes, ELEMENTS[name].foreign))


def all_codes(name: str) -> Array:
    """Every value of an element."""
    element = ELEMENTS[name]
    return np.arange(1 << element.bits).astype(element.dtype).view(elements.DTYPES[name])


@np.errstate(all="ignore")
def hard_numbers(dtype: type[np.floating[Any]]) -> Array:
    """Floats of all sizes: random bits, halfway cases, and what is special."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    widths = (elements.widened(all_codes(name)).astype(np.float64) for name in FLOATS)
    codes = [values[np.isfinite(values)] for values in widths]
    steps = [np.nextafter(c, 0) for c in codes]
    halves = [(np.sort(c)[:-1] + np.sort(c)[1:]) / 2 for c in codes]
    near = [np.nextafter(h, np.inf) for h in halves]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e-320, 1 + 2**-8 + 2**-40])
    listed = [bits.astype(np.float64), *codes, *steps, *halves, *near, special]
    return np.concatenate(listed).astype(dtype)


@np.errstate(all="ignore")
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_rounded_once(name: str, dtype: type[np.floating[Any]]) -> None:
    x = hard_numbers(dtype)
    if ELEMENTS[name].specials == "none":
        x = x[~np.isnan(x)]
    found = elements.converted(x, elements.DTYPES[name])
    if dtype is np.float64:
        # ml_dtypes rounds f64 twice: the nearest one is found in a table instead
        x = elements.widened(found).astype(np.float64)
        found = elements.converted(x, elements.DTYPES[name])
    wanted = x.astype(foreign(name))
    if not ELEMENTS[name].signed:
        # ml_dtypes rounds up between 2^-127 and 2^-126, where an f32 is denormal
        between = (x > 2.0**-127) & (x < 2.0**-126)
        nearest = np.where(x < 1.5 * 2.0**-127, 2.0**-127, 2.0**-126).astype(wanted.dtype)
        wanted = np.where(between, nearest, wanted)
    assert_array_equal(elements.widened(found), wanted.astype(np.float32))
    assert_array_equal(np.signbit(elements.widened(found)), np.signbit(wanted.astype(np.float32)))


def test_f64_is_not_rounded_twice() -> None:
    x = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8 - 2**-40, -1 - 2**-8 - 2**-40])
    found = elements.widened(elements.converted(x, elements.DTYPES["bf16"]))
    assert_array_equal(found, np.array([1 + 2**-7, 1, -1 - 2**-7], np.float32))


@pytest.mark.parametrize("name", TAGGED)
def test_every_value_widens(name: str) -> None:
    codes = all_codes(name)
    other = np.arange(codes.size).astype(ELEMENTS[name].dtype)
    if ELEMENTS[name].is_float:
        wanted = other.view(foreign(name)).astype(np.float32)
    else:
        wanted = np.arange(codes.size).astype(foreign(name)).astype(np.int64)
    assert_array_equal(elements.widened(codes), wanted)


@pytest.mark.parametrize("name", TAGGED)
def test_arrays_of_ml_dtypes_are_taken_as_they_are(name: str) -> None:
    array = np.array([[2, 1], [1, 1]]).astype(foreign(name))
    taken = elements.tagged(array)
    assert taken.dtype == elements.DTYPES[name]
    assert np.shares_memory(taken, array)
    assert_array_equal(elements.widened(taken), array.astype(np.float64))
    assert elements.element_of(array.dtype) == ELEMENTS[name]
    assert_array_equal(taken.view(foreign(name)), array)


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("is_installed", [True, False])
def test_callers_get_arrays_of_ml_dtypes_if_it_is_installed(
    name: str, is_installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    elements._foreign_dtype.cache_clear()
    x = all_codes(name)
    found = elements.public(x)
    elements._foreign_dtype.cache_clear()
    assert found.dtype == (foreign(name) if is_installed else x.dtype)
    assert np.shares_memory(found, x)
    assert_array_equal(elements.widened(found), elements.widened(x))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 8), (0, 4)])
def test_packing(name: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << ELEMENTS[name].bits, shape, dtype=np.uint8)
    x = np.asarray(codes).view(elements.DTYPES[name])
    memory = elements.packed(x)
    assert memory.dtype == np.uint8
    assert memory.shape == (ELEMENTS[name].bytes(x.size),)
    assert_array_equal(elements.unpacked(memory, shape, x.dtype), x)


def test_the_first_element_is_in_the_lowest_bits() -> None:
    x = elements.converted(np.array([1, -1, 2]), elements.DTYPES["i4"])
    assert elements.packed(x).tolist() == [0xF1, 0x02]


@pytest.mark.parametrize("name", TAGGED)
def test_names(name: str) -> None:
    dtype = elements.DTYPES[name]
    assert elements.dtype_named(elements.dtype_name(dtype)) == dtype


def test_host_kernels_compute_in_f32() -> None:
    x = np.array([60000.0, 1.0], np.float16)
    [found] = run("nn.add", [x, x], {}, [np.dtype(np.float32)])
    assert_array_equal(found, np.array([120000, 2], np.float32))
    [found] = run("nn.add", [x, x], {}, [x.dtype])
    assert_array_equal(found, np.array([np.inf, 2], np.float16))


@pytest.mark.parametrize("name", FLOATS)
def test_host_kernels_of_tagged_elements(name: str) -> None:
    x = np.random.default_rng(2).standard_normal(64).astype(foreign(name))
    own = elements.tagged(x)
    [found] = run("nn.mul", [own, own], {}, [own.dtype])
    assert_array_equal(found.view(foreign(name)).astype(float), (x * x).astype(float))


def test_casts_to_small_integers_saturate_floats_and_wrap_integers() -> None:
    to = elements.DTYPES["i4"]
    [found] = run("nn.cast", [np.array([9.7, -9.7, np.nan, -3.9], np.float32)], {"to": to}, [to])
    assert elements.widened(found).tolist() == [7, -8, 0, -3]
    [found] = run("nn.cast", [np.array([9, -9, 7])], {"to": to}, [to])
    assert elements.widened(found).tolist() == [-7, 7, 7]
