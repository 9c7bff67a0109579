"""The parts of a graph of PyTorch that become programs; PyTorch runs the nodes between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block

from tessella.dialects.nn.core import element_type, tensor
from tessella.frontends.emitter import DType, Emitter, Value
from tessella.frontends.torch.conversion import (
    AtenConversion,
    Known,
    Node,
    is_tensor,
    metas,
    name_of,
)
from tessella.frontends.torch.library import library
from tessella.frontends.torch.sizes import kind_of, size_of
from tessella.frontends.torch.source import FLOAT
from tessella.frontends.torch.tensors import dtype_of
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import ShapeError, TessellaError
from tessella.support.sizes import Size


@dataclass(frozen=True)
class Left:
    """A node that PyTorch runs."""

    name: str
    """The op."""
    reason: str


def unserved(module: Any) -> Mapping[Node, Left]:
    """Return the nodes of a graph that have no converter, or whose arguments it does not serve.

    Each node is converted once, for types and ranges of sizes as PyTorch knows them.
    """
    trial = _Trial(module)
    return {n: left for n in module.graph.nodes if (left := trial.tried(n)) is not None}


class _Trial(AtenConversion):
    def __init__(self, module: Any) -> None:
        self._block = Block()
        super().__init__(Emitter(self._block), lambda name: _attribute(module, name))

    def tried(self, node: Node) -> Left | None:
        """Convert a node, and return why it is left to PyTorch; None if it is not."""
        if node.op == "output":
            return None
        if node.op == "placeholder":
            self.known[node] = self._typed(node)
            return None
        if node.op == "get_attr":  # its elements cannot be read while PyTorch traces
            self.known[node] = self._argument(self.attribute(node.target))
            return None
        try:
            for value in metas(node):
                _check(value)
            self.convert(node)
        except UndecidedSizeError:  # the program is compiled for numbers
            self.known[node] = self._typed(node)
        except TessellaError as error:
            self.known[node] = self._typed(node)
            return Left(name_of(node), _reason(error))
        return None

    def value(self, argument: Any) -> Any:
        """Return an argument as the converter takes it. Raises TessellaError for a value of a type
        that we do not have."""
        found = super().value(argument)
        if isinstance(found, _Untyped):
            raise found.error
        return found

    def _typed(self, node: Node) -> Known:
        """Return the result of a node as a value of the type that PyTorch knows."""
        found = [self._argument(value) for value in metas(node)]
        return found if isinstance(node.meta.get("val"), list | tuple) else found[0]

    def _argument(self, value: Any) -> Known:
        try:
            if is_tensor(value):
                _check(value)
                return self._input(dtype_of(value.dtype), tuple(map(size_of, value.shape)))
            if kind_of(value) is float:
                return self._input(FLOAT, ())
            return value if kind_of(value) is None else size_of(value)
        except TessellaError as error:
            return _Untyped(error)

    def _input(self, dtype: DType, shape: tuple[Size, ...]) -> Value:
        type = tensor(element_type(dtype), shape)
        return Value(self.emit, self._block.insert_arg(type, len(self._block.args)))


@dataclass(frozen=True)
class _Untyped:
    """A value of a type that we do not have. No converter takes it."""

    error: TessellaError


def _attribute(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _check(value: Any) -> None:
    """Raise ShapeError for a tensor that is not in the CPU's memory, or not of our types."""
    if not is_tensor(value):
        return
    dtype_of(value.dtype)
    if value.device.type != "cpu" or str(value.layout) != "torch.strided":
        raise ShapeError(
            "a tensor elsewhere than in the CPU's memory", found=f"{value.device} {value.layout}"
        )


def _reason(error: TessellaError) -> str:
    issues = getattr(error, "issues", None)
    if issues:
        return issues[0].reason
    return error.what if error.found is None else f"{error.what}: {error.found}"


class _Support:
    """The answers to the partitioner: whether a node becomes part of a program."""

    def __init__(self, left: Collection[Node]) -> None:
        self._left = left

    def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
        return node not in self._left and node.op in ("call_function", "get_attr")


def partition(module: Any, left: Collection[Node]) -> Sequence[str]:
    """Replace the parts of a graph that become programs by calls of submodules. Returns the names
    of these. The nodes ``left`` stay as they are, and so does a part that computes sizes alone."""
    fuser = library("torch.fx.passes.utils.fuser_utils")
    parts = (
        library("torch.fx.passes.infra.partitioner")
        .CapabilityBasedPartitioner(module, _Support(left), allows_single_node_partition=True)
        .propose_partitions()
    )
    kept = [part.nodes for part in parts if any(map(_computes, part.nodes))]
    found = fuser.fuse_by_partitions(module, kept, always_return_tuple=True)
    return [node.target for node in found.graph.nodes if node.op == "call_module"]


def _computes(node: Node) -> bool:
    return node.op == "call_function" and any(map(is_tensor, metas(node)))


def tensors_into(node: Node) -> Iterator[Node]:
    """Yield the tensors that a node reads."""
    for each in node.all_input_nodes:
        if is_tensor(each.meta.get("val")):
            yield each
