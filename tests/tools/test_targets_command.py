"""`tessella targets`: what it shows of this machine, and where that is from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tessella import targets
from tessella.driver.tune import calibrate
from tessella.targets import machine, measured
from tessella.tools.cli import main

Out = pytest.CaptureFixture[str]

FIGURES = dict.fromkeys(measured.FIGURES, 2)


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    machine.forget()


def test_nothing_is_measured_unasked(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("measured without being asked")

    monkeypatch.setattr(calibrate, "measure", fail)
    assert main(["targets"]) == 0
    output = capsys.readouterr().out
    assert "tessella targets --measure" in output
    assert measured.read(targets.native().name, machine.processor()) == {}
    rows = [line.split() for line in output.splitlines() if line.startswith("  ")]
    assert {row[-1] for row in rows} <= {"table", "system"}


def test_measured_figures_are_shown_with_their_file(
    capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "measure", lambda *_: FIGURES)
    assert main(["targets", "--measure"]) == 0
    output = capsys.readouterr().out
    file = measured.path(targets.native().name, machine.processor())
    assert file is not None
    assert file.exists()
    assert str(file) in output
    lines = [line for line in output.splitlines() if line.endswith("measured")]
    assert len(lines) == len(FIGURES)
    assert any("2 bytes a cycle (4 GB/s)" in line for line in lines)
    # and the next process finds them
    assert main(["targets", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {field for field, origin in found["sources"].items() if origin == "measured"} == set(
        FIGURES
    )
    assert found["native"]["ghz"] == 2
    machine.forget()


def test_a_cache_that_cannot_be_written_is_an_error(
    capsys: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(calibrate, "measure", lambda *_: FIGURES)
    assert main(["targets", "--measure"]) == 2
    assert "cannot write the figures" in capsys.readouterr().err
