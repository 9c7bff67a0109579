"""Results that callers may write to, and those that are cut to their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella.runtime.trimming import coordinates, first
from tessella.runtime.values import owned

Array = npt.NDArray[Any]


def test_results_with_memory_of_their_own_are_not_copied() -> None:
    whole, taken = np.arange(8.0), np.ones(3)
    values = [np.zeros(4), whole[:5]]
    for found, value in zip(owned(values, [taken, [taken], None]), values, strict=True):
        assert found is value
    for found, value in zip(owned(values, [taken]), values, strict=True):
        assert found is value


def _read_only() -> Array:
    array = np.zeros(3)
    array.flags.writeable = False
    return array


WHOLE = np.zeros(6)
OTHERS_MEMORY = bytearray(24)


@pytest.mark.parametrize(
    "values, taken",
    [
        ([WHOLE], [WHOLE]),
        ([WHOLE[:2]], [WHOLE]),
        ([WHOLE], [WHOLE[1:]]),
        ([WHOLE[::2]], [WHOLE[1:4]]),
        ([WHOLE], [[WHOLE]]),
        ([_read_only()], []),
        ([np.frombuffer(OTHERS_MEMORY)], [np.frombuffer(OTHERS_MEMORY)]),
    ],
)
def test_results_that_share_memory_are_copied(values: list[Array], taken: list[Any]) -> None:
    [found] = owned(values, taken)
    assert found.flags.writeable
    assert found.flags.owndata
    np.testing.assert_array_equal(found, values[0])


def test_results_that_share_memory_with_each_other_are_copied() -> None:
    a, b = owned([WHOLE[:4], WHOLE[2:]], [])
    assert not np.shares_memory(a, b)
    a, b = owned([WHOLE, WHOLE], [])
    assert not np.shares_memory(a, b)


@pytest.mark.parametrize("count", [0, 1, 3, 29, 30])
def test_a_part_is_contiguous_and_does_not_keep_much(count: int) -> None:
    x = np.arange(60).reshape(30, 2)
    rows, columns, whole = first([np.array(count), x, x.T.copy(), x], axes=[0, 1, None])
    np.testing.assert_array_equal(rows, x[:count])
    np.testing.assert_array_equal(columns, x.T[:, :count])
    assert whole is x
    assert rows.flags.c_contiguous
    assert columns.flags.c_contiguous
    assert np.shares_memory(rows, x) == (4 * count > 30)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 4, 3)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_coordinates_of_places(shape: tuple[int, ...], dtype: type[np.signedinteger[Any]]) -> None:
    places = np.arange(int(np.prod(shape)), dtype=dtype)
    [found] = coordinates([np.array(5), places, np.array(shape)])
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.unravel_index(places[:5], shape))
