"""Complex numbers in traced functions, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import TessellaError
from tests.frontends.trace.checks import Array, array


def numbers(*shape: int, seed: int = 0, dtype: str = "complex64") -> Array:
    real, imaginary = (array(shape, seed=seed + i) for i in range(2))
    return (real + 1j * imaginary).astype(dtype)


Z, Y, R = numbers(3, 4), numbers(3, 4, seed=2), array((3, 4), seed=4)
WIDE = Z.astype(np.complex128)
WEIGHT, BIAS = numbers(4, 5, seed=6), numbers(5, seed=8)
SMALL = np.arange(12, dtype=np.int16).reshape(3, 4)


def check(function: Callable[..., Any], *args: Any) -> None:
    """Assert that all results of a function are those of NumPy."""
    with np.errstate(all="ignore"):
        wanted = function(*args)
    for found, expected in zip(tessella.jit(function)(*args), wanted, strict=True):
        expected = np.asarray(expected)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        tolerance = 1e-12 if expected.dtype.name in ("complex128", "float64") else 2e-5
        np.testing.assert_allclose(found, expected, tolerance, tolerance)


def arithmetic(z: Any, y: Any) -> Sequence[Any]:
    return [z + y, z - y, z * y, z / y, z**y, -z, z == y, z != z, z**2, z**2.0, np.square(z)]


@pytest.mark.parametrize(
    "operands",
    [(Z, Y), (Z, R), (R, Z), (Z, WIDE), (SMALL, Z), (Z, 2j), (R, 2j), (2j, 3)],
)
def test_arithmetic(operands: tuple[Any, Any]) -> None:
    check(arithmetic, *operands)


def test_numbers_in_the_function() -> None:
    check(lambda z, r, i: [z + 1j, r * 1j, i * 2j, 1j - z, z * 2, z / 2.5, r + 0j], Z, R, SMALL)
    check(lambda flags, z: [flags * z, flags + 1j, np.equal(flags, z)], R > 0, Z)
    check(lambda r: [(1j * r) * np.float32(2), 2j * (r.shape[0] + 1j)], R)


def test_ufuncs() -> None:
    names = (
        "exp log sqrt sin cosh tanh arctan conjugate absolute reciprocal isfinite isnan positive"
    )
    check(lambda *xs: [getattr(np, name)(x) for x in xs for name in names.split()], Z, WIDE)
    check(lambda *xs: [np.isfinite(x) for x in xs], np.array([1e300 + 1e300j, np.inf * 1j]))


def test_parts() -> None:
    check(
        lambda *xs: [y for x in xs for y in (x.real, x.imag, x.conj(), np.real(x), np.imag(x))],
        *(Z, WIDE, R, SMALL, R.astype(np.float16)),
    )
    check(lambda z: [abs(z), abs(abs(z)), np.negative(-z), np.conj(np.conj(z)), z.real + z.imag], Z)


def test_reductions_and_products() -> None:
    check(
        lambda z: [z.sum(), z.mean(1), z.prod(0), z.cumsum(1), np.cumprod(z, 0), z.any(), z.all(0)],
        Z,
    )
    check(lambda z, y: [z @ y.T, np.dot(z, WEIGHT), (z @ WEIGHT * BIAS + BIAS) * 2j], Z, Y)
    check(lambda z: [z @ WEIGHT.astype(np.complex128), z[0] @ WEIGHT], Z)


def test_moves() -> None:
    check(
        lambda z, y: [
            z.T, z.reshape(2, 6), z[1:, ::-2], z[np.array([2, 0])], np.concatenate([z, y]),
            np.stack([z, y], 1), np.where(y.real > 0, z, 1j), np.tile(z, 2), np.flip(z, 0),
            z.astype(np.complex128), z.astype(bool), np.zeros_like(z), np.full_like(z, 2j),
        ],
        Z, Y,
    )  # fmt: skip


def test_constants_of_equal_elements() -> None:
    for dtype in (np.complex64, np.complex128):
        constant = np.full((3, 4), 1 - 2j, dtype)
        check(lambda z, c=constant: [z + c, c * 1, z + tessella.full((3, 4), 1j, c.dtype)], Z)


def test_stores() -> None:
    def stored(z: Any, y: Any) -> Sequence[Any]:
        a, b = z.copy(), z.copy()
        a[1], a[0, 1] = y[0], 2j
        a += y.real
        np.add.at(b, np.array([0, 0, 2]), 1j)
        np.subtract.at(b, np.array([1]), y[:1])
        return [a, b]

    check(stored, Z, Y)


def test_sums_of_segments() -> None:
    found = tessella.jit(lambda z: tessella.segment_sum(z, np.array([0, 1, 0]), 2))(Z)
    np.testing.assert_allclose(found, [Z[0] + Z[2], Z[1]], rtol=1e-5)


def test_open_sizes() -> None:
    function = tessella.jit(lambda z: np.abs(z @ z.T.conj()) * z.shape[0])
    for rows in (2, 3, 5):
        z = numbers(rows, 4)
        np.testing.assert_allclose(function(z), np.abs(z @ z.T.conj()) * rows, rtol=1e-5)


def test_fused_formulas() -> None:
    """Formulas of networks, which patterns make one op of where the numbers are real."""
    check(
        lambda z: [
            np.exp(z) / np.exp(z).sum(-1, keepdims=True),
            z / (1 + np.exp(-z)),
            0.5 * z * (1 + np.tanh(0.79788456 * (z + 0.044715 * z**3))),
            (z - z.mean(-1, keepdims=True)) / np.sqrt((z * z).mean(-1, keepdims=True) + 1e-5),
            np.sqrt(z * z), z * 1 + 0.0, z / 4, 1 / np.sqrt(z), z - z, z * 0,
        ],
        Z,
    )  # fmt: skip


CASTS = "the imaginary parts of complex numbers would be lost"
REFUSED: list[tuple[str, Callable[[Any], Any]]] = [
    ("np.less takes no complex numbers", lambda z: z < 1),
    ("np.maximum takes no complex numbers", lambda z: np.maximum(z, z)),
    ("np.maximum takes no complex numbers", lambda z: np.clip(z, 0, 1)),
    ("np.sign takes no complex numbers", np.sign),
    ("np.expm1 takes no complex numbers", np.expm1),
    ("np.floor does not take complex64", np.floor),
    ("np.remainder does not take complex64", lambda z: z % 2),
    ("nn.reduce_max takes real numbers", lambda z: z.max()),
    ("nn.arg_min takes real numbers", lambda z: z.argmin()),
    ("nn.topk takes real numbers", np.sort),
    ("nn.softmax takes floating-point", tessella.softmax),
    ("segment_max takes real", lambda z: tessella.segment_max(z, np.array([0, 1, 0]), 2)),
    ("np.linalg.norm is not known", np.linalg.norm),
    (CASTS, lambda z: z.astype(np.float32)),
    (CASTS, lambda z: z.astype(np.float16)),
    (CASTS, lambda z: z.astype(np.int64)),
    (CASTS, np.var),
]


@pytest.mark.parametrize("message, function", REFUSED)
def test_errors(message: str, function: Callable[[Any], Any]) -> None:
    with pytest.raises(TessellaError, match=message):
        tessella.jit(function)(Z)


@pytest.mark.parametrize("value", [3j, Z, WIDE[0, 0]], ids=["number", "array", "scalar"])
def test_a_real_array_stores_no_complex_numbers(value: Any) -> None:
    def stored(r: Any) -> Any:
        y = r.copy()
        y[:] = value
        return y

    with pytest.raises(TessellaError, match=CASTS):
        tessella.jit(stored)(R)


def test_results_that_are_numbers() -> None:
    found: Any = tessella.jit(lambda z: (z, 2j, np.complex64(1j)))(Z)
    assert [x.dtype.name for x in found] == ["complex64", "complex128", "complex64"]
    assert found[1] == 2j
