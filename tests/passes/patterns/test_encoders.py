"""Whole encoders, as PyTorch's two exporters spell them: what becomes of each layer."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tessella.driver.build.build import StagedProgram, as_text
from tests.models import load_model, lowered_for
from tests.passes.patterns.spelling import ops_in
from tests.sampling import sized

LAYERS = {"two layers": 2, "encoder_opset18": 12, "encoder_opset14": 12}


@cache
def lowered_model(name: str) -> StagedProgram:
    return lowered_for(load_model(name))


@pytest.mark.parametrize("name", sized([*LAYERS], ["two layers"]))
def test_layers(name: str) -> None:
    """Six products, one attention, one gelu and two norms in each; one norm in front."""
    layers = LAYERS[name]
    found = ops_in(as_text(lowered_model(name), "placed"))
    assert {op: found.count(op) for op in ("fc", "attention", "gelu", "layer_norm")} == {
        "fc": 6 * layers,
        "attention": layers,
        "gelu": layers,
        "layer_norm": 2 * layers + 1,
    }
    assert not {"matmul", "softmax", "erf", "reduce_mean", "is_nan"} & set(found)
    assert as_text(lowered_model(name), "tile").count("rt.launch") == 1


def test_the_source_of_an_attention() -> None:
    text = " ".join(as_text(lowered_model("two layers"), "placed").split())
    [consumed, *_] = re.findall(r'nn\.pattern = "attention", nn\.consumed = \[(.*?)\]', text)
    assert consumed == ", ".join(
        f'"nn.{source}"'
        for source in (
            "mul@node_Mul_61", "mul@node_Mul_63", "matmul@node_MatMul_67", "add@node_Add_68",
            "softmax@node_Softmax_69", "is_nan@node_IsNaN_70", "where@node_Where_71",
            "matmul@node_scaled_dot_product_attention",
        )
    )  # fmt: skip
