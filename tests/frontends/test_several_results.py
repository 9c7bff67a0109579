"""Several results are a tuple, whatever is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tests.driver.test_model import two_outputs

X = np.arange(15, dtype=np.float32).reshape(3, 5)
PAIR = "function (A[N]) -> (R, S) { R = A; S = -A; }"


def loaded(folder: Path) -> Any:
    path = folder / "m.tsl"
    model = tessella.compile(two_outputs())
    model.save(path)
    return tessella.load(path)


CALLS: dict[str, Callable[[Path], Any]] = {
    "compile": lambda _: tessella.compile(two_outputs())(X),
    "by name": lambda _: tessella.compile(two_outputs())(**{name_of_input(): X}),
    "out": lambda _: tessella.compile(two_outputs())(X, out=[None, None]),
    "load": lambda folder: loaded(folder)(X),
    "bind": lambda _: tessella.compile(two_outputs()).bind({}, {})(**{name_of_input(): X}),
    "jit": lambda _: tessella.jit(lambda x: (x + 1, -x))(X),
    "tile": lambda _: tessella.tile(PAIR)(X[0]),
    "ops": lambda _: tessella.ops.topk(X, k=2, axis=1),
}


def name_of_input() -> str:
    return tessella.compile(two_outputs()).inputs[0].name


@pytest.mark.parametrize("name", CALLS)
def test_several_results_are_a_tuple(name: str, tmp_path: Path) -> None:
    found = CALLS[name](tmp_path)
    assert type(found) is tuple
    assert len(found) == 2


def test_run_returns_a_list_as_in_onnx_runtime() -> None:
    model = tessella.compile(two_outputs())
    assert type(model.run(None, {name_of_input(): X})) is list
