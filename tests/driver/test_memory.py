"""Memory that stays allocated after compilations and runs, each measured in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support import tables

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
for i, size in enumerate(sizes):
    model(np.ascontiguousarray(x[:, :, :size]))
    if i == 7:  # compiling itself keeps some memory at first
        before = resident()
grown = resident() - before
steps = model._table.programs.latest().program.steps
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
for i in range(45):
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

NETWORK = """
import threading

nodes = [
    helper.make_node("Conv", ["x", "w1"], ["t"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["t"], ["r"]),
    helper.make_node("Conv", ["r", "w2"], ["y"], pads=[1, 1, 1, 1]),
]
weights = [weight("w1", 16, 3, 3, 3), weight("w2", 16, 16, 3, 3)]
infos = [info("x", "n", 3, 64, 64)], [info("y", "n", 16, 64, 64)]
data = bytes_of(nodes, *infos, weights)
image = np.ones((1, 3, 64, 64), np.float32)
images = np.ones((64, 3, 64, 64), np.float32)
"""

AFTER_A_PEAK = """
model = tessella.compile(data, dims={"n": (1, 64)})
model.prepare()
model(images[:2])
for _ in range(200):
    model(image)
before = resident()
model(images)
peak = resident() - before
for _ in range(200):
    model(image)
print(json.dumps([peak, resident() - before]))
"""

AFTER_A_BURST = """
model = tessella.compile(data, dims={"n": (1, 64)}, threads=1)
few = images[:8]
model(few)
before = resident()
start = threading.Barrier(16)

def call():
    start.wait()
    for _ in range(4):
        model(few)

threads = [threading.Thread(target=call) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
made = len(model._workspaces.free)
for _ in range(200):
    model(few)
print(json.dumps([made, (resident() - before) // images[:8].nbytes]))
"""

RELEASED = """
model = tessella.compile(data, dims={"n": (1, 64)})
if sys.argv[1] == "loaded":
    model.prepare()
    model.save(sys.argv[2])
    model = tessella.load(sys.argv[2])
elif sys.argv[1] == "jit":
    model = tessella.jit(lambda x: np.sqrt(np.sqrt(x).sum(axis=1, keepdims=True) + x))
expected = model(images).tobytes()
model(image)
before = resident()
model.release()
freed = before - resident()
assert model(images).tobytes() == expected
print(json.dumps(freed / images.nbytes))
"""

SHARED_CONSTANT = """
def classifier(seed, side):
    rng = np.random.default_rng(seed)
    large = numpy_helper.from_array(rng.standard_normal((side, side)).astype(np.float32), "large")
    nodes = [
        helper.make_node("MatMul", ["x", "large"], ["t"]),
        helper.make_node("Mul", ["t", "small"], ["u"]),
        helper.make_node("MatMul", ["u", "last"], ["y"]),
    ]
    small, last = weight("small", side), weight("last", side, 16)
    infos = [info("x", 1, side)], [info("y", 1, 16)]
    return tessella.compile(bytes_of(nodes, *infos, [large, small, last]))

x = np.ones((1, 2048), np.float32)
one = classifier(1, 2048)
expected = one(x)
before = resident()
other = classifier(2, 2048)
other(x)
shared = {id(w) for p in one._known_programs() for w in p.all_weights()}
shared &= {id(w) for p in other._known_programs() for w in p.all_weights()}
grown = resident() - before
if sys.argv[1] == "first":
    del one
else:
    del other
left = resident() - before
print(json.dumps([len(shared), grown, left]))
"""

PEAK = """
import tessella.driver.build.run_passes as run_passes, tessella.frontends.onnx.importer

run_passes.MOST_BYTES = 1 << 20  # as if it were a large one, of which no reproducer has the weights

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

before = peak()
tessella.compile(sys.argv[1])
print(json.dumps(peak() - before))
"""


def run(program: str, *arguments: object) -> Any:
    return json.loads(python("-c", COMMON + program, *map(str, arguments)))


def python(*arguments: str) -> str:
    settings = {"PYTHONPATH": str(ROOT / "src"), "TESSELLA_VERIFY": "0", "TESSELLA_CACHE": "off"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.slow
def test_the_sizes_of_a_symbolic_model_share_its_weights_and_arena() -> None:
    """A matrix of 4 MB, of which ten copies would not be overlooked."""
    grown, arena = run(MANY_SIZES, 20)
    assert grown < arena


@pytest.mark.slow
def test_compiles_leave_nothing() -> None:
    """LLVM itself does, in the processes that it runs in."""
    assert run(MANY_COMPILES) < 4_000_000


def test_memory_comes_back_after_a_peak() -> None:
    peak, left = run(NETWORK + AFTER_A_PEAK)
    assert peak > 16 << 20
    assert left < peak // 4


@pytest.mark.slow
def test_memory_comes_back_after_a_burst_of_callers() -> None:
    made, left = run(NETWORK + AFTER_A_BURST)
    assert made > 4
    assert left < 16


@pytest.mark.parametrize(
    "kind", ["jit", *(pytest.param(k, marks=pytest.mark.slow) for k in ("compiled", "loaded"))]
)
def test_release_frees_the_memory_of_calls(kind: str, tmp_path: Path) -> None:
    """An output of the inputs' size, and what models have between."""
    freed = run(NETWORK + RELEASED, kind, tmp_path / "model.tsl")
    assert freed > (0.9 if kind == "jit" else 4)


@pytest.mark.parametrize("dropped", ["first", pytest.param("second", marks=pytest.mark.slow)])
def test_a_shared_constant_does_not_keep_those_beside_it(dropped: str) -> None:
    """Dropping a model frees 17 MB, though another model shares an 8 kB constant with it."""
    shared, grown, left = run(SHARED_CONSTANT, dropped)
    assert shared >= 1
    assert left < grown - (13 << 20)


@pytest.mark.slow
def test_compiles_of_different_models_leave_nothing() -> None:
    """After the first thirty of 120 compilations, memory stays the same. Nothing collects garbage
    between them."""
    printed = python("-m", "bench.memory", "--compiles", "120", "--every", "30")
    first, *_, last = (float(line.split()[1]) for line in printed.splitlines()[1:])
    assert last - first < 10


def test_tables_of_compilations_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [(table, 2) for table, _ in tables._of_compilations]
    monkeypatch.setattr(tables, "_of_compilations", few)
    for size in (40, 41, 42):
        jitted = tessella.jit(lambda x: np.sqrt(x @ x).sum(axis=1))
        jitted(np.ones((size, size), np.float32))
        assert all(len(table) <= 2 for table, _ in few)


@pytest.mark.slow
def test_compiling_takes_little_more_than_two_copies_of_weights(tmp_path: Path) -> None:
    """The file and the protobuf while a model is read: each weight is let go once it is packed, and
    once it is where programs share it."""
    path = tmp_path / "model.onnx"
    weights = run(LARGE_MODEL, path)
    grown = run(PEAK, path)
    assert grown < 2.6 * weights
