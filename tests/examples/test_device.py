"""`examples/device`: a device in another process runs part of a network, the CPU the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "device"

ENTRIES = """[tessella.devices]
far = far.device:FAR
[tessella.kernels]
far = far.kernels
"""

SCRIPT = """
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tessella
from tests.native import GraphBuilder, FixedSource, normal
from tessella.dialects import nn
from tessella.driver.compile import compile_source

def network(size):
    def make():
        g = GraphBuilder(x=normal(size, size))
        x = g.inputs["x"]
        for i in range(2):
            w = g.weight(normal(size, size, seed=i), f"w{i}")
            x = g.op(nn.ReluOp, [g.op(nn.MatmulOp, [x, w], transpose_b=False)])
            x = g.op(nn.SoftmaxOp, [x], axis=1)
        return g.graph(x)
    return FixedSource(make)

def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)

x = normal(64, 64)
wanted = compile_source(network(64))(x)
split = compile_source(network(64), places=["far/f32", "host"])
close(split(x), wanted)
copies = [c for c in split.explain().conversions if "far/f32/nchw" in (c["source"], c["target"])]
assert [(c["op"], c["bytes"]) for c in copies] == [("place.copy", 64 * 64 * 4)] * 4, copies
assert all(c["estimate"] > 1e-5 for c in copies), copies
ops = {e["op"]: e["place"].split("/")[0] for e in split.explain().ops}
assert ops == {"nn.matmul": "far", "nn.relu": "far", "nn.softmax": "host"}, ops

with ThreadPoolExecutor(3) as threads:
    for result in threads.map(split, [x] * 12):
        close(result, wanted)
assert {row.kind for row in split.profile(x, runs=1).rows} == {"copy", "device", "numpy"}

split.save("split.tsl")
close(tessella.load("split.tsl")(x), wanted)

# on a fast device behind a slow link, only large products are worth their copies
for size, place in ((64, "x86"), (4096, "far")):
    picked = compile_source(network(size), places=["far/f32", "x86/f32"]).explain()
    found = {e["place"].split("/")[0] for e in picked.ops if e["op"] == "nn.matmul"}
    assert found == {place}, (size, found)
print("done")
"""


def test_a_network_split_between_the_device_and_the_cpu(tmp_path: Path) -> None:
    info = tmp_path / "tessella_far-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tessella-far\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    root = Path(__file__).parents[2]
    path = [str(tmp_path), str(EXAMPLE / "src"), str(root), str(root / "src")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TESSELLA_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_the_package_is_short() -> None:
    lines = [line for file in EXAMPLE.rglob("*.py") for line in file.read_text().splitlines()]
    assert len(lines) < 200, len(lines)


@pytest.mark.parametrize("name", ["devices", "kernels"])
def test_the_entry_points_are_those_of_the_package(name: str) -> None:
    text = (EXAMPLE / "pyproject.toml").read_text()
    assert f'[project.entry-points."tessella.{name}"]' in text
    assert ENTRIES.splitlines()[2 * (name == "kernels") + 1].partition(" = ")[2] in text
