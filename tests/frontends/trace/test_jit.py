"""Jitted functions: arguments and results, specialisation, captured arrays, stages, threads."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tessella
from tessella.driver.stages.stages import STAGES
from tessella.frontends import programs, trace
from tessella.frontends.trace.dispatch import FUNCTIONS, UFUNCS
from tests.frontends.trace.checks import Array, array, same

PAGE = Path(__file__).parents[3] / "docs" / "jit.md"
OPERATORS = """
    add subtract multiply divide floor_divide remainder power negative positive absolute matmul
    equal not_equal less less_equal greater greater_equal
    bitwise_and bitwise_or bitwise_xor invert left_shift right_shift
""".split()


class Point(NamedTuple):
    x: Any
    y: Any


def test_nested_arguments_and_results() -> None:
    @tessella.jit
    def f(params: Any, *rest: Array, scale: Any = 2.0, **more: Array) -> Any:
        assert isinstance(params["p"], Point)
        total = params["w"][0] * scale + rest[0] - more["k"]
        return {"total": total, "rest": (rest, [total.sum(), None]), "point": Point(total, 1)}

    x, y = array((2, 3)), array((3,))
    result = f({"w": [x], "p": Point(x, None)}, y, y, k=x)
    same(result["total"], x * 2 + y - x)
    (rest, listed), point = result["rest"], result["point"]
    assert (len(rest), listed[1], type(point)) == (2, None, Point)
    same(rest[1], y)
    same(listed[0], (x * 2 + y - x).sum(dtype=np.float64).astype(np.float32))
    assert (point.y.dtype, point.y.shape, int(point.y)) == (np.int64, (), 1)


def test_keywords_and_positions_are_one_call() -> None:
    calls: list[str] = []

    @tessella.jit
    def f(x: Any, w: Any, b: Any = 1.0) -> Any:
        calls.append("traced")
        return x @ w + b

    x, w = array((2, 3)), array((3, 2))
    for result in (f(x, w), f(x, w=w), f(w=w, x=x), f(x, w)):
        same(result, x @ w + 1)
    same(f(x, w, b=w[0]), x @ w + w[0])
    assert len(calls) == 2
    with pytest.raises(TypeError, match="missing a required argument: 'w'"):
        f(x)  # pyright: ignore[reportCallIssue]


def test_static_arguments() -> None:
    calls: list[tuple[Any, ...]] = []

    @tessella.jit(static_argnames=("axis", "mode"))
    def f(x: Any, axis: int = 0, mode: str = "sum") -> Any:
        calls.append((axis, mode))
        return x.sum(axis) if mode == "sum" else x.max(axis)

    x = array((2, 3))
    same(f(x), x.sum(0))
    same(f(x, 1), x.sum(1))
    same(f(x, axis=1), x.sum(1))
    same(f(x, mode="max", axis=1), x.max(1))
    f(x, 1)
    assert calls == [(0, "sum"), (1, "sum"), (1, "max")]


def test_static_values_of_different_types_differ() -> None:
    double = tessella.jit(lambda x, n: x * n, static_argnames="n")
    x = array((3,), "int64")
    assert [double(x, n).dtype.name for n in (1, 1.0, True)] == ["int64", "float64", "int64"]
    nested = tessella.jit(lambda x, n: x * n[0], static_argnames="n")
    assert [nested(x, (n,)).dtype.name for n in (1, 1.0)] == ["int64", "float64"]


def test_static_floats_are_told_apart_by_their_bits() -> None:
    traced: list[float] = []

    @tessella.jit(static_argnames="n", places=["host"])
    def signed(x: Any, n: float) -> Any:
        traced.append(n)
        return x + math.copysign(1, n)

    x = array((3,))
    for n in (0.0, -0.0, float("nan"), float("nan")):
        same(signed(x, n), x + np.float32(math.copysign(1, n)))
    assert len(traced) == 3


def test_specialisation() -> None:
    calls: list[tuple[Any, Any]] = []

    @tessella.jit(dims="fixed")
    def f(x: Any) -> Any:
        calls.append((x.shape, x.dtype))
        return x + 1

    for x in [array((2,)), array((3,)), array((2,), seed=5), array((2,), "float64"), array(())]:
        same(f(x), x + 1)
    assert calls == [((2,), "float32"), ((3,), "float32"), ((2,), "float64"), ((), "float32")]


def test_python_numbers_are_arguments() -> None:
    calls: list[str] = []

    @tessella.jit
    def f(x: Any, s: Any) -> Any:
        calls.append("traced")
        return x * s

    x = array((3,))
    for number in (2.0, 3.5, -1e-3):
        same(f(x, number), x * number)
    assert len(calls) == 1
    assert f(x, 2).dtype == np.float32
    assert f(x, np.float64(2)).dtype == np.float64
    assert f(2.0, 3).dtype == np.float64
    assert tessella.jit(lambda x, s: x * tessella.exp(s + 1))(x, 1.5).dtype == np.float32


def test_programs_are_dropped_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_PROGRAMS", 2)
    calls: list[int] = []

    @tessella.jit(dims="fixed")
    def f(x: Any) -> Any:
        calls.append(x.shape[0])
        return x + 1

    for size in (1, 2, 1, 3, 1, 2):
        f(array((size,)))
    assert calls == [1, 2, 3, 2]


def test_captured_arrays_are_weights() -> None:
    w, b = array((3, 2)), array((2,))
    f = tessella.jit(lambda x: x @ w + b)
    x, want = array((4, 3)), array((4, 3)) @ w + b
    same(f(x), want)
    text = f.lower(x).as_text()
    assert "nn.weight @w : tensor<3x2xf32>" in text
    assert "nn.weight @b : tensor<2xf32>" in text
    w[:] = 0
    same(f(x), want)


def test_an_array_that_changes_while_it_is_traced() -> None:
    def f(x: Any) -> Any:
        buffer = np.arange(3.0)
        y = x + buffer
        buffer[:] *= 2
        return y * buffer + buffer

    same(tessella.jit(f)(np.ones(3)), f(np.ones(3)))


def test_equal_elements_are_one_number() -> None:
    text = tessella.jit(lambda x: x + np.zeros((200, 3))).lower(array((3,))).as_text()
    assert "nn.splat 0.000000e+00" in text
    zeros = np.asarray([0.0, -0.0])
    assert "nn.weight" in tessella.jit(lambda x: x + zeros).lower(array((2,))).as_text()


def test_jitted_functions_in_functions() -> None:
    inner = tessella.jit(lambda x, axis: x.sum(axis), static_argnames="axis")
    outer = tessella.jit(lambda x: inner(x, axis=1) * inner(np.ones((2, 2)), 0)[0])
    same(outer(array((2, 3))), array((2, 3)).sum(1) * np.float64(2))
    assert "2.0" in outer.lower(array((2, 3))).as_text()


def test_methods() -> None:
    class Layer:
        def __init__(self, w: Array) -> None:
            self.w = w

        @tessella.jit(static_argnames="self")
        def __call__(self, x: Any) -> Any:
            return x @ self.w

    x, w = array((2, 3)), array((3, 4))
    same(Layer(w)(x), x @ w)
    same(Layer(2 * w)(x), x @ (2 * w))


def test_results_that_are_not_computed() -> None:
    x = array((2, 3))
    x.flags.writeable = False
    same_array = tessella.jit(lambda x: x)(x)
    same(same_array, x)
    assert same_array.flags.writeable
    same(tessella.jit(lambda x, y: y)(x, x[0]), x[0])
    same(tessella.jit(lambda: tessella.zeros(3))(), np.zeros(3, np.float32))
    constants: Any = tessella.jit(lambda: (1, 0.5, True, None))()
    one, half, true, nothing = constants
    assert (one, half, true, nothing) == (1, 0.5, True, None)
    assert [x.dtype.name for x in (one, half, true)] == ["int64", "float64", "bool"]


class OtherArray:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.arange(3, dtype=np.float32)


def test_memory_of_copies_is_used_again() -> None:
    """Fresh memory takes longer than copying."""
    x = array((100, 100))
    copied = tessella.jit(lambda x: (x, x))
    first = copied(x)
    where = [y.ctypes.data for y in first]
    assert len({*where, x.ctypes.data}) == 3
    del first
    again = copied(x)
    assert [y.ctypes.data for y in again] == where
    for y in again:
        same(y, x)


def test_arrays_of_every_kind() -> None:
    f = tessella.jit(lambda x: x * 2)
    x = array((4, 6))
    kinds = [x[::2, ::-1], x.T, np.asfortranarray(x), x.astype(">f4"), np.float32(2), x[:, :0]]
    for each in kinds * 2:  # the second time, what programs they need is known
        same(f(each), np.asarray(each * 2, np.float32))
    same(f(OtherArray()), np.arange(3, dtype=np.float32) * 2)


@pytest.mark.parametrize("target", ["native", "avx2", "aarch64"])
def test_text_at_every_stage(target: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return tessella.softmax(x @ w)

    line = inspect.getsourcelines(f)[1] + 1
    specs = tessella.Spec((4, 8)), tessella.Spec((8, 3), np.float32)
    lowered = tessella.jit(f, target=target).lower(*specs)
    texts = {stage: lowered.as_text(stage) for stage in STAGES}
    marks = {
        "nn": f'nn.matmul %x, %w {{node = "test_jit.py:{line}"',
        "placed": "#place.at<",
        "tile": "tile.kernel",
        "loops": "scf.for",
        "llvm": "define",
        "asm": "ret",
    }
    assert {stage for stage in STAGES if marks[stage] not in texts[stage]} == set()
    assert texts["nn"].startswith("builtin.module {")


def test_a_lowered_function_is_compiled_to_a_model() -> None:
    lowered = tessella.jit(lambda x, y: {"a": x + y, "b": [x]}).lower(array((3,)), array((3,)))
    assert [(v.name, v.dtype, v.shape) for v in lowered.inputs] == [
        ("x", "float32", (3,)),
        ("y", "float32", (3,)),
    ]
    assert [v.name for v in lowered.outputs] == ["result['a']", "result['b'][0]"]
    model = lowered.compile()
    x = array((3,))
    same(model.run(["result['a']"], {"x": x, "y": x})[0], x + x)
    assert lowered.compile() is not model


def test_lowering_takes_arrays_and_specs() -> None:
    f = tessella.jit(lambda p, n: p["w"] * n)
    text = f.lower({"w": tessella.Spec((2, 3), "float64")}, 2.0).as_text()
    assert "%arg0" in text or "tensor<2x3xf64>" in text
    assert "nn.mul" in text


def test_places() -> None:
    f = tessella.jit(lambda x: x + 1, places=["host"])
    same(f(array((3,))), array((3,)) + 1)
    assert "segment" not in f.lower(array((3,))).as_text("tile")


def test_the_function_stays_visible() -> None:
    @tessella.jit
    def f(x: Any, *, scale: float = 2) -> Any:
        """Scale."""
        return x * scale

    assert (f.__name__, f.__doc__) == ("f", "Scale.")
    assert str(inspect.signature(f)) == str(inspect.signature(f.__wrapped__))
    assert list(inspect.signature(tessella.conv2d).parameters)[:2] == ["x", "w"]
    assert tessella.exp.__doc__ == "Elementwise e^x."


def test_threads_share_programs() -> None:
    traced: list[str] = []
    wrong: list[int] = []
    start = threading.Barrier(6)

    @tessella.jit
    def f(x: Any) -> Any:
        traced.append(str(x.sizes[0]))
        return tessella.softmax(x @ x.T)

    def work(seed: int) -> None:
        start.wait()
        for size in (2, 3, 4):
            x = array((size, 5), seed=seed)
            powers = np.exp(x @ x.T - (x @ x.T).max(-1, keepdims=True))
            if not np.allclose(f(x), powers / powers.sum(-1, keepdims=True), atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sorted(traced), wrong) == (["2", "x_0"], [])


def test_a_failed_call_can_be_repeated() -> None:
    attempts: list[int] = []

    @tessella.jit
    def f(x: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("not yet")
        return x + 1

    with pytest.raises(ValueError, match="not yet"):
        f(array((2,)))
    same(f(array((2,))), array((2,)) + 1)


def test_public_names() -> None:
    assert set(trace.__all__) <= set(dir(tessella))
    assert all(getattr(tessella, name) is getattr(trace, name) for name in trace.__all__)


def test_the_page_lists_all_functions() -> None:
    words = set(re.findall(r"\w+", PAGE.read_text()))
    functions = [f if isinstance(f, str) else f.__name__ for f in FUNCTIONS]
    ufuncs = [u.__name__ for u in UFUNCS]
    listed = {*trace.__all__, *functions, *ufuncs} - {*OPERATORS, "Jitted", "Lowered"}
    assert listed <= words


def test_importing_the_package_stays_cheap() -> None:
    code = "import sys, tessella; print('xdsl' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
