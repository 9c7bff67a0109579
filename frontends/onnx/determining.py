"""The shape-determining inputs of a graph, which are the inputs whose values the importer reads.

An input determines shapes if its elements reach an operand that the importer reads (``OPERANDS``)
through ops that move elements or compute with sizes. An input that only data is computed from does
not determine shapes: the graph breaks where the importer would read such a value.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tessella.frontends.onnx import ops
from tessella.frontends.onnx.functions import Calls, defined_in
from tessella.frontends.onnx.model import (
    DTYPES,
    GraphValue,
    Node,
    NodeGraph,
    OnnxFunction,
    OnnxModel,
)
from tessella.frontends.onnx.names import graphs_of, live_nodes, names_read
from tessella.frontends.onnx.unsupported import called_nodes, replacement
from tessella.runtime.host.elementwise import ROWS

_AXES = (1,)

OPERANDS: Mapping[str, Sequence[int]] = {
    "AffineGrid": (1,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "ConstantOfShape": (0,),
    "CumProd": _AXES,
    "CumSum": _AXES,
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "MaxUnpool": (2,),
    "MelWeightMatrix": range(5),
    "OneHot": (1,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": _AXES,
    "Tile": (1, 2),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": _AXES,
    "Upsample": (1,),
    **{op: _AXES for op in ops.entries() if op.startswith("Reduce")},
}
"""The indices of the operands whose elements a converter needs, by op of ONNX."""

_MOVES = (
    *("Cast", "CastLike", "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"),
    *("Identity", "Max", "Min", "Mod", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Sum"),
    *("Tile", "Transpose", "Unsqueeze", "Where"),
    *("ConcatFromSequence", "Optional", "OptionalGetElement", "SequenceAt", "SequenceConstruct"),
    *("SequenceInsert", "SplitToSequence"),
)
_PASSING = frozenset(_MOVES).union(
    row.onnx.name for row in ROWS.values() if row.onnx is not None and row.sizes is not None
)
"""The ONNX ops that move elements or compute with sizes: see `passes_sizes`."""

_BY_TYPE: Mapping[str, int] = {"CastLike": 1, "EyeLike": 0, "Shape": 0, "Size": 0}
"""The index of an operand of which only the shape and the type matter, by ONNX op."""

_BREAKS = frozenset(
    {
        *("Compress", "NonMaxSuppression", "NonZero", "Unique"),
        *("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
    }
)
"""The ONNX ops at which the graph breaks unless their operands are known."""


@dataclass(frozen=True)
class _Origin:
    """The values that a value is computed from."""

    inputs: frozenset[str | Node] = frozenset()
    """The inputs of the graph, and the loops whose iterations compute the value."""
    is_data: bool = False
    """True if the value is computed from data, or by an op that does not pass sizes."""
    is_late: bool = False
    """True if the value is computed after a graph break."""

    @property
    def is_known(self) -> bool:
        """True if constants and shapes alone determine the value."""
        return not (self.inputs or self.is_data)


_KNOWN, _DATA = _Origin(), _Origin(is_data=True)
_LATE = _Origin(is_data=True, is_late=True)

_Scope = ChainMap[str, _Origin]


def determining(model: OnnxModel, inputs: Iterable[GraphValue]) -> Mapping[str, str]:
    """Return where each shape-determining input is read, by its name. ``inputs`` are the tensors
    that a caller of the model passes."""
    walk = _Walk(model, {value.name: value for value in inputs})
    return walk.found()


class _Walk:
    """A walk over the nodes of a model, which finds the origin of each value."""

    def __init__(self, model: OnnxModel, inputs: Mapping[str, GraphValue]) -> None:
        self._model = model
        self._inputs = inputs
        self._data = frozenset(name for name, value in inputs.items() if _is_data(value))
        self._read: dict[str | Node, str] = {}
        """The place where a converter reads each input or loop, by name or node."""
        self._calls = Calls()

    def found(self) -> Mapping[str, str]:
        """Return where each shape-determining input is read, by its name."""
        graph = self._model.graph
        origins = {value.name: _LATE for value in graph.free_inputs}
        origins |= {name: _Origin(frozenset([name])) for name in self._inputs}
        self._graph(graph, _Scope(origins))
        return {name: self._read[name] for name in self._inputs if name in self._read}

    def _graph(self, graph: NodeGraph, scope: _Scope) -> Sequence[_Origin]:
        outputs = [value.name for value in graph.outputs]
        self._nodes(live_nodes(graph.nodes, outputs), scope)
        return [scope.get(name, _KNOWN) for name in outputs]

    def _nodes(self, nodes: Iterable[Node], scope: _Scope) -> None:
        for node in nodes:
            self._calls.count(node)
            is_late = any(scope.get(name, _KNOWN).is_late for name in names_read(node))
            results = () if is_late else self._results(node, scope)
            for i, name in enumerate(node.outputs):
                if name:
                    scope[name] = results[i] if i < len(results) else _LATE

    def _results(self, node: Node, scope: _Scope) -> Sequence[_Origin]:
        """Return the origins of a node's results; none if the graph breaks there."""
        operands = [scope.get(name, _KNOWN) for name in node.inputs]
        function = defined_in(self._model, node) or replacement(node, self._model.opsets)
        if function is not None:
            return self._called(function, node, operands)
        if (control := _CONTROL.get(node.title)) is not None:
            with self._calls.within(node):
                return control(self, node, operands, scope)
        indices = _read_by_converter(node)
        if not all(self._reads(node, operands[i]) for i in indices if i < len(operands)):
            return ()
        unread = {*indices, _BY_TYPE.get(node.title, -1)}
        others = [origin for i, origin in enumerate(operands) if i not in unread]
        if node.title in _BREAKS and not all(origin.is_known for origin in others):
            return ()
        return [self._after(others, node.title in _PASSING)] * len(node.outputs)

    def _reads(self, node: Node, origin: _Origin) -> bool:
        """Record that the converter of a node reads a value with this origin. Returns False if the
        value is computed from data, so that the graph breaks there instead."""
        if not origin.is_data:
            self._read = {**dict.fromkeys(origin.inputs, node.where), **self._read}
        return not origin.is_data

    def _after(self, origins: Iterable[_Origin], passes: bool) -> _Origin:
        """Return the origin of a result that an op computes from values with these origins.
        ``passes`` says whether the op passes sizes on."""
        inputs = frozenset[str | Node]().union(*(origin.inputs for origin in origins))
        is_data = any(origin.is_data for origin in origins) or not self._data.isdisjoint(inputs)
        return _Origin(inputs, is_data or bool(inputs and not passes))

    def _called(
        self, function: OnnxFunction, node: Node, operands: Sequence[_Origin]
    ) -> Sequence[_Origin]:
        scope = _Scope(dict(zip(function.inputs, operands, strict=False)))
        with self._calls.within(node):
            self._nodes(called_nodes(function, node), scope)
        return [scope.get(name, _KNOWN) for name in function.outputs]

    def _inner(
        self, graph: NodeGraph, operands: Sequence[_Origin], scope: _Scope
    ) -> Sequence[_Origin]:
        """Return the origins of the results of a graph attribute, whose inputs have the origins
        ``operands``."""
        names = (value.name for value in graph.inputs)
        return self._graph(graph, scope.new_child(dict(zip(names, operands, strict=False))))

    def branch(self, node: Node, operands: Sequence[_Origin], scope: _Scope) -> Sequence[_Origin]:
        """Return the origins of the results of an If. If its condition is known, only one branch is
        imported."""
        is_known = all(self._reads(node, origin) for origin in operands)
        sides = [self._inner(graph, (), scope) for graph in graphs_of(node)]
        others = () if is_known else operands
        return [self._after((*others, *pair), is_known) for pair in zip(*sides, strict=False)]

    def loop(self, node: Node, operands: Sequence[_Origin], scope: _Scope) -> Sequence[_Origin]:
        """Return the origins of the results of a Loop.

        A loop is unrolled if its body reads a value that differs between iterations. Its trip count
        and its conditions are known then.
        """
        trips, first = (*operands, _KNOWN)[0], operands[2:]
        numbers = _Origin(frozenset([node]))
        unrolls = node.gives(0) and not trips.is_data
        state = [self._after((numbers, x), True) if unrolls else _DATA for x in first]
        taken = [numbers if unrolls else _DATA, _KNOWN, *state]
        for graph in graphs_of(node):
            results = self._inner(graph, taken, scope)
            for origin in (trips, *results[:1]) if node in self._read else ():
                self._reads(node, origin)
        return self._opaque(node, scope)

    def scan(self, node: Node, operands: Sequence[_Origin], scope: _Scope) -> Sequence[_Origin]:
        """Return the origins of the results of a Scan, whose body reads no elements."""
        for graph in graphs_of(node):
            self._inner(graph, [_DATA] * len(graph.inputs), scope)
        return self._opaque(node, scope)

    def each(self, node: Node, operands: Sequence[_Origin], scope: _Scope) -> Sequence[_Origin]:
        """Return the origins of the results of a SequenceMap."""
        return [y for graph in graphs_of(node) for y in self._inner(graph, operands, scope)]

    def _opaque(self, node: Node, scope: _Scope) -> Sequence[_Origin]:
        read = [scope.get(name, _KNOWN) for name in names_read(node)]
        return [self._after(read, False)] * len(node.outputs)


_CONTROL: Mapping[str, Callable[[_Walk, Node, Sequence[_Origin], _Scope], Sequence[_Origin]]] = {
    "If": _Walk.branch,
    "Loop": _Walk.loop,
    "Scan": _Walk.scan,
    "SequenceMap": _Walk.each,
}


def _read_by_converter(node: Node) -> Sequence[int]:
    """Return the indices of the operands whose elements the converter of a node needs."""
    added = ops.find_contributed(node.title)
    return OPERANDS.get(node.title, ()) if added is None else added.reads


def _is_data(value: GraphValue) -> bool:
    """Return whether an input is data, not a shape: a tensor of rank 2 or more, or a vector of
    floating-point numbers."""
    rank = len(value.shape or ())
    return rank > 1 or (rank == 1 and DTYPES[value.type].kind not in "iub")
