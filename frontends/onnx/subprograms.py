"""Programs that are cut, as the shape of a result depends on values: what can be computed before is
the first subprogram; the op is a step; what depends on it is the rest, which is imported when the
step has run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tessella.dialects.graph import Rest, Source, Step, Subprogram, ValueInfo
from tessella.frontends.onnx.cut import Find
from tessella.frontends.onnx.model import (
    Function,
    Graph,
    Model,
    Node,
    Tensor,
    Value,
)
from tessella.frontends.onnx.steps import control, found
from tessella.frontends.onnx.unsupported import called_nodes, live_nodes


def free_names(graph: Graph) -> set[str]:
    """Names that a graph takes from outside."""
    made = {value.name for value in graph.inputs} | graph.tensors.keys()
    made |= {name for node in graph.nodes for name in node.outputs}
    return ({v.name for v in graph.outputs}.union(*map(names_read, graph.nodes))) - made


def graphs_of(node: Node) -> list[Graph]:
    """The graphs in a node's attributes, by the attributes' names."""
    values = (node.attributes[name] for name in sorted(node.attributes))
    return [value for value in values if isinstance(value, Graph)]


def names_read(node: Node) -> set[str]:
    """Names that a node reads, also in the graphs of its attributes."""
    return set(filter(None, node.inputs)).union(*map(free_names, graphs_of(node)))


@dataclass
class Late:
    """The nodes that do not belong to the first subprogram of a program."""

    steps: list[tuple[Node, Find | None]] = field(default_factory=list[tuple[Node, Find | None]])
    nodes: list[Node] = field(default_factory=list[Node])
    """Those of the rest."""
    names: set[str] = field(default_factory=set[str])
    """What steps and the rest make."""
    found: set[str] = field(default_factory=set[str])
    """What steps make: sizes that vary."""

    def depends(self, node: Node) -> bool:
        """Whether a node reads what is made later."""
        return bool(self.names) and not self.names.isdisjoint(names_read(node))

    def add(self, node: Node) -> None:
        """A node of the rest."""
        self.nodes.append(node)
        self.names.update(filter(None, node.outputs))

    def add_step(self, node: Node, find: Find | None) -> None:
        """A node that is a step."""
        self.steps.append((node, find))
        self.names.update(filter(None, node.outputs))
        self.found.update(filter(None, node.outputs))

    def reads(self) -> set[str]:
        """What these nodes read of the first subprogram."""
        every = [*(node for node, _ in self.steps), *self.nodes]
        return set[str]().union(*map(names_read, every)) - self.names

    def holds_all(self, graph: Graph) -> bool:
        """Whether all that a graph computes is left to the rest."""
        made = {node.outputs for node in self.nodes}
        return all(
            n.outputs in made for n in live_nodes(graph.nodes, [v.name for v in graph.outputs])
        )


class Cutter:
    """Makes the subprograms of a model.

    ``source`` makes a source of a model. ``constants`` are the values that are known already.
    """

    def __init__(
        self,
        model: Model,
        source: Callable[[Model], Source],
        constants: Mapping[str, Tensor],
    ) -> None:
        self._model = model
        self._source = source
        self._constants = constants

    def rest(self, late: Late, returned: Iterable[str]) -> Rest:
        """What follows the first subprogram, which returns these values."""
        whole = self._model.graph
        made = {name for node in late.nodes for name in node.outputs}
        outputs = tuple(value for value in whole.outputs if value.name in made)
        graph = Graph(whole.name, tuple(late.nodes), (), outputs, {})
        read = set[str]().union(*(names_read(node) for node, _ in late.steps))
        return Rest(
            tuple(returned),
            {name: self._constants[name].array for name in sorted(read & self._constants.keys())},
            tuple(self.step(node, find, late.found) for node, find in late.steps),
            self.subprogram(graph, late.found),
        )

    def subprogram(self, graph: Graph, varying: Iterable[str]) -> Subprogram:
        """A graph as a subprogram. What it takes from outside are its last inputs."""
        free = sorted(free_names(graph))
        known = {name: self._constants[name] for name in free if name in self._constants}
        own = [value.name for value in graph.inputs]
        inputs = (*own, *(name for name in free if name not in known))

        def source(infos: Sequence[ValueInfo]) -> Source:
            values = tuple(Value(info.name, info.dtype, info.shape) for info in infos)
            tensors = {**known, **graph.tensors}
            whole = replace(graph, inputs=values, tensors=tensors)
            return self._source(replace(self._model, graph=whole))

        outputs = tuple(value.name for value in graph.outputs)
        return Subprogram(inputs, outputs, frozenset(varying).union(own), source)

    def step(self, node: Node, find: Find | None, varying: Iterable[str]) -> Step:
        """A node that runs in NumPy, or as a loop or branch over subprograms."""
        title = f"{node.title} {node.name}"
        if find is not None:
            return Step(title, node.outputs, (), partial(found, node, find))
        subprograms = tuple(self.subprogram(graph, varying) for graph in graphs_of(node))
        return Step(title, node.outputs, subprograms, partial(control, node))


def inlined(function: Function, call: Node) -> list[Node]:
    """The nodes of a function's body that stand for a call of it."""
    names = dict(zip(function.outputs, call.outputs, strict=False))
    names |= dict(zip(function.inputs, call.inputs, strict=False))
    nodes = called_nodes(function, call)
    inner = {name for node in nodes for name in node.outputs} - names.keys()
    names |= {name: f"{call.name}/{name}" for name in inner}
    return [_renamed(node, names) for node in nodes]


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    attributes = {
        key: _graph_renamed(value, names) if isinstance(value, Graph) else value
        for key, value in node.attributes.items()
    }
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
        attributes=attributes,
    )


def _graph_renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    """A graph that takes values from outside under other names."""
    taken = {name: names[name] for name in free_names(graph) & names.keys()}
    outputs = tuple(replace(v, name=taken.get(v.name, v.name)) for v in graph.outputs)
    nodes = tuple(_renamed(node, taken) for node in graph.nodes)
    return replace(graph, nodes=nodes, outputs=outputs)
