"""Models of scikit-learn, XGBoost and LightGBM give the predictions of the estimators themselves.

`tests/fixtures/ml/make.py` makes them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tessella

Array = npt.NDArray[Any]

FOLDER = Path(__file__).parents[2] / "fixtures" / "ml"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))


@cache
def predictions() -> dict[str, Array]:
    with np.load(FOLDER / "predictions.npz") as found:
        return dict(found)


def test_there_are_models() -> None:
    assert len(NAMES) >= 90


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_predictions(name: str) -> None:
    known = predictions()
    x = known[f"{name}/x"]
    model = tessella.compile(FOLDER / f"{name}.onnx")
    found = model.run(None, {model.inputs[0].name: x})
    wanted = [known[f"{name}/{i}"] for i in range(3) if f"{name}/{i}" in known]
    assert len(found) >= len(wanted)
    for y, expected in zip(found, wanted, strict=False):
        if expected.dtype.kind in "iU":
            np.testing.assert_array_equal(
                y.reshape(-1).astype(expected.dtype), expected.reshape(-1)
            )
        else:
            # of two distances, the estimator has the second one
            scores = y.reshape(len(x), -1)[:, -expected.shape[1] :]
            largest = np.abs(expected).max()
            np.testing.assert_allclose(scores, expected, rtol=2e-4, atol=2e-4 * largest)
