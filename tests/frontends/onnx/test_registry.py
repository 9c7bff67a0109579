"""The table of ops agrees with what the installed onnx knows."""

from __future__ import annotations

import itertools

import pytest
from onnx import defs

from tessella.frontends.onnx import ops

ENTRIES = [entry for rows in ops.entries().values() for entry in rows]


@pytest.mark.sweep
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: f"{e.op}-{e.first}")
def test_versions_exist(entry: ops.VersionedConverter) -> None:
    domain, _, name = entry.op.rpartition(".")
    history = defs.get_all_schemas_with_history()
    versions = {s.since_version for s in history if (s.name, s.domain) == (name, domain)}
    assert entry.first in versions
    assert entry.last in versions


@pytest.mark.parametrize("op", ops.entries())
def test_one_entry_for_each_version(op: str) -> None:
    rows = ops.entries()[op]
    for before, after in itertools.pairwise(rows):
        assert before.last < after.first
