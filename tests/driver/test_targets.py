"""The same pipeline for other machines, by their vector width and registers."""

from __future__ import annotations

import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest

import tessella
from tessella import targets
from tessella.codegen.llvm import optimize_and_emit
from tessella.driver.build.build import StagedProgram, as_text
from tessella.frontends.compile import open_source
from tessella.runtime.native_steps import NativeStep
from tests import emulated
from tests.models import load_fixture, load_model, lowered_for, random_inputs, run_onnxruntime
from tests.native import RUNNABLE, Array

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"

AARCH64 = 0xB7
"""The machine in the header of an AArch64 object."""


@pytest.fixture(scope="module")
def neon() -> StagedProgram:
    return lowered_for(DIGITS, "aarch64")


def test_aarch64_objects(neon: StagedProgram) -> None:
    for name, text in neon.llvm().items():
        image = optimize_and_emit(text, neon.target)
        assert image[:4] == b"\x7fELF", name
        assert int.from_bytes(image[18:20], "little") == AARCH64, name


def test_aarch64_instructions(neon: StagedProgram) -> None:
    text = as_text(neon, "asm")
    assert len(re.findall(r"\bfmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\[\d\]", text)) > 100
    kernels = set(neon.llvm())
    called = set(re.findall(r"\bbl\s+(\w+)", text))
    assert called <= kernels | {"memcpy", "memset", "memmove", "stamp"}
    assert "place.at<arm, f32, nhwc>" in as_text(neon, "placed")


@pytest.mark.parametrize(
    "target, register, lanes",
    [("avx512", "zmm", 16), ("avx2", "ymm", 8), ("aarch64", "v", 4)],
)
def test_width_follows_the_target(target: str, register: str, lanes: int) -> None:
    lowered = lowered_for(DIGITS, target)
    assert re.search(rf"vector \w+ {lanes} by", as_text(lowered, "tile"))
    assert f"vector<{lanes}xf32>" in as_text(lowered, "loops")
    text = as_text(lowered, "asm")
    assert re.search(rf"\b%?{register}\d+", text)
    if target == "avx2":
        assert "zmm" not in text


@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name in RUNNABLE if name != targets.native().name])
def test_every_width_computes_the_same(target: str) -> None:
    """`test_models.py` runs the native target."""
    proto = load_fixture("mobilenet_opset18")
    feeds = random_inputs(proto, 0)
    [wanted], [result] = (
        run_onnxruntime(proto, feeds),
        tessella.compile(proto, target=target).run(None, feeds),
    )
    largest = float(np.abs(wanted).max())
    np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3 * largest)


def test_a_target_that_cannot_run_is_refused() -> None:
    other = next(n for n in ("neon", "avx512", "avx2") if not targets.can_run(targets.get(n)))
    with pytest.raises(tessella.TessellaError, match="cannot run"):
        tessella.compile(DIGITS, target=other)


def test_calls_release_the_interpreter() -> None:
    x = np.ones((2048, 2048), np.float32)
    product = tessella.jit(lambda x: x @ x)
    product(x)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10.0)  # a thread gives up the interpreter only where it releases it
    try:
        stop = threading.Event()
        worker = threading.Thread(target=lambda: (product(x), stop.set()))
        turns = 0
        worker.start()
        while not stop.is_set():
            turns += 1
            time.sleep(0)
        worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert turns > 100


def run_emulated(
    model: onnx.ModelProto, threads: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Array], dict[str, Array]]:
    """The outputs of a model on emulated cores, and its inputs."""
    source, feeds = open_source(model), random_inputs(model)
    graph = source.graph({name: array.shape for name, array in feeds.items()})
    with monkeypatch.context() as patch:
        program = emulated.compiled(graph, 0, patch)
        assert all(isinstance(step, NativeStep) for step in program.steps)
        return program.run([feeds[info.name] for info in source.inputs], threads), feeds


@pytest.mark.parametrize("threads", [1, 2])
def test_the_digits_network_runs_on_aarch64(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.load(DIGITS)
    (y,), feeds = run_emulated(model, threads, monkeypatch)
    (expected,) = run_onnxruntime(model, feeds)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v3", "squeezenet", "gru_tagger"])
def test_models_run_on_aarch64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_model(name)
    outputs, feeds = run_emulated(model, 1, monkeypatch)
    for y, expected in zip(outputs, run_onnxruntime(model, feeds), strict=True):
        np.testing.assert_allclose(y, expected, rtol=2e-3, atol=1e-4)
