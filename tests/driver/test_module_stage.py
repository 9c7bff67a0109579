"""Passes at a stage that has nothing for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.driver.stages.stages import IR_STAGES
from tessella.passes.kinds import declared
from tessella.tools.opt import main

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def _function(x: Any) -> Any:
    return np.maximum(x @ WEIGHTS, 0)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stages")
    lowered = tessella.jit(_function).lower(np.ones((2, 3), np.float32))
    files = {stage: folder / f"x.{stage}" for stage in IR_STAGES}
    for stage, path in files.items():
        path.write_text(lowered.as_text(stage))
    return files


@pytest.mark.parametrize(
    "name, stage, wanted, hint",
    [
        ("plan-arena", "nn", "loops", "convert-tile-to-loops,insert-barriers\n"),
        ("plan-arena", "tile", "loops", "-p convert-tile-to-loops,insert-barriers\n"),
        ("tile-schedule", "placed", "tile", "-p outline-segments,convert-nn-to-tile,"),
        ("fuse-patterns", "tile", "nn or placed", "passes do not lead back"),
        ("fuse-elementwise", "loops", "nn or placed", "passes do not lead back"),
        ("plaidml-search", "loops", "tile", "compile MODEL -o NAME.tile` writes it"),
    ],
)
def test_a_pass_that_finds_nothing_is_an_error(
    files: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    name: str,
    stage: str,
    wanted: str,
    hint: str,
) -> None:
    assert main([str(files[stage]), "-p", name]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert f"{name}: the pass finds nothing to work on in this module" in err
    assert f"expected: the stage {wanted}\n" in err
    assert f"found: the stage {stage}, " in err
    assert hint in err


def test_the_passes_of_the_hint_lead_there(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(files["nn"]), "-p", "plan-weights"])
    steps = capsys.readouterr().err.partition(" -p ")[2].strip()
    assert main([str(files["nn"]), "-p", f"{steps},plan-weights"]) == 0
    assert "slot" in capsys.readouterr().out


def test_passes_of_the_pipeline_declare_the_stages_that_they_run_at() -> None:
    before = "nn"
    for stage, steps in pipeline(make_options()):
        for i, step in enumerate(steps):
            stages = declared(type(step)).stages
            assert (before if i == 0 else stage) in stages, step.name
        before = stage


def test_modules_without_ops_of_a_stage_are_left_to_the_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.mlir"
    path.write_text("func.func @main() { func.return }\n")
    assert main([str(path), "-p", "plan-arena,fuse-patterns"]) == 0
    assert "func.return" in capsys.readouterr().out
