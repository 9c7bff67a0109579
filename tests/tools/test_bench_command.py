"""`tessella bench`: what it measures and prints, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import onnx
import pytest

import tessella
from tessella.driver.report.data import ConversionData
from tessella.runtime.explain_types import Conversion
from tessella.runtime.schema import VERSION
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
    (row,) = found["runtimes"]
    assert (row["name"], row["threads"], row["ratio"]) == ("tessella", 1, 1.0)
    assert 0 < row["seconds"] <= row["p90"]
    (profile,) = found["profiles"]
    assert ["sums"] in [each["nodes"] for each in profile["steps"]]
    assert found["machine"]["cores"] > 0


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


def test_all_documents_have_one_schema(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field has the same name and type in all documents that contain it."""
    assert main(["report", path, "--json", "-o", str(tmp_path / "a.json")]) == 0
    report = json.loads((tmp_path / "a.json").read_text())
    capsys.readouterr()
    assert main(["explain", path, "--json"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    assert main(["bench", path, "--profile", "--json", "--threads", "1", *QUICK]) == 0
    bench = json.loads(capsys.readouterr().out)
    [profile] = bench["profiles"]
    assert {each["version"] for each in (report, explanation, bench, profile)} == {VERSION}
    assert report["ops"][0].keys() - explanation["ops"][0].keys() == {"pattern", "consumed"}
    assert explanation["ops"][0].keys() <= report["ops"][0].keys()
    assert [field.name for field in fields(ConversionData)] == [*Conversion.__annotations__]
    assert profile["totals"].keys() <= report["totals"].keys()
    assert profile["steps"][0].keys() <= report["steps"][0].keys()
    assert profile["steps"][0]["calls"][0].keys() == call_of(report).keys()
    assert bench["machine"].keys() - report["machine"].keys() == {"load"}
    assert {"name", "version", "seconds"} <= bench["runtimes"][0].keys()


def call_of(report: Any) -> Any:
    return next(call for step in report["steps"] for call in step["calls"])
