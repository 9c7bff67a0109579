"""Passes that a caller gives: their positions, and what they do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.arith import AddfOp, SubfOp
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.rewriter import Rewriter

import tessella
from tessella.dialects import nn
from tessella.dialects.nn.core import tensor
from tessella.driver.build.pipeline import pipeline
from tessella.driver.cache import program_cache
from tessella.driver.options import Options, make_options
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.kinds import DebugPass, ProgramPass
from tessella.support.errors import OptionError

seen: list[str] = []


class AbsForNeg(RewritePattern):
    """A pattern of xDSL's, which changes what a program computes."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, nn.NegOp):
            rewriter.replace(op, nn.AbsOp.make([*op.operands]))


@dataclass(frozen=True)
class Patterns(ProgramPass):
    name = "patterns"
    runs_before = "pick-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(AbsForNeg()).rewrite_module(op)


@dataclass(frozen=True)
class Ours(ProgramPass):
    name = "ours"
    runs_after = "fuse-patterns"
    said: str = "ours"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        seen.append(self.said)


@dataclass(frozen=True)
class NoFusions(ProgramPass):
    name = "fuse-patterns"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        seen.append("no fusions")


@dataclass(frozen=True)
class Lost(ProgramPass):
    name = "lost"

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class Nowhere(Lost):
    runs_before = "fuse-pattern"


def names(*passes: ModulePass) -> list[str]:
    checked = make_options(options=Options(passes=passes))
    return [step.name for _, steps in pipeline(checked) for step in steps]


def test_a_pass_goes_where_it_says() -> None:
    found = names(Ours())
    assert found[found.index("ours") - 1] == FusePatternsPass.name
    assert [name for name in found if name != "ours"] == names()


def test_a_pass_replaces_those_of_its_name() -> None:
    assert names(NoFusions()) == names()
    stages = pipeline(make_options(options=Options(passes=[NoFusions()])))
    steps = [step for _, steps in stages for step in steps]
    assert [type(step) for step in steps if step.name == "fuse-patterns"] == [NoFusions]


def test_a_pass_with_a_position_replaces_those_of_its_name() -> None:
    @dataclass(frozen=True)
    class Positioned(NoFusions):
        runs_before = "pick-kernels"

    assert names(Positioned()) == names()


def test_a_pass_at_the_last_stage_changes_kernels() -> None:
    """Kernels are not compiled before it has run."""

    @dataclass(frozen=True)
    class SubForAdd(ProgramPass):
        name = "sub-for-add"
        runs_after = "convert-tile-to-loops"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            for add in [each for each in op.walk() if isinstance(each, AddfOp)]:
                Rewriter.replace_op(add, SubfOp(add.lhs, add.rhs))

    @tessella.jit(options=Options(passes=[SubForAdd()]))
    def f(x: Any, y: Any) -> Any:
        return x + y

    x, y = (np.array(v, np.float32) for v in ([1, 2, 3, 4], [4, 3, 2, 1]))
    np.testing.assert_array_equal(f(x, y), x - y)


@pytest.mark.parametrize(
    "step, message",
    [
        (Lost(), "the pass 'lost' of the option 'passes': it has no position"),
        (Nowhere(), "did you mean 'fuse-patterns'"),
        (Lost, "an entry of the option 'passes' is not a pass"),
    ],
)
def test_a_pass_without_a_position(step: Any, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        names(step)
    assert message in str(caught.value)


def test_a_function_is_compiled_with_them() -> None:
    seen.clear()
    options = Options(passes=[Ours(said="here"), NoFusions(), Patterns()])

    @tessella.jit(options=options)
    def f(x: Any) -> Any:
        return -x + 1

    x = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_array_equal(f(x), np.abs(x) + 1)
    assert seen == ["no fusions", "here"]


def test_nothing_is_cached_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    plain, own = (make_options(options=Options(passes=p)) for p in ([], [Ours()]))
    assert program_cache.key("model", (), own) is None
    assert program_cache.key("model", (), plain) is not None


# ** wrong passes **


class Nameless(ModulePass):
    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


def declaring(name: str, **declarations: Any) -> ModulePass:
    """A pass with these declarations."""
    namespace = {"__module__": __name__, "name": name, **declarations}
    cls: Any = dataclass(frozen=True)(type("Declaring", (Lost,), namespace))
    return cls()


def test_positions_may_refer_to_other_passes_in_any_order() -> None:
    first, second = declaring("a", runs_before="b"), declaring("b", runs_before="fuse-patterns")
    for passes in ([first, second], [second, first]):
        found = names(*passes)
        at = found.index("fuse-patterns")
        assert found[at - 2 : at] == ["a", "b"]


@pytest.mark.parametrize(
    "passes, message",
    [
        ([Lost], "hint: call the class"),
        ([Nameless()], "has no name"),
        ([Ours(), Ours("again")], "another pass of the option has the same name"),
        ([declaring("a", runs_before=3)], "runs_before is wrong"),
        ([declaring("a", runs_before="fuse-patterns", stages="nn")], "stages is wrong"),
        ([declaring("a", runs_before="fuse-patterns", bound_devices=("x68",))], "no such device"),
        ([declaring("a", runs_before="b"), declaring("b", runs_after="a")], "to each other: a, b"),
        ([declaring("a", runs_before="a")], "refer to each other: a"),
        ([declaring("a", runs_before="b"), declaring("b", runs_after="c")], "has no pass 'c'"),
    ],
)
def test_wrong_passes(passes: Any, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        names(*passes)
    assert message in str(caught.value)


def raising(ctx: Context, op: ModuleOp) -> None:
    raise KeyError("x")


def breaking(ctx: Context, op: ModuleOp) -> None:
    """Give an op a result of another type than its operands imply."""
    neg = next(each for each in op.walk() if isinstance(each, nn.NegOp))
    Rewriter.replace_value_with_new_type(neg.res, tensor(f32, (3,)))


@pytest.mark.parametrize("apply, message", [(raising, "it raised KeyError: 'x'"), (breaking, "it")])
def test_an_exception_names_the_pass(apply: Any, message: str) -> None:
    step = declaring("a", runs_before="fuse-patterns", apply=lambda _, *given: apply(*given))

    @tessella.jit(options=Options(passes=[step]))
    def f(x: Any) -> Any:
        return -x

    with pytest.raises(OptionError) as caught:
        f(np.ones(4, np.float32))
    assert f"the pass 'a' of the option 'passes': {message}" in str(caught.value)


def test_a_debug_pass_of_the_caller_runs() -> None:
    @dataclass(frozen=True)
    class Look(DebugPass):
        name = "look"
        runs_before = "pick-kernels"

        def inspect(self, ctx: Context, module: ModuleOp) -> None:
            seen.append("look")

    seen.clear()
    assert "look" in names(Look())
    tessella.jit(options=Options(passes=[Look()]))(lambda x: -x)(np.ones(4, np.float32))
    assert seen == ["look"]
