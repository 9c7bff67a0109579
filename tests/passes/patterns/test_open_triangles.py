"""Masks of open sizes that compare positions: which of them are those of causal attention."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import tessella
from tests.models import load_fixture, random_inputs, run_onnxruntime
from tests.passes.patterns.spelling import sample
from tests.sampling import sized

POSITIONS = (
    "one = Constant <value = int64 {1}> () zero = Constant <value = int64 {0}> () "
    "two = Constant <value = int64 {2}> () first = Constant <value_ints = [0]> () "
    "last = Constant <value_ints = [1]> () o = Constant <value = float {1.0}> () "
    "f = Constant <value = float {0.0}> () low = Constant <value = float {-3.4e38}> () "
    "sq = Shape(q) sk = Shape(k) n = Gather(sq, one) m = Gather(sk, one) "
    "i = Range(zero, n, one) columns = Range(zero, m, one) rows = Unsqueeze(i, last) "
    "later = Add(rows, two) n1 = Unsqueeze(n, first) m1 = Unsqueeze(m, first) "
    "shape = Concat <axis = 0> (n1, m1) ones = Expand(o, shape) "
)
CAUSAL = {
    "up to": "c = LessOrEqual(columns, rows) mask = Where(c, f, low) ",
    "with those before": "c = LessOrEqual(columns, later) mask = Where(c, f, low) ",
    "before": "c = Less(columns, later) mask = Where(c, f, low) ",
    "mirrored": "c = GreaterOrEqual(rows, columns) mask = Where(c, f, low) ",
    "hidden": "c = Greater(columns, rows) mask = Where(c, low, f) ",
    "hidden, mirrored": "c = Less(rows, columns) mask = Where(c, low, f) ",
    "not": "c = Greater(columns, rows) d = Not(c) mask = Where(d, f, low) ",
    "triangle": "t = Trilu <upper = 0> (ones) c = Cast <to = 9> (t) mask = Where(c, f, low) ",
    "arithmetic": "t = Trilu <upper = 0> (ones) h = Sub(o, t) mask = Mul(h, low) ",
    "batch": "c = LessOrEqual(columns, rows) w = Where(c, f, low) mask = Unsqueeze(w, first) ",
}
OTHERS = {
    "none of the first": "c = Less(columns, rows) mask = Where(c, f, low) ",
    "upper": "c = GreaterOrEqual(columns, rows) mask = Where(c, f, low) ",
    "not hidden": "c = LessOrEqual(columns, rows) mask = Where(c, f, o) ",
    "not 0": "c = LessOrEqual(columns, rows) mask = Where(c, o, low) ",
    "one row": "c = LessOrEqual(columns, two) mask = Where(c, f, low) ",
    "columns apart": "d = Mul(columns, two) c = LessOrEqual(d, rows) mask = Where(c, f, low) ",
}


def attention(mask: str) -> str:
    """A model of open sizes, whose scores have a mask."""
    return (
        '<ir_version: 8, opset_import: ["": 17]> g '
        "(float[2,seq,16] q, float[2,keys,16] k, float[2,keys,8] v) => (float[2,seq,8] y) { "
        + POSITIONS
        + mask
        + "kt = Transpose <perm = [0, 2, 1]> (k) s = MatMul(q, kt) a = Add(s, mask) "
        "p = Softmax <axis = -1> (a) y = MatMul(p, v) }"
    )


@pytest.mark.sweep
@pytest.mark.parametrize("name", [*CAUSAL, *OTHERS])
def test_masks(name: str) -> None:
    proto = parser.parse_model(attention((CAUSAL | OTHERS)[name]))
    model = tessella.compile(proto, dims={}, threads=1)
    for seq, keys in ((17, 20), (150, 140), (16, 300)):
        inputs = {
            "q": sample(0, 2, seq, 16),
            "k": sample(1, 2, keys, 16),
            "v": sample(2, 2, keys, 8),
        }
        [found], [wanted] = model.run(None, inputs), run_onnxruntime(proto, inputs)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert all("open, from" in line for line in model.explain().sizes)
    text = model.as_text("placed")
    assert ("causal true" in text) == (name in CAUSAL)
    assert ("nn.where" in text.replace("nn.where@", "")) == (name in OTHERS)


@pytest.mark.parametrize("name", sized(["decoder", "decoder_opset17"], ["decoder_opset17"]))
def test_decoders(name: str) -> None:
    """A prompt skips what lies beyond the diagonal; a token sees all keys, and has no mask."""
    proto = load_fixture(name)
    model = tessella.compile(proto, dims={}, threads=1)
    for seq, expected in ((40, 2), (1, 0)):
        feeds = random_inputs(proto, sizes={"batch": 2, "seq": seq, "past": 17})
        for found, wanted in zip(
            model.run(None, feeds), run_onnxruntime(proto, feeds), strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
        text = model.as_text("placed")
        assert text.count("causal true past [past]") == expected
        assert text.count("scale 0.25") == 2
        assert "nn.less_equal" not in text.replace("nn.less_equal@", "")


def test_one_position_broadcasts() -> None:
    """It is the same for all positions that it is compared with."""
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (bool[n] y) { '
        "one = Constant <value = int64 {1}> () zero = Constant <value = int64 {0}> () "
        "two = Constant <value_ints = [2]> () three = Constant <value_ints = [3]> () "
        "s = Shape(x) n = Gather(s, zero) i = Range(zero, n, one) "
        "third = Slice(i, two, three) limit = Add(third, three) y = Less(i, limit) }"
    )
    model = tessella.compile(proto, dims={})
    for n in (5, 20):
        np.testing.assert_array_equal(model(np.zeros(n, np.float32)), np.arange(n) < 5)
