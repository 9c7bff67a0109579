"""All ops of ONNX Runtime's domain have cases, and those without a converter are refused."""

from __future__ import annotations

import pytest

import tessella
from tessella.frontends.onnx import ops
from tessella.support.errors import UnsupportedError
from tests.frontends.onnx.contributed import test_attention, test_bytes, test_decoder, test_layers
from tests.frontends.onnx.contributed.cases import Case, made
from tests.native import normal

MORE = {
    *("QLinearWhere", "QLinearReduceMean", "LayerNormalization"),
    *("PackedAttention", "PackedMultiHeadAttention", "Tokenizer"),
    *("GatherBlockQuantized", "MatMulBnb4", "MatMulNBits"),
}
"""Ops with tests of their own."""


def test_every_op_has_a_case() -> None:
    cases = [
        *test_bytes.CASES,
        *test_layers.CASES,
        *(case for case, _ in test_layers.ELSEWHERE),
        *test_attention.CASES,
        *(each.case for each in test_decoder.STEPS.values()),
    ]
    assert {case.op for case in cases} | MORE == set(ops.contributed_ops())


@pytest.mark.parametrize(
    "op, message",
    [
        ("GreedySearch", "compile the decoder alone"),
        ("DecoderMaskedMultiHeadAttention", "export the decoder with"),
        ("PagedAttention", "blocks of a table"),
        ("QMoE", "a router chooses the experts"),
        ("BiasDropout", "for inference"),
        ("CDist", "this op is not supported"),
    ],
)
def test_other_ops_are_refused(op: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"com.microsoft.{op} \(node 'node'\): .*{message}"):
        tessella.compile(made(Case(op, [normal(2, 3)]))[0])


def test_a_model_for_one_machine_is_refused() -> None:
    case = Case("Conv", [normal(1, 8, 4, 4), normal(8, 8, 3, 3)], domain="com.microsoft.nchwc")
    with pytest.raises(UnsupportedError, match="optimize it at the level ORT_ENABLE_EXTENDED"):
        tessella.compile(made(case)[0])
