"""Programs of every kind in three processes in a row, and suites in two: the later ones find all in
the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

from tests.driver.rounds import COLLECTIONS, OFFICIAL, Case, in_a_process, write

HEAD = '<ir_version: 10, opset_import: ["" : 17]>\n'
OPEN = """
g (float[n, 4] x) => (float[n, 4] y) { s = Softmax<axis = -1>(x)  y = Add(s, x) }
"""
CLOSED = """
g (float[n, m] x) => (float[n, m] y)
<float[20, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}>
{ t = Mul(x, w)  y = Relu(t) }
"""
CUT = """
g (float[n] x) => (int64[d, k] at, float[k] y) {
    at = NonZero(x)
    rows = Transpose(at)
    found = GatherND(x, rows)
    y = Exp(found)
}
"""
LOOPED = """
g (float start, float step, float limit) => (float[n] y) {
    most = Constant<value = int64 {9223372036854775807}>()
    go = Constant<value = bool {1}>()
    last, y = Loop(most, go, start) <body = body (int64 i, bool c, float at)
        => (bool c2, next, row) {
        row = Identity(at)
        next = Add(at, step)
        c2 = Less(next, limit)
    }>
}
"""
SEQUENCES = """
g (float[n, 3] x, int64[k] sizes) => (float[m, 3] y, seq(float[j, 3]) parts) {
    parts = SplitToSequence<axis = 0>(x, sizes)
    all = ConcatFromSequence<axis = 0>(parts)
    y = Neg(all)
}
"""
DISTINCT = """
g (float[n, 2] x) => (float[k, 2] y, int64[k] counts) {
    rows, first, inverse, counts = Unique<axis = 0>(x)
    y = Exp(rows)
}
"""
HALVES = """
g (float16[n, 8] x, float16[8, 8] w) => (float16[n, 8] y) { t = MatMul(x, w)  y = Tanh(t) }
"""
BY_VALUE = """
g (float[a, b] x, int64[2] shape, int64[1] axes) => (float[c, d] y, float[e, f, h] z) {
    y = Reshape(x, shape)
    z = Unsqueeze(x, axes)
}
"""


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


KINDS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "open": (OPEN, [{"x": floats(n, 4)} for n in (1, 16, 33)]),
    "not open": (CLOSED, [{"x": floats(20, m)} for m in (17, 40)]),
    "cut": (CUT, [{"x": np.maximum(floats(n), 0)} for n in (5, 20, 40)]),
    "distinct": (DISTINCT, [{"x": floats(n, 2).round()} for n in (5, 20, 40)]),
    "looped": (
        LOOPED,
        [
            {"start": floats(), "step": np.array(0.5, "f4"), "limit": np.array(last, "f4")}
            for last in (3, 30)
        ],
    ),
    "sequences": (
        SEQUENCES,
        [{"x": floats(sum(s), 3), "sizes": ints(*s)} for s in ((2, 1), (3, 16, 1))],
    ),
    "halves": (
        HALVES,
        [{"x": floats(n, 8, dtype="f2"), "w": floats(8, 8, dtype="f2")} for n in (3, 20)],
    ),
    "by value": (
        BY_VALUE,
        [
            {"x": floats(6, 4), "shape": ints(*s), "axes": ints(a)}
            for s, a in (((3, 8), 0), ((3, -1), 2), ((12, 2), 1))
        ],
    ),
}


def cases() -> list[Case]:
    """The kinds, as users call them and with open dimensions, against ONNX Runtime."""
    found: list[Case] = []
    for name, (text, feeds) in KINDS.items():
        data = onnx.parser.parse_model(HEAD + text).SerializeToString()
        session = onnxruntime.InferenceSession(data)
        calls = [(each, session.run(None, each)) for each in feeds]
        tolerance = (4e-3, 4e-3) if name == "halves" else (1e-5, 1e-6)
        settings: list[tuple[str, Any]] = [("auto", "auto"), ("open", {})]
        found += [Case(f"{name}: {how}", data, calls, dims, *tolerance) for how, dims in settings]
    return found


@pytest.mark.slow
def test_programs_of_every_kind(tmp_path: Path) -> None:
    made = cases()
    write(tmp_path / "cases", made)
    first, *later = (in_a_process(tmp_path / "cases", tmp_path / "cache") for _ in range(3))
    assert not first.wrong
    assert {name.partition(":")[0] for name in first.compiled} == KINDS.keys()
    for each in later:
        assert (each.wrong, each.compiled) == ({}, [])


OPEN_SIZES = 0.4
"""The share of the sizes of nodes that stay open, at the least: 0 and 1 are numbers."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OFFICIAL, *COLLECTIONS])
def test_suites(name: str, tmp_path: Path) -> None:
    first, second = (in_a_process(name, tmp_path) for _ in range(2))
    assert not first.wrong
    if name.startswith("open nodes"):
        opened = sum("open, from" in line for line in first.sizes)
        assert opened > OPEN_SIZES * len(first.sizes)
    assert (second.wrong, second.compiled, second.count) == ({}, [], first.count)
