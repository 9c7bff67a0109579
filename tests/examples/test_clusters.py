"""`examples/scale` on the engines that are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

SCALE = Path(__file__).parents[2] / "examples" / "scale"
NEEDS: Mapping[str, Sequence[str]] = {
    "with_dask": ["dask.array", "distributed"],
    "with_ray": ["ray"],
    "with_spark": ["pyspark", "pandas", "pyarrow"],
}


def test_each_recipe_is_run() -> None:
    assert {path.stem for path in SCALE.glob("with_*.py")} == {*NEEDS}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", NEEDS)
def test_a_worker_that_dies_changes_no_row(recipe: str) -> None:
    for package in NEEDS[recipe]:
        pytest.importorskip(package)
    if recipe == "with_spark" and shutil.which("java") is None:
        pytest.skip("java is not installed")
    program = SCALE / f"{recipe}.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "40 rows, 0 differ, a worker died"
