"""Weights that programs share."""

from __future__ import annotations

import ctypes
import gc

import numpy as np

from tessella.runtime.arena import ALIGNMENT, address
from tessella.runtime.sharing import adopted, bytes_of, packed


def test_equal_arrays_are_in_memory_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 50)), rng.random(33).astype(np.float32)
    first = packed([a, b, a.copy()])
    second = packed([b, a, np.zeros(5)])
    assert first[0] is first[2] is second[1]
    assert first[1] is second[0]
    for array, flat in zip((a, b, a), first, strict=True):
        assert flat.tobytes() == array.tobytes()
        assert address(flat) % ALIGNMENT == 0


def test_arrays_that_differ_in_a_byte() -> None:
    """Wherever that is: only some bytes are looked at before all are."""
    base = np.zeros(100_000, np.uint8)
    arrays = [base]
    for place in (0, 1, 50_001, 99_999):
        arrays.append(base.copy())
        arrays[-1][place] = 1
    shared = packed([*arrays])
    assert len({address(flat) for flat in shared}) == len(arrays)
    for flat, array in zip(shared, arrays, strict=True):
        np.testing.assert_array_equal(flat, array)


def test_the_array_given_is_not_kept() -> None:
    array = np.arange(7)
    (flat,) = packed([array])
    array[:] = -1
    np.testing.assert_array_equal(flat.view(array.dtype), np.arange(7))


def test_arrays_are_taken_over() -> None:
    array = np.arange(1000)
    (known,) = packed([array])
    other = bytes_of(np.arange(5000))
    found = adopted([bytes_of(array.copy()), other])
    assert found[0] is known
    assert found[1] is other
    assert packed([np.arange(5000)])[0] is other


def test_they_live_as_long_as_they_are_read() -> None:
    array = np.arange(1234)
    (flat,) = packed([array])
    old = id(flat)
    same = packed([array])
    assert id(same[0]) == old
    del flat, same
    gc.collect()
    (flat,) = packed([np.arange(1234)])
    np.testing.assert_array_equal(flat.view(array.dtype), array)
    assert packed([array])[0] is flat


def test_strides_and_empty_arrays() -> None:
    strided = np.arange(24).reshape(4, 6)[:, ::2]
    flats = packed([strided, np.zeros((0, 3)), np.array(5)])
    assert [flat.size for flat in flats] == [96, 0, 8]
    assert flats[0].tobytes() == strided.tobytes()


def test_a_view_keeps_the_memory_of_its_constant() -> None:
    """Though the pages of each constant of a block are given back on their own."""
    arrays = [np.full(1 << 20, i, np.int32) for i in (1, 2, 3)]
    first, second, third = packed([*arrays])
    assert address(second) - address(first) == 4 << 20
    view = second.view(np.int32)[5:]
    where = address(third)
    del second, third
    gc.collect()
    assert (view == 2).all()
    assert (first.view(np.int32) == 1).all()
    third = np.ctypeslib.as_array((ctypes.c_uint8 * (4 << 20)).from_address(where))
    assert not third[8192:-8192].any(), "its pages are the system's again"
