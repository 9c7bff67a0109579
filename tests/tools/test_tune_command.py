"""`tessella tune`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

from bench.cases import convolution
from tessella import targets
from tessella.driver.tune import tune as tuning
from tessella.targets import database
from tessella.tools.cli import main
from tessella.tools.commands.tune import UNMEASURED
from tests.tools.networks import network

Out = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(tuning, "TURNS", 3)
    path = tmp_path / "model.onnx"
    onnx.save(convolution((1, 8, 12, 12), (8, 8, 3, 3), pads=[1] * 4), path)
    return str(path)


def times(path: Path) -> database.Times:
    return database.of_this_machine(str(path), targets.native())


def test_times_are_measured_shown_and_merged(model: str, tmp_path: Path, capsys: Out) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert main(["tune", model, "--budget", "60", "-o", str(first)]) == 0
    header, *rows, last = capsys.readouterr().out.splitlines()
    rows = [row for row in rows if row != UNMEASURED]
    assert header.split() == "node kernel place estimated measured ratio spread".split()
    assert {row.split()[2] for row in rows} == {"x86/f32/nhwc", "x86/f32/nchw"}
    assert last == f"the times are in {first}"
    assert main(["tune", "--merge", str(first), "-o", str(second)]) == 0
    assert len(times(first)) == 2
    assert times(second) == times(first)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_shares_of_workers_are_merged(
    engine: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    monkeypatch.setattr(tuning, "TURNS", 3)
    path, one, spread = (tmp_path / name for name in ("two.onnx", "one.json", "spread.json"))
    nodes = [helper.make_node("Conv", [a, f"w{a}"], [b], pads=[1] * 4) for a, b in ("xc", "cy")]
    sizes = {"x": (1, 8, 12, 12), "y": (1, 4, 12, 12)}
    weights = {"wx": (8, 8, 3, 3), "wc": (4, 8, 3, 3)}
    onnx.save(network(nodes, {"x": sizes["x"]}, {"y": sizes["y"]}, weights), path)
    command = ["tune", str(path), "--budget", "60", "-o"]
    assert main([*command, str(one)]) == 0
    capsys.readouterr()
    assert main([*command, str(spread), "--engine", engine]) == 0
    shown = capsys.readouterr().out
    assert times(spread).keys() == times(one).keys()
    assert {key.split()[0] for key in times(one)} == {"nn.conv"}
    assert len(times(one)) == 4
    assert shown.count("x86/f32/nhwc") == 2
    # measured times are not measured again
    assert main([*command, str(spread), "--engine", engine]) == 0
    assert "x86/f32" not in capsys.readouterr().out


def test_the_environment_names_the_database(
    model: str, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.json"
    monkeypatch.setenv("TESSELLA_DB", str(path))
    assert main(["tune", model, "--budget", "60"]) == 0
    capsys.readouterr()
    assert main(["explain", model]) == 0
    assert "(measured)" in capsys.readouterr().out


def test_what_is_missing_is_said(tmp_path: Path, capsys: Out) -> None:
    assert main(["tune"]) == 2
    assert "expected a MODEL" in capsys.readouterr().err.replace(":", "")
    assert main(["tune", "--merge", str(tmp_path / "none"), "-o", str(tmp_path / "x")]) == 2
    assert "cannot be read" in capsys.readouterr().err
