"""`examples/dask`, `examples/ray`, `examples/scale` and `examples/spark`, where these are
installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tessella

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = 40


@pytest.mark.parametrize(
    "folder, packages",
    [("dask", ["dask.array", "distributed"]), ("ray", ["ray"]), ("spark", ["pyspark.sql"])],
)
def test_workers_read_digits(folder: str, packages: Sequence[str]) -> None:
    for package in packages:
        pytest.importorskip(package)
    program = EXAMPLES / folder / "digits.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    model = tessella.compile(EXAMPLES / "digits" / "digits.onnx")
    images = np.load(EXAMPLES / "digits" / "heldout.npz")["images"][:COUNT]
    wanted = [int(np.argmax(model(image[None]))) for image in images]
    assert done.stdout.split() == [str(digit) for digit in wanted]


@pytest.mark.slow
def test_a_worker_that_dies_changes_no_row() -> None:
    for package in ("dask.array", "distributed"):
        pytest.importorskip(package)
    program = EXAMPLES / "scale" / "with_dask.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{COUNT} rows, 0 differ, a worker died\n"
