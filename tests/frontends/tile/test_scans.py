"""Recurrences in the Tile language: functions that run step after step."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessella
from tessella.frontends.tile.parse import parse
from tessella.frontends.tile.source import TileText
from tessella.frontends.tile.syntax import Scan
from tessella.support.errors import TileError
from tests.frontends.tile.checks import numbers, run
from tests.frontends.tile.points import Array

RNN = """
function step (H[M], A[M], R[M, M]) -> (Next, Y) {
    P[m : M] = +(R[m, k] * H[k]);
    Next = tanh(P + A);
    Y = Next;
}
function (X[T, N], W[M, N], R[M, M], H0[M]) -> (H, HS, D) {
    A[t, m : T, M] = +(X[t, n] * W[m, n]);
    H, HS = scan step(H0; A; R);
    D = HS + 1;
}
"""

ADD = "function add (S, E) -> (S2, Y) { S2 = S + E; Y = S2; }"


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_recurrent_layer(steps: int, threads: int) -> None:
    """Against NumPy. The product of all inputs is before the loop, what follows is after it."""
    rng = np.random.default_rng(0)
    x, w, r, h = (
        rng.standard_normal(shape).astype(np.float32) * np.float32(0.3)
        for shape in ((steps, 3), (20, 3), (20, 20), (20,))
    )
    last, states, further = tessella.tile(RNN, threads=threads)(x, w, r, h)
    wanted: list[Array] = []
    for row in x:
        h = np.tanh(r @ h + w @ row)
        wanted.append(h)
    np.testing.assert_allclose(last, h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(states, np.reshape(wanted, (steps, 20)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(further, states + 1)


def test_many_steps() -> None:
    """A loop's code does not grow with its steps."""
    program = tessella.tile(f"{ADD} function (X[N], Z) -> (Y) {{ L, Y = scan add(Z; X); }}")
    x = np.arange(100_000, dtype=np.int64)
    np.testing.assert_array_equal(program(x, np.int64(7)), np.cumsum(x) + 7)


PROGRAMS = {
    "sum": (
        f"{ADD} function (X[N], Z) -> (L, Y) {{ L, Y = scan add(Z; X); }}",
        [numbers(9), numbers()],
    ),
    "backward": (
        f"{ADD} function (X[N], Z) -> (L, Y) {{ L, Y backward = scan add(Z; X backward); }}",
        [numbers(9), numbers()],
    ),
    "one order each": (
        f"{ADD} function (X[N], Z) -> (L, Y) {{ L, Y backward = scan add(Z; X); }}",
        [numbers(9), numbers()],
    ),
    "nothing carried": (
        "function twice (E) -> (Y) { Y = E * 2; } function (X[N]) -> (Y) { Y = scan twice(; X); }",
        [numbers(5)],
    ),
    "several carried": (
        "function next (A, B, E) -> (B, C) { C = A + B + E; }"
        " function (X[N], P, Q) -> (L, M) { L, M = scan next(P, Q; X); }",
        [0 * numbers(9), 0 * numbers() + 1, 0 * numbers() + 1],
    ),
    "swapped, without a statement that is needed": (
        "function swap (A, B, E) -> (B, A, E) { X = 1; }"
        " function (X[N], P, Q) -> (L, M, Z) { L, M, Z backward = scan swap(P, Q; X); }",
        [numbers(9), 0 * numbers() + 1, 0 * numbers() + 2],
    ),
    "a dimension as a result": (
        "function count (S, E[K]) -> (S, U) { U = K; }"
        " function (X[N, K], Z) -> (L, Y) { L, Y = scan count(Z; X); }",
        [numbers(3, 2), numbers()],
    ),
    "one in another": (
        "function inner (S[N], E) -> (S2) { S2 = S + E; }"
        " function outer (S[N], R[K], B[N]) -> (S3, Y) { S3 = scan inner(S; R); Y = S3 * B; }"
        " function (S0[N], X[T, K], B[N]) -> (H, Y) { H, Y = scan outer(S0; X; B); }",
        [numbers(4), numbers(3, 5), numbers(4, seed=1)],
    ),
    "one after another, with one function for two shapes": (
        f"{ADD} function (X[N, K], Z) -> (L, Y) {{"
        " M, XS = scan add(Z; X); L, Y = scan add(M; XS backward); }",
        [numbers(3, 4), numbers(4)],
    ),
    "without elements": (
        f"{ADD} function (X[N, K], Z) -> (L, Y) {{ L, Y = scan add(Z; X); }}",
        [numbers(3, 0), numbers(0)],
    ),
    "words as indices": (
        "function (A[N, M]) -> (B) { B[scan, backward : N, M] = =(A[scan, backward]); }",
        [numbers(3, 4)],
    ),
}


@pytest.mark.parametrize("program, arrays", PROGRAMS.values(), ids=list(PROGRAMS))
def test_programs(program: str, arrays: list[Array]) -> None:
    """Against the interpreter of the syntax tree."""
    run(program, *arrays)


def test_what_nothing_needs_is_not_computed() -> None:
    program = f"{ADD} function (X[N], Z) -> (R) {{ L, Y = scan add(Z; X); R = X + 1; }}"
    lowered = tessella.tile(program).lower(numbers(9), numbers())
    assert "nn.scan" not in lowered.as_text("placed")


def test_stages() -> None:
    """A scan is a loop of the program, around its own segment."""
    x, w, r, h = numbers(5, 3), numbers(8, 3), numbers(8, 8), numbers(8)
    lowered = tessella.tile(RNN).lower(x, w, r, h)
    assert "%H, %HS = nn.scan @step %H0, %A, %R carried 1 scanned 1" in lowered.as_text()
    assert "tile.scan @step(%H0, %A, " in lowered.as_text("tile")
    assert "rt.scan @step" in lowered.as_text("loops")
    assert "scan" in str(lowered.compile().explain())


def test_statements_share_loops() -> None:
    """Also where one reads neighbours of what another one writes."""
    softmax = tessella.tile("""function (A[N, C]) -> (R) {
        M[n, 0 : N, 1] = >(A[n, c]);
        E = exp(A - M);
        S[n, 0 : N, 1] = +(E[n, c]);
        R = E / S;
    }""")
    text = softmax.lower(tessella.Spec((4096, 1024))).as_text("tile")
    assert text.count("at [n]") == text.count("at [d0]") == 2
    blurs = tessella.tile("""function (A[Y, X]) -> (R) {
        B[y, x : Y, X] = +(A[y+i-1, x]), i < 3;
        C[y, x : Y, X] = +(B[y, x+i-1]), i < 3;
        R[y, x : Y, X] = +(C[y+i-1, x]), i < 3;
    }""")
    x = numbers(1500, 1100)
    assert "at [y: step - 1 by" in blurs.lower(x).as_text("tile")

    def of_three(a: Array, axis: int) -> Array:
        padded = np.pad(a, [(1, 1) if i == axis else (0, 0) for i in range(2)])
        shifted = (np.roll(padded, shift, axis) for shift in (-1, 0, 1))
        return np.sum(list(shifted), 0)[
            tuple(slice(1, -1) if i == axis else slice(None) for i in range(2))
        ]

    np.testing.assert_array_equal(blurs(x), of_three(of_three(of_three(x, 0), 1), 0))


def test_syntax() -> None:
    main = parse(
        TileText(
            "function f (S, E, F, W) -> (T, U, V) { T = S; } function g (A) -> (B) { B = A; }"
            " function (X, Y, Z) -> (L) {"
            " [[pid(first)]] L, M, N backward = scan f(X; Y, Z backward; X); O = scan g(; L); }"
        )
    )
    assert [step.name for step in main.steps] == ["f", "g"]
    first, second = main.statements
    assert isinstance(first, Scan)
    assert isinstance(second, Scan)
    assert (first.step, first.label, first.name.name) == (main.steps[0], "first", "L")
    assert [(each.name.name, each.backward) for each in first.sequences] == [
        ("Y", False),
        ("Z", True),
    ]
    assert [each.backward for each in first.targets] == [False, False, True]
    assert [name.name for name in first.operands] == ["X", "Y", "Z", "X"]
    assert (second.step, second.carried, second.others) == (main.steps[1], (), ())


PAIR = "function f (S, E) -> (T, U) { T = S + E; U = T; } "
ONE = "function f (S, R, E) -> (T) { T = S + E; } "


def program(statement: str, step: str = PAIR) -> str:
    return f"{step}function (X[N], Z) -> (L) {{ {statement} }}"


UNFIT = [
    (program("L, Y = X + 1;"), "X +", "unexpected 'X'", "'scan', which alone assigns"),
    (program("L, Y = scan g(Z; X);"), "g(", "unknown function 'g'", "one of f"),
    (program("L, Y = scan f(Z; X);", ""), "f(Z", "unknown function 'f'", "a function above"),
    (program("L, Y = scan f(Z);"), ");", "unexpected ')'", "',' or ';' and the sequences"),
    (program("L, Y = scan f(Z, 1; X);"), "1;", "unexpected '1'", "the name of a tensor"),
    (program("L, Y = scan f(Z; X, );"), ");", "unexpected ')'", "the name of a tensor"),
    (program("L, Y again = scan f(Z; X);"), "again", "unexpected 'again'", "or 'backward'"),
    (program("L = X;", PAIR * 2), "f (", "'f' is defined already", ""),
    (PAIR, "", "unexpected end", "the program, which comes last"),
    (program("L = X;", "function f (S) -> (T) { T = U; } "), "U;", "'U'", "one of S"),
    (program("L, Y = scan f(Z; W);"), "W)", "unknown tensor 'W'", "one of X, Z"),
    (program("L, Y = scan f(N; X);"), "N;", "unknown tensor 'N'", "one of X, Z"),
    (program("L, Y = scan f(Z; X; Z);"), "f(Z", "number of inputs", "2"),
    (program("L = scan f(Z; X);"), "f(Z", "number of outputs", "2"),
    (program("L = scan f(Z, Z; X);", ONE), "f(Z", "gives less", "at least 2 outputs"),
    (program("L backward, Y = scan f(Z; X);"), "L back", "'L' is carried, and has no order", ""),
    (program("L, X = scan f(Z; X);"), "X =", "'X' is defined already", "a name of its own"),
]


@pytest.mark.parametrize("text, at, what, expected", UNFIT)
def test_what_is_no_scan(text: str, at: str, what: str, expected: str) -> None:
    with pytest.raises(TileError, match=re.escape(what)) as caught:
        tessella.tile(text)
    assert caught.value.column == (text.rindex(at) + 1 if at else len(text) + 1)
    assert expected in (caught.value.expected or "")


def bound(head: str, step: str = PAIR) -> str:
    return f"{step}function ({head}) -> (L) {{ L, Y = scan f(Z; X); }}"


MISFITS = [
    (bound("X, Z"), [numbers(), numbers()], "X)", "has no elements", "at least one dimension"),
    (bound("X, Z"), [numbers(3), numbers(dtype="int8")], "Z;", "changes its type", "int8"),
    (bound("X, Z"), [numbers(3, 4), numbers()], "Z;", "changes its type or shape", "float32["),
    (
        "function f (S, E, G) -> (T) { T = S; } function (X, W, Z) -> (L) { L = scan f(Z; X, W); }",
        [numbers(3), numbers(4), numbers()],
        "W)",
        "another length than the first",
        "3",
    ),
    (
        bound("X, Z", "function f (S[K], E[K]) -> (T, U) { T = S; U = E; } "),
        [numbers(3, 4), numbers(5)],
        "K]) ->",
        "the dimension 'K' has two sizes",
        "5, as in the input 'S'",
    ),
    (
        bound("X, Z", "function f (S, E) -> (S, T) { T[i : 1000000] = +(E[]); } "),
        [numbers(30000), numbers(5)],
        "L, Y",
        "the tensor 'Y' is too large",
        "at most",
    ),
]


@pytest.mark.parametrize("text, arrays, at, what, expected", MISFITS)
def test_what_arrays_do_not_fit(
    text: str, arrays: list[Array], at: str, what: str, expected: str
) -> None:
    with pytest.raises(TileError, match=re.escape(what)) as caught:
        tessella.tile(text)(*arrays)
    assert caught.value.column == text.rindex(at) + 1
    assert expected in (caught.value.expected or "")
