"""The check of a model for unsupported inputs, types and ops, which finds all of them before
anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tessella.frontends.onnx import ops
from tessella.frontends.onnx.functions import Calls, defined_in, fixed_body
from tessella.frontends.onnx.load import Origin, open_model
from tessella.frontends.onnx.model import DTYPES, Node, OnnxFunction, OnnxModel, Tensor
from tessella.frontends.onnx.names import live_nodes
from tessella.frontends.onnx.registry import DOMAIN
from tessella.frontends.onnx.schemas import domains, newest_opset, schema
from tessella.runtime.signature import HELD
from tessella.support.errors import Unsupported

_OF_MACHINES = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
"""Domains of ops whose operands have layouts of one machine or device."""


def check(origin: Origin) -> list[Unsupported]:
    """Return everything in a model that is not supported; an empty list if the model can be
    imported.

    Raises InvalidModelError if ``origin`` is not a valid model. Restrictions on shapes are checked
    only when the model is imported for given shapes.
    """
    return unsupported(open_model(origin))


def unsupported(model: OnnxModel) -> list[Unsupported]:
    """Return everything in a parsed model that is not supported."""
    graph = model.graph
    found = [
        Unsupported("input", value.name, _type_reason(value.type))
        for value in graph.free_inputs
        if value.type not in DTYPES and value.type not in HELD
    ]
    found += _foreign_opset(model)
    nodes = live_nodes(graph.nodes, [value.name for value in graph.outputs])
    used = {name for node in nodes for name in node.inputs} | {v.name for v in graph.outputs}
    found += [
        Unsupported("initializer", tensor.name, _type_reason(tensor.type))
        for tensor in graph.tensors.values()
        if tensor.name in used and not tensor.supported
    ]
    found += _in_nodes(model, nodes, model.opsets, Calls())
    return list(dict.fromkeys(found))


def _foreign_opset(model: OnnxModel) -> list[Unsupported]:
    known, found = newest_opset(), model.opsets.get("", 1)
    if found <= known:
        return []
    reason = f"opset {found} is newer than {known}, the newest that the installed onnx knows"
    return [Unsupported("opset", model.graph.name, reason)]


def _type_reason(type: str) -> str:
    return f"type {type} is not supported"


def _in_nodes(
    model: OnnxModel, nodes: Iterable[Node], opsets: Mapping[str, int], calls: Calls
) -> Iterator[Unsupported]:
    for node in nodes:
        calls.count(node)
        function = defined_in(model, node) or replacement(node, opsets)
        if function is not None:
            with calls.within(node):
                yield from _in_nodes(model, called_nodes(function, node), function.opsets, calls)
        else:
            yield from (Unsupported(node.title, node.name, r) for r in reasons(node, opsets))


def replacement(node: Node, opsets: Mapping[str, int]) -> OnnxFunction | None:
    """Return the function by which ONNX defines an op without a converter; None for other ops."""
    return None if ops.covers(node.title) else fixed_body(node.title, node.opset(opsets))


def called_nodes(function: OnnxFunction, call: Node) -> list[Node]:
    """Return the nodes of a function's body that the outputs of a call depend on, with the
    attributes of the call."""
    outer = {**function.defaults, **call.attributes}
    absent = {name for i, name in enumerate(function.inputs) if not call.gives(i)}
    nodes = [node.resolved(outer, f"{call.name}/", absent) for node in function.nodes]
    outputs = (name for i, name in enumerate(function.outputs) if call.uses(i))
    return live_nodes(nodes, outputs)


def reasons(node: Node, opsets: Mapping[str, int]) -> Iterator[str]:
    """Yield the reasons why a node is not supported that follow from the node alone. The node must
    not call a function of the model."""
    opset = node.opset(opsets)
    found = schema(node.title, opset)
    if found is None and ops.find_contributed(node.title) is not None:
        return
    if found is None:
        yield _unknown(node, opset)
        return
    entry = ops.find(node.title, found.since)
    if entry is None:
        if not found.has_typed_body:
            yield _missing(node.title, found.since)
        return
    yield from filter(None, (rule.check(node) for rule in entry.rules))
    for name, value in node.attributes.items():
        if isinstance(value, Tensor) and not value.supported:
            yield f"attribute {name!r}: {_type_reason(value.type)}"


def _unknown(node: Node, opset: int) -> str:
    if node.domain == DOMAIN:
        return ops.refused_ops().get(node.op, "this op is not supported")
    if node.domain in domains():
        return f"ONNX has no such op in opset {opset}"
    if node.domain in _OF_MACHINES:
        return (
            f"domain {node.domain!r} is not supported: ONNX Runtime optimized this model for one "
            "machine; optimize it at the level ORT_ENABLE_EXTENDED"
        )
    return ops.missing(node.domain, node.op)


def _missing(op: str, version: int) -> str:
    rows = ops.entries().get(op)
    if rows is None:
        return "this op is not supported"
    ranges = " and ".join(f"{row.first} to {row.last}" for row in rows)
    return f"version {version} of this op is not supported; versions {ranges} are"
