"""Functions and operators, element by element, against NumPy; and the types of their results."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.frontends.tile.functions import FUNCTIONS
from tests.frontends.tile.checks import numbers, run, same
from tests.frontends.tile.points import Array

SMOOTH: dict[str, tuple[Callable[[Array], Any], float, float]] = {
    "acos": (np.arccos, -1, 1),
    "acosh": (np.arccosh, 1, 9),
    "asin": (np.arcsin, -1, 1),
    "asinh": (np.arcsinh, -9, 9),
    "atan": (np.arctan, -9, 9),
    "atanh": (np.arctanh, -0.9, 0.9),
    "cos": (np.cos, -9, 9),
    "cosh": (np.cosh, -5, 5),
    "erf": (lambda x: np.array([math.erf(v) for v in x]), -3, 3),
    "exp": (np.exp, -9, 9),
    "log": (np.log, 0.1, 9),
    "recip": (np.reciprocal, 0.1, 9),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -9, 9),
    "sin": (np.sin, -9, 9),
    "sinh": (np.sinh, -5, 5),
    "sqrt": (np.sqrt, 0, 9),
    "tan": (np.tan, -1, 1),
    "tanh": (np.tanh, -9, 9),
}
EXACT: dict[str, tuple[int, str]] = {
    "abs(A)": (1, "if"),
    "neg(A)": (1, "if"),
    "sign(A)": (1, "if"),
    "relu(A)": (1, "if"),
    "ident(A)": (1, "bif"),
    "ceil(A)": (1, "if"),
    "floor(A)": (1, "if"),
    "round(A)": (1, "if"),
    "-A": (1, "if"),
    "~A": (1, "bi"),
    "A + B": (2, "bif"),
    "A - B": (2, "if"),
    "A * B": (2, "bif"),
    "A / B": (2, "if"),
    "mad(A, B, A)": (2, "if"),
    "min(A, B)": (2, "bif"),
    "max(A, B)": (2, "bif"),
    "A == B": (2, "bif"),
    "A != B": (2, "bif"),
    "A < B": (2, "bif"),
    "A <= B": (2, "bif"),
    "A > B": (2, "bif"),
    "A >= B": (2, "bif"),
    "A & B": (2, "bi"),
    "A | B": (2, "bi"),
    "A ^ B": (2, "bi"),
    "A << B": (2, "i"),
    "A >> B": (2, "i"),
    "A ? B : A": (2, "bif"),
}
SIGNED = "int8 int16 int32 int64".split()
UNSIGNED = "uint8 uint16 uint32 uint64".split()
DTYPES = ["bool", *SIGNED, *UNSIGNED, "float32", "float64"]


def inputs(dtype: str, count: int = 40) -> tuple[Array, Array]:
    """Numbers of both signs, zeros, and for floats halves."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (2, count))
    if dtype[0] == "f":
        a, b = a / 2, b / 2
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_functions(dtype: str) -> None:
    """All in one program; shifts by negative numbers, too."""
    kind = np.dtype(dtype).kind.replace("u", "i")
    texts = [text for text, (_, kinds) in EXACT.items() if kind in kinds]
    results = [f"R{i}" for i in range(len(texts))]
    body = " ".join(f"{name} = {text};" for name, text in zip(results, texts, strict=True))
    run(f"function (A, B) -> ({', '.join(results)}) {{ {body} }}", *inputs(dtype))


INEXACT_IN_DOUBLE = {"acos", "asin", "atan", "cos", "erf", "sin", "tan"}
"""Functions that float64 has no native code for."""


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_smooth_functions(dtype: str) -> None:
    """All in one program."""
    want = np.dtype("float64" if dtype == "float64" else "float32")
    rtol = 1e-6 if want == np.float32 else 1e-13
    arrays: dict[str, Array] = {}
    for name, (_, low, high) in SMOOTH.items():
        x = np.linspace(low, high, 50)
        if dtype[0] != "f":
            x = x[x != 0].round()
        if dtype != "float64" or name not in INEXACT_IN_DOUBLE:
            arrays[name] = x.astype(dtype)
    inputs, results = (", ".join(f"{x}{i}" for i in range(len(arrays))) for x in "AR")
    body = " ".join(f"R{i} = {name}(A{i});" for i, name in enumerate(arrays))
    got = tessella.tile(f"function ({inputs}) -> ({results}) {{ {body} }}")(*arrays.values())
    for (name, x), result in zip(arrays.items(), got, strict=True):
        with np.errstate(all="ignore"):
            expected = np.asarray(SMOOTH[name][0](x.astype(np.float64))).astype(want)
        assert result.dtype == want
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=1e-7, err_msg=name)


def test_powers() -> None:
    x, y = np.linspace(0.1, 9, 40, dtype=np.float32), np.linspace(-3, 3, 40, dtype=np.float32)
    got = tessella.tile("function (A, B) -> (R) { R = pow(A, B); }")(x, y)
    np.testing.assert_allclose(got, x**y, rtol=1e-6)


def test_every_function_is_tested() -> None:
    operators = {"add", "sub", "mul", "div", "cond"} | {
        n for n in FUNCTIONS if n[:3] in ("cmp", "bit")
    }
    called = {text.split("(")[0] for text in EXACT if "(" in text}
    assert FUNCTIONS.keys() - operators - called - SMOOTH.keys() == {"pow"}


def test_operators_by_name() -> None:
    a, b = inputs("int32")
    program = """
        function (A, B) -> (R, S, T, U) {
            R = sub(add(A, B), mul(A, div(B, 2)));
            S = cond(cmp_lt(A, B), bit_xor(A, B), bit_not(neg(A)));
            T = bit_or(bit_left(bit_and(A, 7), 2), bit_right(B, 1));
            U = as_bool(cmp_eq(A, B)) & cmp_ne(A, 0) | cmp_ge(A, B) & cmp_gt(B, 1) & cmp_le(B, 3);
        }"""
    r, s, t, u = run(program, a, b)
    same(r, a + b - a * np.trunc(b / 2).astype(np.int32))
    same(s, np.where(a < b, a ^ b, ~-a))
    same(t, (a & 7) << 2 | b >> 1)
    same(u, (a == b) & (a != 0) | (a >= b) & (b > 1) & (b <= 3))


@pytest.mark.parametrize("dtype", SIGNED)
def test_integers_at_their_limits(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a = np.array([limits.min, limits.max, -1, 0, 1, 5, -5], dtype)
    b = np.array([-1, limits.max, 0, 0, limits.min, 2, 2], dtype)
    program = """
        function (A, B) -> (S, P, Q, L, R) {
            S = A + B;
            P = A * B;
            Q = A / B;
            L = A << B;
            R = A >> B;
        }"""
    s, p, q, left, right = tessella.tile(program)(a, b)
    with np.errstate(all="ignore"):
        same(s, a + b)
        same(p, a * b)
    assert q.tolist() == [limits.min, 1, 0, 0, 0, 2, -2]
    amounts = [n if 0 <= n < limits.bits else limits.bits for n in b.tolist()]
    pairs = list(zip(a.tolist(), amounts, strict=True))
    span = 1 << limits.bits
    assert left.tolist() == [((x << n) - limits.min) % span + limits.min for x, n in pairs]
    assert right.tolist() == [x >> n for x, n in pairs]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_integers_at_their_limits(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a = np.array([0, 1, 5, limits.max, limits.max - 1, limits.max // 2 + 1, 9], dtype)
    b = np.array([3, 0, limits.max, 7, 1, 2, limits.bits], dtype)
    r, s, t = run(
        "function (A, B) -> (R, S, T) { R = A > B ? A - B : A / B; S = ~A >> 1; T = A >> B; }",
        a,
        b,
    )
    assert (r.dtype, s.dtype, t.dtype) == (dtype,) * 3
    run("function (A[N]) -> (S, P, M) { S[] = +(A[i]); P[] = *(A[i]); M[] = >(A[i]); }", a)
    run("function (A[N]) -> (M, F) { M[] = <(A[i]); F = as_float(A, 64) + as_int(A, 64); }", a)


@pytest.mark.sweep
@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_common_types(first: str, second: str) -> None:
    a, b = inputs(first)[0], inputs(second)[1]
    program = """
        function (A[N], B[N]) -> (R, C, M) {
            R = max(A, B);
            C[] = >(A[i] * B[i]);
            M[i : N] = =(A[i] == B[i]);
        }"""
    r, _, m = run(program, a, b)
    order = ["bool", *chain(*zip(SIGNED, UNSIGNED, strict=True)), "float32", "float64"]
    assert r.dtype == order[max(order.index(first), order.index(second))]
    assert m.dtype == bool


@pytest.mark.parametrize(
    "expression, dtype, result",
    [
        ("A + 1", "int8", "int8"),
        ("A + 1", "bool", "int32"),
        ("A + 1.5", "int64", "float32"),
        ("A + 1.5", "float64", "float64"),
        ("A * N", "int16", "int16"),
        ("A > 0 ? 1 : 0", "float64", "int32"),
        ("A > 0 ? 1 : 0.5", "float64", "float32"),
        ("A > 0 ? A : 0", "int8", "int8"),
        ("1.0 ? A : A", "int8", "int8"),
        ("exp(N) + A", "int8", "float32"),
        ("N", "int8", "int32"),
        ("N * 1.0", "int8", "float32"),
    ],
)
def test_numbers_take_the_type_of_tensors(expression: str, dtype: str, result: str) -> None:
    program = f"function (A[N]) -> (R) {{ R = {expression}; }}"
    assert tessella.tile(program)(numbers(3, dtype=dtype)).dtype == result


@pytest.mark.sweep
@pytest.mark.parametrize("start", DTYPES)
@pytest.mark.parametrize(
    "cast",
    ["float 32", "float 64", "int 8", "int 16", "int 32", "int 64", "uint 8", "uint 64", "bool"],
)
def test_casts(start: str, cast: str) -> None:
    kind, *bits = cast.split()
    a = inputs(start)[0]
    if kind == "uint" and start[0] == "f":
        a = np.abs(a)
    program = f"function (A) -> (R) {{ R = as_{kind}({', '.join(['A', *bits])}); }}"
    same(tessella.tile(program)(a), a.astype("".join([kind, *bits])))


def test_floats_that_integers_cannot_hold() -> None:
    x = np.array([1e10, -1e10, np.nan, 3.9, -3.9], np.float32)
    got = tessella.tile("function (A) -> (R) { R = as_int(A, 8); }")(x)
    assert got.tolist() == [127, -128, 0, 3, -3]
    got = tessella.tile("function (A) -> (R) { R = as_uint(A, 16); }")(x)
    assert got.tolist() == [65535, 0, 0, 3, 0]


@pytest.mark.parametrize(
    "value", ["(7 - 2*5)/2", "N/2 + -7/2", "1 << 4 | 3", "2.5 * N - 1e1", "N > 3 ? 5 : 6"]
)
def test_numbers_are_computed_beforehand(value: str) -> None:
    result = run(f"function (A[N]) -> (R) {{ R = {value}; }}", numbers(5))
    assert result.shape == ()


@pytest.mark.parametrize("x", [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 3])
def test_numbers_are_rounded_as_elements(x: float) -> None:
    program = f"function (A[N]) -> (R, S) {{ R = round({x}) + 0*A; S = round(A); }}"
    r, s = tessella.tile(program)(np.array([x], np.float64))
    same(r, s)


def test_infinities_and_nan() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1, -2], np.float32)
    program = """
        function (A[N]) -> (M, L, P, E, Z) {
            M[] = >(A[i]);
            L[] = <(A[i]), i < 2;
            P[] = *(A[i + 3]), i < 2;
            E = A != A;
            Z[i : N + 2] = >(A[i]), i < 2;
        }"""
    m, least, p, e, z = tessella.tile(program)(x)
    assert np.isnan(m)
    assert (least, p, e.tolist()) == (-np.inf, -2, [False, False, True, False, False])
    assert z.tolist() == [np.inf, -np.inf, 0, 0, 0, 0, 0]
