"""Each op on complex numbers: against NumPy, or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella import ops
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.traits import MovesElements
from tessella.support.errors import InputError, ShapeError, TessellaError
from tests.native import normal
from tests.op_examples import COMPUTING, Example

Array = npt.NDArray[Any]
DTYPES = (np.complex64, np.complex128)
TOLERANCES = {"complex64": 1e-5, "float32": 1e-5, "complex128": 1e-13, "float64": 1e-13, "bool": 0}


def numbers(*shape: int, seed: int = 0, dtype: npt.DTypeLike = np.complex64) -> Array:
    """N(0, 1) as real and imaginary parts."""
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)).astype(dtype)


X, Y, W = numbers(4, 5), numbers(4, 5, seed=2), numbers(5, 3)
IMAGE, KERNEL = numbers(1, 2, 5), numbers(3, 2, 2)
FLAGS, ROWS = np.abs(X) > 1, np.array([2, -1])
CONV: dict[str, Any] = {"strides": (1,), "pads": (0, 0), "dilations": (1,), "groups": 1}


def convolved(x: Array, w: Array) -> Array:
    """The convolution of IMAGE with KERNEL, by its definition."""
    windows = np.stack([x[:, :, i : i + 2] for i in range(4)], axis=-2)
    return np.einsum("nclk,ock->nol", windows, w)


def spread(x: Array, w: Array) -> Array:
    """The transposed convolution of a sequence, by its definition."""
    y = np.zeros((1, 2, 6), x.dtype)
    for i in range(5):
        y[:, :, i : i + 2] += np.einsum("nc,cok->nok", x[:, :, i], w)
    return y


def written(x: Array, y: Array) -> Array:
    x = x.copy()
    x[ROWS] = y[:2]
    return x


def added(x: Array, y: Array) -> Array:
    x = x.copy()
    np.add.at(x, ROWS, y[:2])
    return x


UNARY = (
    "exp log log2 log10 sqrt reciprocal sin cos tan sinh cosh tanh conj real imag abs"
    " asin acos atan asinh acosh atanh"
).split()
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide}
Computed = tuple[tuple[Array, ...], Mapping[str, Any], Callable[..., Any]]
COMPUTED: Mapping[str, Computed] = {
    **{name: ((X,), {}, getattr(np, name)) for name in UNARY},
    "neg": ((X,), {}, np.negative),
    "is_nan": ((np.where(FLAGS, np.nan * 1j, X),), {}, np.isnan),
    "is_inf": ((np.where(FLAGS, complex(0, np.inf), X),), {}, np.isinf),
    **{name: ((X, Y), {}, function) for name, function in BINARY.items()},
    "pow": ((X, Y), {}, np.power),
    "equal": ((X, np.where(FLAGS, X, Y)), {}, np.equal),
    "where": ((FLAGS, X, Y), {}, np.where),
    "matmul": ((X, W), {}, np.matmul),
    "fc": ((X, W, W[0]), {}, lambda x, w, b: x @ w + b),
    "conv": ((IMAGE, KERNEL), CONV, convolved),
    "conv_transpose": ((IMAGE, KERNEL[:2]), CONV | {"output_pads": (0,)}, spread),
    "col2im": (
        (numbers(1, 1, 2, 4),),
        {"image": (5,), "strides": (1,), "dilations": (1,), "starts": (0,)},
        lambda x: (
            np.pad(x[:, :, 0], [(0, 0)] * 2 + [(0, 1)])
            + np.pad(x[:, :, 1], [(0, 0)] * 2 + [(1, 0)])
        ),
    ),
    "reduce_sum": ((X,), {"axes": (1,)}, lambda x: x.sum(1)),
    "reduce_mean": ((X,), {"axes": (0,)}, lambda x: x.mean(0)),
    "reduce_prod": ((X,), {"axes": (1,)}, lambda x: x.prod(1)),
    "cumsum": ((X,), {"axis": 1}, lambda x: np.cumsum(x, 1)),
    "cumprod": ((X,), {"axis": 0}, lambda x: np.cumprod(x, 0)),
    "pad": (
        (X,),
        {"low": (1, 0), "high": (0, 2), "value": 0.5},
        lambda x: np.pad(x, [(1, 0), (0, 2)], constant_values=0.5),
    ),
    "scatter_elements": (
        (X, np.tile(ROWS[:, None], 5), Y[:2]),
        {"axis": 0},
        lambda x, _, y: written(x, np.resize(y, x.shape)),
    ),
    "scatter_nd": ((X, ROWS[:, None], Y[:2]), {"reduction": "add"}, lambda x, _, y: added(x, y)),
    "resize": ((X,), {"sizes": (8, 5), "scales": (2.0, 1.0)}, lambda x: np.repeat(x, 2, 0)),
    "cast": ((X,), {"to": np.complex128}, lambda x: x.astype(np.complex128)),
    "bitcast": ((X,), {"to": np.int64}, lambda x: x.view(np.int64)),
}


def short(example: Example) -> str:
    """The name of an example's op without that of the dialect."""
    return example.op.name.removeprefix("nn.")


@pytest.mark.parametrize("name", COMPUTED)
def test_as_numpy(name: str) -> None:
    operands, settings, oracle = COMPUTED[name]
    widths = DTYPES if name not in ("cast", "bitcast") else DTYPES[:1]
    for dtype in widths:
        given = [x.astype(dtype) if x.dtype.kind == "c" else x for x in operands]
        found, expected = getattr(ops, name)(*given, **settings), np.asarray(oracle(*given))
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        rtol = TOLERANCES.get(expected.dtype.name, 0)
        np.testing.assert_allclose(found, expected, rtol, rtol)


def _moves(op: type[NnOp]) -> bool:
    trait = op.get_trait(MovesElements)
    return trait is not None and not trait.fills


MOVING = [x for x in COMPUTING.values() if _moves(x.op)]
"""The examples of ops that only move elements of operands, and fill nothing in."""


@pytest.mark.parametrize("example", MOVING, ids=lambda x: x.op.name)
def test_parts_are_moved_alike(example: Example) -> None:
    op, arrays = getattr(ops, short(example)), example.arrays("c64")

    def moved(part: Callable[[Array], Array]) -> Array:
        parts = (part(x) if x.dtype.kind == "c" else x for x in arrays)
        return op(*parts, **example.python_settings)

    found = op(*arrays, **example.python_settings)
    np.testing.assert_array_equal(found.real, moved(np.real))
    np.testing.assert_array_equal(found.imag, moved(np.imag))


def test_all_others_are_refused() -> None:
    taken = {short(x) for x in COMPUTING.values() if x.takes("c64")}
    # the examples of these ops have real results
    assert taken == COMPUTED.keys() - {"cast", "bitcast"} | {*map(short, MOVING)}


REFUSED: list[tuple[str, type[TessellaError], Callable[[], Any]]] = [
    ("nn.less takes real numbers", ShapeError, lambda: ops.less(X, Y)),
    ("nn.max takes real numbers.*absolute values", ShapeError, lambda: ops.max(X, Y)),
    ("nn.reduce_min takes real", ShapeError, lambda: ops.reduce_min(X)),
    ("nn.arg_max takes real", ShapeError, lambda: ops.arg_max(X, axis=0)),
    ("nn.cummax takes real", ShapeError, lambda: ops.cummax(X, axis=0)),
    ("nn.topk takes real", ShapeError, lambda: ops.topk(X, k=1)),
    ("nn.relu takes real", ShapeError, lambda: ops.relu(X)),
    (
        "nn.scatter_nd takes real",
        ShapeError,
        lambda: ops.scatter_nd(X, ROWS[:, None], Y[:2], reduction="max"),
    ),
    *(
        ("imaginary parts of complex numbers would be lost", ShapeError, cast)
        for cast in (
            lambda: ops.cast(X, to=np.float16),
            lambda: ops.cast(X, to=np.float32),
            lambda: ops.cast(X, to=np.int64),
        )
    ),
    (
        "strings do not become complex",
        ShapeError,
        lambda: ops.cast(np.array(["1"], "T"), to=np.complex64),
    ),
    ("element types differ", ShapeError, lambda: ops.add(X, np.abs(X))),
    ("element types differ", ShapeError, lambda: ops.mul(np.abs(X), 1j)),
    ("no element type for complex256", InputError, lambda: ops.abs(X.astype(np.clongdouble))),
]


@pytest.mark.parametrize("message, error, call", REFUSED)
def test_errors(message: str, error: type[TessellaError], call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_numbers_and_casts() -> None:
    np.testing.assert_allclose(ops.mul(X, 2j), X * np.complex64(2j), rtol=1e-6)
    assert ops.add(X, 1.5).dtype == np.complex64
    assert ops.abs(3 + 4j) == 5
    assert ops.cast(np.array([1.5], np.float16), to=np.complex64).tolist() == [1.5]
    assert ops.cast(np.array([0j, 1j]), to=np.bool_).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_complex_numbers_of_parts(dtype: npt.DTypeLike) -> None:
    real, imag = normal(4, 5).astype(dtype), np.array([1, np.inf, 0, np.nan, -0.0], dtype)
    found = ops.complex(real, imag)
    assert found.dtype == np.result_type(dtype, np.complex64)
    np.testing.assert_array_equal(found.real, real)
    np.testing.assert_array_equal(found.imag, np.broadcast_to(imag, real.shape))
    with pytest.raises(ShapeError, match="takes parts of f32 or f64"):
        ops.complex(np.arange(3), np.arange(3))


def test_real_numbers_have_no_imaginary_parts() -> None:
    for x in (np.arange(-2, 3), normal(5), normal(5).astype(np.float16)):
        for name, expected in (("real", x), ("imag", np.zeros_like(x)), ("conj", x)):
            np.testing.assert_array_equal(getattr(ops, name)(x), expected, strict=True)


def test_infinities_and_nan() -> None:
    x = np.array([complex(np.inf, 0), complex(0, -np.inf), complex(np.nan, 1), 1e200 + 1e200j, -0j])
    y = x[::-1].copy()
    with np.errstate(all="ignore"):
        for name, oracle in BINARY.items():
            np.testing.assert_array_equal(getattr(ops, name)(x, y), oracle(x, y))
        assert ops.is_nan(x).tolist() == np.isnan(x).tolist()
        assert ops.is_inf(x).tolist() == np.isinf(x).tolist()
        np.testing.assert_array_equal(ops.abs(x), np.abs(x))
