"""An ONNX model as plain typed values, free of protobuf: the importer's input.

`parse` creates these from a ``ModelProto``. Types have the public names of elements (``float32``,
``bfloat16``, ``string``) if tessella supports them, otherwise ONNX's (``complex64``, ``sequence``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime import elements
from tessella.support.elements import ELEMENTS

Array = npt.NDArray[Any]

DTYPES: Mapping[str, np.dtype[Any]] = {
    element.public: elements.DTYPES[name] for name, element in ELEMENTS.items()
}
"""The dtypes of supported element types, by name."""

_MOST_SHOWN = 256
"""The maximum number of characters of a node's name."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A constant tensor. ``read`` returns its elements on demand, or raises InvalidModelError."""

    name: str
    type: str
    shape: tuple[int, ...]
    read: Callable[[], Array]

    @property
    def supported(self) -> bool:
        """True if tessella supports the element type of the tensor."""
        return self.type in DTYPES

    @cached_property
    def array(self) -> Array:
        """The elements of the tensor, which must not be modified."""
        return self.read()

    @staticmethod
    def of(name: str, array: Array) -> Tensor:
        """Return a tensor with the elements of an array."""
        array = elements.as_own(array)
        return Tensor(name, elements.dtype_name(array.dtype), array.shape, lambda: array)


@dataclass(frozen=True)
class AttributeReference:
    """The value of an attribute of a node in a function body that refers to an attribute of the
    call: the one called ``name``."""

    name: str


@dataclass(frozen=True, eq=False)
class Opaque:
    """The value of an attribute whose kind no supported op has."""

    kind: str


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a graph. The empty string stands for an absent input or output."""

    op: str
    domain: str
    overload: str
    name: str
    """The node's name, or ``<OpType>_<index>`` if the model gives none."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def title(self) -> str:
        """The name of the op, after its domain if it has one, for messages."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def where(self) -> str:
        """The node's name and op as a location in messages."""
        return f"node {self.name!r} ({self.title})"

    def opset(self, opsets: Mapping[str, int]) -> int:
        """Return the version of the op set of the node's domain."""
        return opsets.get(self.domain, 1)

    def uses(self, output: int) -> bool:
        """Return whether the output at an index is used."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def gives(self, input: int) -> bool:
        """Return whether the input at an index is present."""
        return input < len(self.inputs) and bool(self.inputs[input])

    def resolved(self, outer: Mapping[str, Any], prefix: str, absent: AbstractSet[str]) -> Node:
        """Return a node of a function body, or of a graph in it, with the attributes and inputs of
        a call.

        ``outer`` are the attributes of the call, ``absent`` the names of the inputs that the call
        leaves out. ``prefix`` is put before the node's name.
        """
        attributes = {
            key: _resolved(value, outer, absent) for key, value in self.attributes.items()
        }
        name = f"{prefix}{self.name}"
        if len(name) > _MOST_SHOWN:
            # Names are shortened, as functions that call functions would make them grow without
            # bounds.
            name = f"{name[: _MOST_SHOWN // 2]}...{name[-_MOST_SHOWN // 2 :]}"
        return replace(
            self,
            name=name,
            inputs=tuple("" if name in absent else name for name in self.inputs),
            attributes={key: value for key, value in attributes.items() if value is not None},
        )


@dataclass(frozen=True)
class GraphValue:
    """An input or output of a graph. ``shape`` has symbols for unknown dimensions; it is None if it
    is not declared."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """A graph: its nodes in execution order, inputs, outputs and constants."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]
    tensors: Mapping[str, Tensor]

    @property
    def free_inputs(self) -> tuple[GraphValue, ...]:
        """The inputs that a caller passes: those that are not initializers, which IR version 3 also
        lists as inputs."""
        return tuple(value for value in self.inputs if value.name not in self.tensors)

    @property
    def own_names(self) -> set[str]:
        """The names of the values that the graph defines: inputs, constants and results of
        nodes."""
        made = {name for node in self.nodes for name in node.outputs if name}
        return {value.name for value in self.inputs} | self.tensors.keys() | made

    def resolved(self, outer: Mapping[str, Any], absent: AbstractSet[str]) -> NodeGraph:
        """Return a graph in a function body with the attributes and inputs of a call: see
        `Node.resolved`."""
        captured = absent - self.own_names
        nodes = tuple(node.resolved(outer, "", captured) for node in self.nodes)
        return replace(self, nodes=nodes)


def _resolved(value: Any, outer: Mapping[str, Any], absent: AbstractSet[str]) -> Any:
    """Return the value of an attribute in a function body with the attributes and inputs of a
    call."""
    if isinstance(value, AttributeReference):
        return outer.get(value.name)
    return value.resolved(outer, absent) if isinstance(value, NodeGraph) else value


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    """An op that is defined as a function: its body, inputs and outputs."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    defaults: Mapping[str, Any]
    opsets: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A graph, its op set versions, and its functions."""

    graph: NodeGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], OnnxFunction]
    """Functions by domain, op and overload."""

    files: tuple[str, ...] = ()
    """Files with data of the model's tensors, relative to the model's file."""
