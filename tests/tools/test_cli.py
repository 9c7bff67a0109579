"""`tessella`, called in this process: what the commands print, write and return."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tessella
from tessella import targets
from tessella.driver.stages.stages import IR_STAGES, STAGES
from tessella.support.errors import TessellaError
from tessella.support.knobs import KNOBS
from tessella.targets import database
from tessella.tools import cli, opt
from tessella.tools.cli import COMMANDS, main
from tests.generators.artifact_damage import unpacked

Out = pytest.CaptureFixture[str]


# ** artifacts, and what they do not take **


def test_an_artifact_is_compiled_already(model: str, capsys: Out) -> None:
    assert main(["compile", model, "-o", "m.tsl"]) == 0
    given = [
        *(["--target", "sse"], ["--places", "host"], ["--pick", "grade"], ["--fallback", "error"]),
        *(["--kernels=-winograd"], ["--max-weight-growth", "1"], ["--database", "x"]),
    ]
    for options in (*given, ["--interpret", "nn"], ["--time-passes"]):
        assert main(["run", "m.tsl", *options]) == 2, options
        error = capsys.readouterr().err
        assert "an artifact is compiled already" in error
        assert f"found: {options[0].partition('=')[0]}" in error
    for command in ("explain", "bench"):
        for options in given:
            assert main([command, "m.tsl", *options]) == 2, (command, options)
    assert main(["run", "m.tsl", "--threads", "1"]) == 0


@pytest.mark.parametrize(
    "options", [["-o", "out.foo"], ["-o", "out"], ["-o", "out.nn", "--to", "tile"]]
)
def test_an_extension_that_does_not_say_what_to_write(
    options: list[str], model: str, capsys: Out
) -> None:
    assert main(["compile", model, *options]) == 2
    assert "extension" in capsys.readouterr().err
    assert not Path(options[1]).exists()


def test_the_extension_names_the_stage(model: str) -> None:
    assert main(["compile", model, "-o", "out.placed"]) == 0
    assert main(["run", "out.placed"]) == 0
    assert main(["compile", model, "-o", "out.s", "--to", "asm"]) == 0
    assert ".text" in Path("out.s").read_text()


@pytest.mark.parametrize("text", ["n=\u00b2", "n=1..\u0663", "n=1_0", "n= 1"])
def test_bounds_that_are_no_numbers(text: str, model: str, capsys: Out) -> None:
    assert main(["compile", model, "-o", "m.tsl", "--dim", text]) == 2
    assert "cannot read --dim" in capsys.readouterr().err


# ** the tool itself **


def test_help_lists_the_commands(capsys: Out) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"    {name} " in output for name in COMMANDS)
    for name in COMMANDS:
        assert main([name, "--help"]) == 0


def test_version_names_what_it_stands_on(capsys: Out) -> None:
    assert main(["--version"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"tessella {tessella.__version__}, xdsl 0.")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nothing"],
        ["run"],
        ["run", "m", "--no-such-option"],
        ["run", "m", "--threads", "2", "--threads", "3"],
    ],
)
def test_a_wrong_command_line_is_2(argv: list[str], capsys: Out) -> None:
    assert main(argv) == 2
    assert "usage: tessella" in capsys.readouterr().err


def test_an_error_says_what_where_and_what_to_do(capsys: Out) -> None:
    assert main(["run", "nobody.onnx"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "error: cannot read the model: No such file or directory\n  where: nobody.onnx\n"
    )
    assert not captured.out


def test_the_traceback_is_shown_on_demand(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOBS, "full_traceback", True)
    assert main(["run", "nobody.onnx"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_bug_is_called_one(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(targets, "native", broken)
    assert main(["targets"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: tessella has a bug: KeyError: 'x'\n")
    assert "TESSELLA_FULL_TRACEBACK=1" in error


def test_memory_that_runs_out_is_no_bug(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(targets, "native", full)
    assert main(["targets"]) == 2
    assert capsys.readouterr().err == "error: there is not enough memory\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", stop)
    assert main([]) == 130


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "tessella", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"tessella {tessella.__version__}")


# ** explain **


def test_explain(model: str, capsys: Out) -> None:
    assert main(["explain", model]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:6] == ["op", "node", "runs", "kernel", "place", "storage"]
    assert any(row.startswith("nn.conv") for row in rows)
    assert "kernels picked by cost, exact" in rows[-1]
    assert main(["explain", model, "--json", "--places", "host"]) == 0
    ops = json.loads(capsys.readouterr().out)["ops"]
    assert {op["kernel"] for op in ops} == {"host"}


def test_explain_another_machine(model: str, capsys: Out) -> None:
    assert main(["explain", model, "--target", "aarch64"]) == 0
    assert "arm/f32" in capsys.readouterr().out


def test_compile_to_an_artifact(model: str, capsys: Out) -> None:
    """The artifact has code for this machine and another one. It runs, and is complete until it is
    damaged."""
    assert main(["run", model, "--output", "y=@y.npy"]) == 0
    assert main(["compile", model, "-o", "m.tsl", "--target", "native,sse,neon"]) == 0
    assert capsys.readouterr().out.endswith("wrote m.tsl\n")
    assert main(["run", "m.tsl", "--expected", "y=@y.npy"]) == 0
    assert main(["check", "m.tsl"]) == 0
    data = bytearray(Path("m.tsl").read_bytes())
    manifest, blobs = unpacked(bytes(data))
    _, _, offset = manifest["weights"][0]
    data[len(data) - len(blobs) + offset] ^= 255
    Path("m.tsl").write_bytes(data)
    assert main(["check", "m.tsl"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_compile_for_c(model: str, capsys: Out) -> None:
    assert main(["compile", model, "--emit", "c", "-o", "net.o", "--target", "neon"]) == 0
    assert capsys.readouterr().out.endswith("wrote net.o and net.h\n")
    assert "int net_run(const float *x, float *y, void *workspace)" in Path("net.h").read_text()
    assert Path("net.o").read_bytes()[:4] == b"\x7fELF"


def test_weights_for_c_in_a_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", model, "--emit", "c", "-o", "net.o", "--weights", "file"]) == 0
    assert capsys.readouterr().out == "wrote net.o and net.h and net.weights\n"
    size = Path("net.weights").stat().st_size
    assert f"#define NET_WEIGHTS_BYTES {size}\n" in Path("net.h").read_text(encoding="utf-8")


def test_an_artifact_for_several_shapes(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(models / "open.onnx")
    assert main(["compile", path, "-o", "m.tsl"]) == 2
    assert "--shape" in capsys.readouterr().err
    assert main(["compile", path, "-o", "m.tsl", "--shape", "x=2x4", "--shape", "x=3x4"]) == 0
    for rows in (2, 3):
        assert main(["run", "m.tsl", "--shape", f"x={rows}x4"]) == 0
    assert main(["run", "m.tsl", "--shape", "x=5x4"]) == 2
    assert "x [2, 4] or x [3, 4]" in capsys.readouterr().err


@pytest.mark.parametrize("stage", IR_STAGES)
def test_explain_a_stage(model: str, stage: str, capsys: Out) -> None:
    main(["compile", model, "--to", stage])
    capsys.readouterr()
    assert main(["explain", f"model.{stage}", "--json"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    assert "conv" in {op["node"] for op in explanation["ops"]}
    assert ("note" in explanation) == (stage in ("tile", "loops"))


def test_explain_wants_shapes(models: Path) -> None:
    path = str(models / "open.onnx")
    assert main(["explain", path]) == 2
    assert main(["explain", path, "--shape", "x=2x4"]) == 0


# ** compile **


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("target", ["native", "avx2", "aarch64"])
def test_compile_to_standard_output(model: str, stage: str, target: str, capsys: Out) -> None:
    assert main(["compile", model, "--to", stage, "--target", target, "-o", "-"]) == 0
    output = capsys.readouterr().out
    start = {"llvm": "target datalayout", "asm": "# "}.get(stage, "builtin.module {")
    assert re.sub(r"^(#\w+ = .*\n)*", "", output).startswith(start)
    if target == "aarch64" and stage == "asm":
        assert "fmla" in output
    assert sorted(path.name for path in Path().iterdir()) == [model]


def test_compile_takes_the_name_from_model_and_stage(model: str, capsys: Out) -> None:
    assert main(["compile", model]) == 0
    assert capsys.readouterr().out == "wrote model.tile and model.weights\n"
    assert main(["compile", "model.tile", "--to", "asm"]) == 0
    assert capsys.readouterr().out == "wrote model.asm\n"
    assert sorted(path.name for path in Path().iterdir()) == [
        *("model.asm", model, "model.tile", "model.weights"),
    ]


@pytest.mark.parametrize("stage", IR_STAGES)
def test_what_compile_wrote_runs(model: str, stage: str) -> None:
    main(["run", model, "--output", "y=@y.npy"])
    assert main(["compile", model, "--to", stage, "-o", f"q.{stage}"]) == 0
    exactly = ["--tolerance", "0"]
    assert main(["run", f"q.{stage}", "--expected", "y=@y.npy", *exactly]) == 0


def test_compile_from_stage_to_stage(model: str, capsys: Out) -> None:
    for before, stage in zip(("onnx", *IR_STAGES), IR_STAGES, strict=False):
        assert main(["compile", f"model.{before}", "--to", stage]) == 0
        direct = ["compile", model, "--to", stage, "-o", "-"]
        capsys.readouterr()
        assert main(direct) == 0
        assert capsys.readouterr().out == Path(f"model.{stage}").read_text()


@pytest.mark.parametrize("places", ["x86/f32/nhwc,x86/f32,host", "host"])
def test_passes_that_compile_prints_lead_to_its_stage(model: str, places: str, capsys: Out) -> None:
    """Also where a program has no kernel, so that most passes find nothing."""
    options = ["--places", places, "--target", "avx2", "--database", 'no "such" \\ file']
    database.write(options[-1], database.Database())
    main(["compile", model, "--to", "nn"])
    capsys.readouterr()
    assert main(["compile", model, "--to", "loops", *options, "--print-pipeline"]) == 0
    passes = capsys.readouterr().out.strip()
    assert main(["compile", model, "--to", "loops", *options, "-o", "-"]) == 0
    compiled = capsys.readouterr().out
    assert opt.main(["model.nn", "-p", passes]) == 0
    assert capsys.readouterr().out.split() == compiled.split()  # whose lines are wrapped
    assert main(["compile", "model.nn", "--to", "nn", "--print-pipeline"]) == 0
    assert capsys.readouterr().out == "\n"


def test_compile_prints_the_ir_around_passes(model: str, capsys: Out) -> None:
    around = ["--print-ir-before=pick-kernels", "--print-ir-after=pick-kernels,tile-schedule"]
    assert main(["compile", model, *around]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[4:6] for line in lines if "IR Dump" in line] == [
        ["Before", "PickKernelsPass"],
        ["After", "PickKernelsPass"],
        *2 * [["After", "TileSchedulePass"]],
    ]
    assert main(["compile", model, "--to", "placed", "--print-ir-after", "tile-schedule"]) == 2
    assert "--print-ir-after: no pass 'tile-schedule' runs" in capsys.readouterr().err


def test_compile_refuses(model: str, capsys: Out) -> None:
    main(["compile", model, "--to", "tile"])
    capsys.readouterr()
    assert main(["compile", "model.tile", "--to", "nn"]) == 2
    assert "past the stage 'nn'" in capsys.readouterr().err
    assert main(["compile", "model.tile", "--to", "nn", "--print-pipeline"]) == 2
    assert "past the stage 'nn'" in capsys.readouterr().err
    assert main(["compile", "model.tile", "--to", "tile"]) == 2
    assert "overwrite the model" in capsys.readouterr().err
    assert main(["compile", model, "-o", "no folder/x.tile"]) == 2
    assert main(["compile", model, "--to", "llvm", "-o", "no folder/x.llvm"]) == 2
    assert main(["compile", model, "--to", "nothing"]) == 2


# ** targets **


def test_targets(capsys: Out) -> None:
    assert main(["targets"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"native: {targets.native().name} ")
    assert "neon" in output
    assert main(["targets", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["native"]["name"] in table["targets"]


def test_main_returns_errors_it_does_not_raise_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise TessellaError("no")

    monkeypatch.setattr(cli, "_run", fail)
    assert main([]) == 2
