"""The values of an ONNX graph: their nodes, their operands, and their contents at run time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
import onnx

from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import Array
from tessella.driver.model.model import Model
from tessella.driver.model.subprograms import whole
from tessella.driver.options import CheckedOptions
from tessella.driver.specialise.by_value import specialised
from tessella.frontends.compile import open_source
from tessella.runtime.elements import as_own, element_of
from tessella.runtime.explanation import Explanation
from tessella.support.errors import ExecutionError, OptionError

Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class OnnxNode:
    """A node of the graph."""

    name: str
    """The node's name in tessella: ``<OpType>_<index>`` for a node without a name."""
    op: str
    reads: tuple[str, ...]
    """The names of the values that the node reads, including those that its subgraphs capture."""
    makes: tuple[str, ...]


class OnnxGraph:
    """The nodes of a model in order, and the producer of each value."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes = [_node(i, node) for i, node in enumerate(model.graph.node)]
        self.outputs = [value.name for value in model.graph.output]
        self.maker = {name: i for i, node in enumerate(self.nodes) for name in node.makes}

    def node_of(self, value: str) -> OnnxNode:
        """Return the node that produces a value."""
        return self.nodes[self.maker[value]]

    def inputs_of(self, value: str) -> list[str]:
        """Return the values that the node of ``value`` reads, except those that no node
        produces."""
        return [name for name in dict.fromkeys(self.node_of(value).reads) if name in self.maker]

    def upstream(self, value: str) -> set[str]:
        """Return all values that a value depends on."""
        return self.reached(value, ())

    def reached(self, value: str, stops: Container[str]) -> set[str]:
        """Return the values upstream of a value that are reached without passing a stop."""
        found: set[str] = set()
        queue = [value]
        while queue:
            new = [name for name in self.inputs_of(queue.pop()) if name not in found]
            found.update(new)
            queue += [name for name in new if name not in stops]
        return found

    def nearest(self, value: str, stops: AbstractSet[str]) -> set[str]:
        """Return the stops upstream of a value without another stop in between."""
        return self.reached(value, stops) & stops

    def ordered(self, values: Iterable[str]) -> list[str]:
        """Sort values in the order in which they are produced."""
        return sorted(values, key=lambda name: self.maker[name])

    def with_outputs(self, values: Sequence[str]) -> onnx.ModelProto:
        """Return the model with these values as further outputs."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        more = [name for name in values if name not in self.outputs]
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
        return copy


def _node(index: int, node: onnx.NodeProto) -> OnnxNode:
    reads = tuple(filter(None, [*node.input, *_captured(node)]))
    name = node.name or f"{node.op_type}_{index}"
    return OnnxNode(name, node.op_type, reads, tuple(filter(None, node.output)))


def _captured(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that the subgraphs of a node read. Names of the subgraphs' own values are
    included, which does no harm."""
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    for graph in [*graphs, *(g for a in node.attribute for g in a.graphs)]:
        for inner in graph.node:
            yield from inner.input
            yield from _captured(inner)
        yield from (value.name for value in graph.output)


# ** implementations that compute the values **


class Oracle(Protocol):
    """Another implementation of ONNX, with which values are compared."""

    def values(self, names: Sequence[str]) -> Arrays:
        """Return the arrays of the values ``names``, except values that are not tensors."""
        ...


class OnnxRuntime:
    """ONNX Runtime on the CPU without optimizations: each node is computed as written."""

    def __init__(self, graph: OnnxGraph, feeds: Arrays) -> None:
        self._runtime: Any = _imported("onnxruntime")
        self._graph = graph
        self._feeds = feeds

    def values(self, names: Sequence[str]) -> Arrays:
        """Return the arrays of values: see ``Oracle``. Raises ExecutionError with ONNX Runtime's
        message."""
        runtime = self._runtime
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        model = self._graph.with_outputs(names).SerializeToString()
        try:
            session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            found = session.run(list(names), dict(self._feeds))
        except Exception as error:  # ONNX Runtime raises types without a common base
            raise ExecutionError(
                f"ONNX Runtime cannot run the model: {error}", hint="--against reference"
            ) from error
        return _tensors(names, found)


class Reference:
    """The reference evaluator of the package onnx, in Python."""

    def __init__(self, graph: OnnxGraph, feeds: Arrays) -> None:
        self._evaluator: Any = _imported("onnx.reference").ReferenceEvaluator(graph.model)
        self._feeds = feeds
        self._found: Arrays | None = None

    def values(self, names: Sequence[str]) -> Arrays:
        """Return the arrays of values: see ``Oracle``. Raises ExecutionError with the evaluator's
        message."""
        if self._found is None:
            try:
                with np.errstate(all="ignore"):
                    self._found = self._evaluator.run(None, dict(self._feeds), intermediate=True)
            except Exception as error:
                raise ExecutionError(
                    f"the reference implementation cannot run the model: {error}",
                    hint="--against onnxruntime",
                ) from error
        assert self._found is not None
        return _tensors(names, [self._found.get(name) for name in names])


class NumPy:
    """tessella's NumPy kernels on the imported program, before any pass."""

    def __init__(self, graph: OnnxGraph, feeds: Arrays) -> None:
        self._graph = graph
        self._feeds = feeds

    def values(self, names: Sequence[str]) -> Arrays:
        """Return arrays: see ``Oracle``."""
        source = open_source(self._graph.with_outputs(names))
        graph, taken = specialised(source, self._feeds)
        found = interpret(whole(graph), taken)
        return dict(zip((info.name for info in source.outputs), found, strict=True))


class Tessella:
    """The model as tessella compiles it."""

    def __init__(self, graph: OnnxGraph, feeds: Arrays, options: CheckedOptions) -> None:
        self._graph = graph
        self._feeds = feeds
        self._options = options

    def run(self, names: Sequence[str]) -> tuple[Arrays, Explanation]:
        """Compile and run the model. Returns the arrays of its outputs and of the values ``names``,
        and its explanation."""
        model = Model(open_source(self._graph.with_outputs(names)), self._options)
        arrays = model.run(None, dict(self._feeds))
        outputs = [info.name for info in model.outputs]
        return dict(zip(outputs, arrays, strict=True)), model.explain()


_ORACLES: Mapping[str, Callable[[OnnxGraph, Arrays], Oracle]] = {
    "onnxruntime": OnnxRuntime,
    "reference": Reference,
    "numpy": NumPy,
}


def oracle(name: str, graph: OnnxGraph, feeds: Arrays) -> Oracle:
    """Return the implementation ``name``, with which tessella's values are compared."""
    return _ORACLES[name](graph, feeds)


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise OptionError(
            f"the package {module.partition('.')[0]} is not installed",
            hint="pip install it, or compare --against another",
        ) from error


def _tensors(names: Sequence[str], found: Sequence[Any]) -> Arrays:
    """Return the arrays in ``found`` by name, except those with elements that tessella does not
    support."""
    pairs = zip(names, found, strict=True)
    arrays = {name: np.asarray(x) for name, x in pairs if isinstance(x, np.ndarray | np.generic)}
    return {name: as_own(x) for name, x in arrays.items() if element_of(x.dtype) is not None}
