"""The text of the pool's code, for all targets, and the code for AArch64 on emulated cores."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tessella.codegen import pool
from tessella.codegen.llvm import assembly
from tessella.runtime.arena import aligned
from tessella.runtime.pool import LINE
from tessella.targets import Target
from tessella.targets.table import TARGETS
from tests.emulated import NEON, Cores, with_pool
from tests.native import Array
from tests.runtime.pooled import COUNT, image, summed, sums

TABLE = list(TARGETS.values())


@pytest.mark.parametrize("target", TABLE, ids=lambda target: target.name)
def test_a_thread_that_waits_tells_the_core(target: Target) -> None:
    text = assembly(pool.emit_pool(target), target)
    assert re.search(r"^\s+(pause|isb)\b", text, re.MULTILINE)


@pytest.mark.parametrize("target", TABLE, ids=lambda target: target.name)
def test_one_line_is_fought_for(target: Target) -> None:
    """Of all memory, only the word that says who has the pool is read and written at once."""
    text = pool.emit_pool(target)
    assert re.findall(r"cmpxchg|atomicrmw", text) == ["cmpxchg"]


def test_names_of_offsets_are_known() -> None:
    """Each name in the text has a value, and no two parts of a team overlap."""
    assert "$" not in pool.emit_pool(TABLE[0])
    lines = {pool.pool.TAKEN, pool.pool.JOB, pool.pool.BOXES}
    assert len(lines) == 3
    assert 8 * len(pool.pool.TABLE) <= pool.pool.LINE
    assert 8 * len((*pool.pool.RUN, *pool.pool.RUN_NUMBERS)) <= pool.pool.LINE


def test_boxes_of_aarch64_are_ordered() -> None:
    """What is written before a box is raised is seen by who has read it: emulated memory has no
    weak order, which would show."""
    text = assembly(pool.emit_pool(NEON), NEON)
    found = {
        name: re.findall(r"^\s+(ldar|stlr|ldr|str)\s+x\d+, \[(?!sp)", body, re.MULTILINE)
        for name, body in re.findall(
            r"^(look|wait|post):(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL
        )
    }
    assert found["look"] == ["ldar"]
    assert found["post"][:2] == ["stlr", "ldar"]
    first, *others = [each for each in found["wait"] if each in ("stlr", "ldar")]
    assert first == "stlr"
    assert {*others} == {"ldar"}


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_of_aarch64_meet(threads: int) -> None:
    """They start, run a segment together three times, and wait for each other in between."""
    cores = Cores(with_pool({"segment": image(NEON, "segment", sums(4))}), seed=threads)
    for start in range(3):
        x = np.arange(COUNT) + start
        np.testing.assert_array_equal(_run(cores, threads, x), summed(x, 4))


def test_a_missing_barrier_of_aarch64_shows() -> None:
    alone = sums(4).replace("call void @meet(ptr %context, i64 %threads)", "")
    x = np.arange(COUNT)
    found = _run(Cores(with_pool({"segment": image(NEON, "segment", alone)}), seed=0), 3, x)
    assert (found != summed(x, 4)).any()


def _run(cores: Cores, threads: int, x: Array) -> Array:
    """What the segment makes of an array."""
    team, y, arena = cores.team(threads), np.zeros_like(x), np.zeros_like(x)
    contexts = aligned(threads * LINE, LINE)
    inputs, outputs = (np.array([a.ctypes.data]) for a in (x, y))
    pointers = [a.ctypes.data for a in (contexts, inputs, outputs, x, arena)]
    team.run(team.address, cores.functions["segment"], *pointers, threads, 0)
    return y
