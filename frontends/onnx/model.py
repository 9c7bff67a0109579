"""An ONNX model as plain typed values, free of protobuf: the importer's input.

`parse` creates these from a ``ModelProto``. Types have NumPy's names (``float32``, ``bfloat16``) if
tessella supports them, otherwise ONNX's (``float8e5m2``, ``string``, ``sequence``).
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
    elements.dtype_name(elements.DTYPES[name]): elements.DTYPES[name]
    for name, element in ELEMENTS.items()
    if element.is_native
}
"""The dtypes of supported element types, by name."""

_MOST_SHOWN = 256
"""Characters of a name that an error shows."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A constant. ``read`` returns its elements on demand; it raises InvalidModelError."""

    name: str
    type: str
    shape: tuple[int, ...]
    read: Callable[[], Array]

    @property
    def supported(self) -> bool:
        """Whether tessella supports its element type."""
        return self.type in DTYPES

    @cached_property
    def array(self) -> Array:
        """Return its elements, which must not be modified."""
        return self.read()

    @staticmethod
    def of(name: str, array: Array) -> Tensor:
        """Return the tensor with this array."""
        array = elements.tagged(array)
        return Tensor(name, elements.dtype_name(array.dtype), array.shape, lambda: array)


@dataclass(frozen=True)
class AttributeReference:
    """An attribute's value inside a function: the attribute with this name of the function's
    call."""

    name: str


@dataclass(frozen=True, eq=False)
class Opaque:
    """An attribute's value of a kind that no supported op has."""

    kind: str


@dataclass(frozen=True, eq=False)
class Node:
    """One node. The empty string stands for an absent input or output."""

    op: str
    domain: str
    overload: str
    name: str
    """The node's name; ``<OpType>_<index>`` without one."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def title(self) -> str:
        """The op with its domain, as messages name it."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def where(self) -> str:
        """The node's name in messages."""
        return f"node {self.name!r} ({self.title})"

    def uses(self, output: int) -> bool:
        """Return whether the output at an index is used."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def gives(self, input: int) -> bool:
        """Return whether the input at an index is present."""
        return input < len(self.inputs) and bool(self.inputs[input])

    def resolved(self, outer: Mapping[str, Any], prefix: str, absent: AbstractSet[str]) -> Node:
        """Return the node within a call of its function.

        ``outer`` are the attributes of the call, ``absent`` its absent inputs.
        """
        attributes = {
            key: outer.get(value.name) if isinstance(value, AttributeReference) else value
            for key, value in self.attributes.items()
        }
        name = f"{prefix}{self.name}"
        if len(name) > _MOST_SHOWN:
            # Without it, names would grow without bounds, as functions call functions.
            name = f"{name[: _MOST_SHOWN // 2]}...{name[-_MOST_SHOWN // 2 :]}"
        return replace(
            self,
            name=name,
            inputs=tuple("" if name in absent else name for name in self.inputs),
            attributes={key: value for key, value in attributes.items() if value is not None},
        )


@dataclass(frozen=True)
class GraphValue:
    """An input or output. ``shape`` has symbols for unknown dimensions; None if it is not
    declared."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in execution order."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]
    tensors: Mapping[str, Tensor]

    @property
    def free_inputs(self) -> tuple[GraphValue, ...]:
        """The inputs that a caller passes: IR version 3 also lists the initializers."""
        return tuple(value for value in self.inputs if value.name not in self.tensors)


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    """A function's body: an op defined by nodes."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    defaults: Mapping[str, Any]
    opsets: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    """A graph, its op set versions, and its functions."""

    graph: Graph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], OnnxFunction]
    """Functions by domain, op and overload."""

    files: tuple[str, ...] = ()
    """The other files that hold its tensors, relative to its own."""
