"""Quantized networks: as close to the definitions as ONNX Runtime's, and computed in integers."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.dialects.elements import element_of
from tessella.dialects.graph import main_function
from tessella.dialects.nn.core import tensor_type
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tests.frontends.onnx.quantized import IMAGE, NETWORKS, dynamic, feeds, static
from tests.models import run_onnxruntime, with_open_batch
from tests.native import known_shape

Array = npt.NDArray[Any]
STATIC = [
    {"activation_type": "QUInt8", "weight_type": "QInt8"},
    {"activation_type": "QUInt8", "weight_type": "QInt8", "per_channel": True},
    {"activation_type": "QUInt8", "weight_type": "QUInt8"},
    {"activation_type": "QInt8", "weight_type": "QInt8", "per_channel": True},
    {
        "activation_type": "QInt8",
        "weight_type": "QInt8",
        "extra_options": {"ActivationSymmetric": True, "AddQDQPairToWeight": True},
    },
]

EXPORTS = Path(__file__).parents[2] / "fixtures" / "quantized"


def run_exactly(proto: onnx.ModelProto) -> list[Array]:
    """The results by the definitions."""
    return [np.asarray(y) for y in ReferenceEvaluator(proto).run(None, feeds(proto, 9))]


def errors(proto: onnx.ModelProto, exact: Array) -> tuple[Any, float, float]:
    """The compiled model, and the mean distances from the exact result: its own and ONNX
    Runtime's, as parts of the largest number."""
    x, model = feeds(proto, 9), tessella.compile(proto)
    found = [model.run(None, x)[0], run_onnxruntime(proto, x)[0]]
    own, theirs = (float(np.abs(y - exact).mean() / np.abs(exact).max()) for y in found)
    return model, own, theirs


def products(model: Any) -> Counter[str]:
    """Return how many products there are, by the element of the result."""
    lines = model.as_text("placed").split("\n    ")
    text = " ".join(line.strip() for line in lines)
    found: Counter[str] = Counter()
    for op in ("nn.conv ", "nn.matmul ", "nn.fc ", "nn.attention "):
        for part in text.split(op)[1:]:
            found[part.split(" : ")[1].split(",")[0].split("x")[-1]] += 1
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("options", STATIC, ids=lambda x: " ".join(map(str, x.values())))
def test_static(network: str, options: dict[str, Any], tmp_path: Path) -> None:
    proto = static(NETWORKS[network](), tmp_path, **options)
    model, own, theirs = errors(proto, *run_exactly(proto))
    assert own <= max(1.5 * theirs, 2e-3)
    found = products(model)
    # asymmetric weights take sums of windows besides
    assert found["i32"] >= {"residual": 3, "depthwise": 5, "encoder": 6}[network]
    assert found["f32"] == (2 if network == "encoder" else 0)


@pytest.mark.sweep
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("options", STATIC, ids=lambda x: " ".join(map(str, x.values())))
def test_operators_on_bytes(network: str, options: dict[str, Any], tmp_path: Path) -> None:
    """The reference evaluator lacks the ops of ONNX Runtime: the network with conversions, of the
    same numbers, is what they stand for."""
    proto = static(NETWORKS[network](), tmp_path, **options)
    (exact,) = run_exactly(proto)
    proto = static(NETWORKS[network](), tmp_path, **options, quant_format="QOperator")
    model, own, theirs = errors(proto, exact)
    assert own <= max(1.5 * theirs, 5e-3)
    found = products(model)
    assert found["i32"] >= {"residual": 3, "depthwise": 5, "encoder": 6}[network]


@pytest.mark.sweep
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("weight_type", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic(network: str, weight_type: str, per_channel: bool, tmp_path: Path) -> None:
    proto = dynamic(NETWORKS[network](), tmp_path, weight_type, per_channel=per_channel)
    model, own, theirs = errors(proto, *run_exactly(proto))
    assert own <= max(1.5 * theirs, 1e-3)
    assert set(products(model)) <= {"i32"} | ({"f32"} if network == "encoder" else set())


@pytest.mark.parametrize(
    "name, narrow, wide",
    [
        # NNCF leaves the depthwise convolution and the scores of attention wide
        *[("nncf_convolutional", 4, 1), ("nncf_encoder", 7, 1)],
        *[("pt2e_convolutional", 5, 0), ("pt2e_encoder", 6, 1)],
    ],
)
def test_exports_of_other_quantizers(name: str, narrow: int, wide: int) -> None:
    """NNCF's, and torch's PT2E flow exported to ONNX."""
    proto = onnx.load(EXPORTS / f"{name}.onnx")
    model, own, theirs = errors(proto, *run_exactly(proto))
    assert own <= max(1.5 * theirs, 1e-3)
    assert products(model) == {"i32": narrow} | ({"f32": wide} if wide else {})


@pytest.mark.parametrize("network", ["residual", "depthwise"])
@pytest.mark.parametrize("activation_type", ["QUInt8", "QInt8"])
def test_no_image_of_floats_is_in_memory(
    network: str, activation_type: str, tmp_path: Path
) -> None:
    """Between the input and the output, whatever is computed: a residual, a concat, means, squeeze
    and excite."""
    options = {"activation_type": activation_type, "weight_type": "QInt8", "per_channel": True}
    source = open_source(static(NETWORKS[network](), tmp_path, **options))
    placed = lower(source.graph({"x": IMAGE}), make_options(), stop="placed").stages["placed"]
    block = main_function(placed).body.block
    last = block.last_op
    assert last is not None
    made = [value for op in block.ops for value in op.results if value not in last.operands]
    images = [tensor_type(v) for v in made if math.prod(known_shape(v)[2:]) > 1]
    elements = [element_of(type).name for type in images if type.get_shape()[0] == IMAGE[0]]
    assert elements.count("u8") + elements.count("i8") >= 3
    assert "f32" not in elements


@pytest.mark.parametrize("network", ["residual", "encoder"])
def test_open_batch(network: str, tmp_path: Path) -> None:
    """One program serves any batch: the zero points' terms do not depend on the batch."""
    options = {"activation_type": "QInt8", "weight_type": "QInt8", "per_channel": True}
    proto = with_open_batch(static(NETWORKS[network](), tmp_path, **options))
    model = tessella.compile(proto, dims={"batch": (1, 8)})
    whole = np.concatenate([feeds(proto, seed)["x"] for seed in (1, 2)])
    (found,) = model.run(None, {"x": whole})
    for i, x in enumerate(whole):
        (one,) = model.run(None, {"x": x[None]})
        np.testing.assert_allclose(found[i], one[0], rtol=1e-5, atol=1e-5)
    (expected,) = run_onnxruntime(proto, {"x": whole})
    assert np.abs(found - expected).mean() < 2e-2 * np.abs(expected).max()
