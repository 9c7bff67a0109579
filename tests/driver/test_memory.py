"""What compiling and running leave in memory, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import sampled

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's figures of memory"
)

COMMON = """
import gc, json, sys
import numpy as np
from onnx import TensorProto, helper, numpy_helper
import tessella
from tessella.support.sizes import value_of

def resident():
    gc.collect()
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("Private_Dirty")).split()[1])

def info(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

def weight(name, *shape):
    values = np.random.default_rng(len(name)).standard_normal(shape)
    return numpy_helper.from_array(values.astype(np.float32), name)

def bytes_of(nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    return helper.make_model(graph, ir_version=10).SerializeToString()
"""

MANY_SIZES = """
count = int(sys.argv[1])
nodes = [
    helper.make_node("Conv", ["x", "w1"], ["t"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["t"], ["r"]),
    helper.make_node("Conv", ["r", "w2"], ["u"], pads=[1, 1, 1, 1]),
    helper.make_node("GlobalAveragePool", ["u"], ["p"]),
    helper.make_node("Flatten", ["p"], ["f"]),
    helper.make_node("MatMul", ["f", "w3"], ["y"]),
]
weights = [weight("w1", 16, 3, 3, 3), weight("w2", 16, 16, 3, 3), weight("w3", 16, 1 << 16)]
model = tessella.compile(
    bytes_of(nodes, [info("x", 1, 3, "h", 1280)], [info("y", 1, 1 << 16)], weights),
    dims="fixed",
)
sizes = [150 - i for i in range(count)]
x = np.ones((1, 3, sizes[0], 1280), np.float32)
model(x)
before = resident()
for size in sizes[1:]:
    model(np.ascontiguousarray(x[:, :, :size]))
grown = resident() - before
steps = model._programs.latest().program.steps
print(json.dumps([grown, max(value_of(step.arena_bytes, {"h": sizes[0]}) for step in steps)]))
"""

MANY_COMPILES = """
nodes = [
    helper.make_node("Conv", ["x", "w"], ["t"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["t"], ["r"]),
    helper.make_node("Softmax", ["r"], ["y"], axis=1),
]
infos = [info("x", 1, 8, 12, 12)], [info("y", 1, 16, 12, 12)]
data = bytes_of(nodes, *infos, [weight("w", 16, 8, 3, 3)])
x = np.ones((1, 8, 12, 12), np.float32)
for i in range(105):
    model = tessella.compile(data)
    model(x)
    del model
    after = resident()
    if i == 4:
        before = after
print(json.dumps(after - before))
"""

LARGE_MODEL = """
count, side = 8, 2048
names = [f"w{i}" for i in range(count)]
values = [np.random.default_rng(i).random((side, side), np.float32) for i in range(count)]
flow = ["x", *(f"y{i}" for i in range(count))]
nodes = [
    helper.make_node("MatMul", [a, w], [b]) for a, w, b in zip(flow, names, flow[1:], strict=False)
]
weights = [numpy_helper.from_array(v, n) for v, n in zip(values, names, strict=True)]
infos = [info("x", 32, side)], [info(flow[-1], 32, side)]
open(sys.argv[1], "wb").write(bytes_of(nodes, *infos, weights))
print(json.dumps(sum(v.nbytes for v in values)))
"""

PEAK = """
import tessella.driver.run_passes as run_passes, tessella.frontends.onnx.importer

run_passes.MOST_BYTES = 1 << 20  # as if it were a large one, of which no reproducer has the weights

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

before = peak()
tessella.compile(sys.argv[1])
print(json.dumps(peak() - before))
"""


def run(program: str, *arguments: object) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TESSELLA_VERIFY": "0"}
    printed = subprocess.run(
        [sys.executable, "-c", COMMON + program, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return json.loads(printed)


@pytest.mark.slow
def test_the_sizes_of_a_symbolic_model_share_its_weights_and_arena() -> None:
    """A matrix of 4 MB, of which ten copies would not be overlooked."""
    grown, arena = run(MANY_SIZES, sampled(36))
    assert grown < arena


@pytest.mark.slow
def test_a_hundred_compiles_leave_nothing() -> None:
    """LLVM itself does, in the processes that it runs in."""
    assert run(MANY_COMPILES) < 10_000_000


@pytest.mark.slow
def test_compiling_takes_little_more_than_two_copies_of_weights(tmp_path: Path) -> None:
    """The file and the protobuf while a model is read: each weight is let go once it is packed, and
    once it is where programs share it."""
    path = tmp_path / "model.onnx"
    weights = run(LARGE_MODEL, path)
    grown = run(PEAK, path)
    assert grown < 2.6 * weights
