"""Test a wheel in fresh environments: ``python -m release.fresh WHEEL [NAME ..]``.

For each extra, pip installs the wheel with that extra into an environment, and a short program runs
there. The environment `numpy` has only NumPy and the wheel without its dependencies. It and others
run the artifact that the environment `onnx` writes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from release.packages import ROOT

NUMPY, BARE = "numpy", "bare"
"""The environments without an extra: NumPy alone, and the package with its dependencies."""

PROGRAMS: Mapping[str, str] = {
    NUMPY: """
import importlib.util, numpy, tessella
assert not any(map(importlib.util.find_spec, ("xdsl", "llvmlite", "onnx")))
data = numpy.load("heldout.npz")
model = tessella.load("digits.tsl")
found = [model(image[None]).argmax() for image in data["images"][:40]]
assert (found == data["labels"][:40]).mean() > 0.9
""",
    BARE: """
import numpy, tessella
step = tessella.jit(lambda x, w: tessella.softmax(x @ w, axis=-1))
x, w = numpy.ones((3, 4), "float32"), numpy.ones((4, 5), "float32")
numpy.testing.assert_allclose(step(x, w), numpy.full((3, 5), 0.2), rtol=1e-6)
""",
    "onnx": """
import tessella
tessella.compile("digits.onnx", prepare=True).save("digits.tsl")
""",
    "images": """
import io, numpy, onnx, tessella
from PIL import Image
node = onnx.helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format="RGB")
x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["n"])
y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, None)
graph = onnx.helper.make_graph([node], "image", [x], [y])
model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
pixels = numpy.arange(60, dtype="uint8").reshape(4, 5, 3)
Image.fromarray(pixels).save(file := io.BytesIO(), "png")
found = tessella.compile(model)(numpy.frombuffer(file.getvalue(), "uint8"))
numpy.testing.assert_array_equal(found, pixels)
""",
    "demo": """
import runpy
runpy.run_path("examples/digits/demo.py", run_name="__main__")
""",
    "plot": """
from pathlib import Path
from tessella.tools.bars import Bar, check_matplotlib, draw_bars
check_matplotlib()
draw_bars("bars.svg", "digits", [Bar("tessella", 1e-3, 2e-3)])
assert "<svg" in Path("bars.svg").read_text()
""",
    "torch": """
import torch
module = torch.nn.Linear(4, 3)
with torch.no_grad():
    found = torch.compile(module, backend="tessella")(torch.ones(2, 4))
    torch.testing.assert_close(found, module(torch.ones(2, 4)))
""",
    "quantize": """
import numpy, tessella
images = numpy.load("heldout.npz")["images"][:4]
tessella.quantize("digits.onnx", [{"image": image[None]} for image in images]).save("int8.onnx")
tessella.compile("int8.onnx")
""",
    "serve": """
import json, subprocess, sys
from urllib.request import urlopen
import numpy
data = numpy.load("heldout.npz")
pixels = data["images"][0].ravel().tolist()
tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": pixels}
command = [sys.executable, "-I", "-m", "tessella", "serve", "digits.tsl", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    address = "http://" + server.stdout.readline().rpartition("//")[2].strip()
    body = json.dumps({"inputs": [tensor]}).encode()
    with urlopen(address + "/v2/models/digits/infer", body) as answer:
        [logits] = json.load(answer)["outputs"]
    server.terminate()
assert numpy.argmax(logits["data"]) == data["labels"][0]
""",
    "batch": """
import numpy, pyarrow, pyarrow.parquet
from tessella.tools.cli import main
data = numpy.load("heldout.npz")
images = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(data["images"][:40])
if __name__ == "__main__":
    pyarrow.parquet.write_table(pyarrow.table({"image": images}), "images.parquet")
    assert main(["batch", "digits.tsl", "images.parquet", "-o", "found.parquet"]) == 0
    found = pyarrow.parquet.read_table("found.parquet")["logits"].to_pylist()
    digits = numpy.argmax(found, -1)
    assert (digits == data["labels"][:40]).mean() > 0.9
""",
    "opencl": """
import numpy, pyopencl, tessella
step = tessella.jit(lambda x: tessella.exp(x) + 1, places=["opencl/f32"])
x = numpy.linspace(-1, 1, 12, dtype="float32")
try:
    numpy.testing.assert_allclose(step(x), numpy.exp(x) + 1, rtol=1e-6)
except tessella.LibraryError as error:
    assert "there is no OpenCL device" in str(error)
""",
    "ray": """
import numpy, ray, tessella.ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
predict = ray.remote(tessella.ray.Predictor).remote("digits.tsl")
data = numpy.load("heldout.npz")
found = ray.get(predict.__call__.remote({"image": data["images"][:40]}))
assert (found["logits"].argmax(-1).reshape(40) == data["labels"][:40]).mean() > 0.9
""",
}
"""The program of each environment: `numpy`, `bare`, and one for each extra for users."""

Fill = Callable[[Path, Path, str], None]
"""A function that installs a wheel with an extra into the environment at a path."""


class FreshError(Exception):
    """The error that the package does not work in an environment."""


def install(environment: Path, wheel: Path, name: str) -> None:
    """Install the wheel by pip, with the requirements of an environment."""
    pip = (str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet")
    if name == NUMPY:
        _run(*pip, "numpy", folder=environment)
        _run(*pip, "--no-deps", str(wheel), folder=environment)
    else:
        _run(*pip, str(wheel) + (f"[{name}]" if name != BARE else ""), folder=environment)
        _run(*pip[:3], "check", folder=environment)


def files(folder: Path) -> None:
    """Copy the files that the programs read into a folder."""
    examples = ROOT / "examples"
    for name in ("digits.onnx", "heldout.npz"):
        shutil.copy(examples / "digits" / name, folder)
    for path in (*(examples / "digits").iterdir(), examples / "drawing.py"):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            shutil.copy(path, copy)


def attempt(name: str, wheel: Path, folder: Path, fill: Fill = install) -> None:
    """Run the program of an environment in a folder.

    Raises
    ------
    FreshError
        If a command fails. The message has the output of the command.
    """
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "new"
        venv.create(environment, symlinks=True, with_pip=fill is install)
        fill(environment, wheel.resolve(), name)
        python = str(environment / "bin" / "python")
        _run(python, "-I", "-c", PROGRAMS[name], folder=folder)


def _run(*command: str, folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FreshError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def main(arguments: Sequence[str]) -> int:
    """Test the named environments, or all. Returns 1 if one fails, otherwise 0."""
    wheel, names = Path(arguments[0]), arguments[1:] or [*PROGRAMS]
    failed = False
    with tempfile.TemporaryDirectory() as place:
        files(Path(place))
        for name in sorted(names, key=lambda name: name != "onnx"):
            try:
                attempt(name, wheel, Path(place))
                print(f"{name}: works", flush=True)
            except FreshError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
