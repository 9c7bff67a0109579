"""The options that functions, ops and Tile programs share with ``tessella.compile``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.driver.options import Options
from tessella.runtime.program import Program
from tessella.support.errors import OptionError, UnsupportedError
from tests.hostile.models import mixed

X = np.ones((2, 3, 5, 5), np.float32)
W = np.ones((4, 3, 1, 1), np.float32)
IDENTITY = "function (A[N]) -> (R) { R = A; }"


def jitted(**options: Any) -> Any:
    return tessella.jit(lambda x, w: tessella.conv2d(x, w), **options)


def eager(**options: Any) -> Any:
    return tessella.ops.with_options(**options).conv


@pytest.mark.parametrize("make", [jitted, eager])
@pytest.mark.parametrize("pick", ["cost", "grade"])
def test_pick(make: Callable[..., Any], pick: Any) -> None:
    conv = make(options=Options(pick=pick))
    np.testing.assert_array_equal(conv(X, W), np.full((2, 4, 5, 5), 3, np.float32))
    explained = conv.lower(X, W).explain()
    assert explained.pick["strategy"] == pick
    # as NHWC comes first, a grade takes it, whatever it costs to convert to it
    assert len(explained.conversions) == (2 if pick == "grade" else 0)


def jitted_sums(**options: Any) -> Any:
    return tessella.jit(lambda x: np.cumsum(x, axis=0), **options)


def eager_sums(**options: Any) -> Any:
    cumsum = tessella.ops.with_options(**options).cumsum
    call = functools.partial(cumsum, axis=0, exclusive=False, reverse=False)
    return SimpleNamespace(call=call, lower=functools.partial(cumsum.lower, **call.keywords))


@pytest.mark.usefixtures("sums_in_numpy")
@pytest.mark.parametrize("make", [jitted_sums, eager_sums])
def test_fallback(make: Callable[..., Any]) -> None:
    """Running sums have no kernel but NumPy's."""
    x = X[0, 0]
    allows, refuses = make(fallback="allow"), make(fallback="error", places=["x86", "arm"])
    np.testing.assert_array_equal(getattr(allows, "call", allows)(x), np.cumsum(x, axis=0))
    for call in (getattr(refuses, "call", refuses), lambda x: refuses.lower(x).compile()):
        with pytest.raises(UnsupportedError, match="and those are refused"):
            call(x)


@pytest.mark.parametrize("make", [jitted, eager, lambda **o: tessella.tile(IDENTITY, **o)])
@pytest.mark.parametrize(
    "options, message",
    [
        ({"fallback": "maybe"}, "unknown fallback 'maybe'"),
        ({"options": {"pick": "cost"}}, "expected: tessella.Options"),
        ({"places": ["x87/f32"]}, "x87"),
        ({"target": "z80"}, "z80"),
        ({"threads": 0}, "thread"),
    ],
)
def test_unknown_options(make: Callable[..., Any], options: dict[str, Any], message: str) -> None:
    """They are found when the function is made, not when it is called."""
    with pytest.raises(OptionError, match=message):
        make(**options)


def test_a_tile_program_has_nothing_to_pick() -> None:
    a = np.arange(3, dtype=np.float32)
    program = tessella.tile(IDENTITY, options=Options(pick="grade"), fallback="error")
    np.testing.assert_array_equal(program(a), a)


def test_ops_with_options_keep_programs_of_their_own() -> None:
    numpy = tessella.ops.with_options(places=["host"])
    assert numpy.relu.explain(X).ops[0]["kernel"] == "host"
    assert tessella.ops.relu.explain(X).ops[0]["kernel"] == "relu"
    for ops in (numpy, tessella.ops):
        np.testing.assert_array_equal(ops.relu(-X), np.zeros_like(X))
    assert repr(numpy.relu) == "tessella.ops.relu"


@pytest.fixture
def threads_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many threads each run used."""
    seen: list[int] = []
    run = Program.run

    def recorded(self: Program, arrays: Any, threads: int = 1, out: Any = ()) -> Any:
        seen.append(threads)
        return run(self, arrays, threads, out)

    monkeypatch.setattr(Program, "run", recorded)
    return seen


CALLS: dict[str, Callable[..., Any]] = {
    "compile": lambda **o: tessella.compile(mixed(), **o)(np.ones((3, 5), np.float32)),
    "jit": lambda **o: jitted(**o)(X, W),
    "ops": lambda **o: eager(**o)(X, W),
    "tile": lambda **o: tessella.tile(IDENTITY, **o)(np.ones(3, np.float32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_threads(name: str, threads_of_runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The requested number of threads applies, else that of the environment."""
    monkeypatch.setenv("TESSELLA_THREADS", "5")
    for options in ({"threads": 3}, {}, {"threads": None}, {"threads": 1}):
        CALLS[name](**options)
    assert threads_of_runs == [3, 5, 5, 1]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("threads", [0, -1, 1025, True, 2.0, "2"])
def test_no_such_number_of_threads(name: str, threads: Any) -> None:
    with pytest.raises(OptionError, match="threads"):
        CALLS[name](threads=threads)


@pytest.mark.parametrize("name", CALLS)
def test_wrong_threads_in_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_THREADS", "many")
    with pytest.raises(OptionError, match="TESSELLA_THREADS=many"):
        CALLS[name]()
