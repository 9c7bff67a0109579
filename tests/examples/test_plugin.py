"""`examples/plugin`: installed with pip, used by the tools and by ``tessella.compile``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.models import run_onnxruntime

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
PIP = "install --quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check"

OP = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = acme.squareplus %x b 4.0 {node = "a"} : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the example is installed in."""
    folder = tmp_path_factory.mktemp("plugin")
    # pip builds in the folder of the source
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", *PIP.split(), "--target", "site", "./source"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture
def model(tmp_path: Path) -> onnx.ModelProto:
    """A product, and (y + sqrt(y * y + 4)) * 0.5 as exporters spell it."""
    steps = [
        ("MatMul", "x w", "y"),
        ("Mul", "y y", "square"),
        ("Add", "square b", "shifted"),
        ("Sqrt", "shifted", "root"),
        ("Add", "y root", "total"),
        ("Mul", "total half", "z"),
    ]
    weights = {
        "w": np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32),
        "b": np.float32(4),
        "half": np.float32(0.5),
    }
    graph = helper.make_graph(
        [helper.make_node(op, ins.split(), [out], name=out) for op, ins, out in steps],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 16])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(made, tmp_path / "model.onnx")
    return made


def run(site: Path, cwd: Path, *command: str, **knobs: str) -> subprocess.CompletedProcess[str]:
    """Run a tool where the example is installed. It must succeed."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **knobs}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_tool_lists_its_pass(site: Path, tmp_path: Path) -> None:
    command = ("tessella.tools.opt", "--list-passes")
    listed = "\nacme-check-squareplus [debug; at any stage; not for opencl; needs acme"
    assert listed in run(site, tmp_path, *command).stdout


def test_the_tool_reads_its_op(site: Path, tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(OP)
    passes = "pick-kernels{target=avx2},acme-check-squareplus"
    done = run(site, tmp_path, "tessella.tools.opt", "x.mlir", "-p", passes)
    text = 'acme.squareplus %x b 4.0 {node = "a", kernel = "squareplus", places = ['
    assert text in done.stdout
    assert done.stderr == "acme-check-squareplus: acme.squareplus a\n"


@pytest.mark.usefixtures("model")
def test_its_fusion_its_kernel_and_its_pass_are_used(site: Path, tmp_path: Path) -> None:
    command = ("tessella.tools.cli", "explain", "model.onnx", "--json")
    done = run(site, tmp_path, *command, TESSELLA_DEBUG_PASSES="acme-check-squareplus")
    assert kernels(done.stdout) == {"y": "matmul", "z": "squareplus"}
    assert done.stderr == "acme-check-squareplus: acme.squareplus z\n"
    without = run(site, tmp_path, *command, TESSELLA_PLUGINS="0")
    assert kernels(without.stdout).keys() == {"y", "square", "shifted", "root", "total", "z"}


def kernels(explanation: str) -> dict[str, str]:
    """The kernel of each node."""
    return {entry["node"]: entry["kernel"] for entry in json.loads(explanation)["ops"]}


STAGES = ("onnx", "nn", "placed", "tile", "loops")
RUN_STAGES = """
import sys
from tessella.tools.cli import main
folder, places, *stages = sys.argv[1:]
for stage in stages:
    options = f"model.{stage} --places {places} --input x=@x.npy --output z=@{folder}/{stage}.npy"
    if stage != "onnx":
        assert not main(f"compile model.onnx --places {places} --to {stage}".split())
    assert not main(["run", *options.split()])
"""


@pytest.mark.parametrize("places", ["x86/f32,host", "host"])
def test_the_numbers(places: str, model: onnx.ModelProto, site: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "run_stages.py").write_text(RUN_STAGES)
    done = run(site, tmp_path, "run_stages", str(tmp_path), places, *STAGES)
    assert done.stderr == ""
    (wanted,) = run_onnxruntime(model, {"x": x})
    for stage in STAGES:
        found = np.load(tmp_path / f"{stage}.npy")
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


PRODUCTS = """
import numpy as np
from acme import blas

rng = np.random.default_rng(0)
print(blas.SGEMM is not None)
for found in (blas.SGEMM, None):
    blas.SGEMM = found
    for m, k, n in ((1, 1, 1), (3, 8, 16), (37, 5, 29), (128, 64, 1)):
        a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
        np.testing.assert_allclose(blas.product(a, b, transpose_b=False), a @ b, rtol=1e-5)
        turned = np.ascontiguousarray(b.T)
        np.testing.assert_allclose(blas.product(a, turned, transpose_b=True), a @ b, rtol=1e-5)
"""


def test_its_product_is_a_function_of_a_library(site: Path, tmp_path: Path) -> None:
    (tmp_path / "products.py").write_text(PRODUCTS)
    assert run(site, tmp_path, "products").stdout in ("True\n", "False\n")


@pytest.mark.usefixtures("model")
def test_its_product_is_a_rival(site: Path, tmp_path: Path) -> None:
    command = ("tessella.tools.cli", "explain", "model.onnx", "--json", "--places", "x86/f32")
    explained = json.loads(run(site, tmp_path, *command).stdout)
    rejected = next(e["rejected"] for e in explained["ops"] if e["node"] == "y")
    assert "acme-blas" in {entry["kernel"] for entry in rejected}
