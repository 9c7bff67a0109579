"""Arrays that callers give for outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.driver.model.model import Model
from tessella.runtime import outputs, program
from tessella.runtime.signature import UNKNOWN, ValueInfo
from tessella.support.errors import InputError
from tests.driver.test_model import model_of, two_outputs
from tests.native import Array, normal

X = normal(3, 5)
F32 = TensorProto.FLOAT


@pytest.fixture(scope="module")
def model() -> Model:
    return tessella.compile(two_outputs())


def empty(*shape: int) -> Array:
    return np.full(shape, np.nan, np.float32)


def test_native_code_writes_into_them(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    want = model(X)
    y, z = empty(3, 7), empty(3, 7)
    monkeypatch.setattr(program.np, "copyto", None)  # no copy is made
    got = model(X, out=[y, z])
    assert got[0] is y
    assert got[1] is z
    np.testing.assert_array_equal(got, want)


def test_some_of_them(model: Model) -> None:
    want = model(X)
    z = empty(3, 7)
    y, same = model.run(None, {"x": X}, out=[None, z])
    assert same is z
    np.testing.assert_array_equal([y, z], want)
    y, z = empty(3, 7), empty(3, 7)
    assert model.run(["z"], {"x": X}, out=[z])[0] is z
    np.testing.assert_array_equal(z, want[1])
    (first, second) = model.run(["y", "y"], {"x": X}, out=[y, z])
    assert first is y
    assert second is z
    np.testing.assert_array_equal([y, z], [want[0], want[0]])


def test_one_output_is_one_array() -> None:
    model = tessella.compile(model_of([node("Relu")], {"x": (F32, ["n"])}, {"y": (F32, ["n"])}))
    for size in (4, 5):
        y, x = empty(size), normal(size)
        assert model(x, out=y) is y
        np.testing.assert_array_equal(y, np.maximum(x, 0))
    with pytest.raises(InputError, match=r"does not fit(.|\n)*expected: float32 \(3,\)"):
        model(normal(3), out=empty(4))


def test_results_of_numpy_come_into_them() -> None:
    """A sum that only NumPy has, of a value that is a result, too, and a view of it."""
    nodes = [
        node("Neg", "x", "y"),
        helper.make_node("CumSum", ["y", "axis"], ["z"]),
        node("Identity", "y", "w"),
    ]
    shape = (F32, [2, 6])
    model = tessella.compile(
        model_of(nodes, {"x": shape}, dict.fromkeys("yzw", shape), axis=np.array(1))
    )
    x = normal(2, 6)
    for chosen in ("yzw", "w", "yw", "z", ""):
        given = [empty(2, 6) if name in chosen else None for name in "yzw"]
        got = model(x, out=given)
        wants = [-x, np.cumsum(-x, axis=1), -x]
        for result, array, want in zip(got, given, wants, strict=True):
            assert array is None or result is array
            np.testing.assert_allclose(result, want, rtol=1e-5)
        assert not np.shares_memory(got[0], got[2])


def test_an_input_that_is_an_output_is_copied() -> None:
    model = tessella.compile(model_of([node("Identity")], {"x": (F32, [4])}, {"y": (F32, [4])}))
    x, y = normal(4), empty(4)
    assert model(x, out=y) is y
    np.testing.assert_array_equal(y, x)


def test_elements_that_numpy_lacks() -> None:
    kind = TensorProto.BFLOAT16
    model = tessella.compile(model_of([node("Neg")], {"x": (kind, [4])}, {"y": (kind, [4])}))
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    assert model(x, out=y) is y
    np.testing.assert_array_equal(y.astype(np.float32), -x.astype(np.float32))


def test_programs_that_are_cut_copy() -> None:
    nodes = [node("NonZero", "x", "i"), node("Neg", "i", "y")]
    shape = (TensorProto.INT64, [1, "n"])
    model = tessella.compile(model_of(nodes, {"x": (F32, [4])}, {"y": shape}))
    x, y = np.array([3, 0, 5, 0], np.float32), np.zeros((1, 2), np.int64)
    assert model(x, out=y) is y
    np.testing.assert_array_equal(y, model(x))


def test_loaded_models_take_them(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "m.tsl")
    y = empty(3, 7)
    assert tessella.load(tmp_path / "m.tsl")(X, out=[y, None])[0] is y
    np.testing.assert_array_equal(y, model(X)[0])


def test_an_output_whose_type_nothing_declares() -> None:
    info, y = ValueInfo("y", UNKNOWN, ("n",)), empty(4)
    (given,) = outputs.checked([info], [y], [])
    assert outputs.put(X[0, :4], given) is y
    np.testing.assert_array_equal(y, X[0, :4])
    with pytest.raises(InputError, match=r"does not fit(.|\n)*expected: float64 \(4,\)"):
        outputs.put(np.zeros(4), given)


def test_an_input_may_be_called_out() -> None:
    model = tessella.compile(model_of([node("Neg", "out")], {"out": (F32, [4])}, {"y": (F32, [4])}))
    x, y = normal(4), empty(4)
    np.testing.assert_array_equal(model(out=x), -x)
    assert model.run(None, {"out": x}, out=[y])[0] is y


def node(kind: str, x: str = "x", y: str = "y") -> Any:
    return helper.make_node(kind, [x], [y])


def readonly(array: Array) -> Array:
    array.flags.writeable = False
    return array


def unaligned() -> Array:
    return np.zeros(85, np.uint8)[1:].view(np.float32).reshape(3, 7)


BOTH = empty(4, 7)
WRONG: list[tuple[str, Callable[[], Any], str]] = [
    ("too few", lambda: [empty(3, 7)], "for each output"),
    ("one array", lambda: empty(2, 3, 7), "for each output"),
    ("no array", lambda: [[1.0], None], "no array"),
    ("shape", lambda: [empty(3, 8), None], "does not fit"),
    ("dtype", lambda: [None, np.zeros((3, 7))], "does not fit"),
    ("strides", lambda: [empty(7, 3).T, None], "cannot be written to"),
    ("read-only", lambda: [readonly(empty(3, 7)), None], "cannot be written to"),
    (
        "alignment",
        lambda: [unaligned(), None],
        "cannot be written to",
    ),
    ("twice", lambda: [empty(3, 7)] * 2, "shares memory"),
    ("overlap", lambda: [BOTH[:3], BOTH[1:]], "shares memory"),
]


@pytest.mark.parametrize("out, message", [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_arrays_that_do_not_fit(
    model: Model, out: Callable[[], Sequence[Array]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model(X, out=out())


def test_an_array_that_is_an_input(model: Model) -> None:
    memory = np.zeros(40, np.float32)
    x, y = memory[:15].reshape(3, 5), memory[14:35].reshape(3, 7)
    with pytest.raises(InputError, match="shares memory with an input"):
        model(x, out=[y, None])
    assert model(x, out=[memory[15:36].reshape(3, 7), None])[0].base is memory
