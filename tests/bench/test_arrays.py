"""The functions that arrays are compared on: the loops compute what the expressions compute."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import tessella
from bench.array_cases import CASES, Array, Modules
from bench.arrays import Row, environment, main
from tessella.tools import measure
from tessella.tools.measure import relative_error

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


def test_what_only_moves_memory_is_compared_with_the_bandwidth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = replace(CASES["add-100M"], arguments=lambda rng: [rng.random(5000, np.float32)] * 2)
    monkeypatch.setattr(measure, "_LONGEST", 0.0)
    monkeypatch.setattr("bench.arrays.CASES", {"add": case})
    assert main(["--threads", "2", "--repeat", "1", "--peers", "tessella,numpy"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "  add" in line)
    assert "%" in row.split()[-2]


def test_a_function_that_misses_the_bandwidth_misses() -> None:
    row = Row("x", ms={"tessella": 2.0, "numpy": 9.0})
    assert row.met
    row.of_bandwidth = 0.5
    assert not row.met


def test_libraries_are_told_how_many_threads_there_are() -> None:
    settings = environment(3)
    assert {settings[name] for name in ("OMP_NUM_THREADS", "PJRT_NPROC")} == {"3"}
    assert "eigen=true" in settings["XLA_FLAGS"]
    assert "eigen=false" in environment(1)["XLA_FLAGS"]
