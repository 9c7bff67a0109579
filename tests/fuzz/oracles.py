"""Single nodes and whole models by those who know: ``onnx.reference`` and ONNX Runtime."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.fuzz.elements import FLOATS, Array, dtype_of, wide

_ORT: Any = onnxruntime  # it has no types
_TYPES_BY_NAME = ("to", "dtype", "output_dtype", "output_datatype", "stash_type")
"""Attributes that are element types."""


def node_model(
    node: onnx.NodeProto, operands: Mapping[str, tuple[int, Sequence[int]]], opset: int
) -> onnx.ModelProto:
    """A model of one node, with the types and shapes of its operands."""
    infos = [helper.make_tensor_value_info(n, *each) for n, each in operands.items()]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


class WideNode:
    """An oracle that runs one node with ``onnx.reference``, and computes all floats in float64."""

    def __init__(self, node: onnx.NodeProto, opset: int) -> None:
        made = onnx.NodeProto()
        made.CopyFrom(node)
        for attribute in made.attribute:
            if attribute.name in _TYPES_BY_NAME and attribute.i in FLOATS:
                attribute.i = TensorProto.DOUBLE
        model = node_model(made, {n: (TensorProto.DOUBLE, ()) for n in node.input if n}, opset)
        self._names = list(dict.fromkeys(filter(None, node.input)))
        self._evaluator = ReferenceEvaluator(model)
        self._float = np.float64
        self.epsilon = 0.0
        """Of the type in which the oracle has computed, where it has given less than float64."""

    def __call__(self, arrays: Mapping[str, Array]) -> list[Array]:
        """The results, floats as float64."""
        with np.errstate(all="ignore"):
            try:
                results = self._run(arrays)
            except Exception:  # the body of a function may have constants of float32
                self._float = np.float32
                results = self._run(arrays)
        for y in results:
            if y.dtype.kind == "f":
                self.epsilon = max(self.epsilon, float(np.finfo(y.dtype).eps))
        return [wide(y) for y in results]

    def _run(self, arrays: Mapping[str, Array]) -> list[Array]:
        feeds = {
            name: a.astype(self._float) if (a := arrays[name]).dtype.kind == "f" else a
            for name in self._names
        }
        return [np.asarray(y) for y in self._evaluator.run(None, feeds)]


@functools.cache
def _session_options() -> Any:
    options = _ORT.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = _ORT.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def runtime_results(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array] | None:
    """A model's outputs by ONNX Runtime, which optimises nothing; None where it refuses it."""
    try:
        session = _ORT.InferenceSession(
            model.SerializeToString(), _session_options(), providers=["CPUExecutionProvider"]
        )
        if any(a.dtype == dtype_of(TensorProto.BFLOAT16) for a in feeds.values()):
            return None  # it takes none from NumPy
        return [np.asarray(y) for y in session.run(None, dict(feeds))]
    except Exception:  # its errors have no common base
        return None
