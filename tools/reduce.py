"""Reduction of an ONNX model to a smaller one for which a test still holds: delta debugging, after
Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.

The following changes are tried repeatedly until none succeeds: remove nodes, so that their results
become inputs; replace a value by another one that it is computed from; remove outputs; feed large
weights as inputs; shrink dimensions of inputs. Candidates that are not valid models, or whose types
cannot be inferred, are skipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import checker, helper, shape_inference

from tessella.support.errors import InvalidModelError
from tessella.tools.onnx_values import OnnxGraph

_LARGE = 1 << 10
"""The least size in bytes of a weight that is worth feeding."""

Test = Callable[[onnx.ModelProto], bool]
"""A function that returns whether a valid model still shows the failure."""


@dataclass(frozen=True)
class Size:
    """The size of a model, for comparison."""

    nodes: int
    inputs: int
    outputs: int
    bytes: int

    def __str__(self) -> str:
        return (
            f"{_counted(self.nodes, 'node')}, {_counted(self.inputs, 'input')}, "
            f"{_counted(self.outputs, 'output')}, {self.bytes} bytes"
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def size_of(model: onnx.ModelProto) -> Size:
    """Return the size of a model."""
    graph = model.graph
    return Size(len(graph.node), len(graph.input), len(graph.output), model.ByteSize())


class Reducer:
    """A reduction, with the smallest model so far that passes the test."""

    def __init__(self, model: onnx.ModelProto, test: Test) -> None:
        self.smallest = model
        """The smallest model so far."""
        self.model = _typed(_rebuilt(model))
        """The smallest model with the types of all values."""
        self._test = test
        self._tried: set[bytes] = set()

    def run(self) -> onnx.ModelProto:
        """Return the smallest model found."""
        steps = (self._nodes, self._bypasses, self._outputs, self._weights, self._dimensions)
        while True:
            before = size_of(self.model)
            for step in steps:
                step()
            if size_of(self.model) == before:
                return self.smallest

    def _accepts(self, candidate: onnx.ModelProto | None) -> bool:
        """Test a candidate that is valid and was not tested before, and make it the smallest model
        if it passes. Returns whether it does; False for None."""
        typed = None if candidate is None else _valid(_tidy(candidate))
        if typed is None:
            return False
        plain = _rebuilt(typed)
        digest = hashlib.sha256(plain.SerializeToString(deterministic=True)).digest()
        if digest in self._tried:
            return False
        self._tried.add(digest)
        if not self._test(plain):
            return False
        self.model, self.smallest = typed, plain
        return True

    def _nodes(self) -> None:
        """Try to remove runs of consecutive nodes, long ones first."""
        length = len(self.model.graph.node) // 2
        while length:
            start = len(self.model.graph.node) - length
            while start >= 0:
                # from the end, where removal creates no new inputs
                self._accepts(without_nodes(self.model, range(start, start + length)))
                start = min(start, len(self.model.graph.node)) - length
            length //= 2

    def _bypasses(self) -> None:
        """Try to replace values by values of the same type that they are computed from."""
        for i in reversed(range(len(self.model.graph.node))):
            if i < len(self.model.graph.node):
                any(map(self._accepts, bypassed(self.model, i)))

    def _outputs(self) -> None:
        """Try to remove runs of outputs, half of all outputs first."""
        length = len(self.model.graph.output) // 2
        while length:
            start = 0
            while start < len(self.model.graph.output) > 1:
                if not self._accepts(without_outputs(self.model, range(start, start + length))):
                    start += length
            length //= 2

    def _weights(self) -> None:
        """Try to turn large weights into inputs, which shrinks the file."""
        for tensor in list(self.model.graph.initializer):
            if tensor.ByteSize() > _LARGE:
                self._accepts(fed(self.model, tensor.name))

    def _dimensions(self) -> None:
        """Try to shrink dimensions of inputs to 1, 2 or half."""
        for value in list(self.model.graph.input):
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                for size in (1, 2, dim.dim_value // 2):
                    if 0 < size < dim.dim_value and self._accepts(
                        resized(self.model, value.name, axis, size)
                    ):
                        break


# ** smaller models as candidates **


def without_nodes(model: onnx.ModelProto, left_out: Collection[int]) -> onnx.ModelProto | None:
    """Return the model without some nodes.

    Their results become inputs, and their operands become outputs if nothing else reads them. None
    if a type is unknown.
    """
    graph, types = OnnxGraph(model), _types(model)
    kept = [i for i in range(len(graph.nodes)) if i not in left_out]
    made = {name for i in kept for name in graph.nodes[i].makes}
    read = {name for i in kept for name in graph.nodes[i].reads}
    gone = {name for i in left_out for name in graph.nodes[i].makes}
    ends = [name for i in left_out for name in graph.nodes[i].reads if name in made - read]
    outputs = [name for name in dict.fromkeys([*graph.outputs, *ends]) if name in made]
    inputs = [name for name in graph.maker if name in gone & read]
    if not outputs or any(name not in types for name in (*outputs, *inputs)):
        return None
    return _rebuilt(
        model,
        nodes=[model.graph.node[i] for i in kept],
        inputs=[*model.graph.input, *(types[name] for name in inputs)],
        outputs=[types[name] for name in outputs],
    )


def without_outputs(model: onnx.ModelProto, left_out: Collection[int]) -> onnx.ModelProto | None:
    """Return the model without some outputs; None if none would be left."""
    kept = [value for i, value in enumerate(model.graph.output) if i not in left_out]
    return _rebuilt(model, outputs=kept) if kept else None


def bypassed(model: onnx.ModelProto, index: int) -> Iterator[onnx.ModelProto]:
    """Yield models without the node ``index``, each with an operand of the node in place of its
    result.

    Only an operand of the result's type is used. There are no models for a node with several
    results, or with an output of the model as its result.
    """
    graph, types = OnnxGraph(model), _types(model)
    node = graph.nodes[index]
    if len(node.makes) != 1 or node.makes[0] in graph.outputs or node.makes[0] not in types:
        return
    old = node.makes[0]
    rest = [n for i, n in enumerate(model.graph.node) if i != index]
    for new in dict.fromkeys(node.reads):
        if new in types and types[new].type == types[old].type:
            renamed = [_renamed(n, old, new) for n in rest]
            if all(n is not None for n in renamed):
                yield _rebuilt(model, nodes=[n for n in renamed if n is not None])


def fed(model: onnx.ModelProto, weight: str) -> onnx.ModelProto:
    """Return the model with the weight ``weight`` as an input instead of a constant."""
    tensor = next(t for t in model.graph.initializer if t.name == weight)
    value = helper.make_tensor_value_info(weight, tensor.data_type, tensor.dims)
    others = [v for v in model.graph.input if v.name != weight]
    rest = [t for t in model.graph.initializer if t.name != weight]
    return _rebuilt(model, inputs=[*others, value], weights=rest)


def resized(model: onnx.ModelProto, name: str, axis: int, size: int) -> onnx.ModelProto:
    """Return the model with another size of an input's dimension; dependent types are inferred."""
    inputs: list[onnx.ValueInfoProto] = []
    for value in model.graph.input:
        copy = onnx.ValueInfoProto()
        copy.CopyFrom(value)
        if copy.name == name:
            copy.type.tensor_type.shape.dim[axis].dim_value = size
        inputs.append(copy)
    outputs = [_without_shape(value) for value in model.graph.output]
    return _rebuilt(model, inputs=inputs, outputs=outputs)


def fixed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """Return the model with these shapes of inputs; dependent types are inferred."""
    for name, shape in shapes.items():
        if shape:
            for axis, size in enumerate(shape):
                model = resized(model, name, axis, size)
    return model


def _without_shape(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    copy.type.tensor_type.ClearField("shape")
    return copy


def _renamed(node: onnx.NodeProto, old: str, new: str) -> onnx.NodeProto | None:
    """Return a copy of a node that reads ``new`` instead of ``old``; None if the node has
    subgraphs, which may read ``old``."""
    if any(a.HasField("g") or a.graphs for a in node.attribute):
        return None
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for i, name in enumerate(copy.input):
        copy.input[i] = new if name == old else name
    return copy


def _rebuilt(
    model: onnx.ModelProto,
    *,
    nodes: Sequence[onnx.NodeProto] | None = None,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    weights: Sequence[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    """Return a copy of the model with the nodes, inputs, outputs and weights given here instead of
    its own; types of inner values are left to inference."""
    graph = model.graph
    new = helper.make_graph(
        graph.node if nodes is None else nodes,
        graph.name or "reduced",
        graph.input if inputs is None else inputs,
        graph.output if outputs is None else outputs,
        graph.initializer if weights is None else weights,
        sparse_initializer=list(graph.sparse_initializer),
    )
    return helper.make_model(
        new,
        opset_imports=list(model.opset_import),
        functions=list(model.functions),
        ir_version=model.ir_version,
    )


# ** types and validity of models **


def _typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the types of all values that can be inferred."""
    try:
        return shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise InvalidModelError(f"the types of the model cannot be inferred: {error}") from error


def _valid(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Return the model with the types of its values; None if it breaks ONNX's rules."""
    try:
        typed = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        checker.check_model(typed, full_check=True)  # pyright: ignore[reportUnknownMemberType]
        return typed
    except (checker.ValidationError, shape_inference.InferenceError, ValueError):
        return None


def _tidy(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without nodes, inputs, weights and functions that no output depends on."""
    graph = OnnxGraph(model)
    ends = [name for name in graph.outputs if name in graph.maker]
    live = {*ends, *(name for end in ends for name in graph.upstream(end))}
    kept = [i for i, node in enumerate(graph.nodes) if not live.isdisjoint(node.makes)]
    nodes = [model.graph.node[i] for i in kept]
    used = {name for i in kept for name in graph.nodes[i].reads} | set(graph.outputs)
    new = _rebuilt(
        model,
        nodes=nodes,
        inputs=[v for v in model.graph.input if v.name in used],
        weights=[t for t in model.graph.initializer if t.name in used],
    )
    called = {(n.domain, n.op_type) for n in _all_nodes(new)}
    functions = [f for f in new.functions if (f.domain, f.name) in called]
    del new.functions[:]
    new.functions.extend(functions)
    return new


def _all_nodes(model: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    queue = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    while queue:
        node = queue.pop()
        yield node
        graphs = [a.g for a in node.attribute if a.HasField("g")]
        graphs += [g for a in node.attribute for g in a.graphs]
        queue += [n for g in graphs for n in g.node]


def _types(model: onnx.ModelProto) -> Mapping[str, onnx.ValueInfoProto]:
    """Return the values of known element type and rank, with their types, by name."""
    graph = model.graph
    values = [*graph.value_info, *graph.input, *graph.output]
    known = {v.name: v for v in values if v.type.tensor_type.HasField("shape")}
    for tensor in graph.initializer:
        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        known.setdefault(tensor.name, info)
    return known
