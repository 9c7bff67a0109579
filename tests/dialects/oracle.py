"""Single ops against oracles that are not ours: ONNX's reference evaluator and onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator
from xdsl.ir import Block, SSAValue

from tessella.dialects.nn.core import NnOp, dtype_of, shape_of, type_of

Array = npt.NDArray[Any]

TOLERANCES = {"float32": (1e-5, 1e-6), "float64": (1e-12, 1e-13)}
OPSET = 22
_ORT: Any = onnxruntime  # it has no types


def values(arrays: Sequence[Array]) -> Sequence[SSAValue]:
    """Values with the types of arrays."""
    return Block(arg_types=[type_of(array) for array in arrays]).args


def run(op_class: type[NnOp], *arrays: Array, **properties: Any) -> list[Array]:
    """The op's results; checks that it verifies, and that its types are those of the results."""
    op = op_class.make(values(arrays), **properties)
    op.verify()
    results = op.evaluate(*arrays)
    assert [x.dtype for x in results] == [dtype_of(x.type) for x in op.results]
    assert [x.shape for x in results] == [shape_of(x) for x in op.results]
    return results


def _model(
    op_type: str, inputs: Sequence[Array | None], outputs: int, opset: int, attributes: Any
) -> onnx.ModelProto:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, **attributes)
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, inputs, strict=True)
        if array is not None
    ]
    graph = helper.make_graph(
        [node], "graph", infos, [onnx.ValueInfoProto(name=n) for n in results]
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def reference(
    op_type: str, *inputs: Array | None, outputs: int = 1, opset: int = OPSET, **attributes: Any
) -> list[Array]:
    """The node's outputs by ONNX's reference evaluator."""
    model = _model(op_type, inputs, outputs, opset, attributes)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    return [np.asarray(y) for y in ReferenceEvaluator(model).run(None, feeds)]


def runtime(
    op_type: str, *inputs: Array | None, outputs: int = 1, opset: int = OPSET, **attributes: Any
) -> list[Array]:
    """The node's outputs by onnxruntime."""
    model = _model(op_type, inputs, outputs, opset, attributes)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    options = _ORT.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = _ORT.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(y) for y in session.run(None, feeds)]


def assert_close(found: Sequence[Array], expected: Sequence[Array]) -> None:
    """Equal types and shapes, and values up to rounding."""
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if ours.dtype.kind == "f":
            relative, absolute = TOLERANCES[ours.dtype.name]
            np.testing.assert_allclose(ours, theirs, relative, absolute)
        else:
            np.testing.assert_array_equal(ours, theirs)


def sample(seed: int, shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
    """Random numbers: N(0, 1) for floats, small integers of both signs, or booleans."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    return rng.integers(-9 if kind.kind == "i" else 0, 10, shape).astype(kind)
