"""Models in ONNX's text syntax that spell out what is one op, against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper, parser

import tessella
from tessella.driver.model.model import Model
from tests.models import run_onnxruntime
from tests.native import Array

OPSET = 17
_UNSEEN = {"weight", "splat", "fused", "yield", "reshape"}
"""Ops that compute nothing."""


def sample(seed: int, *shape: int, dtype: npt.DTypeLike = np.float32) -> Array:
    """N(0, 1)."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def onnx_model(
    body: str, inputs: Mapping[str, Array], weights: Mapping[str, Array] | None = None
) -> onnx.ModelProto:
    """The model of some nodes, whose output is ``y``; a word like ``0.5f`` is a constant."""
    numbers = sorted(set(re.findall(r"(?<![\w.])-?\d[\d.e-]*f\b", body)))
    for i, number in enumerate(numbers):
        body = body.replace(number, f"constant{i}")
    constants = [
        f"constant{i} = Constant <value = float {{{number[:-1]}}}> ()"
        for i, number in enumerate(numbers)
    ]
    names = ", ".join(f"{_type(array)} {name}" for name, array in inputs.items())
    graph = f"g ({names}) => (float y) {{ {' '.join(constants)} {body} }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {OPSET}]> {graph}')
    model.graph.output[0].type.tensor_type.ClearField("shape")
    dtypes = {array.dtype for array in inputs.values() if array.dtype.kind == "f"}
    assert dtypes == {np.dtype(np.float32)}
    for name, array in (weights or {}).items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _type(array: Array) -> str:
    kind = {"float32": "float", "int64": "int64", "bool": "bool"}[array.dtype.name]
    return f"{kind}[{','.join(map(str, array.shape))}]"


def check(
    body: str,
    expected: Sequence[str],
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    *,
    tolerance: float = 1e-5,
) -> Model:
    """Assert that the model becomes these ops, all native, and computes what ONNX Runtime does."""
    proto = onnx_model(body, inputs, weights)
    model = tessella.compile(proto)
    [found] = model.run(None, dict(inputs))
    [wanted] = run_onnxruntime(proto, dict(inputs))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert ops_of(model) == list(expected)
    assert model.as_text("tile").count("rt.launch") == 1
    return model


def ops_of(model: Model) -> list[str]:
    """The ops that compute something, in the order in which they run."""
    return ops_in(model.as_text("placed"))


def ops_in(placed: str) -> list[str]:
    """Return the ops of a program at the stage `placed`."""
    names = re.findall(r"= nn\.(\w+) ", placed)
    return [name for name in names if name not in _UNSEEN]


def kernels_of(model: Model) -> list[str]:
    """The kernels that are called, without those that change the order in memory."""
    names = re.findall(r"tile\.call @(\w+)_\d+", model.as_text("tile"))
    return [name for name in names if not name.startswith("relayout")]
