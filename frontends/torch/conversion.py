"""Conversion of the nodes of a graph of PyTorch (torch.fx) to `nn` ops, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from tessella.frontends.emitter import Emitter
from tessella.frontends.torch import ops as ops  # registers the rows
from tessella.frontends.torch.registry import DEFAULT, find
from tessella.frontends.torch.tensors import array_of, dtype_of
from tessella.support.errors import TessellaError, Unsupported, UnsupportedError

Node = Any
"""A node of torch.fx."""
Known = Any
"""The result of a node: a value, a size, another number, None, or a list of such."""


def name_of(node: Node) -> str:
    """Return the name of what a node calls, as the registry has it: ``aten.add.Tensor``."""
    target = node.target
    if hasattr(target, "_schema"):
        return str(target)
    module = str(getattr(target, "__module__", "")).lstrip("_")
    return f"{module}.{getattr(target, '__name__', target)}.{DEFAULT}"


class AtenConversion:
    """Nodes and their results, in a program under construction."""

    def __init__(self, emit: Emitter, attribute: Callable[[str], Any]) -> None:
        self.emit = emit
        self.known: dict[Node, Known] = {}
        self.attribute = attribute
        """A function that returns a tensor of the module that the graph belongs to, by its
        name."""

    def convert(self, node: Node) -> Known:
        """Emit the ops of a node, and record its result. Raises TessellaError."""
        self.known[node] = found = self._converted(node)
        return found

    def _converted(self, node: Node) -> Known:
        if node.op == "get_attr":
            return self.emit.constant(array_of(self.attribute(node.target)), node.name)
        row = find(name_of(node)) if node.op == "call_function" else None
        if row is None:
            raise UnsupportedError([Unsupported(name_of(node), node.name, "it has no converter")])
        args = [self.value(each) for each in node.args]
        kwargs = {name: self.value(each) for name, each in node.kwargs.items()}
        try:
            return row.convert(self.emit, *args, **kwargs)
        except UnsupportedError:
            raise
        except TessellaError as error:
            error.at(f"node {node.name!r} ({row.name})")
            raise

    def value(self, argument: Any) -> Any:
        """Return an argument with nodes replaced by their results, and dtypes by NumPy's."""
        if hasattr(argument, "op") and hasattr(argument, "users"):
            return self.known[argument]
        if isinstance(argument, list | tuple):
            return [self.value(each) for each in cast("list[Any]", argument)]
        if type(argument).__name__ == "dtype":
            return dtype_of(argument)
        return argument


def metas(node: Node) -> Iterator[Any]:
    """Yield what PyTorch knows of the results of a node: fake tensors, SymInts and numbers."""
    found = node.meta.get("val")
    yield from cast("list[Any]", found) if isinstance(found, list | tuple) else [found]


def is_tensor(meta: Any) -> bool:
    """Return whether a result is a tensor."""
    return hasattr(meta, "dtype") and hasattr(meta, "shape")


def tensors_of(node: Node) -> Mapping[int, Any]:
    """Return the tensors among the results of a node, by number."""
    return {i: meta for i, meta in enumerate(metas(node)) if is_tensor(meta)}
