"""The comparison of strategies runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import picks
from bench.cases import convolution
from tessella.driver.tune import tune
from tessella.tools import measure


def test_a_model_is_timed_by_each_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "_LONGEST", 0.0)
    monkeypatch.setattr(tune, "TURNS", 3)
    model = convolution((1, 8, 12, 12), (8, 8, 3, 3), pads=[1] * 4)
    monkeypatch.setattr(picks, "load_model", lambda name: model)
    path = tmp_path / "x.json"
    arguments = ["squeezenet", "--repeat", "1", "--seconds", "30", "--json", str(path)]
    assert picks.main(arguments) == 0
    (row,) = json.loads(path.read_text())["rows"]
    assert row["milliseconds"].keys() == {"cost", "grade", "measure"}
    assert row["others"]["cost"] == 0
    assert "geometric mean of grade to cost" in capsys.readouterr().out
