"""Softmax of elements that are no finite numbers, for every vector width that runs here."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tests.native import EVERYWHERE, check_op, normal


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("kind", [nn.SoftmaxOp, nn.LogSoftmaxOp])
@pytest.mark.parametrize("columns", [1, 7, 200])
def test_special_elements(kind: type[NnOp], columns: int, target: str) -> None:
    """A NaN, wherever it is, makes its row NaN, and no other; the maximum does not show it."""
    x = normal(columns + 6, columns)
    for column in range(columns):
        x[column, column] = np.nan
    x[columns, 0], x[columns + 1, -1] = np.inf, -np.inf
    x[columns + 2], x[columns + 3] = -np.inf, np.nan
    x[columns + 4, 0], x[columns + 4, -1] = np.finfo(np.float32).max, np.finfo(np.float32).min
    model = check_op(kind, [x], target=target, axis=1)
    (found,) = model.run(None, {"x0": x})
    assert np.isnan(found[:columns]).all()
    assert not np.isnan(found[columns + 5]).any()


def test_a_maximum_of_numbers_is_one_comparison() -> None:
    model = check_op(nn.SoftmaxOp, [normal(64, 256)], axis=1)
    loops = model.as_text("loops")
    assert "maxnumf" not in loops.split("vector.reduction")[0]
    assert "ogt" in loops.split("vector.reduction")[0]


def test_masked_elements_are_no_denormals() -> None:
    """A processor may take a hundred times as long for an instruction with a denormal number."""
    x = normal(64, 256)
    x[:, ::2] -= 95
    (found,) = check_op(nn.SoftmaxOp, [x], axis=1).run(None, {"x0": x})
    assert (found[:, ::2] == 0).all()
    assert (found[:, 1::2] > np.finfo(np.float32).tiny).all()
