"""Tile programs whose sizes vary: dimensions stay open where the program allows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tessella
from tessella.support.errors import InputError, OptionError, ShapeError, TileError
from tests.frontends.tile import points
from tests.frontends.tile.checks import numbers, same
from tests.frontends.tile.test_program import compiled

SIZES = (5, 6, 9, 4, 13, 7)
"""All but the first are served by one program."""

OPEN = {
    "elementwise": ("A[N, M]", "R = A * 2 + 1;"),
    "sum": ("A[N, M]", "R[n : N] = +(A[n, m]);"),
    "mean": ("A[N, M]", "S[m : M] = +(A[n, m]); R = S / N;"),
    "product": ("A[N, M]", "R[i, j : N, N] = +(A[i, k] * A[j, k]);"),
    "pool": ("A[N, M]", "R[i, m : N/2, M] = >(A[2*i+j, m]), j < 2;"),
    "reversed": ("A[N, M]", "R[i, m : N, M] = =(A[N-1-i, m]);"),
    "repeated": ("A[N, M]", "R[3*i + k, m : 3*N, M] = =(A[i, m]), k < 3;"),
    "every other": ("A[N, M]", "R[i, m : N/2, M] = =(A[2*i, m]);"),
    "running sum": ("A[N, M]", "R[i, m : N, M] = +(A[k, m]), i - k < N;"),
    "running maximum": ("A[N, M]", "R[i, m : N, M] = >(A[k, m]), k - i < N;"),
    "softmax": (
        "A[N, M]",
        "X[n, 0 : N, 1] = >(A[n, m]); E = exp(0*(A - X)); S[n, 0 : N, 1] = +(E[n, m]); R = E / S;",
    ),
    "constants": ("A[N, M]", "P = (N-1)/2; R = A + P + N*M - (N > 1 ? 3 : N) + max(N, 2);"),
    "a size": ("A[N, M]", "R = N - 1;"),
    "places": ("A[N, M]", "R = index(A, 0) * as_int(A, 32) + N;"),
    "shape": ("A[N, M]", "R = shape(A);"),
    "scan": ("A[N, M]", "Z[m : M] = +(A[n, m]); R, Y = scan add(Z; A);"),
}
"""Programs with one dimension that stays open."""

NUMBERS = {
    "stride by a size": ("A[N, M]", "R[N*i + j : N*M] = =(A[j, i]);"),
    "half a size": ("A[N, M]", "R[i, m : N, M] = =(A[i + N/2 - N/2, m]);"),
    "a fraction": ("A[N, M]", "R = A * (1.5 / N);"),
    "a power": ("A[N, M]", "R = A * (N & 3);"),
    "sorted": ("A[N, M]", "R = argsort(A, 0, 0, N & 3);"),
    "reshaped": ("A[N, M]", "R = reshape(A, M, N);"),
    "pool with edges": ("A[N, M]", "R[i, m : (N+1)/2, M] = >(A[2*i+j-1, m]), j < 3;"),
    "rows at both ends": ("A[N, M]", "R[i, m : N, M] = <(A[i+j-1, m]), j < 3;"),
    "fewer": ("A[N, M]", "R[i, m : N-3, M] = +(A[i + 1, m]);"),
    "none": ("A[N, M]", "R[i, m : N, M] = +(A[i + 5, m]);"),
    "several values": ("A[N, M]", "R[i, m : N, M] = =(A[k, m]), 3*i - 3*k < 3;"),
}
"""Programs that may need the number."""

STEP = "function add (S, E) -> (Next, Y) { Next = S + E; Y = Next; }"


def program(head: str, body: str) -> str:
    step = STEP if "scan" in body else ""
    return f"{step} function ({head}) -> (R) {{ {body} }}"


def check(f: tessella.TileProgram, *arrays: points.Array) -> None:
    (want,) = points.run(f.source, *arrays).values()
    same(f(*arrays), want)


@pytest.mark.parametrize("head, body", OPEN.values(), ids=list(OPEN))
def test_one_program_serves_many_sizes(
    head: str, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, made = tessella.tile(program(head, body)), compiled(monkeypatch)
    for size in SIZES:
        check(f, numbers(size, 3, seed=size))
    assert made == ["5x3", "A_0x3"]
    assert "A:0: open, from 2 to 15" in str(f.explain())


@pytest.mark.parametrize("head, body", NUMBERS.values(), ids=list(NUMBERS))
def test_what_needs_numbers(head: str, body: str) -> None:
    f = tessella.tile(program(head, body))
    for size in SIZES:
        check(f, numbers(size, 3, seed=size))


def test_several_open_dimensions() -> None:
    f = tessella.tile("function (A[M, K], B[K, N]) -> (C) { C[m, n : M, N] = +(A[m, k]*B[k, n]); }")
    for m, k, n in [(2, 3, 4), (5, 7, 9), (20, 7, 3), (1, 30, 17), (0, 4, 2), (33, 1, 1)]:
        a, b = numbers(m, k), numbers(k, n, seed=1)
        same(f(a, b), a @ b)


def test_dimensions_that_a_program_says_are_equal() -> None:
    f = tessella.tile("function (A[N], B[N]) -> (R) { R = A - B; }")
    for size in (3, 4, 5):
        check(f, numbers(size), numbers(size, seed=1))
    with pytest.raises(TileError, match="the dimension 'N' has two sizes"):
        f(numbers(6), numbers(7))
    check(f, numbers(8), numbers(8, seed=1))


def test_broadcasts() -> None:
    f = tessella.tile("function (A, B) -> (R) { R = A + B; }")
    for a, b in [((3, 4), (4,)), ((5, 4), (4,)), ((5, 6), (6,)), ((5, 6), (1,)), ((1, 7), (5, 1))]:
        check(f, numbers(*a), numbers(*b, seed=1))
    with pytest.raises(TileError, match="do not broadcast"):
        f(numbers(5, 6), numbers(7))


def test_gathers_and_scatters(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tessella.tile(
        """function (T[N, C], I, W) -> (G, S, M) {
            G = gather(T, I);
            S = scatter(G, I, W);
            M = scatter_max(G, I, W);
        }"""
    )
    made = compiled(monkeypatch)
    for rows, count in [(5, 7), (6, 8), (9, 3), (4, 15)]:
        places = np.arange(count, dtype=np.int32) % 6 - 1
        arrays = numbers(rows, 4), places, numbers(rows + 1)
        for got, want in zip(f(*arrays), points.run(f.source, *arrays).values(), strict=True):
            same(got, want)
    assert made == ["5x4", "T_0x4"]


def sizes_of(f: tessella.TileProgram, shapes: Sequence[int]) -> Sequence[str]:
    for size in shapes:
        f(numbers(size))
    return [line.strip() for line in str(f.explain()).splitlines() if "A:0" in line or "n:" in line]


def test_named_dimensions_are_open_at_once() -> None:
    f = tessella.tile("function (A[N]) -> (R) { R = A + 1; }", dim_names={"A": {0: "n"}})
    assert sizes_of(f, [7]) == ["n: open, from 2 to 15"]
    with pytest.raises(OptionError, match="unknown parameter 'B'"):
        tessella.tile("function (A[N]) -> (R) { R = A + 1; }", dim_names={"B": {0: "n"}})
    with pytest.raises(InputError, match="too few dimensions"):
        tessella.tile("function (A) -> (R) { R = A + 1; }", dim_names={"A": {1: "n"}})(numbers(3))


def test_a_program_that_was_not_called() -> None:
    with pytest.raises(ShapeError, match="not called yet"):
        tessella.tile("function (A[N]) -> (R) { R = A + 1; }").explain()
