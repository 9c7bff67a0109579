"""Small models for the tests of the importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import tessella
from tessella.dialects.graph import Source
from tessella.dialects.interpret import interpret
from tessella.driver.model.model import Model
from tessella.driver.model.subprograms import RunningRest, interfaces, sources
from tessella.driver.specialise.by_value import specialised
from tessella.frontends.onnx import OnnxSource
from tessella.runtime.elements import as_own

Array = npt.NDArray[Any]
Shape = Sequence[int | str | None]


def value(name: str, shape: Shape | None, dtype: npt.DTypeLike = np.float32) -> onnx.ValueInfoProto:
    """An input or output."""
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, code, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    *,
    weights: Mapping[str, Array] | None = None,
    opset: int = 21,
    domains: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of these parts."""
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "test", list(inputs), list(outputs), tensors)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, n) for domain, n in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def one_node(
    op: str,
    inputs: Mapping[str, Array],
    *,
    opset: int,
    constants: Sequence[str] = (),
    outputs: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node whose inputs are those given, of which some are initializers."""
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(inputs), names, **attributes)
    return model(
        [node],
        [value(n, a.shape, a.dtype) for n, a in inputs.items() if n not in constants],
        [value(name, None) for name in names],
        weights={name: inputs[name] for name in constants},
        opset=opset,
    )


def run(proto: onnx.ModelProto, feeds: Mapping[str, Array], **options: Any) -> list[Array]:
    """The outputs of the imported model, by the interpreter."""
    source = OnnxSource(proto, **options)
    return Interpreted(source).run(None, {info.name: feeds[info.name] for info in source.inputs})


def same(found: Any, wanted: Any) -> None:
    """Arrays, or sequences of them, have the same elements but for rounding, types and shapes."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for each, expected in zip(found, wanted, strict=True):
            same(each, expected)
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def compare(proto: onnx.ModelProto, *calls: Mapping[str, Any]) -> Model:
    """Compile and interpret the model once for all calls, and compare its results with ONNX
    Runtime's."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    compiled = tessella.compile(proto)
    for feeds in calls:
        wanted: Sequence[Any] = session.run(None, dict(feeds))
        for found in (run(proto, feeds), compiled.run(None, feeds)):
            same(list(found), list(wanted))
    return compiled


class Interpreted:
    """A model that the interpreter runs."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.inputs = source.inputs
        self.outputs = source.outputs

    def run(self, output_names: object, feeds: Mapping[str, Any]) -> list[Array]:
        """All outputs, for inputs by name."""
        del output_names
        feeds = {
            name: x if x is None or isinstance(x, list) else as_own(np.asarray(x))
            for name, x in feeds.items()
        }
        graph, taken = specialised(self._source, feeds)
        graph.module.verify()
        found = interpret(graph, taken)
        after = interfaces(graph)
        if after is None:
            return found
        rest = RunningRest(after, sources(graph), lambda source, _, in_call: Interpreted(source))
        return rest.program.run([info.name for info in self._source.outputs], feeds, found)
