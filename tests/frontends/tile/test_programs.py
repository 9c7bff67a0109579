"""Well-known programs, against NumPy and ONNX Runtime, and against the trying of all points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessella
from tests.dialects.oracle import runtime
from tests.frontends.tile.checks import numbers, run, same
from tests.frontends.tile.points import Array
from tests.native import RUNNABLE

NHWC = (0, 2, 3, 1)
NCHW = (0, 3, 1, 2)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("shape, channels", [((1, 8, 8, 4), 16), ((2, 5, 7, 3), 5)])
def test_the_article(shape: tuple[int, ...], channels: int, target: str) -> None:
    d, k = numbers(*shape), numbers(3, 3, channels, shape[-1])
    program = """
        function (D[N, X, Y, CI], K[I, J, CO, CI]) -> (R) {
            O[n, x, y, co : N, X, Y, CO] = +(D[n, x+i-1, y+j-1, ci] * K[i, j, co, ci]);
            R = (O > 0 ? O : 0);
        }"""
    got = run(program, d, k, target=target)
    want = runtime("Conv", d.transpose(NCHW), k.transpose(2, 3, 0, 1), pads=(1, 1, 1, 1))[0]
    same(got, np.maximum(want.transpose(NHWC), 0))


@pytest.mark.parametrize("m, k, n", [(5, 6, 7), (1, 3, 17), (16, 1, 33)])
@pytest.mark.parametrize(
    "a_forms, b_forms", [("m,k", "k,n"), ("k,m", "k,n"), ("m,k", "n,k"), ("k,m", "n,k")]
)
def test_matrix_products(m: int, k: int, n: int, a_forms: str, b_forms: str) -> None:
    sizes = {"m": m, "k": k, "n": n}
    a = numbers(*(sizes[i] for i in a_forms.split(",")))
    b = numbers(*(sizes[i] for i in b_forms.split(",")))
    head = f"A[{a_forms.upper()}], B[{b_forms.upper()}]"
    program = f"function ({head}) -> (C) {{ C[m, n : M, N] = +(A[{a_forms}] * B[{b_forms}]); }}"
    left = a if a_forms == "m,k" else a.T
    right = b if b_forms == "k,n" else b.T
    same(run(program, a, b), left @ right)


def test_batched_product_and_its_vector() -> None:
    a, b, v = numbers(2, 3, 4, 5), numbers(2, 3, 5, 6), numbers(6)
    program = """
        function (A[B, H, M, K], C[B, H, K, N], V[N]) -> (P, W) {
            P[b, h, m, n : B, H, M, N] = +(A[b, h, m, k] * C[b, h, k, n]);
            W[b, h, m : B, H, M] = +(P[b, h, m, n] * V[n]);
        }"""
    p, w = run(program, a, b, v)
    same(p, a @ b)
    same(w, a @ b @ v)


@pytest.mark.parametrize("stride, dilation, pad", [(1, 1, 0), (2, 1, 1), (1, 3, 2), (3, 2, 1)])
def test_convolutions(stride: int, dilation: int, pad: int) -> None:
    x, w = numbers(2, 3, 9, 11), numbers(4, 3, 3, 2)
    out = [(n + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for n, k in ((9, 3), (11, 2))]
    moved = f"{stride}*%s + {dilation}*%s - {pad}"
    program = f"""
        function (X[N, CI, H, W], K[CO, CI, I, J]) -> (Y) {{
            Y[n, co, y, x : N, CO, {out[0]}, {out[1]}] =
                +(X[n, ci, {moved % ("y", "i")}, {moved % ("x", "j")}] * K[co, ci, i, j]);
        }}"""
    settings: dict[str, Any] = {
        "strides": (stride,) * 2,
        "dilations": (dilation,) * 2,
        "pads": (pad,) * 4,
    }
    same(run(program, x, w), runtime("Conv", x, w, **settings)[0])


def test_grouped_and_depthwise_convolutions() -> None:
    x = numbers(1, 6, 7, 8)
    grouped = """
        function (X[N, CI, H, W], K[CO, GI, I, J]) -> (Y) {
            Y[n, 2*g + o, y, x : N, CO, H - I + 1, W - J + 1] =
                +(X[n, GI*g + c, y + i, x + j] * K[2*g + o, c, i, j]), o < 2;
        }"""
    same(run(grouped, x, numbers(4, 3, 3, 2)), runtime("Conv", x, numbers(4, 3, 3, 2), group=2)[0])
    depthwise = """
        function (X[N, C, H, W], K[C, I, J]) -> (Y) {
            Y[n, c, y, x : N, C, H, W] = +(X[n, c, y+i-1, x+j-1] * K[c, i, j]);
        }"""
    k = numbers(6, 3, 3)
    want = runtime("Conv", x, k[:, None], group=6, pads=(1, 1, 1, 1))[0]
    same(run(depthwise, x, k), want)


def test_transposed_convolution() -> None:
    x, w = numbers(1, 2, 5, 4), numbers(2, 3, 3, 3)
    program = """
        function (X[N, CI, H, W], K[CI, CO, I, J]) -> (Y) {
            Y[n, co, 2*y + i - 1, 2*x + j - 1 : N, CO, 2*H - 1, 2*W - 1] =
                +(X[n, ci, y, x] * K[ci, co, i, j]);
        }"""
    want = runtime("ConvTranspose", x, w, strides=(2, 2), pads=(1, 1, 1, 1))[0]
    same(run(program, x, w), want)


@pytest.mark.parametrize("size", range(3, 9))
def test_max_pooling(size: int) -> None:
    x = numbers(2, 3, size, 7)
    program = """
        function (X[N, C, H, W]) -> (Y) {
            Y[n, c, y, x : N, C, (H + 1)/2, (W + 1)/2] =
                >(X[n, c, 2*y + i - 1, 2*x + j - 1]), i < 3, j < 3;
        }"""
    want = runtime("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))[0]
    same(run(program, x), want)


def test_average_pooling() -> None:
    x = numbers(1, 2, 8, 6)
    program = """
        function (X[N, C, H, W]) -> (Y) {
            S[n, c, y, x : N, C, H/2, W/2] = +(X[n, c, 2*y + i, 2*x + j]), i < 2, j < 2;
            Y = S / 4;
        }"""
    want = runtime("AveragePool", x, kernel_shape=(2, 2), strides=(2, 2))[0]
    same(run(program, x), want)


def test_average_pooling_of_the_elements_that_there_are() -> None:
    x, one = numbers(1, 2, 7, 6), np.ones((7, 6), np.float32)
    program = """
        function (X[N, C, H, W], O[H, W]) -> (Y) {
            S[n, c, y, x : N, C, H, W] = +(X[n, c, y+i-1, x+j-1]), i < 3, j < 3;
            K[y, x : H, W] = +(O[y+i-1, x+j-1]), i < 3, j < 3;
            Y = S / K;
        }"""
    settings: dict[str, Any] = {
        "kernel_shape": (3, 3),
        "pads": (1, 1, 1, 1),
        "count_include_pad": 0,
    }
    want = runtime("AveragePool", x, **settings)[0]
    np.testing.assert_allclose(run(program, x, one), want, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5, 17, 40])
def test_cumulative_and_windowed_sums(size: int) -> None:
    x = numbers(size)
    cumulative = "function (A[N]) -> (S) { S[i : N] = +(A[k]), i - k < N; }"
    same(run(cumulative, x), np.cumsum(x))
    windowed = "function (A[N]) -> (S) { S[i : N] = +(A[i - k]), k < 3; }"
    same(run(windowed, x), np.convolve(x, np.ones(3, np.float32))[:size])


@pytest.mark.parametrize("size", [3, 4, 50])
@pytest.mark.parametrize("extra", [-1, 0, 2, 3])
def test_unpooling_with_overlap(size: int, extra: int) -> None:
    x = numbers(size)
    program = f"function (I[N]) -> (O) {{ O[2*x + i : 2*N + {extra}] = +(I[x]), i < 4; }}"
    want = np.zeros(2 * size + 4, np.float32)
    for i in range(4):
        want[i : i + 2 * size : 2] += x
    same(run(program.replace("+ -", "- "), x), want[: 2 * size + extra])


@pytest.mark.parametrize("size", [1, 2, 5, 20])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_repeated_elements(size: int, cut: int) -> None:
    x = numbers(size)
    program = f"function (I[N]) -> (O) {{ O[3*i + k : 3*N - {cut}] = =(I[i]), k < 3; }}"
    same(run(program, x), np.repeat(x, 3)[: 3 * size - cut])


def test_global_minimum_by_maximum() -> None:
    x = numbers(4, 5, 6) - 7
    program = """
        function (A[X, Y, Z]) -> (M, L) {
            B = -A;
            O[] = >(B[x, y, z]);
            M = -O;
            L[] = <(A[x, y, z]);
        }"""
    least, other = run(program, x)
    same(least, x.min())
    same(other, x.min())


def test_mean_and_variance() -> None:
    x = np.random.default_rng(0).standard_normal((6, 16)).astype(np.float32)
    program = """
        function (A[N, C]) -> (M, V) {
            S[n, 0 : N, 1] = +(A[n, c]);
            M = S / C;
            D = A - M;
            Q[n, 0 : N, 1] = +(D[n, c] * D[n, c]);
            V = Q / C;
        }"""
    mean, variance = tessella.tile(program)(x)
    np.testing.assert_allclose(mean, x.mean(1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, x.var(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_softmax() -> None:
    x = np.random.default_rng(0).standard_normal((5, 33)).astype(np.float32)
    program = """
        function (A[N, C]) -> (R) {
            M[n, 0 : N, 1] = >(A[n, c]);
            E = exp(A - M);
            S[n, 0 : N, 1] = +(E[n, c]);
            R = E / S;
        }"""
    np.testing.assert_allclose(
        tessella.tile(program)(x), runtime("Softmax", x, axis=1)[0], rtol=1e-5
    )


def test_conditions_find_the_maximum() -> None:
    x = numbers(4, 7)
    program = """
        function (A[N, C], P[C]) -> (I) {
            M[n : N] = >(A[n, c]);
            I[n : N] = >(A[n, c] == M[n] ? P[c]);
        }"""
    places = np.arange(7, dtype=np.int32)
    last = 6 - x[:, ::-1].argmax(1)
    same(run(program, x, places), last.astype(np.int32))


@pytest.mark.sweep
@pytest.mark.parametrize("aggregation", "+*><")
@pytest.mark.parametrize("dtype", "float32 float64 int8 int16 int32 int64 bool".split())
def test_elements_that_no_point_reaches(aggregation: str, dtype: str) -> None:
    x = numbers(5, dtype=dtype)
    t = numbers(12, dtype=dtype, seed=1)
    # beyond the ends, between, and where the window is empty
    program = f"""
        function (A[N], T[M], U[]) -> (P, Q, R, S) {{
            P[i : M] = {aggregation}(A[i + j - 3]), j < 2;
            Q[i : M] = {aggregation}(A[i + j - 3]), j < 2 default T;
            R[3*i + 1] = {aggregation}(A[i + j]), j < 2 default T;
            S[2*i + 3*j - 4 : M] = {aggregation}(A[i]), j < 2 default U;
        }}"""
    run(program, x, t, numbers(dtype=dtype, seed=2))


@pytest.mark.parametrize("aggregation, neutral", [("+", False), ("*", True)])
def test_booleans_along_the_lanes(aggregation: str, neutral: bool) -> None:
    """In every other row one element differs, in each lane once."""
    x = np.full((70, 70), neutral)
    x[np.arange(1, 70, 2), np.arange(1, 70, 2)] = not neutral
    result = run(f"function (A[M, N]) -> (S) {{ S[m : M] = {aggregation}(A[m, n]); }}", x)
    same(result, np.all(x, axis=1) if neutral else np.any(x, axis=1))


def test_spaces_without_points() -> None:
    x, t = numbers(4), numbers(3, seed=1)
    program = """
        function (A[N], T[M]) -> (P, Q, R) {
            P[i : M] = >(A[i]), 0 - 1 < 3;
            Q[i : M] = *(A[2*i + 1/2]) default T;
            R[] = <(A[i]), i < 0;
        }"""
    p, q, r = run(program, x, t)
    same(p, np.zeros(3, np.float32))
    same(q, t)
    same(r, np.float32(0))


def test_tensors_without_elements() -> None:
    program = """
        function (A[N, M], B[N]) -> (P, Q, R) {
            P[m : M] = +(A[n, m]);
            Q[n : N] = >(A[n, m]);
            R = B + 1;
        }"""
    p, q, r = run(program, numbers(0, 3), numbers(0))
    assert (p.tolist(), q.shape, r.shape) == ([0, 0, 0], (0,), (0,))
    p, q, r = run(program, numbers(3, 0), numbers(3))
    assert (p.shape, q.tolist()) == ((0,), [0, 0, 0])


def test_diagonals_and_constant_coordinates() -> None:
    x = numbers(4, 4)
    program = """
        function (A[N, M]) -> (D, E, T) {
            D[i, i : N, M] = =(A[i, i]);
            E[2, i : N, M] = =(A[i, 1]);
            T[] = +(A[i, i]);
        }"""
    d, e, t = run(program, x)
    same(d, np.diag(np.diag(x)))
    assert e[2].tolist() == x[:, 1].tolist()
    same(t, np.trace(x))


def test_numbers_are_dimensions() -> None:
    x = numbers(9)
    program = """
        function (A[N]) -> (R, P, Q) {
            P = (N - 1)/4;
            Q = P * 1.5;
            R[i : N - 2*P] = +(A[i + j]), j < 2*P + 1;
        }"""
    r, p, q = run(program, x)
    same(r, np.convolve(x, np.ones(5, np.float32), "valid"))
    same(p, np.int32(2))
    same(q, np.float32(3))


def test_sizes_round_toward_zero() -> None:
    program = "function (A[N]) -> (R) { R[i : (N - 6)/2 + 3] = +(A[i]); }"
    assert [run(program, numbers(n)).shape for n in (1, 2, 3, 8, 9)] == [
        (1,),
        (1,),
        (2,),
        (4,),
        (4,),
    ]


def test_inputs_of_any_shape_and_outputs_that_are_inputs() -> None:
    program = "function (A, B, C) -> (R, B) { R = A * B; }"
    a, b = numbers(2, 3), numbers(3)
    r, kept = run(program, a, b, numbers(4))
    same(r, a * b)
    assert kept is not b
    assert run(program, numbers(1), numbers(5, 1, 2), numbers())[0].shape == (5, 1, 2)


def many_statements(count: int) -> str:
    chain = " ".join(f"B{i + 1} = B{i} * 2 - A;" for i in range(count))
    return f"function (A[N]) -> (B{count}) {{ B0 = A; {chain} }}"


def test_many_statements() -> None:
    x = np.ones(5, np.float32)
    same(tessella.tile(many_statements(300))(x), x)


def stretched(x: Array, target: str | None) -> Array:
    program = "function (A[N], T[M]) -> (R) { R[3*i + 2*k] = >(A[i]), k < 2 default T; }"
    return run(program, x, numbers(4 * len(x), seed=1), target=target)


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("size", [1, 4, 16, 33])
def test_every_vector_width(size: int, target: str) -> None:
    stretched(numbers(size), target)


def test_a_diagonal_of_what_steps_write() -> None:
    """A step writes rows of T, of which each one is read at another column."""
    a = numbers(400, 403)
    program = """
        function (A[N, M]) -> (D) {
            T[i, j : N, N] = +(A[i, j + k]), k < 4;
            D[i : N] = +(T[i, N - 1 - i]);
        }"""
    t = np.stack([a[:, k : k + 400] for k in range(4)]).sum(axis=0)
    rows = np.arange(400)
    same(run(program, a), t[rows, 399 - rows])
