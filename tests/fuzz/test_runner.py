"""Failures are caught, attributed to their case, and saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import runner
from tests.fuzz.failing import FUZZERS
from tests.fuzz.runner import Runner


@pytest.mark.parametrize(
    "name, key",
    [
        ("failing", "WrongError"),
        ("crashing", "SIGABRT"),
        pytest.param("hanging", "hangs", marks=pytest.mark.slow),
    ],
)
def test_what_fails_is_caught_and_saved(
    name: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that ends or hangs is known by its case, and the next case has another."""
    monkeypatch.setattr(runner, "WORKER", "tests.fuzz.failing")
    monkeypatch.setattr(runner, "PATIENCE", 5.0)
    running = Runner(FUZZERS[name], tmp_path)
    found = list(running.run(7, None, 2))
    assert [finding.seed for finding in found] == [7, 8]
    assert all(key in finding.key for finding in found)
    assert running.report.cases == 2
    folder = tmp_path / f"{name}-8"
    assert (folder / "case.txt").read_text() == str(FUZZERS[name].case(8))
    assert f"fuzz {name} --seed 8 --cases 1" in (folder / "finding.txt").read_text()
