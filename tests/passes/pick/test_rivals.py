"""Which of the kernels at the same places is taken, and what bounds the memory of weights."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

import tessella
from tessella.driver.model import Model
from tests.frontends.onnx.models import model as onnx_model
from tests.frontends.onnx.models import value
from tests.native import Array

CHANNELS = (64, 64, 128, 256, 256)
"""Of convolutions one after the other, with pools between them: images become smaller."""


def chain() -> ModelProto:
    rng = np.random.default_rng(0)
    nodes, weights = list[NodeProto](), dict[str, Array]()
    last, inner = "x", 64
    for i, outer in enumerate(CHANNELS):
        w = rng.standard_normal((outer, inner, 3, 3)).astype(np.float32) / 50
        weights[f"w{i}"] = w
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"y{i}"], pads=[1, 1, 1, 1]))
        pool = helper.make_node(
            "MaxPool", [f"y{i}"], [f"z{i}"], kernel_shape=[2, 2], strides=[2, 2]
        )
        nodes.append(pool)
        last, inner = f"z{i}", outer
    x, y = value("x", [1, 64, 128, 128]), value(last, [1, inner, 4, 4])
    return onnx_model(nodes, [x], [y], weights=weights)


def kernels(model: Model) -> list[str]:
    return [str(op["kernel"]) for op in model.explain().ops if op["op"] == "nn.conv"]


def elements(model: Model) -> int:
    """Of the picked kernels' weights."""
    sizes = {"conv": 9, "winograd2": 16, "winograd4": 36}
    inner, total = 64, 0
    for kernel, outer in zip(kernels(model), CHANNELS, strict=True):
        total += sizes[kernel] * inner * outer
        inner = outer
    return total


@pytest.mark.parametrize("growth", [1, 1.5, 2, 3, 5])
def test_weights_grow_by_so_much_at_most(growth: float) -> None:
    most = elements(tessella.compile(chain(), target="avx512", winograd="off")) * growth
    model = tessella.compile(chain(), target="avx512", max_weight_growth=growth)
    assert elements(model) <= most
    assert (set(kernels(model)) == {"conv"}) == (growth == 1)


def test_what_gains_most_for_a_byte_comes_first() -> None:
    """Those do whose images are large and whose weights are small."""
    free, bounded = (
        kernels(tessella.compile(chain(), target="avx512", max_weight_growth=growth))
        for growth in (5, 1.5)
    )
    assert "conv" not in free
    assert bounded[0] == free[0]
    assert bounded[-1] == "conv"


def test_an_explanation_tells_of_the_bound() -> None:
    model = tessella.compile(chain(), target="avx512", max_weight_growth=1)
    [op, *_] = (op for op in model.explain().ops if op["op"] == "nn.conv")
    reasons = {each["kernel"]: each["reason"] for each in op["rejected"]}
    assert reasons["winograd4"].endswith("and its weights grow too much")
