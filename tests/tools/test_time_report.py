"""Tables of times, and where the commands print them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tessella.tools import opt
from tessella.tools.cli import main
from tessella.tools.time_report import time_report

Out = pytest.CaptureFixture[str]


def test_the_table() -> None:
    lines = list(time_report({"a-pass": 0.25, "llvm": 0.75, "llvm work": 3.0}))
    assert lines[3:] == [
        "  Total Execution Time: 1.0000 seconds",
        "  LLVM, mostly in other processes meanwhile: 3.0000 seconds",
        "",
        "  ----Wall Time----  ----Name----",
        "     0.7500 ( 75.0%)  (waiting for LLVM)",
        "     0.2500 ( 25.0%)  a-pass",
        "     1.0000 (100.0%)  Total",
    ]
    assert [len(lines[0]), len(lines[2])] == [79, 79]


def test_nothing_was_timed() -> None:
    assert list(time_report({}))[-1] == "     0.0000 (  0.0%)  Total"


@pytest.fixture
def model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder."""
    shutil.copy(models / "model.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    return "model.onnx"


@pytest.mark.parametrize(
    "command, last",
    [
        (["run"], "(linking, packing of weights)"),
        (["run", "--interpret", "placed"], "fuse-elementwise"),
        (["compile", "--to", "loops"], "plan-weights"),
    ],
)
def test_commands(
    command: list[str],
    last: str,
    model: str,
    capsys: Out,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command recompiles what the cache has."""
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    assert main(["run", model]) == 0
    name, *options = command
    assert main([name, model, *options, "--time-passes"]) == 0
    output = capsys.readouterr().err
    for text in ("Execution time report", "pick-kernels", last):
        assert text in output
    shares = re.findall(r"\((.{6})\)", output)
    assert abs(sum(float(share[:-1]) for share in shares) - 200) < 2


def test_the_tool(model: str, capsys: Out) -> None:
    main(["compile", model, "--to", "nn"])
    passes = "fold-constants,eliminate-identities,fold-constants"
    capsys.readouterr()
    assert opt.main(["model.nn", "-p", passes, "--time-passes"]) == 0
    output = capsys.readouterr()
    assert output.err.count("fold-constants") == 1
    assert "eliminate-identities" in output.err
    assert "Execution" not in output.out


def test_verbose(model: str, capsys: Out) -> None:
    assert main(["run", model, "-v"]) == 0
    assert "tessella.compile: a model was compiled for x [1, 3, 8, 8], in" in (
        capsys.readouterr().err
    )
    assert main(["run", model, "-vv"]) == 0
    assert "tessella.passes: pick-kernels took" in capsys.readouterr().err
    assert main(["run", model]) == 0
    assert capsys.readouterr().err == ""
