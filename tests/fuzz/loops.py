"""Random models with a Scan: against ONNX Runtime, and by the interpreter after each pass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import onnx

import tessella
from tessella.dialects.graph import CompileContext
from tessella.dialects.interpret import interpret
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.frontends.onnx import OnnxSource
from tests.fuzz.elements import Array
from tests.fuzz.fuzzer import TARGETS, Fuzzer
from tests.generators.scans import loop
from tests.models import run_onnxruntime


@dataclass(frozen=True)
class Trial:
    """A model, its inputs, and what it is compiled for."""

    proto: onnx.ModelProto
    feeds: dict[str, Array]
    target: str


def draw(random: Random) -> Trial:
    """A loop over short or long vectors."""
    proto, feeds = loop(random, random.choice((3, 3, 3, 70)))
    return Trial(proto, feeds, random.choice(TARGETS))


def check(trial: Trial) -> str:
    """Compiled, it gives what ONNX Runtime gives; and so does the program after each pass."""
    wanted = run_onnxruntime(trial.proto, trial.feeds)
    compiled = tessella.compile(trial.proto, target=trial.target)
    _same(compiled.run(None, dict(trial.feeds)), wanted)
    graph = OnnxSource(trial.proto).graph({name: x.shape for name, x in trial.feeds.items()})
    ctx = CompileContext(graph.weights)
    for _, steps in pipeline(make_options(target=trial.target))[:-1]:
        for step in steps:
            step.apply(ctx, graph.module)
            graph.module.verify()
            _same(interpret(graph, trial.feeds), wanted)
    return "right"


def _same(found: list[Array], wanted: list[Array]) -> None:
    for y, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5, strict=True)


def save(trial: Trial, folder: Path) -> None:
    """The model and its inputs."""
    (folder / "model.onnx").write_bytes(trial.proto.SerializeToString())
    np.savez(folder / "inputs.npz", **trial.feeds)  # pyright: ignore[reportArgumentType]


FUZZER = Fuzzer(
    "loops",
    "Random models with a Scan, against ONNX Runtime.",
    draw,
    check,
    save,
    sample=8,
)
