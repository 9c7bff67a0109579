"""Quantized networks: as close to the definitions as ONNX Runtime's, and computed in integers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import tessella
from tests.frontends.onnx.quantized import NETWORKS, dynamic, feeds, static
from tests.models import run_onnxruntime

Array = npt.NDArray[Any]
STATIC = [
    {"activation_type": "QUInt8", "weight_type": "QInt8"},
    {"activation_type": "QUInt8", "weight_type": "QInt8", "per_channel": True},
    {"activation_type": "QUInt8", "weight_type": "QUInt8"},
    {"activation_type": "QInt8", "weight_type": "QInt8", "per_channel": True},
    {
        "activation_type": "QInt8",
        "weight_type": "QInt8",
        "extra_options": {"ActivationSymmetric": True},
    },
]


def errors(proto: onnx.ModelProto) -> tuple[Any, float, float]:
    """The compiled model, and the mean distances from the reference: its own and ONNX Runtime's,
    as parts of the largest number."""
    x = feeds(proto, 9)
    (exact,) = ReferenceEvaluator(proto).run(None, x)
    assert isinstance(exact, np.ndarray)
    model = tessella.compile(proto)
    found = [model.run(None, x)[0], run_onnxruntime(proto, x)[0]]
    own, theirs = (float(np.abs(y - exact).mean() / np.abs(exact).max()) for y in found)
    return model, own, theirs


def products(model: Any) -> Counter[str]:
    """How many products there are, by the element of the result."""
    lines = model.as_text("placed").split("\n    ")
    text = " ".join(line.strip() for line in lines)
    found: Counter[str] = Counter()
    for op in ("nn.conv ", "nn.matmul ", "nn.fc ", "nn.attention "):
        for part in text.split(op)[1:]:
            found[part.split(" : ")[1].split(",")[0].split("x")[-1]] += 1
    return found


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("options", STATIC, ids=lambda x: " ".join(map(str, x.values())))
def test_static(network: str, options: dict[str, Any], tmp_path: Path) -> None:
    model, own, theirs = errors(static(NETWORKS[network](), tmp_path, **options))
    assert own <= max(1.5 * theirs, 2e-3)
    found = products(model)
    # asymmetric weights take sums of windows besides
    assert found["i32"] >= {"residual": 3, "depthwise": 5, "encoder": 6}[network]
    assert found["f32"] == (2 if network == "encoder" else 0)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("weight_type", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic(network: str, weight_type: str, per_channel: bool, tmp_path: Path) -> None:
    proto = dynamic(NETWORKS[network](), tmp_path, weight_type, per_channel=per_channel)
    model, own, theirs = errors(proto)
    assert own <= max(1.5 * theirs, 1e-3)
    assert set(products(model)) <= {"i32"} | ({"f32"} if network == "encoder" else set())
