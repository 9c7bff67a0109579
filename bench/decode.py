"""A decoder of GPT-2's size that generates tokens with a cache, against ONNX Runtime.

    python -m bench.decode --threads 1 --tokens 128

The model (``tests/fixtures/gpt2_cached.onnx``: 12 layers, 768 wide, random weights) takes the keys
and values of the tokens before, and returns them with those of the new one. ONNX Runtime has its
buffers bound (``io_binding``), so that nothing is copied between calls. The floor is the time in
which so many threads read all weights that a step uses once.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import tessella
from bench.command import Command, show_machine, write_figures
from bench.roofs import Roofs
from tessella import targets
from tessella.tools.measure import relative_error, settle
from tests.models import load_fixture

NAME = "gpt2_cached"
PROMPT = 16

Array = npt.NDArray[Any]
Step = Callable[[int], Array]
"""Returns the logits for the next token; earlier tokens are cached."""


def tessella_steps(path: Path, threads: int, cache: Sequence[str], shape: Sequence[int]) -> Step:
    """Decode with tessella, which keeps the cache."""
    model = tessella.compile(str(path), threads=threads, dims={})
    kept = {name: name.replace("past", "present") for name in cache}
    bound = model.bind(kept, {name: np.zeros(shape, np.float32) for name in cache})
    return lambda token: bound(input_ids=np.array([[token]]))


def onnxruntime_steps(path: Path, threads: int, cache: Sequence[str], shape: Sequence[int]) -> Step:
    """Decode with ONNX Runtime, whose outputs are bound as the next call's inputs."""
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    state = {name: ort.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)) for name in cache}
    outputs = [output.name for output in session.get_outputs()]

    def step(token: int) -> Array:
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([[token]]))
        for name, value in state.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            binding.bind_output(name, "cpu")
        session.run_with_iobinding(binding)
        found = dict(zip(outputs, binding.get_outputs(), strict=True))
        state.update({name: found[name.replace("past", "present")] for name in cache})
        return found["logits"].numpy()

    return step


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return bytes of the weights that a step reads.

    It reads one row of the position embedding; the token embedding is also the last layer's weight.
    """
    sizes = {tensor.name: 4 * int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    return sum(size for name, size in sizes.items() if "positions" not in name)


def generate(steps: dict[str, Step], tokens: int) -> tuple[dict[str, list[float]], float]:
    """Return seconds of each step of each contestant, interleaved, and the largest error between
    them."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    token, error = 1, 0.0
    for _ in range(tokens):
        logits: dict[str, Array] = {}
        for name, step in steps.items():
            settle()
            start = time.perf_counter()
            logits[name] = step(token)
            seconds[name].append(time.perf_counter() - start)
        ours, theirs = logits.values()
        error = max(error, relative_error([ours], [theirs]))
        token = int(theirs[0, -1].argmax())
    return seconds, error


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = Command("decode", "Generate tokens with a cache, against ONNX Runtime.")
    parser.add_threads()
    parser.add_argument("--tokens", type=int, default=128, help="that are generated (default: 128)")
    options = parser.parse(arguments)
    where = show_machine()
    model = load_fixture(NAME)
    cache = [value.name for value in model.graph.input if value.name.startswith("past")]
    first = next(value for value in model.graph.input if value.name == cache[0])
    sizes = {"batch": 1, "past": PROMPT}
    shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in first.type.tensor_type.shape.dim]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        steps = {
            "tessella": tessella_steps(path, options.threads, cache, shape),
            "onnxruntime": onnxruntime_steps(path, options.threads, cache, shape),
        }
        seconds, error = generate(steps, options.tokens)
    size = weight_bytes(model)
    read = Roofs(targets.resolve("native"), options.threads).read(size)
    times: list[float] = []
    for _ in range(9):
        start = time.perf_counter()
        read()
        times.append((time.perf_counter() - start) * size / read.amount)
    floor = median(times)
    print(
        f"threads: {options.threads}; {size / 1e6:.0f} MB of weights, read in {floor * 1e3:.1f} ms"
    )
    figures: dict[str, Any] = {"floor_ms": floor * 1e3, "error": error, "threads": options.threads}
    for name, each in seconds.items():
        warm = each[3:]
        figures[name] = {"median_ms": median(warm) * 1e3, "longest_ms": max(warm) * 1e3}
        print(
            f"  {name:12}{median(warm) * 1e3:8.2f} ms a token, the longest {max(warm) * 1e3:.2f}; "
            f"{median(warm) / floor:.2f} of the floor"
        )
    print(f"  relative difference of logits {error:.1e}")
    write_figures(options.json, where, **figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
