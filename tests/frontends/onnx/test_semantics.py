"""Edge values, empty tensors and odd attributes of all ops with native code, against
``onnx.reference``, ONNX Runtime and NumPy: in native code, in NumPy, and folded at import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from tessella.frontends.onnx import ops
from tessella.frontends.onnx.table import function_ops
from tests.frontends.onnx.semantics import (
    casts,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    recurrent,
    reduction,
    selection,
    windows,
)
from tests.frontends.onnx.semantics.case import Batch, Case, difference, expected
from tests.frontends.onnx.semantics.edges import ELEMENTS
from tests.fuzz import rows
from tests.sampling import SLOW, sample

FAMILIES: Mapping[str, Callable[[], Iterable[Case]]] = {
    module.__name__.rpartition(".")[2]: module.cases
    for module in (
        *(casts, indexing, linear, movement, normalization),
        *(recurrent, reduction, selection, windows),
    )
}

LEFT_OUT = {"SwiGLU": "a function of op set 28, which ONNX Runtime lacks: its ops have cases"}
"""Ops with native code that have no case, each with the reason. The fuzzer's table has more, each
with the file of its tests."""


def check(cases: Iterable[Case]) -> None:
    """Compare the results of a batch with those of the oracles, in each way to compute them."""
    cases = [*cases]
    wanted = [expected(case) for case in cases]
    native, host, folded = Batch(cases), Batch(cases), Batch(cases, folded=True)
    ways = {"native": native.run(), "host": host.run(["host"]), "folded": folded.run()}
    wrong = [
        f"{case}, {way}: {text}"
        for way, found in ways.items()
        for case, results, right in zip(cases, found, wanted, strict=True)
        for y, w in zip(results, right, strict=True)
        if (text := difference(case, y, w))
    ]
    wrong += [
        f"{case}, folded and host: {text}"
        for case, *pairs in zip(cases, ways["folded"], ways["host"], strict=True)
        for x, y in zip(*pairs, strict=True)
        if (text := difference(case, x, y))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", FAMILIES)
def test_edges(family: str) -> None:
    check(sample([*FAMILIES[family]()], len(family)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("element", ELEMENTS if SLOW else ["float32", "int8"])
def test_edge_values(element: str) -> None:
    check(elementwise.cases(ELEMENTS[element]))


@pytest.mark.filterwarnings("ignore")
def test_every_native_op_has_a_case_or_a_reason() -> None:
    known = {op for op, found in ops.entries().items() if any("native" in e.runs for e in found)}
    tried = {case.op for make in FAMILIES.values() for case in make()}
    tried |= {case.op for dtype in ELEMENTS.values() for case in elementwise.cases(dtype)}
    assert not tried & LEFT_OUT.keys()
    assert {*known, *function_ops()} - tried - rows.LEFT_OUT.keys() == LEFT_OUT.keys()
