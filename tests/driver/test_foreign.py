"""Exceptions that come from elsewhere while a program is compiled, and bugs: neither is a reason to
compile for fewer sizes, nor kept on disk."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest

import tessella
from tessella.codegen.objects import Compilation
from tessella.driver.build import build
from tessella.driver.cache import program_cache
from tessella.driver.debug import reproducer
from tessella.driver.model import compilation
from tessella.frontends.onnx import convert
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.passes.plan_arena import PlanArenaPass
from tessella.support.errors import InternalError
from tessella.support.foreign import is_foreign, is_of_handler
from tessella.support.knobs import KNOBS
from tessella.support.plugins import PASSES
from tests.driver.test_open_models import classifier, want, x
from tests.plugins import Installer, forget
from tests.sampling import sample


class DeadlineError(Exception):
    """An exception that a user's signal handler raises at a deadline."""


RAISED = [DeadlineError, TimeoutError, KeyError, MemoryError, KeyboardInterrupt]

POINTS: list[tuple[Any, str]] = [
    (convert.GraphConversion, "_convert"),
    (EliminateIdentitiesPass, "apply"),
    (PickKernelsPass, "apply"),
    (PlanArenaPass, "apply"),
    (build, "emit"),
    (Compilation, "objects"),
    (build, "link"),
    (program_cache, "store"),
    (compilation, "give_back"),
]
"""Functions in the order of a compilation."""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(KNOBS, "crash_dir", str(tmp_path / "crashes"))
    monkeypatch.setattr(reproducer, "_folders", {})
    return tmp_path


@pytest.fixture
def raising() -> Generator[Callable[[type[BaseException]], None]]:
    """Raises an exception out of a signal handler."""
    before = signal.getsignal(signal.SIGUSR1)

    def raise_it(kind: type[BaseException]) -> None:
        def handler(number: int, frame: FrameType | None) -> None:
            raise kind("time is up")

        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)

    yield raise_it
    signal.signal(signal.SIGUSR1, before)


def check_open(model: Any, proto: onnx.ModelProto) -> None:
    """Its programs, and those of who comes later, have symbols."""
    for each in (model, tessella.compile(proto, dims={})):
        np.testing.assert_allclose(each(x(2, 20)), want(x(2, 20)), rtol=1e-5, atol=1e-6)
        assert "seq: open, from 16" in each.explain().sizes


@pytest.mark.parametrize(
    "turn, point",
    [*enumerate(POINTS)],
    ids=[f"{of.__name__}.{name}" for of, name in POINTS],
)
def test_what_a_signal_handler_raises_reaches_its_owner(
    turn: int,
    point: tuple[Any, str],
    raising: Callable[[type[BaseException]], None],
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
) -> None:
    proto = classifier()
    model = tessella.compile(proto, dims={})
    kinds = sample(RAISED, turn)
    # the program of the first call that comes behind the store is in the cache for the next ones
    for kind in kinds[:1] if point is POINTS[-1] else kinds:
        with monkeypatch.context() as patched:
            patched.setattr(*point, lambda *_, kind=kind, **__: raising(kind))
            with pytest.raises(kind, match="time is up") as caught:
                model(x(2, 20))
        assert caught.type is kind
        assert not (cache / "crashes").exists()
    check_open(model, proto)


@pytest.mark.parametrize("kind", [DeadlineError, KeyError])
@pytest.mark.parametrize("point", POINTS[1:4], ids=[of.__name__ for of, _ in POINTS[1:4]])
def test_bugs_are_told(
    point: tuple[Any, str],
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    cache: Path,
) -> None:
    """A bug of a pass is one of tessella; an exception of a class of users' is none."""
    proto = classifier()
    model = tessella.compile(proto, dims={})

    def fail(*_: object) -> None:
        raise kind("no such thing")

    with monkeypatch.context() as patched:
        patched.setattr(*point, fail)
        with pytest.raises(kind if kind is DeadlineError else InternalError, match="no such thing"):
            model(x(2, 20))
    assert (cache / "crashes").exists() == (kind is KeyError)
    check_open(model, proto)


@pytest.mark.parametrize("point", POINTS[4:7], ids=[name for _, name in POINTS[4:7]])
def test_bugs_beside_passes_are_no_reason_for_numbers(
    point: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = classifier()
    model = tessella.compile(proto, dims={})

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("it cannot be")

    with monkeypatch.context() as patched:
        patched.setattr(*point, fail)
        with pytest.raises(AssertionError, match="it cannot be"):
            model(x(2, 20))
    check_open(model, proto)


def test_a_pass_of_a_plugin_is_not_blamed_for_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raising: Callable[[type[BaseException]], None]
) -> None:
    source = """
        from tessella.passes.kinds import ProgramPass

        class Mine(ProgramPass):
            name = "mine"
            runs_after = "fold-batch-norm"

            def apply(self, ctx, op):
                self.interrupted()
        """
    Installer(tmp_path, monkeypatch)("slow", source, {PASSES: {"mine": "slow:Mine"}})
    try:
        import slow  # pyright: ignore[reportMissingImports]

        slow.Mine.interrupted = lambda _: raising(TimeoutError)
        with pytest.raises(TimeoutError, match="time is up"):
            tessella.compile(classifier(), dims={})(x(2, 20))
    finally:
        monkeypatch.undo()
        forget()


def test_a_handler_is_known_by_the_frame_that_it_gets(
    raising: Callable[[type[BaseException]], None],
) -> None:
    def caught(run: Callable[[], object]) -> BaseException:
        try:
            run()
        except BaseException as error:
            return error
        raise AssertionError("nothing was raised")

    def with_rest(*given: object) -> None:
        raise ValueError

    class Methods:
        def __call__(self, number: int, frame: FrameType | None) -> None:
            int("x")

    for handler in (with_rest, Methods()):
        signal.signal(signal.SIGUSR1, handler)
        error = caught(lambda: signal.raise_signal(signal.SIGUSR1))
        assert is_of_handler(error)
        assert is_foreign(error)
    for run in (lambda: with_rest(1, 2), lambda: int("x"), lambda: {}["x"]):
        assert not is_foreign(caught(run))
