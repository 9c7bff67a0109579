"""The figures of a model that was shipped: there are some, and a process that fails is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessella
from bench import ship
from tests.hostile.models import X, mixed


def test_processes_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ship, "_REPEATS", 1)
    artifact, feeds = tmp_path / "m.tsl", tmp_path / "feeds.npz"
    tessella.compile(mixed()).save(artifact)
    np.savez(feeds, allow_pickle=False, x=X)
    row = ship.measure("m", "tessella", artifact, feeds, 2)
    assert row.first_answer_seconds > 0
    assert 5 < row.one_process_mb < row.all_processes_mb < 2 * row.one_process_mb + 50
    assert row.installed_mb > 1
    with pytest.raises(RuntimeError, match="did not answer"):
        ship.measure("m", "tessella", feeds, feeds, 1)
