"""Bodies of ops that are functions: those that a model defines, and those that ONNX defines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import onnx
from onnx import helper
from xdsl.ir import SSAValue

from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.frontends.onnx.model import Function, Model, Node, Tensor
from tessella.frontends.onnx.parse import parse_function
from tessella.frontends.onnx.registry import schema


def defined_in(model: Model, node: Node) -> Function | None:
    """The function of the model that the node calls."""
    return model.functions.get((node.domain, node.op, node.overload))


@lru_cache(maxsize=256)
def fixed_body(op: str, domain: str, opset: int) -> Function | None:
    """The body that ONNX gives an op in a version of its op set, where it is always the same."""
    found = schema(op, domain, opset)
    versions = [v for v in found.function_opset_versions if v <= opset] if found else []
    if found is None or not versions:
        return None
    return parse_function(found.get_function_with_opset_version(max(versions)))


def has_typed_body(op: str, domain: str, opset: int) -> bool:
    """Whether ONNX gives the op a body that depends on the types of its inputs."""
    found = schema(op, domain, opset)
    return found is not None and any(
        version <= opset for version in found.context_dependent_function_opset_versions
    )


def typed_body(node: Node, opset: int, inputs: Sequence[SSAValue | None]) -> Function | None:
    """The body that ONNX gives the node for inputs of these types; None where there is none."""
    found = schema(node.op, node.domain, opset)
    if found is None:
        return None
    versions = [v for v in found.context_dependent_function_opset_versions if v <= opset]
    proto = _proto(node)
    if not versions or proto is None:
        return None
    types = [_type(value) for value in inputs]
    body = found.get_context_dependent_function_with_opset_version(
        max(versions), proto.SerializeToString(), [t.SerializeToString() for t in types]
    )
    return parse_function(body) if body else None


def _proto(node: Node) -> onnx.NodeProto | None:
    """The node as protobuf, without its name; None where an attribute is of a rare kind."""
    attributes = {
        key: helper.make_tensor(
            value.name,
            helper.np_dtype_to_tensor_dtype(value.array.dtype),
            value.shape,
            value.array.tobytes(),
            raw=True,
        )
        if isinstance(value, Tensor)
        else value
        for key, value in node.attributes.items()
    }
    if any(not isinstance(v, int | float | str | tuple | onnx.TensorProto) for v in attributes.values()):
        return None
    return helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain, **attributes)


def _type(value: SSAValue | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    dtype = helper.np_dtype_to_tensor_dtype(dtype_of(value.type))
    return helper.make_tensor_type_proto(dtype, shape_of(value))
