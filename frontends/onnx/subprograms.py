"""Subprograms of programs with graph breaks, at ops whose result shapes depend on values.

The ops that can be computed before the break are the first subprogram. The op itself is a step. The
ops that depend on it are the continuation, which is imported once the step has run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Attribute

from tessella.dialects.graph import Source, Subprogram, ValueInfo, dimensions, info
from tessella.dialects.nn.core import shape_of
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.cut import Find, Inside
from tessella.frontends.onnx.held import Handed, Held, Listed, Missing
from tessella.frontends.onnx.model import (
    GraphValue,
    Node,
    NodeGraph,
    OnnxFunction,
    OnnxModel,
    Tensor,
)
from tessella.frontends.onnx.names import free_names, live_nodes, names_read
from tessella.frontends.onnx.steps import names_inside, step
from tessella.frontends.onnx.unsupported import called_nodes
from tessella.runtime.elements import dtype_name
from tessella.runtime.rest import Bounds, Interface, Rest
from tessella.runtime.values import Array
from tessella.support.sizes import Size, symbols_of


@dataclass
class Late:
    """The nodes that do not belong to the first subprogram of a program: steps and the
    continuation."""

    steps: list[tuple[Node, Find | None]] = field(default_factory=list[tuple[Node, Find | None]])
    nodes: list[Node] = field(default_factory=list[Node])
    """The nodes of the continuation."""
    names: set[str] = field(default_factory=set[str])
    """The names of the results of steps and of the continuation."""
    repeated: set[str] = field(default_factory=set[str])
    """The names of results of the continuation that the first subprogram computes too."""
    types: dict[str, ValueInfo] = field(default_factory=dict[str, ValueInfo])
    """The known types of steps' results.

    A size that is found at run time is named after its value and dimension.
    """

    def depends(self, node: Node) -> bool:
        """Return whether a node reads results of steps or of the continuation."""
        return bool(self.names) and not self.names.isdisjoint(names_read(node))

    def add(self, node: Node) -> None:
        """Add a node to the continuation."""
        self.nodes.append(node)
        self.names.update(filter(None, node.outputs))

    def add_step(self, node: Node, find: Find | None) -> None:
        """Add a node as a step."""
        self.steps.append((node, find))
        self.names.update(filter(None, node.outputs))
        if find is not None:
            self.types |= _types(node, find)

    def repeat(self, made: Mapping[str, Node], is_size: Callable[[str], bool]) -> None:
        """Add the nodes that compute size-like values to the continuation and to the graphs of
        steps which read these values, so that their sizes are symbolic there.

        ``made`` maps results to nodes of the first subprogram; ``is_size`` tells whether a value is
        size-like.
        """
        order = {name: i for i, name in enumerate(made)}

        def follows(name: str) -> bool:
            return name in made and is_size(name)

        def makers(read: set[str]) -> list[Node]:
            queue, again = sorted(filter(follows, read)), dict[str, Node]()
            while queue:
                node = made[queue.pop()]
                if node.outputs[0] not in again:
                    again[node.outputs[0]] = node
                    queue += filter(follows, names_read(node))
            return sorted(again.values(), key=lambda node: order[node.outputs[0]])

        def after(inside: Inside) -> Inside:
            graph, again = inside.graph, makers(free_names(inside.graph))
            own = {v.name for v in graph.inputs}.union(*(node.outputs for node in graph.nodes))
            if not own.isdisjoint(name for x in again for name in (*x.outputs, *names_read(x))):
                return inside  # the graph defines one of these names itself
            return replace(inside, graph=replace(graph, nodes=(*again, *graph.nodes)))

        again = makers(set[str]().union(*map(names_read, self.nodes)) - self.names)
        self.nodes[:0] = again
        self.repeated = {name for node in again for name in node.outputs}
        self.steps = [
            (node, find and replace(find, inside=tuple(map(after, find.inside))))
            for node, find in self.steps
        ]

    def pack(self, name: str, value: Held) -> Mapping[str, Value]:
        """Add a step that assembles ``value``, a sequence or an optional.

        Returns the tensors that the first subprogram must return for it, by name.
        """
        if isinstance(value, Handed):
            return {}
        items = value.items if isinstance(value, Listed) else ()
        parts = {f"{name}[{i}]": item for i, item in enumerate(items)}
        op, function = ("SequenceConstruct", "sequence")
        if isinstance(value, Missing):
            op, function = "Optional", "nothing"
        self.steps.insert(0, (Node(op, "", "", name, tuple(parts), (name,)), Find(function)))
        return parts

    def reads(self) -> set[str]:
        """Return the names of the results of the first subprogram that steps or the continuation
        read."""
        steps = set[str]().union(*(names_read(node) for node, _ in self.steps))
        steps.update(*(names_inside(find) for _, find in self.steps))
        nodes = set[str]().union(*map(names_read, self.nodes)) - self.repeated
        return (steps | nodes) - self.names

    def holds_all(self, graph: NodeGraph) -> bool:
        """Return whether the continuation computes all live nodes of a graph."""
        made = {node.outputs for node in self.nodes}
        return all(
            n.outputs in made for n in live_nodes(graph.nodes, [v.name for v in graph.outputs])
        )


def _types(node: Node, find: Find) -> Mapping[str, ValueInfo]:
    """Return the types of a step's results.

    A size that is found at run time is named after its first occurrence.
    """
    names: dict[str, str] = {}
    outputs = [
        (n, *each) for n, each in zip(find.outputs or node.outputs, find.types, strict=False) if n
    ]
    for name, _, shape in outputs:
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                names.setdefault(size, f"{name}:{axis}")
    infos: dict[str, ValueInfo] = {}
    for name, dtype, shape in outputs:
        sizes = (names[d] if isinstance(d, str) else dimensions([d])[0] for d in shape)
        infos[name] = ValueInfo(name, dtype_name(dtype), tuple(sizes))
    return infos


class Cutter:
    """A factory of the subprograms of a model: the continuation, and the graphs that steps run.

    ``source`` creates a source of programs from a model. ``constants`` are known values; ``types``
    are the types of values that the first subprogram takes and returns; ``elements`` are the
    elements of its size-like inputs.
    """

    def __init__(
        self,
        model: OnnxModel,
        source: Callable[[OnnxModel], Source],
        constants: Mapping[str, Tensor],
        types: Mapping[str, Attribute],
        elements: Mapping[str, Sequence[Size]],
    ) -> None:
        self._model = model
        self._source = source
        self._constants = constants
        self._types = {name: info(name, type) for name, type in types.items()}
        self._elements = {name: dimensions(sizes) for name, sizes in elements.items()}
        every = [*map(shape_of, types.values()), *elements.values()]
        symbols = symbols_of(size for sizes in every for size in sizes)
        self._bounds = {symbol.name: Bounds(symbol.low, symbol.high) for symbol in symbols}

    def rest(self, late: Late, returned: Iterable[str]) -> Rest[Subprogram]:
        """Return the continuation after the first subprogram, which returns the values
        ``returned``."""
        whole = self._model.graph
        self._types |= late.types
        made = {name for node in late.nodes for name in node.outputs} - late.repeated
        outputs = tuple(value for value in whole.outputs if value.name in made)
        graph = NodeGraph(whole.name, tuple(late.nodes), (), outputs, {})
        read = set[str]().union(*(names_read(node) for node, _ in late.steps))
        subprograms: list[Subprogram] = []

        def add(inside: Inside) -> int:
            subprograms.append(self._subprogram(inside))
            return len(subprograms) - 1

        steps = tuple(step(node, find, add) for node, find in late.steps)
        add(Inside(graph))
        return Rest(
            tuple(returned),
            {name: self._constant(name) for name in sorted(read & self._constants.keys())},
            steps,
            tuple(value.name for value in outputs),
            tuple(subprograms),
        )

    def _constant(self, name: str) -> Array:
        array = self._constants[name].array.view()
        array.flags.writeable = False
        return array

    def _subprogram(self, inside: Inside) -> Subprogram:
        """Return a graph as a subprogram. The values that it captures become its last inputs."""
        graph = inside.graph
        free = sorted(free_names(graph))
        known = {name: self._constants[name] for name in free if name in self._constants}
        own = [value.name for value in graph.inputs]
        inputs = (*own, *(name for name in free if name not in known))

        def source(infos: Sequence[ValueInfo]) -> Source:
            values = tuple(GraphValue(info.name, info.dtype, info.shape) for info in infos)
            tensors = {**known, **graph.tensors}
            whole = replace(graph, inputs=values, tensors=tensors)
            return self._source(replace(self._model, graph=whole))

        types = {name: info for name, info in self._types.items() if name in free}
        types |= {info.name: info for info in inside.types}
        bounds = {**self._bounds, **inside.bounds}
        elements = {name: each for name, each in self._elements.items() if name in free}
        return Subprogram(Interface(inputs, types, bounds, elements), source)


def inlined(function: OnnxFunction, call: Node, prefix: str) -> list[Node]:
    """Return the nodes that replace a call of a function: those of its body, with renamed values.

    ``prefix`` begins the names of the values that the body defines, and no name outside it.
    """
    taken = dict(zip(function.inputs, call.inputs, strict=False))
    given = {k: v for k, v in zip(function.outputs, call.outputs, strict=False) if v}
    passed = [name for name in given if taken.get(name)]
    nodes = called_nodes(function, call)
    made = {name for node in nodes for name in node.outputs if name}
    names = {**{name: f"{prefix}{name}" for name in made}, **given, **taken}
    return [
        *(_renamed(node, names, prefix) for node in nodes),
        *(_copy(call, taken[name], given[name]) for name in passed),
    ]


def _copy(call: Node, source: str, target: str) -> Node:
    """Return a node that passes an input of a function on as a result of the call."""
    return Node("Identity", "", "", call.name, (source,), (target,))


def _renamed(node: Node, names: Mapping[str, str], prefix: str) -> Node:
    attributes = {
        key: _graph_renamed(value, names, prefix) if isinstance(value, NodeGraph) else value
        for key, value in node.attributes.items()
    }
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
        attributes=attributes,
    )


def _graph_renamed(graph: NodeGraph, outer: Mapping[str, str], prefix: str) -> NodeGraph:
    """Return a graph that captures the same values under other names. ``outer`` maps old to new
    names; ``prefix`` begins the names that the graph defines."""
    names = {**outer, **{name: f"{prefix}{name}" for name in graph.own_names}}

    def values(old: Iterable[GraphValue]) -> tuple[GraphValue, ...]:
        return tuple(replace(v, name=names.get(v.name, v.name)) for v in old)

    return replace(
        graph,
        nodes=tuple(_renamed(node, names, prefix) for node in graph.nodes),
        inputs=values(graph.inputs),
        outputs=values(graph.outputs),
        tensors={names[name]: tensor for name, tensor in graph.tensors.items()},
    )
