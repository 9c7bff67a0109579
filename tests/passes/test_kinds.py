"""Declarations of passes, and the conditions under which they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.transforms.canonicalize import CanonicalizePass

from tessella.dialects.nn.elementwise import AbsOp, NegOp, ReluOp
from tessella.dialects.place import parse_place
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.infer_shapes import InferShapesPass
from tessella.passes.kinds import (
    DebugPass,
    Kind,
    ProgramPass,
    StatementPass,
    asked_places,
    declared,
    running,
    why_skipped,
)
from tessella.passes.print_op_stats import PrintOpStatsPass
from tessella.passes.tile_schedule import TileSchedulePass
from tessella.support.errors import OptionError
from tessella.support.knobs import KNOBS
from tessella.tools.universe import find_passes


class Program(ProgramPass):
    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


class Bound(Program):
    name = "bound"
    bound_devices = ("x86", "opencl")


class Excluded(Program):
    name = "excluded"
    excluded_devices = ("opencl", "host")


class Needy(Program):
    name = "needy"
    needed_kernels = ("nn.matmul", "nn.conv/conv")


class Placed(Program):
    name = "placed"
    needed_kernels = ("nn.conv/conv at x86/f32/nhwc",)


NEEDS_NHWC = "it needs kernels of nn.conv/conv at x86/f32/nhwc, and none is on x86"


class Nowhere(Program):
    name = "nowhere"
    needed_kernels = ("nn.relu/relu at x86/f4E2M1FN",)


class Hopeless(Program):
    name = "hopeless"
    needed_kernels = ("nn.matmul", "nn.conv/winograd", "nn.none")


PASSES = find_passes()


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_of_ours_declares_its_kind(name: str) -> None:
    step: Any = PASSES[name].load()
    assert issubclass(step, ProgramPass)
    assert step.kind in get_args(Kind)


@pytest.mark.parametrize(
    "step, targets, reason",
    [
        (CanonicalizePass, ["host"], None),
        (Program, ["host"], None),
        (Bound, ["x86"], None),
        (Bound, ["arm", "opencl"], None),
        (Bound, ["arm", "host"], "it is for x86, opencl, and the places are on arm, host"),
        (Excluded, ["x86"], None),
        # as in Paddle Lite, one place that is excluded is enough
        (Excluded, ["opencl", "x86"], "it is not for opencl"),
        (Needy, ["x86"], None),
        (Needy, ["opencl", "arm"], None),
        (Needy, ["host"], "it needs kernels of nn.matmul, nn.conv/conv, and none is on host"),
        (Placed, ["x86"], None),
        (Placed, ["x86/f32/nchw", "x86/f32/nhwc"], None),
        (
            Placed,
            ["x86/f32/nchw"],
            NEEDS_NHWC,
        ),
        (Placed, ["x86/f16", "arm"], f"{NEEDS_NHWC}, arm"),
        (
            Nowhere,
            ["x86"],
            "it needs kernels of nn.relu/relu at x86/f4E2M1FN, and none is on x86",
        ),
        (Hopeless, ["x86"], "it needs kernels of nn.conv/winograd, nn.none, and none is on x86"),
    ],
)
def test_why_a_pass_is_skipped(
    step: type[ModulePass], targets: list[str], reason: str | None
) -> None:
    assert why_skipped(step, list(map(parse_place, targets)), named=False) == reason


def test_debug_passes_run_where_they_are_named() -> None:
    reason = "it is a debug pass, and TESSELLA_DEBUG_PASSES does not name it"
    assert why_skipped(PrintOpStatsPass, [parse_place("x86")], named=False) == reason
    assert why_skipped(PrintOpStatsPass, [parse_place("x86")], named=True) is None


def test_kinds() -> None:
    passes = (CanonicalizePass, Program, TileSchedulePass, InferShapesPass, PrintOpStatsPass)
    kinds = ["program", "program", "kernel", "statement", "debug"]
    assert [declared(step).kind for step in passes] == kinds


@pytest.mark.parametrize(
    "places, asked",
    [
        ("x86/f32/nhwc x86/f32 x86 host", "x86/f32/nhwc x86/f32 x86"),
        ("opencl/f16/image arm/f32 host", "opencl/f16/image arm/f32"),
        ("host", "host"),
        ("host x86/f32", "host x86/f32"),
        ("any/f32 x86 arm", "x86/f32 x86 arm"),
    ],
)
def test_the_host_after_other_places_is_not_asked_for(places: str, asked: str) -> None:
    assert asked_places(places.split(), "x86") == list(map(parse_place, asked.split()))


def test_places_are_checked() -> None:
    with pytest.raises(OptionError):
        asked_places(["nowhere/f32"], "x86")


def test_the_log_says_what_is_skipped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [Bound(), Excluded(), PrintOpStatsPass()]
    assert running(steps, [parse_place("arm")], named=["print-op-stats"]) == steps[1:]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(KNOBS, "log_passes", True)
    assert running(steps, [parse_place("host")], named=[]) == []
    assert capsys.readouterr().err.splitlines() == [
        "bound is skipped: it is for x86, opencl, and the places are on host",
        "excluded is skipped: it is not for host",
        "print-op-stats is skipped: it is a debug pass, and TESSELLA_DEBUG_PASSES does not name it",
    ]


@dataclass(frozen=True)
class ReluToAbsPass(StatementPass):
    """Replaces ops while it walks."""

    name = "relu-to-abs"

    def rewrite(self, ctx: Context, op: Operation) -> None:
        if isinstance(op, ReluOp):
            Rewriter.replace_op(op, AbsOp.make([op.x]))


@dataclass(frozen=True)
class VandalPass(DebugPass):
    """Changes what it should only look at."""

    name = "vandal"

    def inspect(self, ctx: Context, module: ModuleOp) -> None:
        ReluToAbsPass().apply(ctx, module)
        assert not any(isinstance(op, ReluOp) for op in module.walk())


TEXT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : tensor<4xf32>
  %1 = nn.fused(%y = %0) {
    %3 = nn.relu %y : tensor<4xf32>
    %4 = nn.neg %3 : tensor<4xf32>
    nn.yield %4 : tensor<4xf32>
  } : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
"""


def parse(text: str) -> ModuleOp:
    return Parser(stage_context(), text).parse_module()


def test_a_statement_pass_sees_every_op() -> None:
    module = parse(TEXT)
    ReluToAbsPass().apply(Context(), module)
    module.verify()
    kinds = [type(op) for op in module.walk() if isinstance(op, AbsOp | NegOp | ReluOp)]
    assert kinds == [AbsOp, AbsOp, NegOp]


def test_a_debug_pass_changes_nothing() -> None:
    module = parse(TEXT)
    before = str(module)
    VandalPass().apply(Context(), module)
    assert str(module) == before
