"""`tessella bench`: what it measures and prints, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import onnx
import pytest

import tessella
from tessella.tools.cli import main
from tests.hostile.models import mixed

QUICK = ["--repeat", "2"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bench") / "m.onnx"
    onnx.save(mixed(), path)
    return str(path)


def test_a_table_of_times(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", path, "--threads", "1,2", "--against", "onnxruntime", *QUICK]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["threads", "median", "ms", "p90", "ms", "spread", "ratio"]
    assert [row.split()[:2] for row in rows] == [
        [name, threads] for threads in "12" for name in ("tessella", "onnxruntime")
    ]


def test_json_with_a_profile(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", path, "--threads", "1", "--profile", "--json", *QUICK]) == 0
    found = json.loads(capsys.readouterr().out)
    (row,) = found["rows"]
    assert (row["runtime"], row["threads"], row["ratio"]) == ("tessella", 1, 1.0)
    assert 0 < row["median"] <= row["p90"]
    (profile,) = found["profiles"]
    assert ["sums"] in [each["nodes"] for each in profile["rows"]]
    assert found["machine"]["cpus"] > 0


@pytest.mark.usefixtures("sums_in_numpy")
def test_an_artifact_with_a_trace(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tessella.compile(path).save(tmp_path / "m.tsl")
    trace = tmp_path / "t.json"
    command = ["bench", str(tmp_path / "m.tsl"), "--profile", "--trace", str(trace), *QUICK]
    assert main(command) == 0
    assert "nn.cumsum" in capsys.readouterr().out
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize(
    "more, message",
    [
        (["--against", "onnxruntim"], "no runtime 'onnxruntim'"),
        (["--threads", "0"], "expected numbers"),
        (["--repeat", "0"], "from 1 on"),
    ],
)
def test_wrong_arguments(
    more: list[str], message: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", path, *more]) == 2
    assert message in capsys.readouterr().err


def test_a_runtime_that_is_not_installed(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["bench", path, "--against", "openvino"]) == 2
    assert "openvino is not installed" in capsys.readouterr().err


def test_bars_need_matplotlib(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["bench", path, "--plot", "bars.png"]) == 2
    assert "pip install tessella[plot]" in capsys.readouterr().err


def test_bars(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "bars.svg"
    assert main(["bench", path, "--threads", "1,2", "--plot", str(picture), *QUICK]) == 0
    assert picture.read_text().count("<svg") == 1
    assert main(["bench", path, "--plot", str(tmp_path / "bars.unknown"), *QUICK]) == 2
    assert "cannot draw the picture" in capsys.readouterr().err


def test_other_runtimes_read_onnx_alone(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tessella.compile(path).save(tmp_path / "m.tsl")
    assert main(["bench", str(tmp_path / "m.tsl"), "--against", "openvino"]) == 2
    assert "an .onnx file" in capsys.readouterr().err
