"""Softmax from its pieces, and along an axis that is moved for it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.patterns.spelling import check, kernels_of, sample

X = {"x": 3 * sample(0, 4, 7, 5)}
SHIFTED = "m = ReduceMax <axes = [{0}], keepdims = 1> (x) s = Sub(x, m) e = Exp(s) "
SUM = "z = Constant <value = int64[1] {{{0}}}> () t = ReduceSum <keepdims = 1> (e, z) "
SPELLINGS = {
    "softmax: division": ("softmax", SHIFTED + SUM + "y = Div(e, t)"),
    "softmax: reciprocal": ("softmax", SHIFTED + SUM + "i = Reciprocal(t) y = Mul(e, i)"),
    "log_softmax": ("log_softmax", SHIFTED + SUM + "l = Log(t) y = Sub(s, l)"),
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str, axis: int) -> None:
    op, body = SPELLINGS[name]
    model = check(body.format(axis), [op], X)
    assert len(kernels_of(model)) == 1


def test_large_numbers() -> None:
    for op, body in SPELLINGS.values():
        check(body.format(1), [op], {"x": np.array([[1e4, -1e4, 9999]], np.float32)})


def test_along_a_moved_axis() -> None:
    body = (
        "a = Transpose <perm = [2, 0, 1]> (x) b = Softmax <axis = {}> (a) "
        "y = Transpose <perm = [1, 2, 0]> (b)"
    )
    for axis in range(3):
        check(body.format(axis), ["softmax"], X)
