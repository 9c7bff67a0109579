"""`tessella report`: what it writes, and what it refuses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tessella.tools.cli import main
from tessella.tools.peer_nodes import by_node


def test_a_page(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", model]) == 0
    assert capsys.readouterr().out == "wrote model.html\n"
    page = Path("model.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>model - tessella report</title>" in page
    assert 300_000 < len(page) < 3_000_000


def test_a_size_of_a_dynamic_dimension(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "open.json"
    size = [str(models / "open.onnx"), "--shape", "x=7x4"]
    assert main(["run", *size]) == 0  # keeps the signature on disk, which the report must not use
    assert main(["report", *size, "--json", "-o", str(path)]) == 0
    found = json.loads(path.read_text())
    assert found["steps"][0]["type"] == "f32 7x4 nchw"
    assert found["totals"]["runs"] > 0


def test_json_with_all_parts(model: str) -> None:
    pytest.importorskip("onnxruntime")
    command = ["report", model, "--json", "-o", "a.json", "--against", "onnxruntime"]
    assert main(command) == 0
    found = json.loads(Path("a.json").read_text())
    assert found["hashes"]["model"] == hashlib.sha256(Path(model).read_bytes()).hexdigest()
    assert {"import", "llvm", "link", "pick-kernels"} <= found["compilation"].keys()
    assert any(each["diff"] for each in found["passes"])
    assert found["notes"] == []
    [other] = found["others"]
    assert other["seconds"] > 0
    told = {node for step in found["steps"] if step["others"] for node in step["nodes"]}
    assert {"conv", "matmul"} <= told


def test_nodes_of_onnxruntime() -> None:
    """Names are those that ONNX Runtime gives to nodes that it fuses, or moves to its layout."""
    seconds = {"y_nchwc": 1.0, "a/b/MatMulAddFusion": 2.0, "reorder": 4.0, "c": 8.0, "new": 16.0}
    made = {"reorder": ["y"], "c": ["z"], "new": ["w"]}
    makers = {"y": "conv", "x": "a/b", "z": "last"}
    assert by_node(seconds, made, makers) == {"conv": 5.0, "a/b": 2.0, "last": 8.0}


def test_two_reports(model: str) -> None:
    for name in "ab":
        assert main(["report", model, "--json", "-o", f"{name}.json", "--no-run"]) == 0
    assert main(["report", "--compare", "a.json", "b.json", "-o", "both.html"]) == 0
    assert "<title>model and model - tessella report</title>" in Path("both.html").read_text()


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "MODEL, or --compare"),
        (["model.onnx", "--compare", "a.json", "b.json"], "MODEL, or --compare"),
        (["--compare", "a.json", "b.json", "--json"], "compiles and measures nothing"),
        (["--compare", "a.json", "b.json"], "cannot read the report"),
        (["model.tsl"], "an artifact has no stages"),
        (["model.onnx", "--no-run", "--against", "onnxruntime"], "measures nothing"),
        (["model.onnx", "--no-run", "-o", "nowhere/x.html"], "cannot write"),
    ],
)
def test_wrong_arguments(
    words: list[str], message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *words]) == 2
    assert message in capsys.readouterr().err
