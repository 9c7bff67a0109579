"""Results that callers may write to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

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
