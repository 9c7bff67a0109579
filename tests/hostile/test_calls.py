"""Calls with the wrong arguments, and arrays of every odd kind."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from numpy.lib.stride_tricks import as_strided
from onnx import helper

import tessella
from tessella import Model, Spec, TessellaError, ops
from tessella.runtime.host_steps import HostStep
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.program import Program
from tessella.runtime.sharing import packed
from tessella.runtime.specs import Constant, TensorSpec
from tessella.support.errors import (
    InputError,
    InvalidModelError,
    OptionError,
    ResourceError,
    ShapeError,
)
from tests.frontends.onnx.models import model as make_model
from tests.frontends.onnx.models import value
from tests.hostile.models import W, X, Y, mixed, one
from tests.native import Placed

Array = npt.NDArray[Any]
Call = Callable[[], Any]


@pytest.fixture(scope="module")
def model() -> Model:
    return tessella.compile(mixed())


# ** what is no model **

NO_MODELS: list[Any] = [
    *(None, True, 3, 0.5, [], {}, ("a",), object(), np.ones(3), tessella, mixed().graph),
    *("", "/", "a\0b", "x" * 5000, ".nn", "x.nn", b"", bytearray(), memoryview(b"x")),
]


# numbered: what objects print differs between processes
@pytest.mark.parametrize("thing", NO_MODELS, ids=map(str, range(len(NO_MODELS))))
def test_what_is_no_model(thing: Any) -> None:
    with pytest.raises(InvalidModelError):
        tessella.compile(thing)


# ** options **

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *(("places must be given as a list", {"places": p}) for p in (3, b"host", [], {"host"})),
    *(("unknown list of places", {"places": p}) for p in ("x86", "", ["moble"])),
    *(("a place is a text", {"places": [p]}) for p in (None, 3, b"host", ["host"])),
    *(("option 'target' has the wrong type", {"target": t}) for t in (3, ["avx2"], b"avx2")),
    *(("option 'options' has the wrong type", {"options": o}) for o in ({}, 0, "cost")),
    *(("option 'fallback' has the wrong type", {"fallback": f}) for f in ([], False)),
    *(
        ("option 'threads' has the wrong type", {"threads": n})
        for n in (True, 1.0, "1", np.ones(2))
    ),
    *((f"unknown {name} ''", {name: ""}) for name in ("target", "fallback")),
]
TILE = "function (A[N]) -> (R) { R = A; }"
MAKERS: dict[str, Callable[..., Any]] = {
    "compile": lambda **options: tessella.compile(mixed(), **options),
    "jit": lambda **options: tessella.jit(lambda x: x, **options),
    "tile": lambda **options: tessella.tile(TILE, **options),
    "ops": ops.with_options,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("message, options", OPTIONS)
def test_options_of_the_wrong_type(
    make: Callable[..., Any], message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(OptionError, match=message):
        make(**options)


@pytest.mark.parametrize(
    "options", [{"progress": 3}, {"values": 3}, {"values": [X]}, {"max_bytes": "1"}]
)
def test_options_of_compile_alone(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"the option '{next(iter(options))}'"):
        tessella.compile(mixed(), **options)


def test_no_progress_is_quiet() -> None:
    np.testing.assert_allclose(tessella.compile(mixed(), progress=None)(X), Y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stage", [[], None, 3, {}, "wasm", np.ones(2)])
def test_what_is_no_stage(model: Model, stage: Any) -> None:
    with pytest.raises(OptionError, match="no stage"):
        model.as_text(stage)
    if stage is not None:
        with pytest.raises(OptionError, match="no stage"):
            tessella.jit(lambda x: x).lower(X).as_text(stage)


# ** functions and their arguments **

FUNCTIONS: list[tuple[type[TessellaError], str, Call]] = [
    *(
        (OptionError, "cannot be traced", lambda thing=thing: tessella.jit(cast(Any, thing)))
        for thing in (3, "x", max, int)
    ),
    *(
        (
            OptionError,
            "static_argnames",
            lambda names=names: tessella.jit(lambda x: x, static_argnames=cast(Any, names)),
        )
        for names in (3, [3, "x"], [["x"]], b"x", [None])
    ),
    *(
        (InputError, "not a shape", lambda shape=shape: Spec(cast(Any, shape)))
        for shape in (3, None, "ab", (2.5,), [[1]])
    ),
    *(
        (InputError, "not a dtype", lambda dtype=dtype: Spec((2,), cast(Any, dtype)))
        for dtype in ("foo", 3, {"a": 1})
    ),
    (ShapeError, "impossible shape(?s:.*)found: 2x-1", lambda: Spec((2, -1))),
    (ShapeError, "impossible shape", lambda: Spec((1,) * 65)),
    (ShapeError, "too large", lambda: Spec((1 << 62, 1 << 62))),
    (OptionError, "no element type for str96", lambda: ops.cast(X, to="U3")),
    (OptionError, "no element type for void32", lambda: ops.cast(X, to=[("a", "f4")])),
    (OptionError, "no element type for object", lambda: ops.cast(X, to=object)),
]


@pytest.mark.parametrize("error, message, call", FUNCTIONS)
def test_what_is_no_function_shape_or_dtype(
    error: type[TessellaError], message: str, call: Call
) -> None:
    with pytest.raises(error, match=message):
        call()


@tessella.jit
def endless(x: Any) -> Any:
    return endless(x - 1)


@tessella.jit
def endless_on_constants(x: Any) -> Any:
    return x + endless_on_constants(W)


@tessella.jit(static_argnames="n")
def power(x: Any, n: int) -> Any:
    return x * power(x, n - 1) if n else x * 0 + 1


@pytest.mark.parametrize("function", [endless, endless_on_constants])
def test_a_function_that_calls_itself_without_end(function: Any) -> None:
    for call in (function, function.lower):
        with pytest.raises(
            ResourceError, match=r"(?s)nested too deeply.*static_argnames"
        ) as caught:
            call(X)
        assert f"{function.__name__}(" in str(caught.value.where)


def test_a_function_that_calls_itself() -> None:
    np.testing.assert_allclose(power(X, 3), X**3, rtol=1e-6)


# ** calls of a model **

WRONG: list[tuple[str, Callable[[Model], Any]]] = [
    ("by name", lambda m: m.run(None, cast(Any, None))),
    ("by name", lambda m: m.run(None, cast(Any, [X]))),
    ("by name", lambda m: m.run(None, cast(Any, X))),
    ("by name", lambda m: m.run(None, cast(Any, "x"))),
    ("missing: x.*unknown: 3", lambda m: m.run(None, cast(Any, {3: X}))),
    ("list of names", lambda m: m.run("y", {"x": X})),
    ("list of names", lambda m: m.run(cast(Any, 3), {"x": X})),
    ("no output 3", lambda m: m.run(cast(Any, [3]), {"x": X})),
    ("element type", lambda m: m(cast(Any, None))),
    ("element type", lambda m: m(cast(Any, object()))),
    ("element type", lambda m: m("x")),
    ("element type", lambda m: m(10**400)),
    ("element type", lambda m: m(X.astype(np.float16))),
    ("element type", lambda m: m(X.astype(complex))),
    ("element type", lambda m: m(X.astype(object))),
    ("element type", lambda m: m(X.view([("a", "f4")]))),
    ("found: float32 in another byte order", lambda m: m(X.astype(">f4"))),
]


@pytest.mark.parametrize("message, call", WRONG)
def test_wrong_calls(model: Model, message: str, call: Callable[[Model], Any]) -> None:
    with pytest.raises(InputError, match=message):
        call(model)


def strided(array: Array) -> Array:
    """The same elements, far apart and backwards in memory."""
    room = np.zeros([2 * n for n in array.shape], array.dtype)
    view = room[tuple([slice(None, None, -2)] * array.ndim)]
    view[...] = array
    return view


class Odd(np.ndarray[Any, Any]):
    """A subclass of NumPy's arrays."""


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "kind", [strided, np.asfortranarray, read_only, lambda a: a.view(Odd), np.ma.masked_array]
)
def test_arrays_of_every_kind(model: Model, kind: Callable[[Array], Array]) -> None:
    y = model(kind(X))
    assert type(y) is np.ndarray
    np.testing.assert_allclose(y, Y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ops.matmul(kind(X), kind(W)), X @ W, rtol=1e-5, atol=1e-6)


def test_arrays_whose_elements_lie_over_one_another(model: Model) -> None:
    equal = np.broadcast_to(np.float32(0.5), (3, 5))
    np.testing.assert_array_equal(model(equal), model(equal.copy()))
    rows = as_strided(np.arange(7, dtype=np.float32), (3, 5), (4, 4))
    np.testing.assert_array_equal(model(rows), model(rows.copy()))
    np.testing.assert_array_equal(ops.add(rows, equal), rows + equal)


# ** who owns results **


def test_results_share_no_memory() -> None:
    """Equal and reshaped results share no memory, whether NumPy or native code computes them."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Reshape", ["a", "s"], ["b"]),
        helper.make_node("Identity", ["a"], ["c"]),
    ]
    shapes = {"a": [3, 5], "b": [5, 3], "c": [3, 5]}
    proto = make_model(
        nodes,
        [value("x", [3, 5])],
        [value(name, shape) for name, shape in shapes.items()],
        weights={"s": np.array([5, 3])},
    )
    for places in (None, ["host"]):
        a, b, c = tessella.compile(proto, places=places)(X)
        a[...] = -1
        assert (b >= 0).all()
        b[...] = -2
        assert (c >= 0).all()


def test_a_traced_value_that_is_returned_twice() -> None:
    a, b = cast("tuple[Array, Array]", tessella.jit(lambda x: (x + 1,) * 2)(X))
    a[...] = 0
    np.testing.assert_array_equal(b, X + 1)


def test_a_result_as_the_next_input(model: Model) -> None:
    square = tessella.compile(one("Relu", {"x": [64, 64]}))
    x = np.full((64, 64), 3, np.float32)
    y = x
    for _ in range(5):
        y = square(y)  # the memory of the result before this is free only afterwards
        np.testing.assert_array_equal(y, x)
    views = [square(x * i)[::7, 3] for i in range(6)]
    assert [view[0] for view in views] == [3 * i for i in range(6)]


def test_native_steps_read_constants_as_whole_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant of equal elements is one element with strides of 0, which native code ignores."""
    seen: list[Array] = []
    splat = Constant(0, TensorSpec((4, 8), np.dtype(np.float32)))
    step = NativeStep("s", 0, (0,), (), ())
    program = Program(
        0, (step,), (), {0: splat}, packed([np.full(1, 2, np.float32)]), code=Placed(0)
    )
    monkeypatch.setattr("tessella.runtime.native_steps.NativeCall.run", lambda _, v: seen.extend(v))
    program.run([])
    assert seen[0].flags.c_contiguous
    assert seen[0].tolist() == [[2.0] * 8] * 4


# ** memory **


def test_memory_that_is_not_there() -> None:
    """In an address space of 4 GiB, the error names what ran out of memory."""
    big = Program(
        0,
        (HostStep("nn.expand", "wide", (0,), (1,), {"shape": (1 << 50,)}),
         HostStep("nn.add", "sum", (1, 1), (2,), {})),
        (2,),
        {0: Constant(0, TensorSpec((1,), np.dtype(np.float32)))},
        packed([np.ones(1, np.float32)]),
    )  # fmt: skip
    with pytest.raises(ResourceError, match="memory"):
        big.run([])


def test_a_compilation_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("tessella.driver.build.build.lower", full)
    with pytest.raises(ResourceError, match="memory to compile"):
        tessella.compile(mixed())


def test_a_function_or_op_that_runs_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    lowered = tessella.jit(lambda x: x + 1).lower(X)
    monkeypatch.setattr("tessella.driver.build.build.lower", full)
    for call in (lambda: ops.relu(X[:1, :3]), lowered.explain):
        with pytest.raises(ResourceError, match="memory to compile"):
            call()


def test_a_trace_that_runs_out_of_memory() -> None:
    with pytest.raises(ResourceError, match="not enough memory") as caught:
        tessella.jit(lambda x: x + tessella.arange(1 << 50))(X)
    assert __file__ in str(caught.value.where)


def test_a_result_that_no_memory_holds() -> None:
    with pytest.raises(ResourceError, match="cannot allocate 4503599627370496 bytes"):
        tessella.jit(lambda x: x.sum() + tessella.zeros(1 << 50))(X)


def test_a_large_constant_is_a_result() -> None:
    """More than what is computed at compile time; not a byte of it is made before the call."""
    y = tessella.compile(one("ConstantOfShape", {"shape": np.array([1 << 25])}))()
    assert y.shape == (1 << 25,)
    assert not y.any()


# ** copies **


def test_a_model_is_its_own_copy(model: Model) -> None:
    assert copy.copy(model) is model
    assert copy.deepcopy({"model": model})["model"] is model


def test_a_function_is_its_own_copy() -> None:
    for function in (tessella.jit(lambda x: x + 1), tessella.tile(TILE)):
        assert copy.copy(function) is function
        assert copy.deepcopy([function])[0] is function
        with pytest.raises(OptionError, match="cannot be pickled"):
            pickle.dumps(function)


def test_a_model_outlives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(mixed().SerializeToString())
    model = tessella.compile(path)
    path.unlink()
    np.testing.assert_allclose(model(X), Y, rtol=1e-5, atol=1e-6)


# ** threads **


def test_threads_that_compile_and_call_at_once() -> None:
    proto = mixed()
    symbolic = one("Relu", {"x": ["n"]})
    shared = tessella.compile(symbolic)
    failed: list[BaseException] = []
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        try:
            start.wait()
            np.testing.assert_allclose(tessella.compile(proto)(X), Y, rtol=1e-5, atol=1e-6)
            for n in (seed + 1, 2, 3, 2, 1):
                assert shared(np.full(n, -1, np.float32)).tolist() == [0] * n
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


# ** numbers **

INT = np.iinfo(np.int32)
F = np.float32
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, 1.0], F)


def test_floats_at_the_edge() -> None:
    with np.errstate(all="ignore"):
        for op, expected in (
            (ops.add, np.add(ODD, ODD[::-1])),
            (ops.mul, np.multiply(ODD, ODD[::-1])),
            (ops.div, np.divide(ODD, ODD[::-1])),
        ):
            np.testing.assert_array_equal(op(ODD, ODD[::-1]), expected)
    np.testing.assert_array_equal(np.signbit(ops.neg(ODD[3:5])), [True, False])
    assert ops.cast(ODD[:3], to="int32").tolist() == [0, INT.max, INT.min]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integers_at_the_edge(dtype: str) -> None:
    """No trap of the processor: a divisor of 0 gives 0, and the least number has no opposite."""
    least = np.iinfo(dtype).min
    a, b = np.array([7, 0, -7, least] * 9, dtype), np.array([0, 0, 0, -1] * 9, dtype)
    assert ops.div(a, b).tolist() == [0, 0, 0, least] * 9
    assert ops.mod(a, b).shape == a.shape
    assert ops.abs(a)[3] == ops.neg(a)[3] == least


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "float32"])
def test_settings_beyond_the_range_of_the_elements(dtype: str) -> None:
    """Integers saturate, floats are infinite."""
    x = np.array([3, 0, 1], dtype)
    is_float = x.dtype.kind == "f"
    least, greatest = (
        (-np.inf, np.inf) if is_float else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    )
    for number, edge in ((1e300, greatest), (-1e300, least)):
        expected = np.array([edge, *x], x.dtype)
        np.testing.assert_array_equal(ops.pad(x, low=[1], high=[0], value=number), expected)
    np.testing.assert_array_equal(ops.clip(x, low=-1e300, high=1e300), x)
    assert (ops.clip(x, low=1e300, high=1e301) == x.dtype.type(greatest)).all()


def test_numbers_that_are_no_float32() -> None:
    assert ops.leaky_relu(np.array([-1, 2], F), alpha=1e300).tolist() == [-np.inf, 2]


@pytest.mark.parametrize("index", [5, -6, INT.max, INT.min])
def test_indices_out_of_range(index: int) -> None:
    table, indices = np.ones((5, 3), F), np.array([0, index], np.int32)
    rows = indices.astype(np.int64).reshape(2, 1)
    calls: list[Call] = [
        lambda: ops.gather(table, indices, axis=0),
        lambda: ops.gather_elements(table, rows, axis=0),
        lambda: ops.gather_nd(table, rows),
        lambda: ops.scatter_elements(table, rows, np.ones((2, 1), F), axis=0),
        lambda: ops.scatter_nd(table, rows, np.ones((2, 3), F)),
    ]
    for call in calls:
        with pytest.raises(TessellaError, match="out of range"):
            call()
