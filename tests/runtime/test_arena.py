"""Memory that programs use again."""

from __future__ import annotations

import numpy as np

from tessella.runtime.arena import ALIGNMENT, HUGE_PAGE, KEPT, Recycler, address, aligned

F32 = np.dtype(np.float32)
SHAPE = (64, 33)


def test_aligned() -> None:
    for size in (1, 100, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5):
        block = aligned(size)
        assert block.size == size
        assert block.ctypes.data % ALIGNMENT == 0
        block[:] = 1


def test_address() -> None:
    array = np.arange(6, dtype=np.float32)
    assert address(array) == array.ctypes.data
    array.flags.writeable = False
    assert address(array) == array.ctypes.data
    assert address(np.empty((0, 3))) is not None


def test_memory_is_used_again_when_nobody_refers_to_it() -> None:
    recycler = Recycler(SHAPE, F32)
    first = recycler.array()
    where = address(first)
    assert (first.shape, first.dtype) == (SHAPE, F32)
    assert where % ALIGNMENT == 0
    del first
    assert address(recycler.array()) == where


def test_memory_is_not_used_again_while_somebody_refers_to_it() -> None:
    recycler = Recycler(SHAPE, F32)
    arrays = [recycler.array() for _ in range(KEPT + 2)]
    assert len({address(a) for a in arrays}) == len(arrays)
    views = [a[3:, ::2] for a in arrays]
    memory = [a.data for a in arrays]
    for i in range(len(arrays)):
        arrays[i][...] = i
    del arrays
    recycler.array()[...] = -1
    assert all((view == i).all() for i, view in enumerate(views))
    del views
    recycler.array()[...] = -1
    assert all((np.asarray(m) == i).all() for i, m in enumerate(memory))


def test_small_arrays_are_fresh() -> None:
    recycler = Recycler((3,), F32)
    assert recycler.array().base is None
