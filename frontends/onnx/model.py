"""An ONNX model as plain typed values: what the importer reads, free of protobuf.

`parse` makes these from a ``ModelProto``. Types are NumPy's names (``float32``, ``bfloat16``) where
tessella has the type, else ONNX's (``float8e5m2``, ``string``, ``sequence``).
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
    if element.bits >= 16 or not element.is_tagged
}
"""The dtypes of the element types that models may have, by name."""

_MOST_SHOWN = 256
"""Characters of a name that an error shows."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A constant. ``read`` gives its elements when asked; it raises InvalidModelError."""

    name: str
    type: str
    shape: tuple[int, ...]
    read: Callable[[], Array]

    @property
    def supported(self) -> bool:
        """Whether tessella has its element type."""
        return self.type in DTYPES

    @cached_property
    def array(self) -> Array:
        """Its elements, not to be written to."""
        return self.read()

    @staticmethod
    def of(name: str, array: Array) -> Tensor:
        """The tensor that holds this array."""
        array = elements.tagged(array)
        return Tensor(name, elements.dtype_name(array.dtype), array.shape, lambda: array)


@dataclass(frozen=True)
class Reference:
    """An attribute's value inside a function: the attribute of this name of the function's call."""

    name: str


@dataclass(frozen=True, eq=False)
class Opaque:
    """An attribute's value of a kind that no supported op has."""

    kind: str


@dataclass(frozen=True, eq=False)
class Node:
    """One node. An input or output that is left out is the empty string."""

    op: str
    domain: str
    overload: str
    name: str
    """The node's name; ``<OpType>_<index>`` for one without."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def title(self) -> str:
        """The op with its domain, as messages name it."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    @property
    def where(self) -> str:
        """How messages name the node."""
        return f"node {self.name!r} ({self.title})"

    def uses(self, output: int) -> bool:
        """Whether the output of this index is asked for."""
        return output < len(self.outputs) and bool(self.outputs[output])

    def gives(self, input: int) -> bool:
        """Whether the input of this index is given."""
        return input < len(self.inputs) and bool(self.inputs[input])

    def resolved(self, outer: Mapping[str, Any], prefix: str, absent: AbstractSet[str]) -> Node:
        """The node as it is in a call of its function.

        ``outer`` are the attributes of the call, ``absent`` the inputs that it leaves out.
        """
        attributes = {
            key: outer.get(value.name) if isinstance(value, Reference) else value
            for key, value in self.attributes.items()
        }
        name = f"{prefix}{self.name}"
        if len(name) > _MOST_SHOWN:
            # else names would take memory without bounds, as functions call functions
            name = f"{name[: _MOST_SHOWN // 2]}...{name[-_MOST_SHOWN // 2 :]}"
        return replace(
            self,
            name=name,
            inputs=tuple("" if name in absent else name for name in self.inputs),
            attributes={key: value for key, value in attributes.items() if value is not None},
        )


@dataclass(frozen=True)
class GraphValue:
    """An input or output. ``shape`` has symbols for unknown dimensions; None if it is not given."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in the order in which they run."""

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[GraphValue, ...]
    outputs: tuple[GraphValue, ...]
    tensors: Mapping[str, Tensor]

    @property
    def free_inputs(self) -> tuple[GraphValue, ...]:
        """The inputs that a caller gives: IR version 3 also lists the initializers."""
        return tuple(value for value in self.inputs if value.name not in self.tensors)


@dataclass(frozen=True, eq=False)
class Function:
    """A function's body: an op defined by nodes."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    defaults: Mapping[str, Any]
    opsets: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    """A graph, the versions of the op sets it uses, and the functions it defines."""

    graph: Graph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Function]
    """By domain, op and overload."""

    files: tuple[str, ...] = ()
    """The other files that hold tensors of it, relative to its own."""
