"""Dialects and passes of plugins, in the pipeline and in `tessella-opt`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.driver.build import plugged
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.support.errors import OptionError, PluginError, TessellaError
from tessella.support.knobs import KNOBS
from tessella.support.plugins import DIALECTS, PASSES
from tessella.tools.opt import main
from tests.plugins import Installer, forget

Out = pytest.CaptureFixture[str]

SOURCE = """
from dataclasses import dataclass
from typing import ClassVar
from xdsl.ir import Dialect
from tessella.passes.kinds import ProgramPass

@dataclass(frozen=True)
class Mine(ProgramPass):
    '''Do nothing.'''

    name = "mine"
    {body}

    def apply(self, ctx, op):
        pass

dialect = Dialect("mine", [], [])
other = Dialect("other", [], [])
"""


PATTERNS = """
from dataclasses import dataclass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker, RewritePattern
from tessella.dialects import nn
from tessella.dialects.graph import weights_of
from tessella.passes.kinds import ProgramPass
from tessella.passes.patterns.nodes import AnyValue, op
from tessella.passes.patterns.pattern import Pattern, becomes

SHIFTED = Pattern("shifted", op(nn.AddOp, AnyValue("x"), 2.0), becomes(nn.NegOp, "x"))

class NoAbs(RewritePattern):
    def match_and_rewrite(self, op, rewriter, /):
        if isinstance(op, nn.AbsOp):
            rewriter.replace(op, [], [op.x])

@dataclass(frozen=True)
class Mine(ProgramPass):
    name = "mine"
    runs_before = "fuse-patterns"

    def apply(self, ctx, op):
        both = GreedyRewritePatternApplier([NoAbs(), SHIFTED.reading(weights_of(ctx))])
        PatternRewriteWalker(both).rewrite_module(op)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Installer]:
    yield Installer(tmp_path, monkeypatch)
    forget()


def install_pass(install: Installer, *body: str, value: str = "my_plugin:Mine") -> None:
    source = SOURCE.format(body="\n    ".join(body))
    install("my_plugin", source, {PASSES: {"mine": value}})


def names(places: Sequence[str] = ("x86/f32", "host")) -> list[str]:
    """The passes of the pipeline, with a bar between stages."""
    options = make_options(places=places, target="avx2")
    return " | ".join(" ".join(p.name for p in steps) for _, steps in pipeline(options)).split()


@pytest.mark.parametrize(
    "body, before, after",
    [
        (["runs_before = 'pick-kernels'"], "eliminate-identities", "pick-kernels"),
        (["runs_after = 'pick-kernels'"], "pick-kernels", "insert-conversions"),
        # the first and the last of several
        (["runs_before = 'fold-constants'"], "packed-products", "fold-constants"),
        (["runs_after = 'tile-schedule'"], "tile-schedule", "tile-parallelize"),
        (["runs_after = 'plan-weights'"], "plan-weights", ""),
        (
            ["runs_after = 'infer-shapes'", "runs_before = 'plan-arena'"],
            "insert-barriers",
            "plan-arena",
        ),
    ],
)
def test_a_pass_goes_where_it_says(
    body: list[str], before: str, after: str, install: Installer
) -> None:
    without = names()
    install_pass(install, *body)
    found = names()
    assert [name for name in found if name != "mine"] == without
    at = found.index("mine")
    assert found[at - 1].endswith(before)
    assert (found[at + 1] if at + 1 < len(found) else "") == after


@pytest.mark.parametrize(
    "body, places, runs",
    [
        ("bound_devices = ('arm',)", "x86/f32", False),
        ("bound_devices = ('arm', 'x86')", "x86/f32", True),
        ("excluded_devices = ('x86',)", "x86/f32", False),
        ("excluded_devices = ('x86',)", "host", True),
        ("needed_kernels = ('nn.conv',)", "x86/f32", True),
        ("needed_kernels = ('nn.conv',)", "host", False),
        ("kind = 'debug'", "x86/f32", False),
    ],
)
def test_a_pass_runs_where_what_it_declares_fits(
    body: str, places: str, runs: bool, install: Installer
) -> None:
    install_pass(install, "runs_before = 'pick-kernels'", body)
    assert ("mine" in names([places])) == runs


def test_a_pass_may_consist_of_patterns(install: Installer) -> None:
    install("my_plugin", PATTERNS, {PASSES: {"mine": "my_plugin:Mine"}})

    @tessella.jit
    def f(x: Any) -> Any:
        return np.abs(x) + 2

    x = np.array([-1, 0, 3], np.float32)
    np.testing.assert_array_equal(f(x), -x)


def test_a_pass_without_a_spot_is_for_tessella_opt_alone(install: Installer) -> None:
    install_pass(install)
    assert "mine" not in names()
    assert plugged.passes(())["mine"]().name == "mine"


@pytest.mark.parametrize(
    "body, value, message",
    [
        (["runs_before = 'pick-kernel'"], "my_plugin:Mine", "did you mean 'pick-kernels'?"),
        (["runs_after = 'elsewhere'"], "my_plugin:Mine", "no pass 'elsewhere'"),
        (
            ["runs_before = 'infer-shapes'", "runs_after = 'plan-arena'"],
            "my_plugin:Mine",
            "no position is before 'infer-shapes' and after 'plan-arena'",
        ),
        (["bound_devices = ('x87',)"], "my_plugin:Mine", "found: x87"),
        (["runs_after = 'plan-arena'", "size: int"], "my_plugin:Mine", "without defaults"),
        ([], "my_plugin:dialect", "no such pass"),
        ([], "my_plugin", "no such pass"),
        (["name = 'yours'"], "my_plugin:Mine", "no such pass"),
    ],
)
def test_a_pass_that_does_not_fit_is_an_error(
    body: list[str], value: str, message: str, install: Installer
) -> None:
    install_pass(install, *body, value=value)
    with pytest.raises(PluginError) as caught:
        names()
    assert "the plugin 'mine' of the package 'my_plugin' is broken" in str(caught.value)
    assert message in str(caught.value)


def test_a_name_is_taken_once(install: Installer) -> None:
    install("my_plugin", SOURCE.format(body=""), {PASSES: {"plan-arena": "my_plugin:Mine"}})
    with pytest.raises(PluginError, match="'plan-arena' is there already, in tessella"):
        names()
    for package in ("twin_1", "twin_2"):
        install(package, SOURCE.format(body=""), {PASSES: {"mine": f"{package}:Mine"}})
    with pytest.raises(PluginError, match="'mine' is there already, in 'twin_1'"):
        plugged.passes(())


@pytest.mark.parametrize("value", ["my_plugin:other", "my_plugin:Mine"])
def test_a_dialect_has_the_name_of_its_entry_point(value: str, install: Installer) -> None:
    install("my_plugin", SOURCE.format(body=""), {DIALECTS: {"mine": value}})
    with pytest.raises(PluginError, match="no such dialect"):
        plugged.dialects(())["mine"]()


def test_debug_passes_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    assert "print-op-stats" not in names()
    monkeypatch.setattr(KNOBS, "debug_passes", ("print-op-stats",))
    assert "print-op-stats" in names()
    double = tessella.jit(lambda x: x + x)
    np.testing.assert_array_equal(double(np.ones(4, np.float32)), np.full(4, 2, np.float32))
    assert "  nn.add       1\n" in capsys.readouterr().err
    monkeypatch.setattr(KNOBS, "debug_passes", ("plan-arena",))
    with pytest.raises(OptionError, match="no debug pass 'plan-arena'"):
        names()


# ** tessella-opt **


def test_the_tool_lists_what_a_pass_declares(install: Installer, capsys: Out) -> None:
    body = [
        "kind = 'debug'",
        "bound_devices = ('x86', 'arm')",
        "excluded_devices = ('opencl',)",
        "needed_kernels = ('nn.conv/conv',)",
        "runs_after = 'pick-kernels'",
        "depth: int = 3",
    ]
    install_pass(install, *body)
    assert main(["--list-passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(
        "mine [debug; at any stage; for x86, arm; not for opencl; needs nn.conv/conv; "
        "after pick-kernels]: Do nothing."
    )
    assert lines[at + 1] == "    depth: int = 3"


def test_the_tool_lists_a_broken_plugin_as_such(install: Installer, capsys: Out) -> None:
    install("my_plugin", "raise RuntimeError('x')", {PASSES: {"mine": "my_plugin:Mine"}})
    assert main(["--list-passes"]) == 0
    assert "mine: not available here (the plugin 'mine' of the package" in capsys.readouterr().out
    assert main(["-p", "mine"]) == 1
    assert "RuntimeError: x" in capsys.readouterr().err


def test_the_tool_skips_passes_for_places(
    install: Installer, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KNOBS, "log_passes", True)
    install_pass(install, "excluded_devices = ('opencl',)")
    file = tmp_path / "x.mlir"
    file.write_text("")
    assert main([str(file), "-p", "mine", "--places", "x86/f32,host"]) == 0
    assert capsys.readouterr().err == ""
    assert main([str(file), "-p", "mine", "--places", "opencl/f16,host"]) == 0
    assert capsys.readouterr().err == "mine is skipped: it is not for opencl\n"
    assert main([str(file), "-p", "mine", "--places", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_compiling_says_which_plugin_is_broken(install: Installer) -> None:
    install_pass(install, "runs_after = 'nothing'")
    with pytest.raises(TessellaError, match="package 'my_plugin' is broken"):
        tessella.jit(lambda x: x + x)(np.ones(4, np.float32))


RAISING = """
from dataclasses import dataclass
from tessella.dialects import nn
from tessella.passes.kinds import ProgramPass
from tessella.support.errors import OptionError
from xdsl.dialects.builtin import TensorType, i32
from xdsl.rewriter import Rewriter

def retype(module, type):
    for op in module.walk():
        if isinstance(op, nn.NnOp):
            Rewriter.replace_value_with_new_type(op.results[0], type)

@dataclass(frozen=True)
class Mine(ProgramPass):
    '''Fail.'''

    name = "mine"
    runs_before = "pick-kernels"

    def apply(self, ctx, op):
        {body}
"""


@pytest.mark.parametrize(
    "body, told",
    [
        ("raise ValueError('so it is')", "the pass 'mine' raised ValueError: so it is"),
        ("[][0]", "the pass 'mine' raised IndexError"),
        ("retype(op, TensorType(i32, [7]))", "the pass 'mine' raised VerifyException: nn.add"),
    ],
)
def test_a_pass_that_fails_is_named(
    body: str, told: str, install: Installer, tmp_path: Path, capsys: Out
) -> None:
    install("my_plugin", RAISING.format(body=body), {PASSES: {"mine": "my_plugin:Mine"}})
    with pytest.raises(PluginError) as caught:
        tessella.ops.add.lower(np.ones(3), 1.0).as_text("placed")
    message = str(caught.value)
    for part in (told, "'my_plugin'", "TESSELLA_PLUGINS=0"):
        assert part in message
    file = tmp_path / "x.mlir"
    file.write_text("builtin.module {}")
    if "raise" in body:
        assert main([str(file), "-p", "mine"]) == 1
        assert "'my_plugin'" in capsys.readouterr().err


def test_what_a_pass_refuses_on_purpose_is_its_own_error(install: Installer) -> None:
    source = RAISING.format(body="raise OptionError('not with me')")
    install("my_plugin", source, {PASSES: {"mine": "my_plugin:Mine"}})
    with pytest.raises(OptionError, match="not with me"):
        tessella.ops.add.lower(np.ones(3), 1.0).as_text("placed")
