"""The programs of `examples/` that need no cluster: what they print and write."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.models import run_onnxruntime

EXAMPLES = Path(__file__).parents[2] / "examples"
DATA = np.load(EXAMPLES / "digits" / "heldout.npz")
Out = pytest.CaptureFixture[str]


def run(name: str, *words: str) -> dict[str, Any]:
    """Run a program; returns its names."""
    path = str(EXAMPLES / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path, *words])
        return runpy.run_path(path, run_name="__main__")


def test_the_page_lists_each_folder() -> None:
    listed = set(re.findall(r"\]\((\w+)/", (EXAMPLES / "README.md").read_text()))
    assert listed == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}


def test_a_function_of_arrays(capsys: Out) -> None:
    run("jit/neighbours.py")
    images = DATA["images"].reshape(360, -1).astype(np.float64)
    labels, known = DATA["labels"], 180
    distances = ((images[known:, None] - images[None, :known]) ** 2).sum(-1)
    nearest = labels[:known][np.argsort(distances, axis=-1)[:, :5]]
    found = [np.bincount(row, minlength=10).argmax() for row in nearest]
    share = (found == labels[known:]).mean()
    assert capsys.readouterr().out == f"{share:.1%} of 180 digits are right\n"


def windows(image: npt.NDArray[Any], weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The sums of products over the window of each pixel, with zeros outside."""
    padded = np.pad(image, 1)
    views = np.lib.stride_tricks.sliding_window_view(padded, weights.shape)
    return (views * weights).sum((-2, -1))


def test_a_kernel_in_index_notation(capsys: Out) -> None:
    names = run("tile/edges.py")
    image = np.kron(DATA["images"][0].reshape(8, 8), np.ones((2, 2)))
    across, down = (windows(image, w) for w in (names["SOBEL"], names["SOBEL"].T))
    rows = names["drawn"](np.hypot(across, down).astype(np.float32))
    assert [line[35:] for line in capsys.readouterr().out.splitlines()] == rows
    shown = (EXAMPLES / "README.md").read_text().splitlines()
    assert {row.rstrip() for row in rows} <= {line[35:] for line in shown}


def test_a_program_for_onnx_runtime(capsys: Out) -> None:
    run("session/digits.py")
    model = onnx.load(EXAMPLES / "digits" / "digits.onnx")
    expected = [run_onnxruntime(model, {"image": x[None]})[0].argmax() for x in DATA["images"][:20]]
    assert capsys.readouterr().out.split() == list(map(str, expected))


def test_a_page_about_a_model(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "page.html"
    run("report/digits.py", str(path))
    assert "open it in a browser" in capsys.readouterr().out
    assert "<title>digits - tessella report</title>" in path.read_text()


def test_a_demonstration(capsys: Out) -> None:
    pytest.importorskip("rich")
    run("digits/demo.py")
    assert "conv" in capsys.readouterr().out


def test_the_model_of_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLES / "conv" / "make.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tmp_path / "make.py"), run_name="__main__")
    made = (tmp_path / "conv.onnx").read_bytes()
    assert made == (EXAMPLES / "conv" / "conv.onnx").read_bytes()
