"""Functions of whole tensors, against NumPy: compiled, and run statement by statement."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessella
from tessella.dialects.interpret import interpret
from tessella.frontends.tile.bind import bind
from tessella.frontends.tile.build import build
from tessella.frontends.tile.parse import parse
from tessella.frontends.tile.source import TileText
from tessella.frontends.tile.tensor_functions import TENSOR_FUNCTIONS
from tessella.runtime.specs import TensorSpec
from tessella.support.errors import TileError
from tests.frontends.tile import points
from tests.frontends.tile.checks import numbers, run, same
from tests.frontends.tile.points import Array

PLACES = np.array([[0, 7, 2], [-3, 4, 1]], np.int32)
"""Also ones outside of five rows, which are as the nearest row."""
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()

PROGRAMS: dict[str, tuple[str, list[Array]]] = {
    "gather": ("R = gather(A, I);", [numbers(5, 4), PLACES]),
    "gather of scalars": ("R = gather(A, I);", [numbers(5), PLACES[0]]),
    "gather one row": ("R = gather(A, I);", [numbers(5, 4), PLACES[0, 1]]),
    "gather with expressions": (
        "R = 2*gather(A + 1, as_int(I/2, 64)) - 1;",
        [numbers(5, 4), PLACES],
    ),
    "gather of a gather": ("R = gather(A, gather(I, I));", [numbers(5), PLACES[0]]),
    "gather nothing": ("R = gather(A, I);", [numbers(5, 4), PLACES[:0]]),
    "gather nothing of nothing": ("R = gather(A, I);", [numbers(0, 4), PLACES[:0]]),
    "scatter": ("R = scatter(A, I, L);", [numbers(2, 3, 4), PLACES, numbers(5)]),
    "scatter to one row": ("R = scatter(A, I, L);", [numbers(4), PLACES[0, 0], numbers(1)]),
    "scatter nothing": ("R = scatter(A, I, L);", [numbers(0, 4), PLACES[0, :0], numbers(5)]),
    "scatter no columns": ("R = scatter(A, I, L);", [numbers(3, 0), PLACES[0], numbers(5)]),
    "products": ("R = scatter_mul(A, I, L);", [numbers(2, 3, 4), PLACES, numbers(5)]),
    "greatest": ("R = scatter_max(A - 5, I, L);", [numbers(2, 3, 4), PLACES, numbers(9)]),
    "least": ("R = scatter_min(A + 5, I, L);", [numbers(2, 3, 4), PLACES, numbers(9)]),
    "last": ("R = scatter_last(A, I, L);", [numbers(2, 3, 4), PLACES, numbers(9)]),
    "greatest of scalars": ("R = scatter_max(A - 9, I, L);", [numbers(3), PLACES[0], numbers(9)]),
    "least to one row": ("R = scatter_min(A, I, L);", [numbers(4), PLACES[0, 0], numbers(1)]),
    "greatest of nothing": (
        "R = scatter_max(A, I, L);",
        [numbers(0, 4), PLACES[0, :0], numbers(5)],
    ),
    "product of no columns": (
        "R = scatter_mul(A, I, L);",
        [numbers(3, 0), PLACES[0], numbers(5)],
    ),
    "last of expressions": (
        "R = 2*scatter_last(A*A, I + 1, L) - 1;",
        [numbers(2, 3, 4), PLACES, numbers(9)],
    ),
    "count": ("R = scatter(0*I + 1, I, L);", [PLACES, numbers(5)]),
    "index": ("R = index(A, 0) - index(A, 1);", [numbers(3, 4)]),
    "index from the back": ("R = as_float(index(A, 0-1), 32) * A;", [numbers(3, 4)]),
    "shape": ("R = shape(A) * 2;", [numbers(3, 4, 5)]),
    "shape without elements": ("R = shape(A);", [numbers(3, 0)]),
    "shape of a scalar": ("R = shape(A);", [numbers()]),
    "reshape": ("R = reshape(A, 2, 6);", [numbers(3, 4)]),
    "reshape that splits": ("R = reshape(A, 2, 3, 4);", [numbers(6, 4)]),
    "reshape to one": ("R = reshape(A, 12) + 1;", [numbers(3, 4)]),
    "reshape to a scalar": ("R = reshape(A);", [numbers(1, 1)]),
    "reshape nothing": ("R = reshape(A, 0, 7);", [numbers(3, 0)]),
    "argsort": ("R = argsort(A);", [numbers(3, 9)]),
    "argsort down": ("R = argsort(A, 0, 1);", [numbers(9, 3)]),
    "argsort some": ("R = argsort(-A, 1, 0, 4);", [numbers(3, 9, 2)]),
    "argsort none": ("R = argsort(A, 0, 1, 0);", [numbers(9, 3)]),
    "argsort nothing": ("R = argsort(A);", [numbers(3, 0)]),
    "argsort many": ("R = argsort(A);", [numbers(5000)]),
    "ordered rows": ("R = gather(A, argsort(B, 0, 1));", [numbers(9, 3), numbers(9, seed=1)]),
}


def program(text: str, arrays: list[Array]) -> str:
    names = [name for name in "ABCIL" if re.search(rf"\b{name}\b", text)][: len(arrays)]
    return f"function ({', '.join(names)}) -> (R) {{ {text} }}"


def interpreted(text: str, *arrays: Array) -> Array:
    """Return the results of the interpreter at the stage `placed`."""
    source = TileText(text)
    function = parse(source)
    bound = bind(function, source, [TensorSpec(a.shape, a.dtype) for a in arrays])
    names = [each.name.name for each in function.inputs]
    (result,) = interpret(build(bound, "x86"), dict(zip(names, arrays, strict=True)))
    return result


@pytest.mark.parametrize("text, arrays", PROGRAMS.values(), ids=list(PROGRAMS))
def test_programs(text: str, arrays: list[Array]) -> None:
    """Native code and the interpreter."""
    whole = program(text, arrays)
    same(interpreted(whole, *arrays), run(whole, *arrays))


def test_every_function_is_tested() -> None:
    called = {name for text, _ in PROGRAMS.values() for name in re.findall(r"[a-z_]+(?=\()", text)}
    assert called >= TENSOR_FUNCTIONS.keys() == points.WHOLE.keys()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype: str) -> None:
    x = numbers(5, 4, dtype=dtype)
    values = numbers(2, 3, 4, dtype=dtype, seed=1)
    text = """function (A, I, V) -> (G, S, M, H, L, W, P, R) {
        G = gather(A, I);
        S = scatter(V, I, A);
        M = scatter_mul(V, I, A);
        H = scatter_max(V, I, A);
        L = scatter_min(V, I, A);
        W = scatter_last(V, I, A);
        P = argsort(A, 1, 1);
        R = reshape(A, 20);
    }"""
    run(text, x, PLACES, values)


@pytest.mark.parametrize("dtype", "int8 int64 uint8 uint64".split())
def test_every_type_of_indices(dtype: str) -> None:
    run("function (A, I) -> (R) { R = gather(A, I); }", numbers(5, 4), PLACES.astype(dtype) % 8)


@pytest.mark.parametrize("dtype", "uint8 uint16 uint32 uint64".split())
def test_indices_beyond_the_signed_range(dtype: str) -> None:
    last = np.iinfo(dtype).max
    places = np.array([100, 150, 255, last], dtype)
    run("function (A, I) -> (R) { R = gather(A, I); }", numbers(200), places)
    run("function (A, I, L) -> (R) { R = scatter(A, I, L); }", numbers(4), places, numbers(200))


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_add_in_order(threads: int) -> None:
    """Sums of floats have the bits of a loop."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20_000, 8)).astype(np.float32)
    places = rng.integers(0, 50, 20_000).astype(np.int32)
    text = "function (A, I, L) -> (R) { R = scatter(A, I, L); }"
    got = tessella.tile(text, threads=threads)(values, places, np.zeros(50, np.float32))
    want = np.zeros((50, 8), np.float32)
    np.add.at(want, places, values)
    same(got, want)


ONE_BY_ONE = {
    "scatter_mul": np.multiply,
    "scatter_max": np.maximum,
    "scatter_min": np.minimum,
    "scatter_last": None,
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name, ufunc", ONE_BY_ONE.items(), ids=list(ONE_BY_ONE))
def test_threads_write_in_order(name: str, ufunc: np.ufunc | None, threads: int) -> None:
    """Duplicates have the bits of a loop; a row that no index names is 0, and NaN stays."""
    rng = np.random.default_rng(0)
    values = 1 + rng.standard_normal((20_000, 8)).astype(np.float32) / 64
    values[[5, 700], 3] = np.nan
    places = rng.integers(0, 50, 20_000).astype(np.int32)
    places[places == 17] = 18
    text = f"function (A, I, L) -> (R) {{ R = {name}(A, I, L); }}"
    got = tessella.tile(text, threads=threads)(values, places, np.zeros(50, np.float32))
    want = np.zeros((50, 8), np.float32)
    rows, first = np.unique(places, return_index=True)
    want[rows] = values[first]
    rest = np.setdiff1d(np.arange(len(places)), first)
    if ufunc is None:
        want[places] = values
    else:
        ufunc.at(want, places[rest], values[rest])
    same(got, want)


def test_in_the_step_of_a_scan() -> None:
    text = """
    function step (H[N], I[K]) -> (Next, Y) { Y = gather(H, I); Next = scatter(Y, I, H) + H; }
    function (H0[N], I[T, K]) -> (H, Y) { H, Y = scan step(H0; I); }"""
    run(text, numbers(5), np.array([[0, 1, 1], [4, 2, 0]], np.int32))


def test_a_layer_of_a_graph() -> None:
    """Neighbours' features, weighted and added up, and a product after it."""
    source, target = (numbers(40, dtype="int32", seed=s) % 9 for s in range(2))
    text = """function (X[N, C], S[E], T[E], W[E, One], K[C, D]) -> (Y) {
        M = gather(X, S) * W;
        A = scatter(M, T, X);
        P[n, d : N, D] = +(A[n, c] * K[c, d]);
        Y = relu(P);
    }"""
    x, w, k = numbers(9, 6), numbers(40, 1, seed=3), numbers(6, 5)
    sums = np.zeros_like(x)
    np.add.at(sums, target, x[source] * w)
    same(run(text, x, source, target, w, k), np.maximum(sums @ k, 0))


def test_gather_product_and_scatter_are_one_nest() -> None:
    text = "function (X, S, T, W) -> (Y) { Y = scatter(gather(X, S) * W, T, X); }"
    specs = [tessella.Spec((1000, 32)), *[tessella.Spec((9000,), np.int32)] * 2]
    lowered = tessella.tile(text).lower(*specs, tessella.Spec((9000, 1))).as_text("tile")
    assert (lowered.count("tile.kernel"), lowered.count("tile.contract")) == (1, 2)
    assert "tile.extract" in lowered.split("tile.contract")[-1]


UNFIT = [
    ("R = gather(A);", "gather", "wrong number of arguments of 'gather'", "2 arguments", "1"),
    ("R = gather();", "gather", "wrong number of arguments of 'gather'", "2 arguments", "0"),
    ("R = shape();", "shape", "wrong number of arguments of 'shape'", "1 argument", "0"),
    ("R = A + exp( );", "exp", "wrong number of arguments of 'exp'", "1 argument", "0"),
    ("R[i : shape()] = +(A[i]);", "shape", "wrong number of arguments", "1 argument", "0"),
    ("R = argsort(A, 0, 0, 1, 1);", "argsort", "wrong number", "1 to 4 arguments", "5"),
    ("R[i : shape(N)] = +(A[i]);", "shape", "'shape' gives a tensor", "a number", None),
    ("R = gather(B, I);", "B, I", "unknown tensor or dimension 'B'", "one of A, I, N", None),
]


@pytest.mark.parametrize("text, at, what, expected, found", UNFIT)
def test_what_is_no_program(
    text: str, at: str, what: str, expected: str, found: str | None
) -> None:
    whole = f"function (A[N], I) -> (R) {{ {text} }}"
    with pytest.raises(TileError, match=re.escape(what)) as caught:
        tessella.tile(whole)
    assert caught.value.column == whole.rindex(at) + 1
    assert (caught.value.expected, caught.value.found) == (expected, found)


MATRIX, VECTOR = numbers(3, 4), numbers(3)
ROWS = np.array([0, 2, 1], np.int32)
MISFITS: list[tuple[str, list[Array], str, str, str]] = [
    ("R = gather(A, B);", [MATRIX, VECTOR], "B)", "integers", "float32"),
    ("R = gather(A, B > 0);", [MATRIX, VECTOR], "B >", "integers", "bool"),
    ("R = gather(A, 2);", [MATRIX], "2)", "takes a tensor here", "2"),
    ("R = gather(A, B);", [numbers(), ROWS], "A, B", "has no rows", "a scalar"),
    ("R = gather(A, B);", [numbers(0, 4), ROWS], "A, B", "has no rows", "0x4"),
    ("R = scatter(A, B, A);", [MATRIX, ROWS[:2]], "A, B", "the first dimensions", "3x4"),
    ("R = scatter(A, B, A);", [VECTOR, ROWS[:, None]], "A, B", "the first dimensions", "3"),
    ("R = scatter(A, A, B);", [VECTOR, ROWS], "A, B", "integers", "float32"),
    ("R = scatter_max(A, A, B);", [VECTOR, ROWS], "A, B", "integers", "float32"),
    ("R = scatter_last(A, B, C);", [MATRIX, ROWS, numbers(0)], "C)", "no rows", "0"),
    ("R = scatter(A, B, C);", [MATRIX, ROWS, numbers()], "C)", "has no rows", "a scalar"),
    ("R = scatter(A, B, C);", [MATRIX, ROWS, numbers(0)], "C)", "no rows to add to", "0"),
    (
        "R = index(A, 2);",
        [MATRIX],
        "2)",
        "is out of range",
        "2, and a tensor of shape 3x4",
    ),
    ("R = index(A, A);", [MATRIX], "A)", "not an integer", "a tensor"),
    ("R = index(A, 1.5);", [MATRIX], "1.5", "not an integer", "1.5"),
    (
        "R = index(A, 0);",
        [numbers()],
        "0)",
        "is out of range",
        "0, and a tensor of shape scalar",
    ),
    ("R = reshape(A, 5, 2);", [MATRIX], "A, 5", "different numbers of elements", "12 in 3x4"),
    ("R = reshape(A, 0-3, 4);", [MATRIX], "0-3", "a size is negative", "-3"),
    ("R = argsort(A, 2);", [MATRIX], "2)", "is out of range", "2, and"),
    ("R = argsort(A);", [numbers()], "A)", "is out of range", "-1, and"),
    ("R = argsort(A, 0, 2);", [MATRIX], "2)", "unknown order", "2"),
    ("R = argsort(A, 0, 0, 4);", [MATRIX], "4)", "the dimension has fewer elements", "4"),
    ("R = argsort(A + B);", [MATRIX, numbers(5)], "+ B", "do not broadcast", ""),
]


@pytest.mark.parametrize("text, arrays, at, what, found", MISFITS)
def test_what_arrays_do_not_fit(
    text: str, arrays: list[Array], at: str, what: str, found: str
) -> None:
    names = [name for name in "ABC" if re.search(rf"\b{name}\b", text)]
    whole = f"function ({', '.join(names)}) -> (R) {{ {text} }}"
    with pytest.raises(TileError, match=re.escape(what)) as caught:
        tessella.tile(whole)(*arrays)
    assert (caught.value.line, caught.value.column) == (1, whole.rindex(at) + 1)
    assert found in (caught.value.found or "")


def test_results_that_are_too_large() -> None:
    text = "function (A[N, M], I) -> (R) { R = 1 + gather(A, I); }"
    with pytest.raises(TileError, match="too large"):
        tessella.tile(text).lower(tessella.Spec((2, 1 << 20)), tessella.Spec((1 << 20,), np.int32))
