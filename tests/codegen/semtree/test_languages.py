"""Kernels of devices in each language, checked by the language's own tools where these are
installed."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tessella.codegen.semtree.languages import LANGUAGES
from tessella.codegen.semtree.scalars import CASTS, FUNCTIONS, OPS
from tessella.codegen.semtree.tree import (
    BOTH,
    CHECKED,
    GROUP_ID,
    ITEM_ID,
    WORD,
    Apply,
    Barrier,
    Branch,
    Declare,
    Expression,
    Kernel,
    Loop,
    Memory,
    Name,
    Number,
    Reserve,
    Return,
    Statement,
    Store,
    constant,
    guarded,
)
from tessella.driver.options import make_options
from tessella.driver.ship.kernels import emit_kernels
from tessella.runtime.devices import Source
from tessella.runtime.opencl import OPENCL
from tests.codegen.semtree.networks import NETWORKS

PLACES = ("opencl/f32", "host")


def _operands(op: str) -> tuple[str, ...]:
    """Return the types of an op's operands; the last one is that of its result."""
    name = op.split(".")[1]
    if name == "select":
        return "bool", "f32", "f32", "f32"
    if name in ("cmpi", "cmpf"):
        kind = {"cmpi": "i64", "cmpf": "f32"}[name]
        return kind, kind, "bool"
    if name in ("extf", "truncf"):
        return ("f16", "f32") if name == "extf" else ("f32", "f16")
    if op in CASTS:
        source = "bool" if name.startswith(("extu", "ui")) else "i32"
        return source, "f32" if name.endswith("fp") else "i64"
    if op in FUNCTIONS:
        count = {"copysign": 2, "powf": 2, "fma": 3, "maxnumf": 2, "minnumf": 2}.get(name, 1)
        return ("f32",) * (count + 1)
    if name == "negf":
        return "f32", "f32"
    kind = "bool" if op == BOTH else "f32" if name.endswith("f") else "i32"
    return kind, kind, kind


def every_op() -> Kernel:
    """Return a kernel with each op and each statement."""
    f, n = Memory("p0", "f32", "global"), Memory("p1", "i64", "global")
    b, shared = Memory("p2", "bool", "global"), Memory("shared", "f32", "local", 8)
    h, halves = Memory("p3", "f16", "global"), Memory("halves", "f16", "local", 8)
    acc, i, size = Memory("acc", "bool", "private", 4), Name("i"), Name("s0")
    values: dict[str, Expression] = {
        "f32": f[0],
        "f16": halves[0],
        "i64": n[0],
        "i32": i,
        "bool": Apply("arith.cmpi.slt", (i, size), "bool"),
    }
    body: list[Statement] = []
    for number, op in enumerate(sorted(OPS)):
        *types, result = _operands(op)
        name = Name(f"v{number}", result)
        body.append(Declare(name, Apply(op, tuple(values[type] for type in types), result)))
        memory = {"f32": f, "f16": h, "i64": n, "bool": b}.get(result)
        if memory is not None:
            body.append(Store(memory[number], name))
    floats = (float("inf"), float("-inf"), float("nan"), 0.1, -2.5)
    body += [Store(to[1], constant(value, to.element)) for to in (f, h) for value in floats]
    body += [Store(n[1], constant(value, "i64")) for value in (-(1 << 63), (1 << 63) - 1)]
    checked = Apply(CHECKED, (n[0], size), "i64")
    inner = (Store(acc[i], Number(1, "bool")), Store(b[checked], acc[i]))
    return Kernel(
        "k_every",
        (f, n, b, h, WORD),
        (shared, halves),
        (
            Declare(Name("group"), Apply(GROUP_ID, ()), changes=True),
            Store(shared[Apply(ITEM_ID, ())], f[0]),
            Store(halves[Apply(ITEM_ID, ())], h[0]),
            Barrier(),
            Branch(Apply("arith.cmpi.sgt", (Name("group"), size), "bool"), (Return(),)),
            Reserve(acc),
            *guarded([], [Loop(i, Number(0), Number(4), 2, (*inner, *body))]),
        ),
        groups=2,
        items=8,
        sizes={size: 4},
    )


def written(name: str, language: str) -> bytes:
    """Return the kernels of a network in a language."""
    options = make_options(places=PLACES)
    return emit_kernels(NETWORKS[name](), options, language).file()


@pytest.fixture
def local_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device whose kernels load their inputs into local memory."""
    monkeypatch.setitem(OPENCL.__dict__, "_found", replace(OPENCL.facts, has_local_memory=True))


# ** CUDA C **


def compiled_by_nvrtc(program: bytes) -> None:
    """Assert that NVRTC compiles a program. Skips the test if NVRTC is not installed."""
    module = pytest.importorskip("nvidia.cuda_nvrtc", reason="NVRTC's wheel is not installed")
    [folder] = module.__path__
    nvrtc = ctypes.CDLL(next(str(path) for path in Path(folder, "lib").glob("libnvrtc.so.*")))
    made = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(made), program, b"kernels.cu", 0, None, None)
    status, size = nvrtc.nvrtcCompileProgram(made, 0, None), ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(made, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(made, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(made))
    assert status == 0, log.value.decode()


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_cuda(name: str) -> None:
    program = written(name, "cuda")
    assert program.count(b"__global__ void ") >= 2
    compiled_by_nvrtc(program)


def test_every_op_in_cuda() -> None:
    compiled_by_nvrtc(LANGUAGES["cuda"].text(every_op()).encode())


# ** SPIR-V **


def validated(module: bytes, path: Path) -> None:
    """Assert that a module is valid, if the validator of the SPIR-V tools is installed."""
    assert module[:4] == b"\x03\x02\x23\x07"
    path_of_wheel = str(Path(sys.executable).parent)
    validator = shutil.which("spirv-val") or shutil.which("spirv-val", path=path_of_wheel)
    if validator is None:
        pytest.skip("spirv-val is not installed")
    path.write_bytes(module)
    done = subprocess.run([validator, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_spirv(name: str, tmp_path: Path, local_memory: None) -> None:
    validated(written(name, "spirv"), tmp_path / "kernels.spv")


def test_every_op_in_spirv(tmp_path: Path) -> None:
    printer = LANGUAGES["spirv"]
    validated(printer.file([printer.text(every_op())], [""]), tmp_path / "kernels.spv")


# ** OpenCL C, and the tree **


@pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")
def test_every_op_in_opencl() -> None:
    OPENCL.build(Source(LANGUAGES["opencl"].text(every_op()), "k_every", (2,), (8,)))


def test_a_kernel_states_the_size_of_its_groups() -> None:
    """The facts of a GPU give CUDA other groups than OpenCL on a CPU."""
    tree = rb"kernel (k_\w+).*?groups of (\d+) work-items"
    wanted = dict(re.findall(tree, written("image", "semtree"), re.DOTALL))
    size = rb"void __attribute__\(\(reqd_work_group_size\((\d+), 1, 1\)\)\) (k_\w+)"
    assert {name: n for n, name in re.findall(size, written("image", "opencl"))} == wanted
    bounds = re.findall(rb"void __launch_bounds__\((\d+)\) (k_\w+)", written("image", "cuda"))
    assert {name for _, name in bounds} == {*wanted}
    assert all(int(n) > 1 for n, _ in bounds)


def test_every_language_has_the_same_kernels(local_memory: None) -> None:
    """The tree shows the loads of inputs between barriers, and the log of the search."""
    text = written("image", "semtree").decode()
    assert text.count("kernel k_") == written("image", "opencl").count(b"__kernel void ")
    load, barrier, accumulate = map(text.index, ("load input 0:", "barrier", "accumulate:"))
    assert load < barrier < accumulate
    assert "Compute score: to=" in text
