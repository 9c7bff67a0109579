"""From ONNX nodes to `nn` ops: names, scopes, function bodies, and located errors."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tessella.dialects.graph import Source, Subprogram
from tessella.dialects.nn.evaluate_sizes import holds_sizes
from tessella.frontends.emitter import Value
from tessella.frontends.onnx import ops
from tessella.frontends.onnx.build import Builder
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.cut import CutError, defined_by_onnx, located
from tessella.frontends.onnx.functions import Calls, defined_in, fixed_body, typed_body
from tessella.frontends.onnx.held import Held, Known
from tessella.frontends.onnx.model import Node, NodeGraph, OnnxFunction, OnnxModel, Tensor
from tessella.frontends.onnx.names import all_names, live_nodes, names_read
from tessella.frontends.onnx.of_sizes import names_of_sizes
from tessella.frontends.onnx.registry import DOMAIN, Converter, VersionedConverter
from tessella.frontends.onnx.schemas import Schema, schema
from tessella.frontends.onnx.steps import is_control, names_inside
from tessella.frontends.onnx.subprograms import Cutter, Late, inlined
from tessella.frontends.onnx.unsupported import called_nodes, reasons
from tessella.frontends.onnx.upgrade import convert
from tessella.runtime.rest import Rest
from tessella.support.errors import (
    InvalidModelError,
    UnknownValueError,
    Unsupported,
    UnsupportedError,
)
from tessella.support.sizes import Size

_TOO_DEEP = "the shape of its result depends on values, inside of a function"

_OF_TENSORS = ("Loop", "Scan")
"""Ops that become steps between subprograms if they carry values that are not tensors."""

_OF_REAL = "the op takes real numbers, and an input is complex"

Results = Sequence[Known | None]


class OnnxScope:
    """Values by ONNX name; None for the result of an unsupported node."""

    def __init__(
        self,
        build: Builder,
        opsets: Mapping[str, int],
        tensors: Mapping[str, Tensor] | None = None,
        outer: OnnxScope | None = None,
    ) -> None:
        self.opsets = opsets
        self._build = build
        self._block = build.block
        self._tensors = tensors or {}
        self._outer = outer
        self._values: dict[str, Known | None] = {}

    def __setitem__(self, name: str, value: Known | None) -> None:
        self._values[name] = value
        if isinstance(value, Value):
            _set_hint(value, name)

    def __getitem__(self, name: str) -> Known | None:
        if name not in self._values:
            if name in self._tensors:
                # emit the constant in the block of this scope, not in the block of the op that
                # reads it first
                with self._build.inside(self._block):
                    self[name] = self._build.tensor(self._tensors[name])
            elif self._outer is not None:
                return self._outer[name]
            else:
                raise InvalidModelError("a value is not defined", found=repr(name))
        return self._values[name]

    def constant(self, name: str) -> Tensor | None:
        """Return the value of ``name`` as a tensor if it is a constant, otherwise None."""
        if name in self._tensors:
            return self._tensors[name]
        value = self[name]
        array = self._build.static(value) if isinstance(value, Value) else None
        return None if array is None or holds_sizes(array) else Tensor.of(name, array)

    def holds(self, name: str) -> bool:
        """Return whether a value is not a tensor."""
        return name not in self._tensors and isinstance(self[name], Held)

    def depends_on_defined(self, name: str) -> bool:
        """Return whether the shape of a value depends on a symbol that an op defines."""
        value = self._values.get(name)
        return isinstance(value, Value) and self._build.depends_on_defined(value)

    def is_open(self, name: str) -> bool:
        """Return whether a value depends on symbols alone."""
        return self.sizes(name) is not None

    def sizes(self, name: str) -> Sequence[Size] | None:
        """Return the elements of a value that depends on symbols alone; None for any other."""
        value = None if name in self._tensors else self[name]
        array = self._build.static(value) if isinstance(value, Value) else None
        return array.reshape(-1).tolist() if array is not None and holds_sizes(array) else None


class GraphConversion:
    """The conversion of the graph of one model into a block of `nn` ops."""

    def __init__(
        self,
        model: OnnxModel,
        build: Builder,
        input_names: Sequence[str],
        source: Callable[[OnnxModel], Source],
        *,
        divided: bool = False,
    ) -> None:
        """``divided`` puts a graph break before the nodes whose operands have shapes with symbols
        that ops define."""
        self._divided = divided
        self._model = model
        self._build = build
        self._input_names = input_names
        self._source = source
        self._late = Late()
        self._made: dict[str, Node] = {}
        """The converted nodes of the main graph, by the names of their outputs."""
        self._names = all_names(model.graph)
        """The names of the values of the main graph and of the graphs in it, and of the functions
        whose nodes have replaced calls."""
        self._put_off_for: UnknownValueError | None = None
        self._issues: list[Unsupported] = []
        self._calls = Calls()

    def run(
        self, arguments: Mapping[str, Known], constants: Mapping[str, Tensor]
    ) -> tuple[dict[str, Value], Rest[Subprogram] | None]:
        """Return the values of the graph's outputs, and None. With a graph break, return the
        results of the first subprogram, and the continuation.

        Raises UnsupportedError, which lists all issues, and UnknownValueError if a graph break
        would gain nothing.
        """
        graph = self._model.graph
        scope = OnnxScope(self._build, self._model.opsets, {**graph.tensors, **constants})
        for name, value in arguments.items():
            scope[name] = value
        self._graph(graph, scope)
        if self._issues:
            raise UnsupportedError(list(dict.fromkeys(self._issues)))
        return self._cut(scope, arguments)

    def _cut(
        self, scope: OnnxScope, arguments: Mapping[str, Known]
    ) -> tuple[dict[str, Value], Rest[Subprogram] | None]:
        late, outputs = self._late, [value.name for value in self._model.graph.outputs]
        given = {name: scope[name] for name in outputs if name not in late.names}
        if any(value is None for value in given.values()):
            raise UnsupportedError([])
        returned = {name: x for name, x in given.items() if isinstance(x, Value)}
        if not late.names and len(returned) == len(given):
            return returned, None
        if self._put_off_for is not None and not late.steps and late.holds_all(self._model.graph):
            raise self._put_off_for
        of_sizes = names_of_sizes(self._made, scope.__getitem__)
        late.repeat(self._made, lambda name: name in of_sizes or scope.is_open(name))
        held = {name: x for name, x in given.items() if isinstance(x, Held)}
        constants: dict[str, Tensor] = {}
        for name in sorted(late.reads()):
            constant, value = scope.constant(name), scope[name]
            if constant is not None:
                constants[name] = constant
            elif isinstance(value, Held):
                held[name] = value
            elif name not in arguments and value is not None:
                returned[name] = value
        for name, value in held.items():
            returned |= late.pack(name, value)
        passed = {name: x for name, x in arguments.items() if isinstance(x, Value)}
        types = {name: value.type for name, value in {**passed, **returned}.items()}
        elements = {name: sizes for name in passed if (sizes := scope.sizes(name)) is not None}
        cutter = Cutter(self._model, self._source, constants, types, elements)
        return returned, cutter.rest(late, returned)

    def _graph(self, graph: NodeGraph, scope: OnnxScope) -> list[Known | None]:
        outputs = [value.name for value in graph.outputs]
        self._nodes(live_nodes(graph.nodes, outputs), scope)
        return [scope[name] for name in outputs]

    def _nodes(self, nodes: Iterable[Node], scope: OnnxScope) -> None:
        queue = deque(nodes)
        while queue:
            node = queue.popleft()
            self._calls.count(node)
            self._build.node = node.name
            if not self._calls.nested:
                self._made |= dict.fromkeys(node.outputs, node)
            try:
                results = () if self._is_late(node, scope) else self._results(node, scope)
            except (CutError, UnknownValueError) as error:
                if self._calls.nested:
                    raise
                results = ()
                queue.extendleft(reversed(self._put_off(node, error, scope)))
            for i, name in enumerate(node.outputs):
                if name:
                    scope[name] = results[i] if i < len(results) else None

    def _results(self, node: Node, scope: OnnxScope) -> Results:
        with located(node):
            inputs = [scope[name] if name else None for name in node.inputs]
            # A node with an operand from an unsupported node is skipped, so that all unsupported
            # nodes are found.
            poisoned = any(
                value is None and name for value, name in zip(inputs, node.inputs, strict=True)
            )
            return () if poisoned else self._node(node, inputs, scope)

    def _is_late(self, node: Node, scope: OnnxScope) -> bool:
        """Return whether a node belongs to the continuation, and if it does, add it there."""
        if self._calls.nested:
            return False
        is_after = self._divided and any(map(scope.depends_on_defined, names_read(node)))
        if not is_after and not self._late.depends(node):
            return False
        self._late.add(node)
        return True

    def _put_off(
        self, node: Node, error: CutError | UnknownValueError, scope: OnnxScope
    ) -> Sequence[Node]:
        """Turn a node into a step, or move it to the continuation, after ``error`` made a graph
        break at it.

        For a call of a function of the model, return the nodes of the function, which replace the
        call. Raises ``error`` if a graph break would gain nothing.
        """
        if isinstance(error, CutError) and error.node is node:
            # The native code of a step takes only tensors.
            takes_held = any(map(scope.holds, names_inside(error.find)))
            find = None if takes_held else error.find
            self._late.add_step(node, find)
        elif is_control(node, self._model.opsets.get("", 1)):
            self._late.add_step(node, None)
        elif (function := self._called(node)) is not None:
            return self._inlined(function, node)
        elif isinstance(error, UnknownValueError):
            self._put_off_for = error
            self._late.add(node)
        else:
            raise UnsupportedError([Unsupported(error.node.title, error.node.name, _TOO_DEEP)])
        return ()

    def _inlined(self, function: OnnxFunction, call: Node) -> Sequence[Node]:
        """Return the nodes that replace a call of a function, in names that no other node uses."""
        prefix = f"{call.name}/"
        while any(name.startswith(prefix) for name in self._names):
            prefix = f"{prefix}/"
        nodes = inlined(function, call, prefix)
        self._names.update(*(node.outputs for node in nodes))
        return nodes

    def _called(self, node: Node) -> OnnxFunction | None:
        """Return the model's function that a node calls; None if the function's nodes cannot
        replace the call."""
        function = defined_in(self._model, node)
        has_opsets = function is not None and function.opsets.items() <= self._model.opsets.items()
        return function if has_opsets else None

    def _node(self, node: Node, inputs: Results, scope: OnnxScope) -> Results:
        function = defined_in(self._model, node)
        if function is not None:
            return self._function(function, node, inputs)
        opset = node.opset(scope.opsets)
        found = schema(node.title, opset)
        added = None if found else ops.find_contributed(node.title)
        entry = ops.find(node.title, found.since) if found else None
        issues = [Unsupported(node.title, node.name, r) for r in reasons(node, scope.opsets)]
        is_refused = _lacks_complex(node, found, entry) and any(map(_is_complex, inputs))
        if is_refused:
            issues.append(Unsupported(node.title, node.name, _OF_REAL))
        if added is not None and not issues:
            call = self._call(node, inputs, added.defaults, scope)
            return self._convert(call, sys.maxsize, added.convert)
        if entry is None and found is not None and not is_refused:
            body = fixed_body(node.title, opset) or _typed_body(node, opset, inputs)
            if body is not None:
                with defined_by_onnx(node, inputs):
                    return self._function(body, node, inputs)
        if found is None or entry is None or issues:
            self._issues += issues or [Unsupported(node.title, node.name, "no body for its types")]
            return ()
        call = self._call(node, inputs, found.defaults, scope)
        return self._convert(call, found.since, entry.convert)

    def _call(
        self, node: Node, inputs: Results, defaults: Mapping[str, Any], scope: OnnxScope
    ) -> Call:
        return Call(
            node,
            tuple(inputs),
            self._build,
            defaults,
            self._input_names,
            lambda graph, values: self._branch(graph, values, scope, node),
        )

    def _convert(self, call: Call, version: int, converter: Converter) -> Results:
        if call.node.op in _OF_TENSORS and any(isinstance(x, Held) for x in call.inputs):
            raise CutError(call.node)
        try:
            results = convert(call, version, converter)
        except UnsupportedError as error:
            self._issues += error.issues
            return ()
        return [results] if isinstance(results, Value | Held) else results

    def _function(self, function: OnnxFunction, node: Node, inputs: Results) -> Results:
        scope = OnnxScope(self._build, function.opsets)
        for i, name in enumerate(function.inputs):
            scope[name] = inputs[i] if i < len(inputs) else None
        with self._calls.within(node):
            self._nodes(called_nodes(function, node), scope)
        used = [name for name, out in zip(function.outputs, node.outputs, strict=False) if out]
        made = {name: scope[name] for name in used}
        return [made.get(name) for name in function.outputs]

    def _branch(
        self, graph: NodeGraph, values: Sequence[Known], scope: OnnxScope, node: Node
    ) -> list[Known | None]:
        inner = OnnxScope(self._build, scope.opsets, graph.tensors, scope)
        if len(graph.inputs) != len(values):
            raise InvalidModelError(
                "a graph has the wrong number of inputs",
                expected=str(len(values)),
                found=str(len(graph.inputs)),
            )
        for info, value in zip(graph.inputs, values, strict=True):
            inner[info.name] = value
        with self._calls.within(node):
            results = self._graph(graph, inner)
        self._build.node = node.name
        return results


def _lacks_complex(node: Node, found: Schema | None, entry: VersionedConverter | None) -> bool:
    """Return whether an op of ONNX or of ONNX Runtime is for real numbers alone. The ops of plugins
    decide this themselves."""
    if found is None:
        return node.domain == DOMAIN
    return not found.complex and (entry is None or not entry.complex)


def _is_complex(x: Known | None) -> bool:
    return isinstance(x, Value) and x.is_complex


def _typed_body(node: Node, opset: int, inputs: Results) -> OnnxFunction | None:
    """Return the body of a function op for these operand types; None if an operand is not a tensor,
    or if there is no body."""
    tensors = [x for x in inputs if not isinstance(x, Held)]
    return typed_body(node, opset, tensors) if len(tensors) == len(inputs) else None


def _set_hint(value: Value, name: str) -> None:
    """Give a value its ONNX name in printed IR, with characters that the syntax lacks replaced."""
    text = re.sub(r"\W", "_", name, flags=re.ASCII)
    if value.ssa.name_hint is None and text[:1].isalpha():
        value.ssa.name_hint = text
