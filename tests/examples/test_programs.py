"""The programs of `examples/` that need no cluster: what they print, write and draw."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.models import run_onnxruntime

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PICTURES = ROOT / "docs" / "pictures" / "examples"
DATA = np.load(EXAMPLES / "digits" / "heldout.npz")
SVG = "{http://www.w3.org/2000/svg}"
Out = pytest.CaptureFixture[str]


def run(name: str, *words: str) -> dict[str, Any]:
    """Run a program; returns its names."""
    path = str(EXAMPLES / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path, *words])
        patch.setattr(sys, "path", [*sys.path])
        return runpy.run_path(path, run_name="__main__")


def texts(picture: Path) -> Sequence[str | None]:
    """The size of a picture, and its texts."""
    root = ElementTree.parse(picture).getroot()
    return root.get("viewBox"), *(each.text for each in root.iter(f"{SVG}text"))


def run_drawing(name: str, folder: Path, capsys: Out) -> tuple[dict[str, Any], list[str]]:
    """Run a program that draws the picture of the documentation; returns its names and lines."""
    path = folder / "picture.svg"
    names = run(name, str(path))
    *lines, wrote = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote {path}"
    assert texts(path) == texts(PICTURES / f"{Path(name).parent}.svg")
    return names, lines


@pytest.mark.parametrize(
    "page, link",
    [("examples/README.md", r"\]\((\w+)/"), ("docs/examples.md", r"\]\(\.\./examples/(\w+)/")],
)
def test_a_page_lists_each_folder(page: str, link: str) -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - {"__pycache__"}
    assert {*re.findall(link, (ROOT / page).read_text())} == folders


def test_pictures_are_small_and_on_the_page() -> None:
    pictures = [*PICTURES.iterdir()]
    page = (ROOT / "docs" / "examples.md").read_text()
    assert {path.name for path in pictures} == {*re.findall(r"pictures/examples/([\w.]+)", page)}
    assert max(path.stat().st_size for path in pictures) < 50_000


def test_a_function_of_arrays(tmp_path: Path, capsys: Out) -> None:
    _, lines = run_drawing("jit/neighbours.py", tmp_path, capsys)
    images = DATA["images"].reshape(360, -1).astype(np.float64)
    labels, known = DATA["labels"], 180
    distances = ((images[known:, None] - images[None, :known]) ** 2).sum(-1)
    nearest = labels[:known][np.argsort(distances, axis=-1)[:, :5]]
    found = [np.bincount(row, minlength=10).argmax() for row in nearest]
    share = (found == labels[known:]).mean()
    assert lines == [f"{share:.1%} of 180 digits are right"]


def windows(image: npt.NDArray[Any], weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The sums of products over the window of each pixel, with zeros outside."""
    padded = np.pad(image, 1)
    views = np.lib.stride_tricks.sliding_window_view(padded, weights.shape)
    return (views * weights).sum((-2, -1))


def test_a_kernel_in_index_notation(tmp_path: Path, capsys: Out) -> None:
    names, lines = run_drawing("tile/edges.py", tmp_path, capsys)
    image = np.kron(DATA["images"][0].reshape(8, 8), np.ones((2, 2)))
    across, down = (windows(image, w) for w in (names["SOBEL"], names["SOBEL"].T))
    rows = names["drawn"](np.hypot(across, down).astype(np.float32))
    assert [line[35:] for line in lines] == rows


def test_a_program_for_onnx_runtime(tmp_path: Path, capsys: Out) -> None:
    _, lines = run_drawing("session/digits.py", tmp_path, capsys)
    model = onnx.load(EXAMPLES / "digits" / "digits.onnx")
    expected = [run_onnxruntime(model, {"image": x[None]})[0].argmax() for x in DATA["images"][:20]]
    assert lines == [" ".join(map(str, expected))]


def test_a_page_about_a_model(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "page.html"
    run("report/digits.py", str(path))
    assert "open it in a browser" in capsys.readouterr().out
    assert "<title>digits - tessella report</title>" in path.read_text()


def test_a_demonstration(tmp_path: Path, capsys: Out) -> None:
    pytest.importorskip("rich")
    _, lines = run_drawing("digits/demo.py", tmp_path, capsys)
    assert any("conv" in line for line in lines)


def test_steps_of_a_simulation(tmp_path: Path, capsys: Out) -> None:
    names, _ = run_drawing("heat/plate.py", tmp_path, capsys)
    plate, wanted = np.array(names["hot_spots"](), np.float64), list[npt.NDArray[np.float64]]()
    kernel = np.array([[0, 0.2, 0], [0.2, 0.2, 0.2], [0, 0.2, 0]])
    for step in range(names["FRAMES"][-1] + 1):
        if step in names["FRAMES"]:
            wanted.append(plate.copy())
        plate[1:-1, 1:-1] = windows(plate, kernel)[1:-1, 1:-1]
    np.testing.assert_allclose(names["frames"](), wanted, atol=1e-5)


def test_clusters(tmp_path: Path, capsys: Out) -> None:
    names, _ = run_drawing("clusters/digits.py", tmp_path, capsys)
    images = DATA["images"].reshape(360, -1)
    centres, found = names["clusters"](images)
    nearest = ((images[:, None] - centres) ** 2).sum(-1).argmin(-1)
    np.testing.assert_array_equal(found, nearest)
    means = [images[found == number].mean(0) for number in range(10)]
    np.testing.assert_allclose(centres, means, atol=1e-5)  # the rounds have converged


def test_single_ops(tmp_path: Path, capsys: Out) -> None:
    names, _ = run_drawing("ops/enlarge.py", tmp_path, capsys)
    [image] = DATA["images"][0]
    points = (np.arange(8 * names["FACTOR"]) + 0.5) / names["FACTOR"] - 0.5
    spread = np.stack([np.interp(points, np.arange(8), row) for row in np.eye(8)], axis=1)
    large = names["enlarged"](image)
    np.testing.assert_allclose(large, spread @ image @ spread.T, atol=1e-6)
    sharp = np.clip((large - names["GREY"]) * names["CONTRAST"], 0, 1)
    np.testing.assert_allclose(names["sharpened"](large), sharp, atol=1e-6)


@pytest.mark.slow
def test_a_network_in_8_bits(tmp_path: Path, capsys: Out) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    _, lines = run_drawing("quantize/digits.py", tmp_path, capsys)
    wide, narrow = (int(line.split()[2]) for line in lines)
    session = ort.InferenceSession(EXAMPLES / "digits" / "digits.onnx")
    images, labels = DATA["images"][40:], DATA["labels"][40:]
    read = [session.run(None, {"image": image[None]})[0].argmax() for image in images]
    assert wide == (np.array(read) == labels).sum()
    assert narrow >= wide - 3


@pytest.mark.slow
def test_a_text_that_a_model_goes_on_with(tmp_path: Path, capsys: Out) -> None:
    names, lines = run_drawing("language/write.py", tmp_path, capsys)
    model = onnx.load(EXAMPLES / "language" / "language.onnx")

    def called(tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return run_onnxruntime(model, {"characters": tokens})[0]

    written = names["continued"](called, names["PROMPT"], np.random.default_rng(0))
    lacking = len(lines[0]) - len(names["PROMPT"])
    wanted = "".join(character for character, _ in islice(written, lacking))
    assert lines[0] == names["PROMPT"] + wanted


def test_the_model_of_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(EXAMPLES / "conv" / "make.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(tmp_path / "make.py"), run_name="__main__")
    made = (tmp_path / "conv.onnx").read_bytes()
    assert made == (EXAMPLES / "conv" / "conv.onnx").read_bytes()
