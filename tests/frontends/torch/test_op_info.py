"""PyTorch's samples of its ops: other cases for each commit."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.frontends.torch import op_samples
from tests.frontends.torch.op_samples import cases, errors

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

COUNT = 100
"""The number of cases, of about 1650."""


def commit() -> str:
    """Return the commit of the working tree; nothing if it has none."""
    command = ["git", "rev-parse", "HEAD"]
    folder = Path(__file__).parent
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def test_a_sample_of_the_cases() -> None:
    seed = commit()
    drawn = random.Random(seed).sample(sorted(cases()), COUNT)
    found = [error for case in drawn for error in errors(case)]
    again = "pytest 'tests/frontends/torch/op_info.py::test_case[CASE]' repeats a case"
    assert not found, f"seed {seed!r}; {again}"


def test_the_lists_are_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    served, fourier = "sin floats", "fft.fft floats"
    assert [*errors(served), *errors(fourier)] == []
    monkeypatch.setattr(op_samples, "DIFFERENT", {served: "a reason"})
    monkeypatch.setattr(op_samples, "left", lambda: {served: "aten.sin.default"})
    [runs, equal] = errors(served)
    assert runs.startswith("sin floats: PyTorch runs nothing, expected aten.sin.default")
    assert equal == "sin floats: equal now: remove it from DIFFERENT"
    [runs] = errors(fourier)
    assert runs.startswith("fft.fft floats: PyTorch runs aten._fft_r2c.default, expected nothing")


def test_a_wrong_result_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_samples, "served", lambda *_: lambda inputs: [inputs[0] + 1])
    [error] = errors("sin floats")
    assert error.startswith("sin floats: Tensor-likes are not close")
