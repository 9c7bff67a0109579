"""Damaged models and stage files: they compile and run, or are refused with a TessellaError.

In bounded time and memory: ``tests/hostile/limits.py``. What a file of the stage `tile` holds is a
program, which is compiled and not run.
"""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import onnx

import tessella
from tessella import Model, TessellaError
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import save_stage
from tessella.frontends.onnx import OnnxSource
from tessella.runtime.elements import dtype_named
from tessella.support.errors import InternalError
from tessella.tools.opt import main as opt
from tests.fuzz.fuzzer import TARGETS, Fuzzer, WrongError
from tests.fuzz.graphs import draw_case
from tests.fuzz.rows import ROWS
from tests.generators.damage import damaged_model, damaged_text
from tests.generators.nn_programs import program
from tests.hostile.limits import gigabytes, seconds
from tests.hostile.models import calling, mixed, one

SECONDS = 20.0
MOST_ELEMENTS = 1 << 24
"""Of the inputs of what is run: no caller has more."""
GIGABYTES = 4.0
IMAGE = [1, 4, 5, 5]
THREE = np.ones((4, 4, 3, 3), np.float32)
MODELS: list[Callable[[], onnx.ModelProto]] = [
    mixed,
    lambda: one("Conv", {"x": IMAGE, "w": THREE}, pads=[1, 1, 1, 1], strides=[2, 1]),
    lambda: one("AveragePool", {"x": IMAGE}, kernel_shape=[3, 2], ceil_mode=1, pads=[1, 0, 1, 0]),
    lambda: calling(3, 2),
    lambda: one("Einsum", {"a": [2, 3], "b": [3, 4]}, equation="ij,jk->ki"),
]


@contextmanager
def _bounded(output: io.StringIO) -> Generator[None]:
    limits = seconds(SECONDS), gigabytes(GIGABYTES)
    with limits[0], limits[1], redirect_stderr(output), redirect_stdout(output):
        yield


def _refused(run: Callable[[], None]) -> str:
    """Return whether it runs or is refused. Any other error is raised."""
    output = io.StringIO()
    try:
        with (
            seconds(SECONDS),
            gigabytes(GIGABYTES),
            redirect_stderr(output),
            redirect_stdout(output),
        ):
            run()
    except TessellaError as error:
        # a kernel that the op names, but not for its places, is found out late
        if isinstance(error, InternalError) and "has no lowering" not in str(error):
            raise
        return "refused"
    return "runs"


def _run(model: Model) -> None:
    shapes = [[d if isinstance(d, int) else 2 for d in info.shape] for info in model.inputs]
    dtypes = [dtype_named(info.dtype) for info in model.inputs]
    if sum(map(math.prod, shapes)) > MOST_ELEMENTS:
        return
    model(*(np.zeros(s, d) for s, d in zip(shapes, dtypes, strict=True)))


# ** models **


def draw_model(random: Random) -> bytes:
    """A damaged model."""
    if random.random() < 0.2:
        return damaged_model(random, random.choice(MODELS)())
    return damaged_model(random, draw_case(random, ROWS, most=8).model())


def check_model(data: bytes) -> str:
    """Compile it, and run it on zeros."""
    return _refused(lambda: _run(compile_source(OnnxSource(data, max_bytes=1 << 26))))


def save_model(data: bytes, folder: Path) -> None:
    """The file."""
    (folder / "model.onnx").write_bytes(data)


# ** stages **


@dataclass(frozen=True)
class Files:
    """A stage file and its weights."""

    stage: str
    text: str
    weights: bytes
    passes: str | None
    """For `tessella-opt`, instead of compiling."""

    def write(self, folder: Path) -> Path:
        """The path of the stage."""
        path = folder / f"m.{self.stage}"
        path.write_text(self.text)
        if self.weights:
            (folder / "m.weights").write_bytes(self.weights)
        return path


PASSES = (
    "infer-shapes,fold-constants",
    "pick-kernels{target=avx2},insert-conversions,fuse-elementwise",
    "",
)


def draw_stage(random: Random) -> Files:
    """A damaged stage of a small program."""
    dtype = random.choice((np.float32, np.float32, np.int64, np.float64))
    made = program(random, dtype, random.choice((1, 2, 3, 4)), exact=True, host=True)
    stage = random.choice(("nn", "nn", "placed", "placed", "tile", "loops"))
    graph = made.graph()
    module, weights = graph.module, graph.weights
    if stage != "nn":
        lowered = lower(graph, make_options(target=random.choice(TARGETS)), stop=stage)
        module, weights = lowered.stages[stage], lowered.weights
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m.{stage}"
        save_stage(path, module, weights)
        file = Path(folder) / "m.weights"
        data = file.read_bytes() if file.exists() else b""
        text = damaged_text(random, path.read_text())
    only_read = stage == "loops" or random.random() < 0.3
    passes = random.choice(PASSES) if stage == "nn" else ""
    return Files(stage, text, data, passes if only_read else None)


def check_stage(files: Files) -> str:
    """Compile it, and run it on zeros; or run passes on it."""
    with tempfile.TemporaryDirectory() as folder:
        path = files.write(Path(folder))
        if files.passes is not None:
            return _opt(path, files.passes)
        return _refused(lambda: _compile(path, files.stage))


def _compile(path: Path, stage: str) -> None:
    model = tessella.compile(path)
    if stage == "tile":
        model.as_text("loops")
    else:
        _run(model)


def _opt(path: Path, passes: str) -> str:
    output = io.StringIO()
    with _bounded(output):
        code = opt([str(path), *(["-p", passes] if passes else [])])
    if code not in (0, 1) or (": error: " in output.getvalue()) != bool(code):
        raise WrongError(f"tessella-opt ends with {code}: {output.getvalue()[-500:]}")
    return "refused" if code else "runs"


def save_stage_files(files: Files, folder: Path) -> None:
    """The files."""
    files.write(folder)


MODEL_FUZZER = Fuzzer(
    "models",
    "Damaged ONNX models: only a TessellaError refuses them.",
    draw_model,
    check_model,
    save_model,
    sample=40,
)
STAGE_FUZZER = Fuzzer(
    "stages",
    "Damaged stage files: only a TessellaError refuses them.",
    draw_stage,
    check_stage,
    save_stage_files,
    sample=50,
)
