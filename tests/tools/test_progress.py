"""Progress on a terminal."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest

from tessella.driver.build.compiling import quiet
from tessella.tools import progress
from tessella.tools.cli import main


class Terminal(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The standard error output becomes one, and nothing is waited for. Not in a fixture: pytest
    sets the output anew before the test."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda name: None)


def test_lines_where_rich_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    without_rich(monkeypatch)
    with progress.shown() as tell:
        tell("pick-kernels")
        tell("code 1/2: conv")
    assert terminal.getvalue() == "compiling: pick-kernels\ncompiling: code 1/2: conv\n"


def test_a_bar_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = a_terminal(monkeypatch)
    with progress.shown() as tell:
        tell("pick-kernels [not markup]")
        tell("code 1/2: conv")
    assert "compiling: code 1/2: conv" in terminal.getvalue()


@pytest.mark.parametrize("rich", [True, False])
def test_what_is_quick_shows_nothing(rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    if not rich:
        without_rich(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 60.0)
    with progress.shown() as tell:
        tell("pick-kernels")
    assert terminal.getvalue() == ""


def test_nothing_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.shown() as tell:
        assert tell is quiet


@pytest.mark.parametrize("command", [["run"], ["compile", "--to", "loops"]])
def test_commands(
    command: list[str],
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = a_terminal(monkeypatch)
    without_rich(monkeypatch)
    shutil.copy(models / "model.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([command[0], "model.onnx", *command[1:]]) == 0
    assert "compiling: pick-kernels\n" in terminal.getvalue()
    terminal.truncate(0)
    assert main([command[0], "model.onnx", *command[1:], "-v"]) == 0
    assert "compiling: " not in terminal.getvalue()


def test_an_error_stops_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = a_terminal(monkeypatch)

    def fail() -> None:
        with progress.shown() as tell:
            tell("pick-kernels")
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fail()
    assert terminal.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is gone
