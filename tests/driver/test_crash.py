"""The files that a crashing pass leaves behind."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import tessella
from tessella.dialects.verify import Verifier
from tessella.driver.build.pipeline import pipeline
from tessella.driver.debug import reproducer
from tessella.driver.options import Options, make_options
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.support.errors import InternalError, OptionError, PluginError
from tessella.support.knobs import KNOBS
from tessella.support.plugins import PASSES
from tessella.tools import cli, opt
from tests.plugins import Installer, forget

PLUGIN = """
    from tessella.passes.kinds import ProgramPass

    class Mine(ProgramPass):
        name = "mine"
        runs_after = "fold-batch-norm"

        def apply(self, ctx, op):
            raise ValueError("no sum today")
    """


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(KNOBS, "crash_dir", str(tmp_path / "crashes"))
    monkeypatch.setattr(reproducer, "_folders", {})
    return tmp_path / "crashes"


def crash(step: Any, *args: Any) -> None:
    raise ValueError("a wrong number")


def double(w: Any) -> Any:
    return tessella.jit(lambda x: (x * 1) @ w)(np.ones((2, 3), np.float32))


def written(folder: Path) -> Path:
    [path] = folder.iterdir()
    return path


def test_the_program_before_the_pass_and_the_command_repeat_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(PickKernelsPass, "apply", crash)
    with pytest.raises(InternalError) as caught:
        double(np.ones((3, 4), np.float32))
    path = written(folder)
    assert path.name.startswith("tessella-crash-pick-kernels-")
    assert "the pass 'pick-kernels' crashed: ValueError: a wrong number" in str(caught.value)
    assert f"report it, with the files in {path}" in str(caught.value)
    text = (path / "before.mlir").read_text()
    assert "nn.matmul" in text
    assert "nn.mul " not in text  # passes ran before
    command, version, _ = text.split("\n", 2)
    assert command.startswith("// tessella-opt before.mlir -p 'pick-kernels{places=")
    assert version.startswith("// tessella 0.1.0, xdsl ")
    assert "in crash\n" in (path / "traceback.txt").read_text()
    command, _, _ = str(caught.value.hint).partition(" repeats it")
    tool, *arguments = shlex.split(command)
    assert tool == "tessella-opt"
    with pytest.raises(ValueError, match="a wrong number"):
        opt.main(arguments)
    monkeypatch.undo()
    assert opt.main(arguments) == 0
    assert "kernel" in capsys.readouterr().out


def test_options_of_passes_are_in_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = make_options(
        places=["x86/f32/nhwc", "host"], target="avx2", options=Options(pick="grade")
    )
    picks = [step for _, steps in pipeline(options) for step in steps if step.name[:4] == "pick"]
    command = reproducer.command(picks[0], folder)
    assert opt.OptMain(shlex.split(command)[1:]).pipeline.passes == tuple(picks)


def test_a_crash_is_written_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EliminateIdentitiesPass, "apply", crash)
    for size in (1, 2):
        with pytest.raises(InternalError, match="report it"):
            double(np.ones((3, size), np.float32))
    assert written(folder)


def test_no_folder_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PickKernelsPass, "apply", crash)
    monkeypatch.setattr(KNOBS, "crash_dir", "off")
    with pytest.raises(InternalError, match=r"crashed: ValueError: a wrong number$"):
        double(np.ones((3, 4), np.float32))
    monkeypatch.setattr(KNOBS, "crash_dir", "/dev/null/folder")
    with pytest.raises(InternalError, match=r"crashed: ValueError: a wrong number$"):
        double(np.ones((3, 4), np.float32))
    assert not folder.exists()


def test_errors_on_purpose_are_no_crash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(step: Any, ctx: Context, op: ModuleOp) -> None:
        raise OptionError("not with me")

    monkeypatch.setattr(PickKernelsPass, "apply", refuse)
    with pytest.raises(OptionError, match=r"^not with me$"):
        double(np.ones((3, 4), np.float32))
    assert not folder.exists()


def test_a_program_that_does_not_verify(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(verifier: Verifier, module: ModuleOp) -> None:
        raise VerifyException("something is missing")

    monkeypatch.setattr(KNOBS, "verify", True)
    monkeypatch.setattr(Verifier, "verify", refuse)
    with pytest.raises(InternalError) as caught:
        double(np.ones((3, 4), np.float32))
    message = str(caught.value)
    assert "the pass 'infer-shapes' crashed: after infer-shapes, the program does not" in message
    assert "something is missing" in message
    assert (written(folder) / "before.mlir").exists()


def test_a_plugin_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Installer(tmp_path, monkeypatch)("breaker", PLUGIN, {PASSES: {"mine": "breaker:Mine"}})
    try:
        with pytest.raises(PluginError) as caught:
            double(np.ones((3, 4), np.float32))
    finally:
        monkeypatch.undo()
        forget()
    message = str(caught.value)
    assert "the plugin 'mine' of the package 'breaker' is broken" in message
    assert "the pass 'mine' raised ValueError: no sum today" in message
    assert "before.mlir -p mine repeats it" in message


def test_the_command_line_tells(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "a.nn").write_text("func.func @main() -> () { func.return }")
    monkeypatch.setattr(PickKernelsPass, "apply", crash)
    assert cli.main(["run", str(tmp_path / "a.nn")]) == 2
    assert str(written(folder)) in capsys.readouterr().err
