"""Runtimes that a model can be timed on, behind one interface.

``load(peer, path, threads)`` reads an ONNX file and gives a function from feeds to outputs. A peer
is imported when it is first asked for, so that none of them is needed.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]
Run = Callable[[Feeds], list[Array]]


def load_tessella(path: Path, threads: int) -> Run:
    """Tessella with its default places."""
    tessella: Any = importlib.import_module("tessella")
    model = tessella.compile(str(path), threads=threads)
    return lambda feeds: model.run(None, feeds)


def load_onnxruntime(path: Path, threads: int) -> Run:
    """ONNX Runtime's CPU provider with all of its optimisations, which is its default."""
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def load_openvino(path: Path, threads: int) -> Run:
    """OpenVINO's CPU device, told to compute in float32 and to answer one request quickly."""
    openvino: Any = importlib.import_module("openvino")
    core = openvino.Core()
    options: dict[str, Any] = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    if folder := os.environ.get("BENCH_OPENVINO_CACHE"):
        options["CACHE_DIR"] = folder
    compiled = core.compile_model(core.read_model(str(path)), "CPU", options)
    request = compiled.create_infer_request()

    def run(feeds: Feeds) -> list[Array]:
        # Sharing spares it copies that it would make between NumPy's memory and its own.
        results = request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return [np.asarray(results[output]) for output in compiled.outputs]

    return run


# The first that is installed is what the others are compared with, in speed and in values.
PEERS: dict[str, Callable[[Path, int], Run]] = {
    "onnxruntime": load_onnxruntime,
    "tessella": load_tessella,
    "openvino": load_openvino,
}


def available(names: Sequence[str]) -> list[str]:
    """Those of these peers that are installed; says which are not."""
    for name in (absent := [name for name in names if importlib.util.find_spec(name) is None]):
        print(f"note: {name} is not installed and is left out")
    return [name for name in names if name not in absent]


def load(peer: str, path: Path, threads: int) -> Run:
    """Compile an ONNX file for a peer. The function's outputs are valid until its next call."""
    return PEERS[peer](path, threads)
