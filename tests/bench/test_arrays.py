"""The functions that arrays are compared on: the loops compute what the expressions compute."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tessella
from bench.array_cases import CASES, Array, Modules
from bench.arrays import Row, main
from bench.measure import relative_error

NAMES = list(CASES)
SIDE = 12


def _small(name: str) -> list[Array]:
    """The case's arguments, cut down."""
    arguments = CASES[name].arguments(np.random.default_rng(1))
    return [np.ascontiguousarray(a[(slice(SIDE),) * a.ndim]) for a in arguments]


def _outputs(result: object) -> list[Array]:
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_loops_compute_the_function(name: str) -> None:
    case, arguments = CASES[name], _small(name)
    modules = Modules(np, np.vectorize(math.erf, otypes=[np.float32]))
    expected = _outputs(case.function(modules, *arguments))
    assert relative_error(_outputs(case.loops(*arguments)), expected) < 1e-5
    if "numpy" in case.others:
        other = _outputs(case.others["numpy"](modules, *arguments))
        assert relative_error(other, expected) < 1e-5


@pytest.mark.sweep
@pytest.mark.parametrize("name", NAMES)
def test_functions_compile(name: str) -> None:
    case, arguments = CASES[name], _small(name)
    compiled = tessella.jit(lambda *traced: case.function(Modules(np, tessella.erf), *traced))
    expected = _outputs(case.loops(*arguments))
    assert relative_error(_outputs(compiled(*arguments)), expected) < 1e-5


def test_ratio_is_of_the_fastest_peer() -> None:
    assert Row("x", ms={"tessella": 2.0, "numpy": 9.0, "jax": 3.0}).ratio == 1.5
    assert Row("x", ms={"tessella": 2.0}).ratio is None


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no function 'nothing'" in capsys.readouterr().err
