"""Models for C on AArch64, as whole programs in an emulator of Linux: `make test-aarch64` installs
what this needs, where it can."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.driver.test_emit_c import check_digits, digits_in_c, in_c
from tests.frontends.onnx.models import model, value
from tests.models import load_model, random_inputs, run_onnxruntime
from tests.native import Array

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
DISASSEMBLER = "aarch64-linux-gnu-objdump"
SHAPES = {"image": (1, 1, 8, 8)}
BUILD = [COMPILER, "-static"]

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or shutil.which(EMULATOR) is None,
    reason=f"there is no {COMPILER}, or no {EMULATOR}",
)


@pytest.mark.usefixtures("divide_all")  # the network is small: it would not be divided
def test_the_example_knows_digits(tmp_path: Path) -> None:
    digits_in_c(tmp_path, "neon", BUILD)
    for threads in ("1", "2"):
        check_digits([EMULATOR, str(tmp_path / "program"), threads])


BOTH, ROWS = "neon+dotprod", "neon+dotprod+i8mm"


@pytest.mark.parametrize(
    "target, a, b, instruction",
    [
        (ROWS, "u1", "i1", "usmmla"),
        (ROWS, "i1", "i1", "smmla"),
        (ROWS, "u1", "u1", "ummla"),
        (ROWS, "i1", "u1", "ummla"),
        (BOTH, "u1", "i1", "sdot"),
        (BOTH, "i1", "i1", "sdot"),
        (BOTH, "u1", "u1", "udot"),
        (BOTH, "i1", "u1", "udot"),
    ],
)
def test_products_of_bytes(target: str, a: str, b: str, instruction: str, tmp_path: Path) -> None:
    """The instructions that add up groups of products give NumPy's sums, tails of groups too."""
    x, w = (_bytes(dtype, shape) for dtype, shape in ((a, (7, 45)), (b, (45, 37))))
    y = x.astype(np.int32) @ w.astype(np.int32)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    proto = model([node], [value("x", x.shape, a)], [value("y", y.shape, "i4")], weights={"w": w})
    np.testing.assert_array_equal(_run(proto, [x], [y], target, instruction, tmp_path), y)


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
@pytest.mark.parametrize(
    "name",
    [
        *("squeezenet", "mobilenet_opset18", "mobilenet_v3", "efficientnet_b0", "resnet50"),
        *("lstm_tagger", "gru_tagger"),
    ],
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
