"""Arrays at places: conversions, the places of ops on them, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import tessella as ts
from tessella import targets
from tessella.dialects.graph import Graph
from tessella.dialects.nn.elementwise import is_conversion
from tessella.dialects.place import CastOp, RelayoutOp
from tessella.driver.build.build import Built
from tessella.driver.build.pipeline import CheckedOptions
from tessella.driver.specialise.programs import ProgramTable
from tessella.frontends.eager import op as eager
from tessella.frontends.eager import placed
from tessella.support.errors import InputError, InvalidModelError, OptionError, ShapeError
from tests.native import normal

CPU = targets.native().arch
X = normal(2, 3, 9, 8)
W1, W2 = normal(6, 3, 3, 3), normal(5, 6, 3, 3)

LAYOUTS = ["any", "nchw", "nhwc", "nchw8c", "packed<[0, 2, 1 floordiv 2, 3, 1 mod 2]>"]


def conversions(module: ModuleOp) -> list[str]:
    return [
        op.name for op in module.walk() if isinstance(op, RelayoutOp | CastOp) or is_conversion(op)
    ]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list to which all conversions are added: those in compiled programs, and those of
    arrays."""
    result: list[str] = []

    def compiled(graph: Graph, options: CheckedOptions) -> Built:
        built = compile_graph(graph, options)
        result.extend(conversions(built.lowered.stages["placed"]))
        return built

    def counted(name: str) -> Callable[..., Any]:
        function = getattr(placed, name)

        def call(*arguments: Any) -> Any:
            result.append(name)
            return function(*arguments)

        return call

    compile_graph = eager.compile_graph
    monkeypatch.setattr(eager, "compile_graph", compiled)
    monkeypatch.setattr(eager, "_TABLES", ProgramTable(eager.MAX_OPS))
    for name in ("pack", "unpack"):
        monkeypatch.setattr(placed, name, counted(name))
    return result


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "u1", "?", "bfloat16"])
def test_a_plain_array_comes_back(layout: str, dtype: str) -> None:
    x = (4 * X).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    at = ts.array(x, place=f"any/any/{layout}")
    assert (at.shape, at.ndim, at.size, at.dtype) == (x.shape, x.ndim, x.size, x.dtype)
    back = np.asarray(at)
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)
    assert not np.may_share_memory(back, at.memory)
    assert not np.may_share_memory(x, at.memory)


def test_places_resolve() -> None:
    assert ts.array(X, place="any").place == f"{CPU}/f32/nchw"
    assert ts.array(X, place=f"{CPU}/f16/nhwc").place == f"{CPU}/f16/nhwc"
    assert ts.array(X[0, 0], place="any/any/nhwc").place == f"{CPU}/f32/nchw"
    assert ts.array([1, 2], place="host").place == "host/i64/nchw"
    assert ts.array(["a"], place="host").place == "host/string/nchw"
    assert ts.array(ts.array(X, place="any/any/nhwc"), place="any/any/nchw8c").shape == X.shape
    rounded = np.asarray(ts.array(X, place="any/bf16/nhwc"))
    np.testing.assert_array_equal(rounded, X.astype(ml_dtypes.bfloat16))
    assert repr(ts.array(np.arange(2), place="host")).endswith("place='host/i64/nchw')")
    assert len(ts.array(X, place="any")) == 2


@pytest.mark.parametrize("pick", ["cost", "grade"])
def test_a_chain_converts_once(found: list[str], pick: Any) -> None:
    ops = ts.ops.with_options(options=ts.Options(pick=pick))
    x = ts.array(X, place="any/f32/nhwc")
    y = ops.relu(ops.conv(x, W1, pads=(1, 1, 1, 1)))
    z = ops.conv(ops.add(y, ops.mul(y, 0.5)), W2)
    assert isinstance(z, ts.PlacedArray)
    assert (y.place, z.place) == (f"{CPU}/f32/nhwc",) * 2
    assert found == ["pack"]
    result = np.asarray(z)
    assert found == ["pack", "unpack"]
    plain = ts.ops.relu(ts.ops.conv(X, W1, pads=(1, 1, 1, 1)))
    np.testing.assert_allclose(result, ts.ops.conv(plain * 1.5, W2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["nhwc", "nchw4c"])
def test_the_layout_stays_however_the_other_operands_lie(layout: str) -> None:
    """Costs alone would take row-major memory, and the next op would convert its operand."""
    plain = normal(2, 8, 3, 5)
    x = ts.array(plain, place=f"any/any/{layout}")
    for y, expected in (
        (ts.ops.add(x, plain), plain + plain),
        (ts.ops.add(plain, x), plain + plain),
        (ts.ops.add(x, ts.array(plain, place="any")), plain + plain),
        (ts.ops.concat(x, plain, axis=0), np.concatenate([plain, plain])),
        (ts.ops.tile(x, repeats=(4, 1, 1, 1)), np.tile(plain, (4, 1, 1, 1))),
    ):
        assert isinstance(y, ts.PlacedArray)
        assert y.place == f"{CPU}/f32/{layout}"
        np.testing.assert_array_equal(np.asarray(y), expected)
    own = ts.ops.with_options(options=ts.Options(pin={"nn.add": "any/any/nchw"}))
    assert own.add(x, plain).place == f"{CPU}/f32/nchw"
    bf16 = ts.ops.with_options(options=ts.Options(autocast={"bf16": ["nn.add"]}))
    assert bf16.add(x, plain).place == f"{CPU}/bf16/{layout}"


def test_arrays_without_dimensions() -> None:
    for place in ("any", "any/any/nhwc", "host", "any/bf16"):
        x = ts.array(np.float32(3), place=place)
        for each, value in ((x, 3), (ts.ops.neg(x), -3)):
            assert (each.shape, np.asarray(each).shape) == ((), ())
            assert float(np.asarray(each)) == value
        assert x.dtype == np.asarray(x).dtype
    total = ts.ops.reduce_sum(ts.array(X, place="any"), axes=(0, 1, 2, 3), keepdims=False)
    assert np.asarray(total).shape == ()


def test_an_op_without_kernels_in_the_layout_converts(found: list[str]) -> None:
    x = ts.array(X, place="any/f32/nhwc")
    values, indices = ts.ops.topk(x, k=2)
    assert found == ["pack", "place.relayout"]
    assert (values.place, indices.place) == (f"{CPU}/f32/nchw", f"{CPU}/i64/nchw")
    np.testing.assert_array_equal(np.asarray(indices), np.argsort(-X, axis=-1)[..., :2])
    with pytest.raises(ts.UnsupportedError, match="those are refused"):
        ts.ops.with_options(fallback="error").topk(x, k=2)


def test_elements_are_promoted(found: list[str]) -> None:
    half = ts.array(X, place="any/f16/nhwc")
    y = ts.ops.add(half, half)
    assert y.place == f"{CPU}/f16/nhwc"
    assert found == ["pack"]
    z = ts.ops.add(y, X)
    assert (z.place.split("/")[1], found.count("nn.cast")) == ("f32", 1)
    expected = (2 * X.astype(np.float16)).astype(np.float32) + X
    np.testing.assert_allclose(np.asarray(z), expected, rtol=1e-6)
    b = ts.array(X, place="any/bf16")
    assert ts.ops.mul(half, b).dtype == np.float32  # neither represents the other
    assert ts.ops.mul(b, 2.0).dtype == ml_dtypes.bfloat16
    with pytest.raises(ShapeError, match="element"):
        ts.ops.add(half, np.ones(8, np.int32))


def test_the_device_of_the_highest_priority() -> None:
    x, y = ts.array(X, place="host"), ts.array(X, place="any/any/nhwc")
    assert 'kernel = "host"' in ts.ops.add.lower(x, x).as_text("placed")
    assert 'kernel = "add"' in ts.ops.add.lower(x, y).as_text("placed")
    assert ts.ops.add(x, x).place == "host/f32/nchw"
    np.testing.assert_array_equal(np.asarray(ts.ops.add(x, y)), X + X)


def test_symbolic_sizes_and_padding(found: list[str]) -> None:
    for n in (3, 5, 9, 10, 2):
        x = normal(2, n, 3, n)
        at = ts.array(x, place="any/any/nchw4c")
        y = ts.ops.add(at, np.float32(1.0))
        assert y.place == f"{CPU}/f32/nchw4c"
        np.testing.assert_array_equal(np.asarray(y), x + 1)
    assert found.count("place.relayout") == 0


def test_plain_operands_of_any_order_of_memory() -> None:
    x = ts.array(X, place="any/any/nhwc")
    other = np.asfortranarray(X)
    for operand in (other, other.astype(">f4"), X[:, :, ::-1, :]):
        np.testing.assert_array_equal(np.asarray(ts.ops.add(x, operand)), X + operand)
    np.testing.assert_array_equal(np.asarray(ts.ops.reshape(x, shape=(X.size,))), X.reshape(-1))


def test_stages_and_files(tmp_path: Any) -> None:
    lowered = ts.ops.relu.lower(ts.array(X, place="any/any/nhwc"))
    with pytest.raises(OptionError, match="takes plain arrays"):
        lowered.compile()
    file = tmp_path / "relu.nn"
    file.write_text(lowered.as_text())
    with pytest.raises(InvalidModelError, match=r"nn\.place is for calls of single ops"):
        ts.compile(file)


@pytest.mark.parametrize(
    "error, message, value, place",
    [
        (InputError, "requires an array", "text", "any"),
        (InputError, "requires an array", object(), "any"),
        (InputError, "requires an array", [[1, 2], [3]], "any"),
        (InputError, "requires an array", [np.arange(2), object()], "any"),
        (OptionError, "unknown part 'gpu'", X, "gpu"),
        (OptionError, f"the device {CPU} or host", X, "opencl"),
        (OptionError, "the precision f32 of the array", X, "any/i8"),
        (OptionError, "the precision i64 of the array", [1], "any/f32"),
        (OptionError, "memory order", X, "any/any/image"),
        (OptionError, "row-major memory for f32 on host", X, "host/f32/nhwc"),
        (OptionError, "row-major", X, "any/f8E4M3FN/nhwc"),
        (OptionError, "a place is a text", X, None),
    ],
)
def test_errors(error: type[Exception], message: str, value: Any, place: Any) -> None:
    with pytest.raises(error, match=message):
        ts.array(value, place=place)


def test_no_copy_is_refused() -> None:
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(ts.array(X, place="any"), copy=False)
