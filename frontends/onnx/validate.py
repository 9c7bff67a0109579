"""Validation of a model: names, order of nodes, and the rules of ``onnx.checker``."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import onnx
from onnx import checker, shape_inference

from tessella.frontends.onnx.model import DTYPES, Node, NodeGraph, OnnxModel
from tessella.frontends.onnx.ops import find_contributed
from tessella.frontends.onnx.parse import type_of
from tessella.frontends.onnx.schemas import is_known, schema
from tessella.frontends.onnx.tensors import external_tensors
from tessella.runtime.signature import UNKNOWN
from tessella.support.errors import InvalidModelError

_FOREIGN = "tessella.unchecked"
_ONNX = ("", "ai.onnx")
_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")
_LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
_REDUCTIONS = ("mean", "none", "sum")
_MANY = 4096
"""The number of elements above which a Constant counts as a weight in checks."""


def check_names(model: OnnxModel) -> None:
    """Raise InvalidModelError unless every value is defined once and before its uses, and every
    tensor input has a shape."""
    _check_graph(model.graph, frozenset())
    for value in model.graph.free_inputs:
        if value.shape is None and value.type in DTYPES:
            raise InvalidModelError(
                "an input has no shape",
                where=f"input {value.name!r}",
                hint="give it one, in which dimensions that are not known have names",
            )
    for function in model.functions.values():
        where = f"function {function.name!r}"
        _check_nodes(function.nodes, _unique(function.inputs, where), function.outputs, where)


def _check_graph(graph: NodeGraph, outer: frozenset[str]) -> None:
    where = f"graph {graph.name!r}"
    inputs = _unique([value.name for value in graph.inputs], where)
    outputs = [value.name for value in graph.outputs]
    _check_nodes(graph.nodes, outer | inputs | graph.tensors.keys(), outputs, where, outer)


def _unique(names: Iterable[str], where: str) -> frozenset[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidModelError("two inputs have one name", where=where, found=repr(name))
        seen.add(name)
    return frozenset(seen)


def _check_nodes(
    nodes: Sequence[Node],
    given: frozenset[str],
    outputs: Sequence[str],
    where: str,
    outer: frozenset[str] = frozenset(),
) -> None:
    defined, local = set(given), set(given - outer)
    for node in nodes:
        _check_equation(node)
        _check_reduction(node)
        for name in node.inputs:
            if name and name not in defined:
                raise _undefined(name, node, nodes)
        for value in node.attributes.values():
            if isinstance(value, NodeGraph):
                _check_graph(value, frozenset(defined))
        for name in filter(None, node.outputs):
            if name in local:
                raise InvalidModelError(
                    "a value is defined twice", where=node.where, found=repr(name)
                )
            local.add(name)
            defined.add(name)
    for name in outputs:
        if name not in defined:
            raise InvalidModelError(
                "nothing computes an output", where=where, found=f"output {name!r}"
            )


def _check_equation(node: Node) -> None:
    """Raise InvalidModelError for a malformed equation of an Einsum, at which the inference of
    types by onnx may not end."""
    equation = node.attributes.get("equation")
    if node.op != "Einsum" or not isinstance(equation, str):
        return
    if not _EQUATION.fullmatch(equation.replace(" ", "")):
        raise InvalidModelError(
            "the equation is malformed",
            where=node.where,
            expected="terms of letters and '...', such as '...ij,...jk->...ik'",
            found=repr(equation),
        )


def _check_reduction(node: Node) -> None:
    """Raise InvalidModelError for a loss with an unknown reduction, for which onnx's functions of
    the losses take the mean."""
    reduction = node.attributes.get("reduction", "mean")
    if node.op in _LOSSES and node.domain in _ONNX and reduction not in _REDUCTIONS:
        raise InvalidModelError(
            "attribute 'reduction' does not have this value",
            where=node.where,
            expected=f"one of {', '.join(_REDUCTIONS)}",
            found=repr(reduction),
        )


def _undefined(name: str, node: Node, nodes: Sequence[Node]) -> InvalidModelError:
    maker = next((n for n in nodes if name in n.outputs), None)
    if maker is None:
        found = f"{name!r}, which no node, input or initializer defines"
        return InvalidModelError("an input is not defined", where=node.where, found=found)
    if _reaches(node, maker, nodes):
        found = f"{name!r} of {maker.where} depends on this node's output"
        return InvalidModelError("the graph has a cycle", where=node.where, found=found)
    return InvalidModelError(
        "a value is used before the node that computes it",
        where=node.where,
        found=f"{name!r}, the output of {maker.where}, which comes later",
        expected="nodes in an order in which they can run",
    )


def _reaches(start: Node, goal: Node, nodes: Sequence[Node]) -> bool:
    """Return whether ``goal`` depends on an output of ``start``, directly or through other nodes.
    ``nodes`` may be in any order."""
    users: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(node)
    seen, queue = {id(start)}, [start]
    while queue:
        node = queue.pop()
        if node is goal:
            return True
        for user in (user for name in node.outputs if name for user in users.get(name, ())):
            if id(user) not in seen:
                seen.add(id(user))
                queue.append(user)
    return False


def check_format(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Run ``onnx.checker`` on the model without its weights, which are checked elsewhere, and
    return that model.

    Unknown ops pass this check, because they are reported with all other unsupported ops. Raises
    InvalidModelError.
    """
    if proto.ir_version > onnx.IR_VERSION:
        warnings.warn(
            f"the model's IR version {proto.ir_version} is newer than {onnx.IR_VERSION}, the newest"
            " that the installed onnx knows; going on as if it were that",
            stacklevel=3,
        )
    skeleton = _skeleton(proto)
    if skeleton.ByteSize() > checker.MAXIMUM_PROTOBUF:
        return skeleton
    try:
        checker.check_model(skeleton)  # pyright: ignore[reportUnknownMemberType]
    except checker.ValidationError as error:
        raise InvalidModelError(
            f"onnx.checker refuses the model: {str(error).strip()}",
            hint="export the model again, or tell the exporter's developers",
        ) from error
    return skeleton


def with_types(model: OnnxModel, skeleton: onnx.ModelProto) -> OnnxModel:
    """Return the model with types for outputs that it gives none: those that
    ``onnx.shape_inference`` infers from ``skeleton``."""
    outputs = model.graph.outputs
    untyped = {value.name for value in outputs if value.type == UNKNOWN}
    if not untyped:
        return model
    for output in skeleton.graph.output:
        if output.name in untyped:
            output.ClearField("type")
    try:
        inferred = shape_inference.infer_shapes(skeleton)
    except (shape_inference.InferenceError, ValueError):
        return model  # the import reports what is wrong, and where
    types = {v.name: type_of(v) for v in inferred.graph.output}
    typed = tuple(replace(v, type=types[v.name]) if v.name in untyped else v for v in outputs)
    return replace(model, graph=replace(model.graph, outputs=typed))


def _large(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return the elements of a node that is a large Constant, which take as long to copy and check
    as a weight; None for any other node."""
    is_constant = node.op_type == "Constant" and node.domain in _ONNX
    if not is_constant or [each.name for each in node.attribute] != ["value"]:
        return None
    tensor = node.attribute[0].t
    return tensor if math.prod(tensor.dims) > _MANY else None


def _without_weights(whole: onnx.GraphProto) -> onnx.GraphProto:
    """Return a graph in which weights and large constants are inputs."""
    graph = onnx.GraphProto(name=whole.name or "graph")
    graph.input.extend(whole.input)
    graph.output.extend(whole.output)
    listed = {value.name for value in whole.input}
    tensors = [(t.name, t.data_type, t.dims) for t in whole.initializer]
    tensors += [(t.values.name, t.values.data_type, t.dims) for t in whole.sparse_initializer]
    tensors = [each for each in tensors if each[0] not in listed]
    for node in whole.node:
        tensor = _large(node)
        if tensor is None:
            graph.node.append(node)
        else:
            tensors += [(name, tensor.data_type, tensor.dims) for name in node.output]
    for name, type, dims in tensors:
        graph.input.append(onnx.helper.make_tensor_value_info(name, type, list(dims)))
    return graph


def _is_of_onnx(op: str, opset: int) -> bool:
    """Return whether ONNX defines an op, in this op set if ONNX Runtime defines it for others."""
    is_added = find_contributed(op) is not None
    return schema(op, opset) is not None if is_added else is_known(op)


def _skeleton(proto: onnx.ModelProto) -> onnx.ModelProto:
    graph = _without_weights(proto.graph)
    opset = next((each.version for each in proto.opset_import if each.domain in _ONNX), 1)
    for node in graph.node:
        if node.domain in _ONNX and not _is_of_onnx(node.op_type, opset):
            node.domain = _FOREIGN
    for output in graph.output:
        if output.type.WhichOneof("value") is None:
            output.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        if output.type.HasField("tensor_type"):
            # the checker requires a type and a shape of each output, which tessella does not need
            output.type.tensor_type.shape.SetInParent()
    for tensor in external_tensors(graph):
        # the checker would look for the tensor's data file in the working directory
        tensor.CopyFrom(onnx.TensorProto(name=tensor.name, data_type=1, dims=[0]))
    skeleton = onnx.ModelProto(ir_version=min(proto.ir_version, onnx.IR_VERSION), graph=graph)
    skeleton.opset_import.extend(proto.opset_import)
    if proto.opset_import:  # models of IR versions 1 and 2 have no op sets
        skeleton.opset_import.append(onnx.helper.make_opsetid(_FOREIGN, 1))
    skeleton.functions.extend(proto.functions)
    return skeleton
