"""`examples/plugin`: installed with pip, used by the tools and by ``tessella.compile``."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

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

OPERATORS = """
<ir_version: 8, opset_import: ["": 18, "com.acme": 1]>
operators (float[3, 8] x) => (float[3, 8] y, float[3, 8] z) {
    y = com.acme.Squareplus<b = 2.0>(x)
    gates = Neg(y)
    z, weights = com.acme.Gated<axis = 0>(x, gates)
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to run tools in: `model.onnx` is a product, and (y + sqrt(y * y + 4)) * 0.5 as
    exporters spell it, of `x.npy`."""
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
    path = tmp_path_factory.mktemp("run")
    onnx.save(made, path / "model.onnx")
    onnx.save(onnx.parser.parse_model(OPERATORS), path / "operators.onnx")
    np.save(path / "x.npy", np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32))
    (path / "x.mlir").write_text(OP)
    return path


EXPLAIN = ("tessella.tools.cli", "explain", "model.onnx", "--json")
STAGES = ("onnx", "nn", "placed", "tile", "loops")
PLACES = ("x86/f32,host", "host")


def stages(places: str) -> Iterator[tuple[str, ...]]:
    """Compile to each stage and run from there."""
    for stage in STAGES:
        file, given = f"{places}.{stage}".replace("/", ""), ("--places", places)
        if stage == "onnx":
            file = "model.onnx"
        else:
            to = ("--to", stage, "-o", file)
            yield ("tessella.tools.cli", "compile", "model.onnx", *given, *to)
        ends = ("--input", "x=@x.npy", "--output", f"z=@{_result(places, stage)}")
        yield ("tessella.tools.cli", "run", file, *given, *ends)


def _result(places: str, stage: str) -> str:
    return f"{places}.{stage}.npy".replace("/", "")


def of_operators(places: str) -> tuple[str, ...]:
    """Run the model with operators of the plugin's domain."""
    ends = [f"{name}=@{_result(places, name)}" for name in "yz"]
    outputs = itertools.chain(*(("--output", end) for end in ends))
    given = ("--places", places, "--input", "x=@x.npy")
    return ("tessella.tools.cli", "run", "operators.onnx", *given, *outputs)


COMMANDS: Mapping[str, Sequence[Sequence[str]]] = {
    "check": [("tessella.tools.cli", "check", "operators.onnx")],
    "operators": [*map(of_operators, PLACES)],
    "list": [("tessella.tools.opt", "--list-passes")],
    "op": [
        ("tessella.tools.opt", "x.mlir", "-p", "pick-kernels{target=avx2},acme-check-squareplus")
    ],
    "rival": [(*EXPLAIN, "--places", "x86/f32")],
    **{places: [*stages(places)] for places in PLACES},
}
RUN = """
import contextlib, importlib, io, json, sys

printed = []
for module, *arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = importlib.import_module(module).main(arguments)
    printed.append([code or 0, out.getvalue(), err.getvalue()])
print(json.dumps(printed))
"""


def python(site: Path, cwd: Path, *arguments: str, **knobs: str) -> str:
    """Return the output of Python code in an environment where the example is installed."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **knobs}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def run(site: Path, cwd: Path, *commands: Sequence[str], **knobs: str) -> list[tuple[str, str]]:
    """Run tools in one process and return stdout and stderr. All must succeed."""
    printed = json.loads(python(site, cwd, "-c", RUN, json.dumps(commands), **knobs))
    assert [(code, err) for code, _, err in printed if code] == []
    return [(out, err) for _, out, err in printed]


Printed = Mapping[str, Sequence[tuple[str, str]]]


@pytest.fixture(scope="module")
def printed(site: Path, folder: Path) -> Printed:
    """Return the output of the commands, by name."""
    found = iter(run(site, folder, *itertools.chain(*COMMANDS.values())))
    return {name: [next(found) for _ in commands] for name, commands in COMMANDS.items()}


def test_the_tool_lists_its_pass(printed: Printed) -> None:
    [(out, _)] = printed["list"]
    assert "\nacme-check-squareplus [debug; at any stage; not for opencl; needs acme" in out


def test_the_tool_reads_its_op(printed: Printed) -> None:
    [(out, err)] = printed["op"]
    assert 'acme.squareplus %x b 4.0 {node = "a", kernel = "squareplus", places = [' in out
    assert err == "acme-check-squareplus: acme.squareplus a\n"


def test_its_fusion_its_kernel_and_its_pass_are_used(site: Path, folder: Path) -> None:
    [(out, err)] = run(site, folder, EXPLAIN, TESSELLA_DEBUG_PASSES="acme-check-squareplus")
    assert kernels(out) == {"y": "matmul", "z": "squareplus"}
    assert err == "acme-check-squareplus: acme.squareplus z\n"
    [(without, _)] = run(site, folder, EXPLAIN, TESSELLA_PLUGINS="0")
    assert kernels(without).keys() == {"y", "square", "shifted", "root", "total", "z"}


def kernels(explanation: str) -> dict[str, str]:
    """The kernel of each node."""
    return {entry["node"]: entry["kernel"] for entry in json.loads(explanation)["ops"]}


@pytest.mark.parametrize("places", PLACES)
def test_the_numbers(places: str, printed: Printed, folder: Path) -> None:
    assert not any(err for _, err in printed[places])
    proto = onnx.load(folder / "model.onnx")
    (wanted,) = run_onnxruntime(proto, {"x": np.load(folder / "x.npy")})
    for stage in STAGES:
        found = np.load(folder / _result(places, stage))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


PRODUCTS = """
import numpy as np
from acme import blas
from tessella.support.errors import LibraryError

rng = np.random.default_rng(0)
for m, k, n in ((1, 1, 1), (3, 8, 16), (37, 5, 29), (128, 64, 1)) if blas.SGEMM else ():
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    np.testing.assert_allclose(blas.product(a, b, transpose_b=False), a @ b, rtol=1e-5)
    turned = np.ascontiguousarray(b.T)
    np.testing.assert_allclose(blas.product(a, turned, transpose_b=True), a @ b, rtol=1e-5)
blas.SGEMM = None
try:
    blas.product(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), transpose_b=False)
except LibraryError as error:
    print(error)
"""


def test_its_product_is_a_function_of_a_library(site: Path, folder: Path) -> None:
    printed = python(site, folder, "-c", PRODUCTS)
    assert printed.startswith("this NumPy ships no OpenBLAS")
    assert "kernels='-blas'" in printed


def test_its_product_is_a_rival(printed: Printed) -> None:
    [(out, _)] = printed["rival"]
    rejected = next(e["rejected"] for e in json.loads(out)["ops"] if e["node"] == "y")
    assert "acme-blas" in {entry["kernel"] for entry in rejected}


RIVALS = """
import json, sys
import numpy as np
import onnx
import tessella as ts
from acme import blas
from onnx import numpy_helper
from tessella.driver.tune import tune
from tessella.targets import can_run, get

tune.TURNS, tune.COPIES = 4, 2
M, K, N = 32, 1024, 1024
model = onnx.parser.parse_model(f'''
<ir_version: 8, opset_import: ["": 18]>
products (float[{M},{K}] x, float[{K},{N}] v) => (float[{M},{N}] y, float[{M},{N}] z) {{
    y = MatMul(x, w)
    z = MatMul(x, v)
}}''')
for node in model.graph.node:
    node.name = node.output[0]
rng = np.random.default_rng(0)
x, v, w = (rng.standard_normal(shape, np.float32) for shape in ((M, K), (K, N), (K, N)))
model.graph.initializer.append(numpy_helper.from_array(w, "w"))
target = next((name for name in ("avx512", "avx2", "sse") if can_run(get(name))), None)
if blas.SGEMM is None or target is None:
    sys.exit()


def compiled(**settings):
    options = ts.Options(**settings)
    return ts.compile(model, places=["x86/f32"], target=target, options=options)


found = {}
for switches in ("", "-blas", "+blas"):
    program = compiled(kernels=switches)
    ops = {e["node"]: e for e in program.explain().ops}
    found[switches] = {node: [e["kernel"], e["place"], e["fallback"]] for node, e in ops.items()}
    found["why" + switches] = program.explain().why()
    for result, wanted in zip(program.run(None, {"x": x, "v": v}), (x @ w, x @ v), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)
ops = compiled(pick="measure", budget=20, database="times.json").explain().ops
found["measured"] = {e["node"]: e["measured"] for e in ops}
with open("times.json") as file:
    found["times"] = [*json.load(file)["machines"][0]["kernels"]]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def rivals(site: Path, folder: Path) -> Mapping[str, Any]:
    """Return the kernels of a product with a constant and of one with an input, by the switches."""
    printed = python(site, folder, "-c", RIVALS)
    if not printed:
        pytest.skip("NumPy ships no OpenBLAS here, or this machine is not x86")
    return json.loads(printed)


BLAS = ["acme-blas", "x86/f32/nchw", None]
NATIVE = ["matmul", "x86/f32/nchw", None]


def test_the_blas_is_picked_where_it_costs_less(rivals: Mapping[str, Any]) -> None:
    """A native kernel reads constants in packed panels; the BLAS packs in each call."""
    assert rivals[""] == {"y": NATIVE, "z": BLAS}
    assert "not acme-blas at x86/f32/nchw: it takes" in rivals["why"]
    assert "not matmul at x86/f32/nchw: it takes" in rivals["why"]


def test_switches_turn_the_blas_off_or_prefer_it(rivals: Mapping[str, Any]) -> None:
    assert rivals["-blas"] == {"y": NATIVE, "z": NATIVE}
    assert "not acme-blas at x86/f32/nchw: -blas turns it off" in rivals["why-blas"]
    assert rivals["+blas"] == {"y": BLAS, "z": BLAS}


def test_the_blas_and_the_native_kernel_are_measured(rivals: Mapping[str, Any]) -> None:
    assert rivals["measured"] == {"y": True, "z": True}
    for kernel in ("matmul", "acme-blas"):
        assert sum(f" {kernel} at x86/f32/nchw" in key for key in rivals["times"]) == 2


def test_its_operators_are_supported(printed: Printed) -> None:
    assert printed["check"] == [("supported; 5 ops, all native\n", "")]


@pytest.mark.parametrize("places", PLACES)
def test_the_results_of_its_operators(places: str, printed: Printed, folder: Path) -> None:
    assert not any(err for _, err in printed["operators"])
    x = np.load(folder / "x.npy").astype(np.float64)
    y = (x + np.sqrt(x * x + 2)) / 2
    weights = np.exp(-y) / np.exp(-y).sum(axis=0)
    gated = x * weights
    wanted = {"y": y, "z": (gated + np.sqrt(gated * gated + 4)) / 2}
    for name, values in wanted.items():
        np.testing.assert_allclose(np.load(folder / _result(places, name)), values, rtol=1e-5)


STORED = """
import ml_dtypes
import numpy as np
import tessella as ts

x = np.random.default_rng(0).standard_normal((11, 3, 4, 5)).astype(np.float32) * 4
wanted = x.astype(ml_dtypes.float8_e3m4)
moved = ts.jit(lambda v: v.astype(ml_dtypes.float8_e3m4)[::-1])
for found in (ts.ops.cast(x, to=ml_dtypes.float8_e3m4), moved(x)[::-1]):
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))
np.testing.assert_array_equal(moved(x).astype(np.float32), wanted[::-1].astype(np.float32))
assert "tensor<11x3x4x5xf8E3M4>" in moved.lower(x).as_text("nn")

at = ts.array(x, place="any/f32/chwn8")
assert at.memory.size == 16 * 3 * 4 * 5
np.testing.assert_array_equal(at.memory.reshape(3, 4, 5, 2, 8)[2, 1, 3, 1, 2], x[10, 2, 1, 3])
y = ts.ops.add(ts.ops.relu(at), x)
assert y.place.endswith("/f32/chwn8")
np.testing.assert_array_equal(np.asarray(y), np.maximum(x, 0) + x)
assert "relayout" not in ts.ops.relu.lower(at).as_text("placed")
"""


def test_its_element_and_its_layout(site: Path, folder: Path) -> None:
    assert python(site, folder, "-c", STORED) == ""
