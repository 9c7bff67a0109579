"""The text of OpenCL kernels, which needs no device."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessella.tools.cli import main


def test_the_kernels_of_a_model_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, target = "examples/digits/digits.onnx", tmp_path / "digits.cl"
    assert main(["compile", model, "--emit", "opencl", "-o", str(target)]) == 0
    text = target.read_text()
    assert text.count("__kernel void ") >= 4
    assert "// /0/Conv" in text
    assert main(["compile", model, "--emit", "opencl", "--places", "x86,host"]) != 0
    assert "no kernel of the model runs on a device" in capsys.readouterr().err
