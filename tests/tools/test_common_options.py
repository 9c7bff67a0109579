"""Options that mean the same in all commands that compile."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

import pytest

from tessella.tools.cli import COMMANDS, main

Out = pytest.CaptureFixture[str]
COMPILING = ("run", "check", "explain", "diff", "bisect", "compile", "bench", "report", "tune")


@pytest.mark.parametrize("name", COMPILING)
def test_every_command_that_compiles_takes_them(name: str) -> None:
    parser = argparse.ArgumentParser()
    import_module(f"tessella.tools.commands.{name}").add_arguments(parser)
    flags = set(parser.format_help().split())
    assert flags >= {"--dim", "--places", "--target", "--threads", "--timeout", "--fallback"}
    assert flags >= {"--budget", "--kernels", "--pin", "--max-weight-growth"}


def test_no_other_command_compiles() -> None:
    assert COMMANDS.keys() - COMPILING == {
        *("batch", "quantize", "reduce", "serve", "targets", "cache")
    }


@pytest.mark.parametrize("name", ["run", "bench --repeat 1", "diff --against numpy", "bisect"])
def test_a_size(name: str, models: Path, capsys: Out) -> None:
    command, *more = name.split()
    assert main([command, str(models / "open.onnx"), "--dim", "N=5", *more]) == 0
    assert "float32 [5, 3]" in capsys.readouterr().out or command != "run"


@pytest.mark.parametrize("name", ["explain", "check"])
@pytest.mark.parametrize("dim", ["N=5", "N=2..8"])
def test_sizes_of_a_program_that_does_not_run(
    name: str, dim: str, models: Path, capsys: Out
) -> None:
    assert main([name, str(models / "open.onnx"), "--dim", dim]) == 0
    assert "not checked" not in capsys.readouterr().out


def test_a_range_that_a_run_is_in(models: Path, capsys: Out) -> None:
    """The program serves the range, and the run has the size of the shape."""
    line = ["run", str(models / "open.onnx"), "--dim", "N=2..8", "--shape", "x=7x4", "-v"]
    assert main(line) == 0
    found = capsys.readouterr()
    assert "y: float32 [7, 3]" in found.out
    assert "N" in found.err


def test_a_timeout(models: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    for name in ("run", "explain", "check", "compile"):
        assert main([name, str(models / "model.onnx"), "--timeout", "1e-9"]) == 2, name
        assert "the compilation takes longer than it may" in capsys.readouterr().err, name
