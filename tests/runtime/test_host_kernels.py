"""What Python kernels get and give, as those of plugins do."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.runtime import host
from tessella.runtime.elements import DTYPES
from tessella.runtime.host.registry import OF_BITS
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


@pytest.mark.parametrize("element", ["f16", "bf16", "f8E4M3FN", "i4"])
def test_moved_elements_keep_their_bits(element: str) -> None:
    """A signalling NaN stays one, and a part of an array can be written to."""
    dtype = DTYPES[element]
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}")
    x = bits.view(dtype)
    settings = {"starts": (1,), "sizes": (bits.size - 1,), "steps": (1,)}
    [part] = host.run("nn.slice", [x], settings, [dtype])
    assert part.dtype == dtype
    assert part.flags.writeable
    assert np.shares_memory(part, x)
    [turned] = host.run("nn.transpose", [x.reshape(-1, 4)], {"perm": (1, 0)}, [dtype])
    np.testing.assert_array_equal(turned.view(bits.dtype), bits.reshape(-1, 4).T)


def test_a_kernel_that_is_replaced_by_one_that_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessella.runtime.host.registry.KERNELS", {})
    host.kernel("mine.move", of_bits=True)(lambda x: x)
    assert "mine.move" in OF_BITS
    host.kernel("mine.move")(lambda x: x)
    assert "mine.move" not in OF_BITS
