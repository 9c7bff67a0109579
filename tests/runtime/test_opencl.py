"""OpenCL devices by number, in a process whose driver shows two devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tessella.dialects.place import PlaceAttr, is_device, parse_place
from tessella.runtime.devices import device
from tessella.runtime.opencl import OPENCL, _facts
from tessella.support.errors import OptionError
from tests.bare_device import BareDevice

ROOT = Path(__file__).parents[2]

CPU_TYPE, GPU_TYPE = 2, 4

SCRIPT = """
import sys
from pathlib import Path

import numpy as np
import pytest

import tessella
from tessella.dialects import nn
from tessella.dialects.interpret import interpret
from tessella.driver.compile import compile_source
from tessella.runtime import opencl
from tessella.runtime.device_steps import CopyStep, DeviceStep
from tessella.runtime.devices import device
from tessella.runtime.opencl import BINARIES
from tessella.support.errors import LibraryError
from tests.native import FixedSource, GraphBuilder, in_numpy, normal

# a driver in another package hides none, even if it does not load
Path("lib").mkdir()
Path("lib/libintelocl.so").write_text("no driver")
sys.prefix = str(Path.cwd())
first, second = device("opencl"), device("opencl:1")
assert device("opencl:0") is first and device("opencl:1") is second
names = [each._device.name.partition("-")[0] for each in (first, second)]
assert names == ["basic", "pthread"], names
for each in (first, second):
    assert each.facts.units == each._device.max_compute_units
with pytest.raises(LibraryError, match="there is no opencl:2") as caught:
    device("opencl:2").facts
assert caught.value.found.startswith("0: basic-"), caught.value.found
assert ", 1: pthread-" in caught.value.found

X = normal(5, 7)

def network():
    g = GraphBuilder(x=X)
    shares = g.op(nn.SoftmaxOp, [g.inputs["x"]], axis=1)
    product = g.op(nn.MatmulOp, [shares, g.weight(normal(7, 9))], transpose_b=False)
    return g.graph(g.op(nn.SoftmaxOp, [product], axis=1))

places = ["opencl/f32", "opencl:1/f32", "host"]
options = tessella.Options(pin={"nn.matmul": "opencl:1/f32", "nn.softmax": "opencl/f32"})
model = compile_source(FixedSource(network), places=places, options=options)
[wanted] = interpret(network(), {"x": X})
np.testing.assert_allclose(model(X), wanted, rtol=1e-5, atol=1e-6)
steps = in_numpy(model)
assert [s.device for s in steps if isinstance(s, DeviceStep)] == ["opencl", "opencl:1", "opencl"]
between = [s for s in steps if isinstance(s, CopyStep) and "host" not in (s.start, s.end)]
assert [(s.start, s.end) for s in between] == [("opencl", "opencl:1"), ("opencl:1", "opencl")]
ends = {(row["source"], row["target"]): row["estimate"] for row in model.explain().conversions}
assert ends["opencl/f32/nchw", "opencl:1/f32/nchw"] > 4e-5  # out of one memory, into the other
model.save("split.tsl")
np.testing.assert_array_equal(tessella.load("split.tsl")(X), model(X))

# a binary is that of one device
opencl.CACHED_BY_DRIVER = frozenset()
count = BINARIES.usage().entries
source = next(iter(steps[-2].kernels.values()))
first.build(source)
second.build(source)
assert BINARIES.usage().entries == count + 2
second.build(source)
assert BINARIES.usage().entries == count + 2

with pytest.raises(LibraryError, match="there is no opencl:2"):
    compile_source(FixedSource(network), places=["opencl:2/f32", "host"])
print("done")
"""


@pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")
def test_a_network_on_two_devices(tmp_path: Path) -> None:
    if OPENCL._device.platform.name != "Portable Computing Language":
        pytest.skip("only PoCL shows several devices of one CPU")
    environment = {
        **os.environ,
        "POCL_DEVICES": "basic pthread",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
        "TESSELLA_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.endswith("done\n"), done.stderr


def test_numbers_in_places() -> None:
    place = parse_place("opencl:1/f32/nchw")
    assert str(place) == "opencl:1/f32/nchw"
    assert place != parse_place("opencl/f32/nchw")
    assert parse_place("opencl:0/f32") == PlaceAttr.get("opencl", "f32")
    assert is_device("opencl:12")
    for wrong in ("x86:1", "x86:0", "host:1", "opencl:", "opencl:01", "opencl:-1", "opencl:a"):
        with pytest.raises(OptionError, match="unknown part"):
            parse_place(f"{wrong}/f32")


def test_a_device_without_numbers() -> None:
    with pytest.raises(OptionError, match="no device number 1 of this kind"):
        BareDevice().numbered(1)
    assert device("opencl:3") is device("opencl").numbered(3)


def listed(kind: int, width: int, most: int) -> SimpleNamespace:
    """A device as pyopencl describes it."""
    return SimpleNamespace(
        type=kind,
        max_compute_units=4,
        max_clock_frequency=2000,
        native_vector_width_float=width,
        max_work_group_size=most,
        local_mem_size=32768,
        local_mem_type=1 if kind == GPU_TYPE else 2,
        global_mem_cacheline_size=64,
    )


@pytest.mark.parametrize("width, most, items", [(4, 4096, 32), (16, 4096, 128), (8, 16, 16)])
def test_the_work_groups_of_a_cpu_are_vectors_with_registers(
    width: int, most: int, items: int
) -> None:
    facts = _facts(listed(CPU_TYPE, width, most))
    assert (facts.group_items, facts.register_bytes) == (items, 32 * items)
    assert facts.runs_in_turn
    assert not facts.has_local_memory


def test_the_work_groups_of_a_gpu_are_as_large_as_in_plaidml() -> None:
    facts = _facts(listed(GPU_TYPE, 1, 1024))
    assert (facts.group_items, facts.register_bytes) == (256, 16384)
    assert not facts.runs_in_turn
    assert facts.has_local_memory
