"""The small models whose calls are timed: all that is called computes the same."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import calls
from tessella.tools import measure


@pytest.mark.parametrize("sizes", calls.SIZES)
@pytest.mark.parametrize("name", calls.CASES)
def test_all_that_is_called_computes_the_same(name: str, sizes: str, tmp_path: Path) -> None:
    case = calls.CASES[name]
    called = dict(calls.callers(case, sizes, tmp_path))
    assert called.keys() <= set(calls.CALLERS)
    for array in calls.arrays(case, sizes):
        first, *others = (_flat(call(array)) for call in called.values())
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-4, atol=1e-5)


def _flat(result: Any) -> calls.Array:
    return np.concatenate([np.ravel(x) for x in (result if isinstance(result, list) else [result])])


def test_a_table_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "_LONGEST", 0.0)
    monkeypatch.setattr(calls, "TURN", 0.0)
    monkeypatch.setattr(calls, "SIZES", {"open": (5,)})
    assert calls.main(["relu", "--repeat", "1"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("relu, "))
    peers = importlib.util.find_spec(calls.PEER) is not None
    assert len(row.split()) == 2 + 5 + 2 * peers


def test_ratio_is_that_to_the_peer() -> None:
    assert calls.Row("x", "open", {"model.run": 3.0, calls.PEER: 4.0}).ratio == 0.75
    assert calls.Row("x", "open", {"model.run": 3.0}).ratio is None
