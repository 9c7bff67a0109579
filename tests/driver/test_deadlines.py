"""Deadlines of compilations: who keeps them, and what is said of a compilation that is too long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import tessella
from tessella.driver.options import make_options
from tessella.support import deadline
from tessella.support.errors import CompileTimeoutError, OptionError
from tessella.tools.cli import main
from tests.native import Array
from tests.tools.networks import classifier, open_batch

SOON = 1e-9
LATE = 1000.0


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "1", True])
def test_wrong_deadlines(seconds: float) -> None:
    with pytest.raises(OptionError, match="'timeout'"):
        tessella.compile(classifier(), timeout=seconds)


def test_passes_keep_a_deadline() -> None:
    with pytest.raises(CompileTimeoutError, match="before the pass"):
        tessella.compile(classifier(), timeout=SOON)
    assert tessella.compile(classifier(), timeout=LATE)(np.zeros((1, 3, 8, 8), "f4")).shape


def test_calls_keep_a_deadline() -> None:
    """Each compilation has it anew."""
    model = tessella.compile(open_batch(), timeout=SOON)
    for _ in range(2):
        with pytest.raises(CompileTimeoutError):
            model(np.zeros((2, 4), "f4"))
    with pytest.raises(CompileTimeoutError):
        model.prepare()
    assert tessella.compile(open_batch(), timeout=LATE)(np.zeros((2, 4), "f4")).shape == (2, 3)


@pytest.mark.parametrize(
    "twice",
    [
        tessella.jit(lambda x: x + x, timeout=SOON),
        tessella.tile("function (A[N]) -> (R) { R = A + A; }", timeout=SOON),
        lambda x: tessella.ops.with_options(timeout=SOON).add(x, x),
    ],
    ids=["jit", "tile", "ops"],
)
def test_functions_keep_a_deadline(twice: Callable[[Array], Array]) -> None:
    for _ in range(2):
        with pytest.raises(CompileTimeoutError):
            twice(np.ones(33, "f4"))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(classifier(), tmp_path / "m.onnx")
    argv = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tsl"), "--timeout"]
    assert main([*argv, "1e-9"]) == 2
    assert "the compilation takes longer than it may" in capsys.readouterr().err
    assert not (tmp_path / "m.tsl").exists()
    assert main([*argv, "1000"]) == 0


def test_the_earliest_deadline_counts() -> None:
    assert deadline.current() is None
    with deadline.within(LATE):
        end = deadline.current()
        with deadline.within(2 * LATE):
            assert deadline.current() == end
        with deadline.within(0), pytest.raises(CompileTimeoutError, match="before tea"):
            deadline.check("tea")
        deadline.check("tea")


def test_programs_do_not_depend_on_a_deadline() -> None:
    assert repr(make_options(timeout=5)) == repr(make_options())
    assert make_options(timeout=5) == make_options()
