"""Function ops: bodies that a model defines, and bodies that ONNX defines."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import onnx
from onnx import helper

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.model import Node, OnnxFunction, OnnxModel, Tensor
from tessella.frontends.onnx.parse import parse_function
from tessella.frontends.onnx.schemas import schema
from tessella.frontends.onnx.tensors import element_code
from tessella.support.errors import InvalidModelError, ResourceError

_DEPTH = 64
"""The maximum nesting depth of function calls and branches."""
_MAX_NODES = 1 << 16
"""The maximum number of nodes in functions and branches, after inlining."""


class Calls:
    """Limits on the functions and branches of a model: their nesting depth, and the number of nodes
    after inlining.

    Without limits, n functions that call each other can produce 2^n nodes.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._nodes = 0

    @property
    def nested(self) -> bool:
        """True if a node of a function or branch is being converted."""
        return self._depth > 0

    def count(self, node: Node) -> None:
        """Count a node if it is in a function or branch. Raises ResourceError if these have too
        many nodes."""
        self._nodes += self._depth > 0
        if self._nodes > _MAX_NODES:
            raise ResourceError(
                "the model's functions call each other too often",
                where=node.where,
                expected=f"at most {_MAX_NODES} nodes in all",
            )

    @contextmanager
    def within(self, node: Node) -> Generator[None]:
        """Count the block as one more nesting level of functions and branches. Raises
        InvalidModelError beyond the maximum depth."""
        if self._depth >= _DEPTH:
            raise InvalidModelError(
                "functions or branches are nested too deeply",
                where=node.where,
                expected=f"at most {_DEPTH} levels, and no function that calls itself",
            )
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


def defined_in(model: OnnxModel, node: Node) -> OnnxFunction | None:
    """Return the model's function that the node calls; None if it calls none."""
    return model.functions.get((node.domain, node.op, node.overload))


@lru_cache(maxsize=256)
def fixed_body(op: str, opset: int) -> OnnxFunction | None:
    """Return the function by which ONNX defines an op of an op set, if it does not depend on
    operand types, otherwise None."""
    found = schema(op, opset)
    body = found.fixed_body() if found else None
    if found is None or body is None:
        return None
    return replace(parse_function(body), defaults=found.defaults)


def typed_body(node: Node, opset: int, inputs: Sequence[Value | None]) -> OnnxFunction | None:
    """Return the function by which ONNX defines a node for inputs of these types; None if there is
    none."""
    found, proto = schema(node.title, opset), _proto(node)
    body = found.typed_body(proto, [_type(x) for x in inputs]) if found and proto else None
    if found is None or body is None:
        return None
    return replace(parse_function(body), defaults=found.defaults)


def _proto(node: Node) -> onnx.NodeProto | None:
    """Return the node as protobuf without its name; None if it has an attribute that is not a
    number, string, tensor or tuple."""
    proto = onnx.NodeProto(op_type=node.op, domain=node.domain)
    proto.input.extend(node.inputs)
    proto.output.extend(node.outputs)
    for name, value in node.attributes.items():
        if isinstance(value, Tensor):
            proto.attribute.append(helper.make_attribute(name, _tensor(value)))
        elif isinstance(value, int | float | str | tuple):
            proto.attribute.append(helper.make_attribute(name, cast(Any, value)))
        else:
            return None
    return proto


def _tensor(value: Tensor) -> onnx.TensorProto:
    code = element_code(value.array.dtype)
    return helper.make_tensor(value.name, code, value.shape, value.array.tobytes(), raw=True)


def _type(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    code = element_code(value.dtype)
    shape = [size if isinstance(size, int) else str(size) for size in value.shape]
    return helper.make_tensor_type_proto(code, shape)
