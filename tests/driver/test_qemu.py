"""Models for C on AArch64, as whole programs in an emulator of Linux. `make emulators` installs the
emulator and the compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from docs import blocks
from tests.driver.test_emit_c import (
    DIGITS,
    ROOT,
    check_digits,
    digits_in_c,
    images_and_digits,
    in_c,
)
from tests.frontends.onnx.models import model, value
from tests.models import load_model, random_inputs, run_onnxruntime
from tests.native import Array

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
DISASSEMBLER = "aarch64-linux-gnu-objdump"
SHAPES = {"image": (1, 1, 8, 8)}
BUILD = [COMPILER, "-static"]

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None,
    reason=f"{COMPILER} or {EMULATOR} is missing: `make emulators` installs them as root",
)


@pytest.mark.usefixtures("divide_all")  # the network is small: it would not be divided
def test_the_example_knows_digits(tmp_path: Path) -> None:
    digits_in_c(tmp_path, "neon", BUILD)
    for threads in ("1", "2"):
        check_digits([EMULATOR, str(tmp_path / "program"), threads])


def test_the_documented_commands_cross_compile_the_example(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "shipping.md").read_text(encoding="utf-8")
    [block] = (each for each in blocks.blocks(page) if COMPILER in each.text)
    shutil.copy(DIGITS / "digits.onnx", tmp_path)
    shutil.copy(ROOT / "examples" / "c" / "digits.c", tmp_path)
    images, digits = images_and_digits()
    (tmp_path / "images.txt").write_text(images)
    command = f'tessella() {{ "{sys.executable}" -m tessella "$@"; }}\n{block.text}'
    done = subprocess.run(
        ["bash", "-ec", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-len(digits) :] == digits


DOTPROD, ROWS = "neon+dotprod", "neon+dotprod+i8mm"


@pytest.mark.parametrize(
    "target, a, b, m, instruction",
    [
        (DOTPROD, "u1", "i1", 7, "sdot"),
        (DOTPROD, "i1", "i1", 7, "sdot"),
        (DOTPROD, "u1", "u1", 7, "udot"),
        (DOTPROD, "i1", "u1", 7, "udot"),
        (ROWS, "u1", "i1", 7, "usmmla"),
        (ROWS, "i1", "i1", 33, "smmla"),
        (ROWS, "u1", "u1", 6, "ummla"),
        (ROWS, "u1", "i1", 1, "usdot"),
    ],
)
def test_products_of_bytes(
    target: str, a: str, b: str, m: int, instruction: str, tmp_path: Path
) -> None:
    """The instructions that add up groups of products give NumPy's sums, tails of groups too."""
    x, w = (_bytes(dtype, shape) for dtype, shape in ((a, (m, 45)), (b, (45, 37))))
    y = x.astype(np.int32) @ w.astype(np.int32)
    proto = _product("MatMulInteger", x, w, y)
    np.testing.assert_array_equal(_run(proto, [x], [y], target, instruction, tmp_path), y)


@pytest.mark.parametrize(
    "target, dtype, m, instruction",
    [
        ("neon+bf16", ml_dtypes.bfloat16, 7, "bfmmla"),
        ("neon+bf16", ml_dtypes.bfloat16, 1, "bfdot"),
        ("neon+fp16fml", np.float16, 7, "fmlal"),
        ("neon+fp16fml", np.float16, 1, "fmlal"),
    ],
)
def test_products_of_halves(
    target: str, dtype: npt.DTypeLike, m: int, instruction: str, tmp_path: Path
) -> None:
    """Products of numbers whose sums are exact in half precision."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-2, 3, shape) for shape in ((m, 45), (45, 37)))
    wide, y = (x.astype(dtype), w.astype(dtype)), (x @ w).astype(dtype)
    found = _run(_product("MatMul", *wide, y), [wide[0]], [y], target, instruction, tmp_path)
    np.testing.assert_array_equal(found.astype(np.float32), y.astype(np.float32))


@pytest.mark.parametrize("kernel, pads, point", [(1, 0, 3), (3, 1, 3), (3, 1, 0), (2, 1, 0)])
def test_convolutions_of_bytes(kernel: int, pads: int, point: int, tmp_path: Path) -> None:
    """Pixels are rows, of which some are in the padding."""
    x, w = _bytes("u1", (1, 13, 5, 7)), _bytes("i1", (10, 13, kernel, kernel))
    shape = (1, 10, 6 + 2 * pads - kernel, 8 + 2 * pads - kernel)
    names, zero = ["x", "w", "zero"], np.array(point, np.uint8)
    node = helper.make_node("ConvInteger", names, ["y"], pads=[pads] * 4)
    ends = [value("x", x.shape, "u1")], [value("y", shape, "i4")]
    proto = model([node], *ends, weights={"w": w, "zero": zero})
    (y,) = ReferenceEvaluator(proto).run(None, {"x": x})
    found = _run(proto, [x], [np.asarray(y, np.int32)], ROWS, "usmmla", tmp_path)
    np.testing.assert_array_equal(found, y)


def _product(op: str, x: Array, w: Array, y: Array) -> onnx.ModelProto:
    """A model of a product with a constant."""
    node = helper.make_node(op, ["x", "w"], ["y"])
    ends = [value("x", x.shape, x.dtype)], [value("y", y.shape, y.dtype)]
    return model([node], *ends, weights={"w": w})


def _run(
    proto: onnx.ModelProto,
    inputs: list[Array],
    outputs: list[Array],
    target: str,
    instruction: str,
    folder: Path,
) -> Array:
    """The result of a model whose code has an instruction."""
    program = in_c(proto, inputs, outputs, folder, target=target, compiler=BUILD)
    (found,) = replace(program, emulator=[EMULATOR, "-cpu", "max"]).run()
    code = subprocess.run([DISASSEMBLER, "-d", folder / "m.o"], capture_output=True, check=True)
    assert f"\t{instruction}\t".encode() in code.stdout
    return found


def _bytes(dtype: str, shape: tuple[int, ...]) -> Array:
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


@pytest.mark.slow
@pytest.mark.sweep(first=1)
@pytest.mark.parametrize(
    "name", ["lstm_tagger", "gru_tagger", "squeezenet", "mobilenet_opset18", "efficientnet_b0"]
)
def test_models(name: str, tmp_path: Path) -> None:
    """The answers are those of ONNX Runtime, and have the same bits on several threads."""
    model = load_model(name)
    feeds = random_inputs(model)
    expected = run_onnxruntime(model, feeds)
    arrays = [feeds[each.name] for each in model.graph.input if each.name in feeds]
    program = in_c(model, arrays, expected, tmp_path, "file", "neon", BUILD)
    emulated = replace(program, emulator=[EMULATOR])
    alone = emulated.run()
    for y, wanted in zip(alone, expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=2e-3, atol=2e-5 * np.abs(wanted).max())
    for y, wanted in zip(emulated.run("3"), alone, strict=True):
        np.testing.assert_array_equal(y, wanted)
