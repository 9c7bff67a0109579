"""Reductions that end at computed elements, against NumPy: loops end there too."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.parser import Parser

import tessella
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.evaluate import contract
from tessella.driver.stages.stage_file import stage_context
from tests.native import RUNNABLE

Array = npt.NDArray[Any]

ROWS = """function (V[N, K], L[N, One]) -> (S) {
    M = index(V, 1) < L ? V : %s;
    S[n : N] = %s(M[n, k]);
}"""
COLUMNS = """function (V[K, N], L[One, N]) -> (S) {
    M = index(V, 0) >= L ? 0 : V;
    S[n : N] = +(M[k, n]);
}"""
PAIRS = """function (V[N, J, K], A[N, One, One2], B[N, One, One2]) -> (S) {
    M = index(V, 1) < A ? V : 0;
    T = index(V, 2) <= B ? M : 0;
    S[n : N] = +(T[n, j, k]);
}"""
CASES = {"+": ("0", np.sum), ">": ("-1.0/0.0", np.max), "*": ("1", np.prod)}


def lengths(count: int, most: int) -> Array:
    """Some below zero, some beyond all values."""
    found = np.random.default_rng(1).integers(0, most + 1, count)
    found[:4] = [0, most, most + 7, -3]
    return found.astype(np.int32)


def loops_end(program: Any, *arrays: Array) -> int:
    """Return how many loops over reduced indices end at computed elements."""
    text = program.lower(*arrays).as_text("loops")
    return len(re.findall(r"scf.for %[jk]\w* = %\w+ to %\w+ step", text)) if "maxsi" in text else 0


@pytest.mark.parametrize("width", [3, 16, 61, 2500])
@pytest.mark.parametrize("kind", ["+", "*"])
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_sums_of_rows(width: int, kind: str, target: str, dtype: str) -> None:
    neutral, function = CASES[kind]
    program = tessella.tile(ROWS % (neutral, kind), target=target)
    rng = np.random.default_rng(2)
    v, n = rng.integers(1, 3, (9, width)).astype(dtype), lengths(9, width)
    if dtype != "int32":
        v = (1 + (v - 1.5) / width).astype(dtype)
    found = program(v, n[:, None])
    wanted = [function(row[: max(0, end)]) for row, end in zip(v, n, strict=True)]
    np.testing.assert_allclose(found, np.array(wanted).astype(dtype), rtol=1e-5)
    assert loops_end(program, v, n[:, None])


def test_what_is_beyond_does_not_count() -> None:
    v = np.full((4, 40), np.nan, np.float32)
    n = lengths(4, 40)
    for row, end in zip(v, n, strict=True):
        row[: max(0, end)] = 1
    found = tessella.tile(ROWS % ("0", "+"))(v, n[:, None])
    np.testing.assert_array_equal(found, np.clip(n, 0, 40))


@pytest.mark.parametrize("shape", [(70, 5), (33, 64), (5, 100)])
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_whose_lanes_end_apart(shape: tuple[int, int], threads: int) -> None:
    v = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    n = lengths(shape[1], shape[0])
    program = tessella.tile(COLUMNS, threads=threads)
    wanted = np.where(np.arange(shape[0])[:, None] < n, v, 0).sum(0)
    np.testing.assert_allclose(program(v, n[None]), wanted, rtol=1e-5, atol=1e-5)
    assert loops_end(program, v, n[None])


def test_two_indices_that_end() -> None:
    v = np.random.default_rng(2).standard_normal((9, 20, 30)).astype(np.float32)
    a, b = lengths(9, 20), lengths(9, 30)
    program = tessella.tile(PAIRS)
    wanted = [x[: max(0, i), : max(0, j + 1)].sum() for x, i, j in zip(v, a, b, strict=True)]
    found = program(v, a[:, None, None], b[:, None, None])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert loops_end(program, v, a[:, None, None], b[:, None, None])


def test_a_traced_function() -> None:
    def masked(v: Any, n: Any) -> Any:
        return np.where(np.arange(300) < n[:, None], v, 0).sum(1)

    v, n = np.random.default_rng(2).standard_normal((7, 300)), lengths(7, 300)
    np.testing.assert_allclose(tessella.jit(masked)(v, n), masked(v, n), rtol=1e-12)


TEXT = """
tile.kernel @k(%n: tensor<9xi32>, %x: tensor<9x61xf32>) -> (tensor<9xf32>) {
  %s = tile.contract + [i: 9 | k: 61, l: 1048576] (%n[i], %x[i, k]) -> [i] {
  ^bb0(%end: i32, %v: f32):
    %k = tile.index "k"
    %at = arith.index_cast %k : index to i32
    %l = tile.index "l"
    %again = arith.index_cast %l : index to i32
    %first = arith.cmpi slt, %at, %end : i32
    %two = arith.constant 2 : i32
    %most = arith.minsi %end, %two : i32
    %second = arith.cmpi slt, %again, %most : i32
    %both = arith.andi %first, %second : i1
    %zero = arith.constant 0.0 : f32
    %y = arith.select %both, %v, %zero : f32
    tile.yield %y : f32
  } : tensor<9xf32>
  tile.return %s : tensor<9xf32>
}
"""


def test_the_interpreter_stops_there() -> None:
    """All points of the ranges would take hours."""
    module = Parser(stage_context(), TEXT).parse_module()
    (op,) = (each for each in module.walk() if isinstance(each, ContractOp))
    v = np.random.default_rng(2).standard_normal((9, 61)).astype(np.float32)
    n = lengths(9, 61)
    ends = np.clip(n, 0, None)
    wanted = [row[:end].sum() * min(end, 2) for row, end in zip(v, ends, strict=True)]
    found = contract(op, dict(zip(op.inputs, (n, v), strict=True)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
