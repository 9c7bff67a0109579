"""What Python kernels get and give, as those of plugins do."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.runtime import host
from tessella.support.errors import ExecutionError
from tests.native import Array

F32 = np.dtype(np.float32)


def _doubled_in_place(x: Array) -> Array:
    x *= 2
    return x


def test_a_kernel_cannot_write_to_the_callers_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(host.KERNELS, "mine.double", _doubled_in_place)
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        host.run("mine.double", [x], {}, [F32])
    assert x.tolist() == [1, 1, 1]
    assert x.flags.writeable


@pytest.mark.parametrize("count", [0, 2])
def test_a_tuple_for_one_result(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(host.KERNELS, "mine.copies", lambda x: (x,) * count)
    with pytest.raises(ExecutionError, match="another number of results") as caught:
        host.run("mine.copies", [np.ones(3, np.float32)], {}, [F32])
    assert caught.value.expected == "an array"
    assert caught.value.found == f"a tuple of {count} arrays"
