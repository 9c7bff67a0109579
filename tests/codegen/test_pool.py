"""The text of the pool's code, for all targets, and the code for AArch64 on emulated cores."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tessella.codegen import pool
from tessella.codegen.llvm import Machine, assembly, emit_object
from tessella.runtime.arena import aligned
from tessella.runtime.pool import (
    CONTEXT,
    ELASTIC,
    ELASTIC_AT,
    ENTERED,
    HELPERS,
    LEFT,
    LINE,
    RECORD,
    RECORDS,
    SLOT,
    TURNS,
)
from tessella.runtime.pool import TABLE as TEAM
from tessella.targets import Target
from tessella.targets.table import TARGETS
from tests.emulated import NEON, Cores, with_pool
from tests.native import Array
from tests.runtime.pooled import COUNT, image, summed, sums
from tests.sampling import seeds

TABLE = list(TARGETS.values())


@pytest.mark.parametrize("target", TABLE, ids=lambda target: target.name)
def test_a_thread_that_waits_tells_the_core(target: Target) -> None:
    text = assembly(pool.emit_pool(target), target)
    assert re.search(r"^\s+(pause|isb)\b", text, re.MULTILINE)


def test_names_of_offsets_are_known() -> None:
    """Each name in the text has a value, and no two parts of a team overlap."""
    assert "$" not in pool.emit_pool(TABLE[0])
    assert 8 * len(TEAM) <= ENTERED
    for entries in (RECORD, ELASTIC, CONTEXT, SLOT):
        assert 8 * len(entries) <= LINE
    places = [0, ENTERED, LEFT, ELASTIC_AT, TURNS, HELPERS, RECORDS]
    assert places == sorted({*places})
    assert all(place % LINE == 0 for place in places)


def test_slots_of_aarch64_are_ordered() -> None:
    """A reader that sees that a share is offered, or is done, sees everything that was written
    before. The emulated memory is strongly ordered, so the test reads the instructions."""
    text = assembly(pool.emit_pool(NEON), NEON)
    found = {
        name: re.findall(r"^\s+(ldar|stlr|ldaxr|casa|ldr|str)\s+", body, re.MULTILINE)
        for name, body in re.findall(
            r'^"?([\w.]+)"?:(.*?)^\.Lfunc_end', text, re.MULTILINE | re.DOTALL
        )
    }
    assert "ldar" in found["look"]
    assert "ldr" not in found["look"]
    # an offer is written after the phase, and taken before the phase is read
    assert found["launch"].index("stlr") > found["launch"].index("str")
    assert {"ldaxr", "casa"} & {*found["compute"]}
    assert "stlr" in found["compute"]
    first, *others = [each for each in found["wait"] if each in ("stlr", "ldar")]
    assert first == "stlr"
    assert {*others} == {"ldar"}


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_threads_of_aarch64(threads: int) -> None:
    """They start, and divide the phases of a segment three times."""
    cores = Cores(with_pool({"segment": image(NEON, "segment", sums(4))}), seed=threads)
    for start in range(3):
        x = np.arange(COUNT) + start
        np.testing.assert_array_equal(_run(cores, threads, x), summed(x, 4))


@pytest.mark.parametrize("seed", seeds(4))
def test_threads_that_lose_their_cores(seed: int) -> None:
    """Helpers are late, by phases or by runs; others compute their shares, with the same result."""
    cores = Cores(with_pool({"segment": image(NEON, "segment", sums(2))}), seed)
    cores.stops = True
    for start in range(4):
        x = np.arange(COUNT) + start
        np.testing.assert_array_equal(_run(cores, 2 + seed % 3, x), summed(x, 2))


@pytest.mark.parametrize("running, core", [(2, 0), (3, 1)])
def test_a_helper_leaves_the_core_of_its_caller(running: int, core: int) -> None:
    """It moves if one of the two cores is idle; else it leaves the work to its caller."""
    cores = Cores(with_pool({"segment": image(NEON, "segment", sums(4))}), seed=0)
    cores.team(2)
    (helper,), x = cores.threads, np.arange(COUNT)
    # the caller comes after it, and is on core 1
    cores.cores, cores.running = {helper: 1}, running
    np.testing.assert_array_equal(_run(cores, 2, x), summed(x, 4))
    assert cores.cores[helper] == core


def test_a_caller_that_does_not_wait_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    text = pool.emit_pool(NEON)
    hasty = text.replace("call i64 @wait(ptr %team, ptr %box, i64 %done,", "call i64 @hasty(")
    assert hasty != text
    hasty = hasty.replace("@hasty( i64", "@hasty(i64") + _HASTY
    monkeypatch.setattr(pool, "pool_object", lambda target: emit_object(hasty, Machine.of(target)))
    x, wrong = np.arange(COUNT), 0
    for seed in range(3):
        cores = Cores(with_pool({"segment": image(NEON, "segment", sums(4))}), seed)
        wrong += (_run(cores, 3, x) != summed(x, 4)).any()
    assert wrong


_HASTY = """
define internal i64 @hasty(i64 %spin) {
  ret i64 0
}
"""


def _run(cores: Cores, threads: int, x: Array) -> Array:
    """Run the segment on an array and return the result."""
    team, y, arena = cores.team(threads), np.zeros_like(x), np.zeros_like(x)
    contexts = aligned(threads * LINE, LINE)
    inputs, outputs = (np.array([a.ctypes.data]) for a in (x, y))
    arguments = np.array([a.ctypes.data for a in (contexts, inputs, outputs, x, arena)])
    team.run(team.address, cores.functions["segment"], arguments.ctypes.data, threads, 0)
    return y
