"""Memory that programs use again."""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from tessella.runtime.arena import (
    ALIGNMENT,
    HUGE_PAGE,
    KEPT,
    WINDOW,
    Recycler,
    Workspace,
    Workspaces,
    address,
    aligned,
)

F32 = np.dtype(np.float32)
SHAPE = (64, 65)


def test_aligned() -> None:
    for size in (1, 100, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5):
        block = aligned(size)
        assert block.size == size
        assert block.ctypes.data % ALIGNMENT == 0
        block[:] = 1


def test_large_blocks_may_have_huge_pages() -> None:
    """Memory that processes could share has none where the system gives them on request."""
    block = aligned(HUGE_PAGE)
    maps = re.findall(
        r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: (.*?)$",
        Path("/proc/self/smaps").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    where = block.ctypes.data
    [flags] = [each for start, stop, each in maps if int(start, 16) <= where < int(stop, 16)]
    assert {"hg", "sh"} & {*flags.split()} == {"hg"}


def test_huge_pages_that_the_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels without transparent huge pages refuse the advice: EINVAL."""
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 9999)
    block = aligned(HUGE_PAGE)
    assert (block.size, address(block) % HUGE_PAGE) == (HUGE_PAGE, 0)
    block[:] = 1


def test_address() -> None:
    array, frozen = np.arange(6, dtype=np.float32), np.arange(3)
    frozen.flags.writeable = False
    for each in (array, array[2:], frozen, np.zeros((0, 3)), np.array(1), array.view(np.recarray)):
        assert address(each) == each.ctypes.data


def test_memory_is_used_again_when_nobody_refers_to_it() -> None:
    recycler = Recycler()
    first = recycler.maker(SHAPE, F32)()
    where = address(first)
    assert (first.shape, first.dtype) == (SHAPE, F32)
    assert where % ALIGNMENT == 0
    del first
    assert address(recycler.maker(SHAPE, F32)()) == where


def test_memory_is_not_used_again_while_somebody_refers_to_it() -> None:
    recycler = Recycler()
    arrays = [recycler.maker(SHAPE, F32)() for _ in range(KEPT + 2)]
    assert len({address(a) for a in arrays}) == len(arrays)
    views = [a[3:, ::2] for a in arrays]
    memory = [a.data for a in arrays]
    for i in range(len(arrays)):
        arrays[i][...] = i
    del arrays
    recycler.maker(SHAPE, F32)()[...] = -1
    assert all((view == i).all() for i, view in enumerate(views))
    del views
    recycler.maker(SHAPE, F32)()[...] = -1
    assert all((np.asarray(m) == i).all() for i, m in enumerate(memory))


def test_small_arrays_are_fresh() -> None:
    recycler = Recycler()
    assert recycler.maker((3,), F32)().base is None


def test_memory_serves_arrays_of_other_sizes() -> None:
    recycler = Recycler()
    large = recycler.maker((2, *SHAPE), F32)()
    where = address(large)
    del large
    assert address(recycler.maker(SHAPE, F32)()) == where
    assert address(recycler.maker((2, *SHAPE), F32)()) == where


def test_memory_that_is_too_small_makes_room() -> None:
    """The workspace keeps the same number of blocks for any sequence of sizes."""
    recycler = Recycler()
    places = list[int]()
    for rows in range(1, 9):
        pair = [recycler.maker((rows, *SHAPE), F32)() for _ in range(KEPT)]
        places = sorted(map(address, pair))
        del pair
    pair = [recycler.maker((8, *SHAPE), F32)() for _ in range(KEPT)]
    assert sorted(map(address, pair)) == places


def test_programs_of_one_workspace_have_one_arena() -> None:
    workspace = Workspace()
    first = workspace.arena(100)
    assert first % ALIGNMENT == 0
    assert workspace.arena(50) == first
    grown = workspace.arena(100_000)
    assert grown % ALIGNMENT == 0
    assert workspace.arena(100) == grown
    assert workspace.recycler(3) is workspace.recycler(3)
    assert workspace.recycler(3) is not workspace.recycler(4)


def peak(workspaces: Workspaces, rows: int) -> int:
    """Run a call whose memory depends on its rows, and return the size of the workspace after it,
    in bytes."""
    workspace = workspaces.free.pop() if workspaces.free else Workspace()
    workspace.arena(rows << 20)
    workspace.recycler(0).maker((rows << 18,), F32)()
    workspaces.free.append(workspace)
    workspaces.left -= 1
    if workspaces.left <= 0:
        workspaces.shrink()
    return size_of(workspace)


def size_of(workspace: Workspace) -> int:
    recyclers = workspace._recyclers.values()
    return workspace._room + sum(room for each in recyclers for _, _, room in each._kept[1:])


def test_memory_shrinks_after_a_peak() -> None:
    """A bounded number of calls after it."""
    workspaces = Workspaces()
    assert peak(workspaces, 64) >= 128 << 20
    sizes = [peak(workspaces, 1) for _ in range(3 * WINDOW)]
    assert sizes[0] >= 128 << 20
    assert sizes[-1] <= 4 << 20


def test_sizes_that_alternate_allocate_once() -> None:
    workspaces = Workspaces()
    peak(workspaces, 64)
    [workspace] = workspaces.free
    before = workspace.arena(64 << 20), workspace.recycler(0)._kept[1][1:]
    for rows in (1, 64, 3) * WINDOW:
        peak(workspaces, rows)
    assert [*workspaces.free] == [workspace]
    assert (workspace.arena(1), workspace.recycler(0)._kept[1][1:]) == before


def test_memory_that_grows_keeps_what_it_has_to_spare() -> None:
    """Sizes that grow from call to call allocate seldom."""
    workspace, places = Workspace(), set[int]()
    for rows in range(1, 10 * WINDOW):
        places.add(workspace.arena(rows << 10))
        if rows % WINDOW == 0:
            workspace.shrink()
    assert len(places) <= 12


def test_workspaces_of_a_burst_are_freed() -> None:
    workspaces = Workspaces()
    workspaces.free.extend(Workspace() for _ in range(50))
    for workspace in workspaces.free:
        workspace.arena(1 << 20)
    kept = workspaces.free[-1]
    for _ in range(3 * WINDOW):
        peak(workspaces, 1)
    assert [*workspaces.free] == [kept]


def test_workspaces_shrink_while_threads_take_them() -> None:
    workspaces = Workspaces()
    threads = [Thread(target=lambda: [peak(workspaces, 1) for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(workspaces.free) <= 8
