"""Runtimes that a model can be timed on, behind one interface.

``load(peer, path, threads)`` reads an ONNX file and returns a function from feeds to outputs. A
peer is imported on first use, so that all of them are optional.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
Run = Callable[[Feeds], list[Array]]

FIRST_IR_VERSION = 4
"""The first IR version of ONNX files whose weights need not be listed as inputs."""


def load_tessella(path: Path, threads: int, places: Sequence[str] | None = None) -> Run:
    """Compile an ONNX file with tessella for ``places``, by default its default places, or load an
    artifact. Returns a function that runs the model."""
    tessella: Any = importlib.import_module("tessella")
    if path.suffix == ".tsl":
        model = tessella.load(str(path), threads=threads)
    else:
        model = tessella.compile(str(path), threads=threads, places=places)
    return lambda feeds: model.run(None, feeds)


def load_onnxruntime(path: Path, threads: int) -> Run:
    """Load an ONNX file into ONNX Runtime's CPU provider with all optimizations, its default.
    Returns a function that runs the model."""
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def load_openvino(path: Path, threads: int, precision: str = "f32") -> Run:
    """Compile an ONNX file for OpenVINO's CPU device in latency mode; unquantised ops compute in
    ``precision``. Returns a function that runs the model."""
    openvino: Any = importlib.import_module("openvino")
    core = openvino.Core()
    options: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": precision,
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    if folder := os.environ.get("BENCH_OPENVINO_CACHE"):
        options["CACHE_DIR"] = folder
    compiled = core.compile_model(core.read_model(str(path)), "CPU", options)
    request = compiled.create_infer_request()

    def run(feeds: Feeds) -> list[Array]:
        # Sharing avoids copies between NumPy's memory and OpenVINO's.
        results = request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return [np.asarray(results[output]) for output in compiled.outputs]

    return run


def load_ncnn(path: Path, threads: int) -> Run:
    """Load an ONNX file into ncnn with float32 storage and arithmetic, after ncnn's tool pnnx has
    converted it. Returns a function that runs the model."""
    ncnn: Any = importlib.import_module("ncnn")
    with TemporaryDirectory() as folder:
        base = _converted(path, Path(folder))
        net = ncnn.Net()
        net.opt.num_threads = threads
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):
            setattr(net.opt, f"use_{option}", False)
        if net.load_param(f"{base}.param") or net.load_model(f"{base}.bin"):
            raise RuntimeError("ncnn does not read what pnnx has written")
    names = list(net.input_names()), list(net.output_names())

    def run(feeds: Feeds) -> list[Array]:
        with net.create_extractor() as extractor:
            for name, array in zip(names[0], feeds.values(), strict=True):
                extractor.input(name, ncnn.Mat(array, batch_index=0))
            found = [extractor.extract(name)[1] for name in names[1]]
            return [np.array(mat.numpy(batch_index=0)) for mat in found]

    return run


def _converted(path: Path, folder: Path) -> str:
    """Convert an ONNX file to ncnn's files in ``folder``. Returns their path without the
    extensions.

    pnnx treats weights as inputs if an old model also lists them as inputs. Its Python package
    imports torch, which the tool itself does not need.
    """
    found = importlib.util.find_spec("pnnx")
    if found is None or found.origin is None:
        raise RuntimeError("pnnx is not installed: pip install --no-deps pnnx")
    onnx: Any = importlib.import_module("onnx")
    model = onnx.load(str(path))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, FIRST_IR_VERSION)
    onnx.save(model, folder / "model.onnx")
    tool = Path(found.origin).with_name("pnnx")
    command = [str(tool), "model.onnx", "fp16=0"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    base = folder / "model.ncnn"
    if done.returncode or not base.with_suffix(".ncnn.param").exists():
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise RuntimeError(f"pnnx: {lines[-1] if lines else done.returncode}")
    return str(base)


# The first runtime that is installed is the baseline for speed and values.
PEERS: dict[str, Callable[[Path, int], Run]] = {
    "onnxruntime": load_onnxruntime,
    "tessella": load_tessella,
    "openvino": load_openvino,
    "ncnn": load_ncnn,
}


def available(names: Sequence[str]) -> list[str]:
    """Return those of the peers ``names`` that are installed, and print a note about the others."""
    for name in (absent := [name for name in names if importlib.util.find_spec(name) is None]):
        print(f"note: {name} is not installed and is left out")
    return [name for name in names if name not in absent]


def load(peer: str, path: Path, threads: int) -> Run:
    """Compile an ONNX file for a peer, and return a function that runs the model. The outputs of
    the function are valid until its next call."""
    return PEERS[peer](path, threads)
