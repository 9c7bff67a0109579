"""The text of the pool's code, for all targets."""

from __future__ import annotations

import re

import pytest

from tessella.codegen import pool
from tessella.codegen.llvm import assembly
from tessella.targets import Target
from tessella.targets.table import TARGETS

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
