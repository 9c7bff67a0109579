"""Options of commands that would be ignored: an error says why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tessella.tools import opt
from tessella.tools.cli import main

Out = pytest.CaptureFixture[str]

REFUSED: Mapping[str, str] = {
    "run model.onnx --input x=@x.npy --shape x=2x3x8x8": "--shape x does not fit --input x",
    "run model.onnx --shape x=1x3x8x8 --shape x=1x3x8x8": "--shape x is given twice",
    "run model.onnx --input x=ones --input x=zeros": "--input x is given twice",
    "run model.onnx --shape x=+1x3x8x8": "cannot read the shape '+1x3x8x8'",
    "run model.onnx --shape x=1x3x_8x8": "cannot read the shape '1x3x_8x8'",
    "run model.onnx --shape x=1x3x8x": "cannot read the shape '1x3x8x'",
    "run model.onnx --shape x=1x3x-8x8": "cannot read the shape '1x3x-8x8'",
    "run model.onnx --interpret nn --threads 3": "NumPy runs the stage, on one thread",
    "run model.onnx --tolerance 1": "--expected NAME=@FILE.npy",
    "run model.onnx --budget 1": "add --pick measure",
    "run m.tsl --dim n=1": "an artifact is compiled already",
    "run model.onnx --dim n=1": "the model has no open dimension 'n'",
    "compile model.onnx --threads 1": "the code is the same for any number of threads",
    "check model.onnx --threads 1": "found: --threads",
    "explain model.onnx --threads 1": "found: --threads",
    "tune model.onnx --threads 1": "kernels are measured on one thread",
    "run open.onnx --dim N=1..8 --shape x=9x4": "--dim N does not fit --shape x",
    "run open.onnx --dim N=1..8": "give its shape",
    "bisect open.onnx --dim N=1..8": "expected: --dim N=SIZE",
    "diff open.onnx --dim N=1..8": "expected: --dim N=SIZE",
    "tune open.onnx --dim N=1..8": "expected: --dim N=SIZE",
    "run open.onnx --dim N=1..8 --shape x=2x4 --interpret nn": "expected: --dim N=SIZE",
    "run open.onnx --dim N=2 --timeout 0": "a number of seconds above 0",
    "quantize model.onnx --dynamic --places x86": "no report is written",
    "check m.tsl --shape x=1x3x8x8": "only its bytes are checked",
    "check m.tsl --value x=1": "found: --value",
    "check model.tile --shape x=1x3x8x8": "a stage was made for its shapes",
    "explain m.tsl --shape x=1x3x8x8": "found: --shape",
    "explain m.tsl --tiles": "found: --tiles",
    "explain m.tsl --barriers": "found: --barriers",
    "explain model.onnx --tiles --barriers": "give --barriers without --tiles",
    "tune model.onnx --pick cost": "unrecognized arguments: --pick cost",
    "tune --merge other.json --shape x=1": "nothing is measured without a model",
    "tune --merge other.json --budget 1": "found: --budget",
    "tune model.onnx --workers 3": "this process measures all ops",
    "bisect model.onnx --json --lines 3": "JSON has all lines",
    "compile model.onnx --emit c -o z.foo": "expected: a name that ends in .o",
    "compile model.onnx --emit c -o z": "expected: a name that ends in .o",
    "compile model.onnx --emit c -o -": "expected: a name that ends in .o",
    "compile model.onnx --emit c --to asm": "found: --to",
    "compile model.onnx --emit c --time-passes": "found: --time-passes",
    "compile model.onnx -o m.tsl --to asm": "found: --to",
    "compile model.onnx -o m.tsl --print-ir-after-all": "found: --print-ir-after-all",
    "compile model.onnx -o m.tsl --dim n=1 --dim n=2": "--dim n is given twice",
    "compile model.onnx --weights file": "add --emit c",
}
"""A part of the error, by the command line."""


@pytest.fixture
def folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "open.onnx"):
        (tmp_path / name).write_bytes((models / name).read_bytes())
    return tmp_path


def test_options_that_would_be_ignored(folder: Path, capsys: Out) -> None:
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    assert main(["compile", "model.onnx", "-o", "m.tsl"]) == 0
    assert main(["compile", "model.onnx", "-o", "model.tile"]) == 0
    before = sorted(folder.iterdir())
    for line, message in REFUSED.items():
        capsys.readouterr()
        assert main(line.split()) == 2, line
        assert message in capsys.readouterr().err, line
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "line",
    [
        "run model.onnx --input x=@x.npy --shape x=1x3x8x8",
        "run model.onnx --interpret nn",
        "check model.tile --json",
        "compile model.onnx --emit c -o z.o --weights file",
        "compile model.onnx --to nn --target avx2",
    ],
)
def test_options_that_count(line: str, folder: Path) -> None:
    np.save("x.npy", np.ones((1, 3, 8, 8), np.float32))
    assert main(["compile", "model.onnx", "-o", "model.tile"]) == 0
    assert main(line.split()) == 0


def test_two_pipelines(folder: Path, capsys: Out) -> None:
    Path("a.mlir").write_text("builtin.module {}")
    arguments = ["a.mlir", "-p", "canonicalize", "--pass-pipeline", "builtin.module(dce)"]
    with pytest.raises(SystemExit) as caught:
        raise SystemExit(opt.main(arguments))
    assert caught.value.code == 1
    assert "-p and --pass-pipeline both name passes" in capsys.readouterr().err
