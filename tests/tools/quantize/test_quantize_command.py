"""`tessella quantize`: the file, the table, JSON, and wrong command lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tessella.tools.cli import main
from tests.models import run_onnxruntime
from tests.native import normal
from tests.tools.quantize.models import SHAPE, kinds, network

Out = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "m.onnx")
    np.savez("d.npz", x=np.stack([normal(*SHAPE, seed=seed) for seed in range(2)]))
    return "m.onnx"


def test_a_file_and_a_table(model: str, capsys: Out) -> None:
    command = ["quantize", model, "--calibrate", "d.npz", "-o", "q.onnx", "--threads", "1"]
    assert main(command) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["node", "op"]
    assert any(line.startswith("second ") for line in lines)
    assert lines[-1] == "wrote q.onnx"
    assert "QuantizeLinear" in kinds(onnx.load("q.onnx"))
    assert run_onnxruntime(onnx.load("q.onnx"), {"x": normal(*SHAPE)})[0].shape == (1, 5)


def test_json(model: str, capsys: Out) -> None:
    assert main(["quantize", model, "--calibrate", "d.npz", "--exclude", "head", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    precision = {row["node"]: row["precision"] for row in found["rows"]}
    assert precision["second"] == "int8"
    assert Path("m.int8.onnx").exists()


def test_dynamic_needs_no_data(model: str, capsys: Out) -> None:
    assert main(["quantize", model, "--dynamic", "-o", "q.onnx"]) == 0
    assert capsys.readouterr().out == "wrote q.onnx\n"
    assert "DynamicQuantizeLinear" in kinds(onnx.load("q.onnx"))


@pytest.mark.parametrize(
    "more, message",
    [
        ([], "--calibrate DATA.npz, or --dynamic"),
        (["--calibrate", "d.npz", "-o", "m.onnx"], "overwrite"),
        (["--calibrate", "none.npz"], "No such file"),
        (["--calibrate", "m.onnx"], "cannot read calibration data"),
        (["--calibrate", "d.npz", "-o", "no/such/folder.onnx"], "cannot write the model"),
        (["--dynamic", "--json"], "no report is written"),
        (["--dynamic", "--error-budget", "0.1"], "errors are measured on samples"),
    ],
)
def test_wrong_command_lines(more: list[str], message: str, model: str, capsys: Out) -> None:
    assert main(["quantize", model, *more]) == 2
    assert message in capsys.readouterr().err
