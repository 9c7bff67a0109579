"""`tessella bisect`: faults that are put into passes on purpose, and found."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tessella.codegen import emit
from tessella.dialects.graph import weights_of
from tessella.driver.tune import single_kernels
from tessella.lowering.pack_operands import PackOperandsPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.tools import opt
from tessella.tools.cli import main
from tessella.tools.commands import bisect as command

Out = pytest.CaptureFixture[str]


@pytest.fixture
def model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder."""
    shutil.copy(models / "model.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    return "model.onnx"


def test_nothing_is_wrong(model: str, capsys: Out) -> None:
    assert main(["bisect", model]) == 0
    assert "passes to the stage 'tile' changes a result beyond rounding, nor does native code" in (
        capsys.readouterr().out
    )
    assert main(["bisect", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"pass": None, "native": None}


def test_rounding_is_no_fault(model: str, capsys: Out) -> None:
    assert main(["bisect", model, "--tolerance", "1e-12"]) == 1
    assert "rtol 1e-12" in capsys.readouterr().out


@pytest.mark.usefixtures("breaker")
def test_a_pass_of_a_plugin(model: str, capsys: Out) -> None:
    assert main(["bisect", model, "-o", "culprit"]) == 1
    output = capsys.readouterr().out
    assert re.search(
        "the pass 'break-it', number [0-9]+ of [0-9]+, on the way to the stage", output
    )
    assert "it is from the package 'breaker': breaker:BreakIt" in output
    assert "y: 10 of 10 elements differ" in output
    assert "  -    %r = nn.relu %c" in output
    assert opt.main(["culprit/before.mlir", "-p", "break-it"]) == 0
    assert capsys.readouterr().out == Path("culprit/after.mlir").read_text()


def test_a_pass_that_changes_a_weight(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """The text of the program stays as it is."""

    def scale(step: FoldConstantsPass, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        weights._arrays["b"] = weights["b"] * 2

    monkeypatch.setattr(FoldConstantsPass, "apply", scale)
    assert main(["bisect", model]) == 1
    output = capsys.readouterr().out
    assert "the pass 'fold-constants'" in output
    assert "what it changed:\n  the values of the weight @b" in output


@pytest.mark.usefixtures("breaker")
def test_json(model: str, capsys: Out) -> None:
    assert main(["bisect", model, "--json", "--places", "host"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["pass"], found["package"], found["stage"]) == ("break-it", "breaker", "placed")
    assert any("nn.relu" in line for line in found["changed"])
    assert found["difference"].startswith("y: ")


@pytest.mark.usefixtures("breaker")
def test_a_tolerance_that_lets_it_pass(model: str) -> None:
    assert main(["bisect", model, "--tolerance", "5"]) == 0


def test_a_pass_at_the_tile_stage(model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    run = PackOperandsPass.apply

    def spoil(step: PackOperandsPass, ctx: Context, op: ModuleOp) -> None:
        run(step, ctx, op)
        weights = weights_of(ctx)
        for symbol in list(weights):
            array = weights[symbol]
            weights.drop(symbol)
            assert weights.add(symbol, array * 2) == symbol

    monkeypatch.setattr(PackOperandsPass, "apply", spoil)
    assert main(["bisect", model]) == 1
    assert "the pass 'pack-operands', number" in capsys.readouterr().out


def test_the_second_run_of_a_pass(model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    run, times = FoldConstantsPass.apply, iter(range(9))

    def spoil(step: FoldConstantsPass, ctx: Context, op: ModuleOp) -> None:
        run(step, ctx, op)
        if next(times):
            weights = weights_of(ctx)
            array = weights["b"]
            weights.drop("b")
            weights.add("b", array + 1)

    monkeypatch.setattr(FoldConstantsPass, "apply", spoil)
    assert main(["bisect", model, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["pass"] == "fold-constants"
    assert found["number"] > 2  # the first run is the second pass


def test_a_program_that_cannot_be_run(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    run = FuseElementwisePass.apply

    def spoil(step: FuseElementwisePass, ctx: Context, op: ModuleOp) -> None:
        run(step, ctx, op)
        for symbol in list(weights_of(ctx)):
            weights_of(ctx).drop(symbol)

    monkeypatch.setattr(FuseElementwisePass, "apply", spoil)
    main(["bisect", model])
    assert "is not in the store" in "".join(capsys.readouterr())


def test_native_code(model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    """The kernels before the one that is wrong are right."""
    handlers = emit.KERNEL_HANDLERS
    monkeypatch.setitem(handlers, "math.exp", handlers["math.absf"])
    assert main(["bisect", model]) == 1
    output = capsys.readouterr().out
    assert "changes a result beyond rounding, but native code does\n  y: " in output
    assert "the first kernel that is wrong by itself is @softmax" in output
    assert "which computes the nodes soft\nmax" in output
    assert main(["bisect", model, "--json", "--places", "x86/f32/nhwc,host"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["kernel"]["name"].startswith("softmax")
    assert found["native"].startswith("y: ")


def test_native_code_of_which_each_kernel_is_right(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """The defect is in the program as a whole, and each kernel alone is right."""
    wrong = single_kernels.wrong_kernel

    def spoiled(*args: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setitem(emit.KERNEL_HANDLERS, "math.exp", exp)
            return wrong(*args)

    exp = emit.KERNEL_HANDLERS["math.exp"]
    monkeypatch.setitem(emit.KERNEL_HANDLERS, "math.exp", emit.KERNEL_HANDLERS["math.absf"])
    monkeypatch.setattr(command, "wrong_kernel", spoiled)
    assert main(["bisect", model]) == 1
    assert "each kernel alone is right: the fault is in the segments" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["model.onnx", "--input", "q=zeros"], "the model has no 'q'"),
        (["nobody.onnx"], "nobody.onnx"),
        (["model.onnx", "--target", "nothing"], "unknown target 'nothing'"),
        (["model.onnx", "--tolerance", "-1"], "expected a number from 0 on, found '-1'"),
        (["model.onnx", "--tolerance", "nan"], "expected a number from 0 on, found 'nan'"),
        (["model.onnx", "--lines", "-1"], "expected a whole number from 0 on, found '-1'"),
        (["model.onnx", "--seed", "-1"], "expected a whole number from 0 on, found '-1'"),
    ],
)
def test_refusals(arguments: list[str], message: str, model: str, capsys: Out) -> None:
    assert main(["bisect", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_stages(model: str, capsys: Out) -> None:
    main(["compile", model, "--to", "placed"])
    assert main(["bisect", "model.placed"]) == 0
    assert "changes a result beyond rounding, nor does native" in capsys.readouterr().out
    main(["compile", model, "--to", "loops"])
    assert main(["bisect", "model.loops"]) == 2
    assert "past the stage 'tile'" in capsys.readouterr().err


def test_help_has_examples(capsys: Out) -> None:
    assert main(["bisect", "--help"]) == 0
    assert "  tessella bisect model.onnx -o culprit" in capsys.readouterr().out
