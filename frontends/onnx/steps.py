"""What runs between the subprograms of a program: functions in NumPy, and loops and branches whose
bodies are subprograms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.dialects.graph import RunSubprogram
from tessella.frontends.onnx.cut import Find, located
from tessella.frontends.onnx.model import DTYPES, Array, Graph, Node, Value
from tessella.support.errors import ExecutionError, InvalidModelError, ShapeError

Values = Mapping[str, Array]

_TRUE = np.array(True)


def found(
    node: Node, find: Find, values: Values, subprograms: Sequence[RunSubprogram]
) -> Sequence[Array]:
    """The results of a node that a function in NumPy computes."""
    del subprograms
    with located(node):
        return find([values[name] if name else None for name in node.inputs])


def control(node: Node, values: Values, subprograms: Sequence[RunSubprogram]) -> Sequence[Array]:
    """The results of a loop or branch. The subprograms are its graphs, by the attributes' names."""
    with located(node):
        return _CONTROLS[node.op](node, values, subprograms)


def is_control(node: Node, opset: int) -> bool:
    """Whether a node can run as a loop or branch over subprograms."""
    least, names = _GRAPHS.get(node.op, (0, ()))
    graphs = (node.attributes.get(name) for name in names)
    known = bool(names) and not node.domain and opset >= least
    return known and all(isinstance(graph, Graph) for graph in graphs)


def _branch(node: Node, values: Values, subprograms: Sequence[RunSubprogram]) -> Sequence[Array]:
    """The branch that is taken."""
    otherwise, then = subprograms
    return then(values) if _truth(values[node.inputs[0]]) else otherwise(values)


def _loop(node: Node, values: Values, subprograms: Sequence[RunSubprogram]) -> Sequence[Array]:
    """The body, until its condition does not hold or the trips are done."""
    graph: Graph = node.attributes["body"]
    trips, go = ([*(values[n] if n else None for n in node.inputs), None])[:2]
    state = [values[name] for name in node.inputs[2:]]
    count, going = len(state), go is None or _truth(go)
    rows: list[Sequence[Array]] = []
    while going and (trips is None or len(rows) < trips.reshape(-1)[0]):
        number = np.array(len(rows), np.int64)
        again, *made = subprograms[0](_inside(graph, values, [number, _TRUE, *state]))
        going, state = _truth(again), made[:count]
        rows.append(made[count:])
    return [*state, *_stacked(graph.outputs[1 + count :], rows)]


def _scan(node: Node, values: Values, subprograms: Sequence[RunSubprogram]) -> Sequence[Array]:
    """The body, for each element of the sequences along their axes."""
    graph: Graph = node.attributes["body"]
    operands = [values[name] for name in node.inputs]
    carried = len(operands) - node.attributes["num_scan_inputs"]
    state, sequences = operands[:carried], operands[carried:]
    axes = _listed(node, "scan_input_axes", len(sequences))
    backward = _listed(node, "scan_input_directions", len(sequences))
    taken = [np.moveaxis(x, axis, 0) for x, axis in zip(sequences, axes, strict=True)]
    taken = [_ordered(x, each) for x, each in zip(taken, backward, strict=True)]
    if len({len(x) for x in taken}) != 1:
        raise ShapeError("sequences of a Scan have different lengths")
    rows: list[Sequence[Array]] = []
    for elements in zip(*taken, strict=True):
        made = subprograms[0](_inside(graph, values, [*state, *elements]))
        state = list(made[:carried])
        rows.append(made[carried:])
    results = _stacked(graph.outputs[carried:], rows)
    axes = _listed(node, "scan_output_axes", len(results))
    backward = _listed(node, "scan_output_directions", len(results))
    results = [_ordered(y, each) for y, each in zip(results, backward, strict=True)]
    moved = [np.moveaxis(y, 0, axis) for y, axis in zip(results, axes, strict=True)]
    return [*state, *map(np.ascontiguousarray, moved)]


def _listed(node: Node, name: str, count: int) -> Sequence[int]:
    """An attribute with a number for each array; zeros where it is left out."""
    numbers: Sequence[int] = node.attributes.get(name) or (0,) * count
    if len(numbers) != count:
        raise InvalidModelError(
            f"attribute {name!r} has the wrong length", expected=str(count), found=str(numbers)
        )
    return numbers


def _ordered(array: Array, direction: int) -> Array:
    return array[::-1] if direction else array


def _inside(graph: Graph, values: Values, own: Sequence[Array]) -> Values:
    """What the body of a loop may read: all values, and those of its own inputs."""
    if len(own) != len(graph.inputs):
        raise ShapeError(
            "a graph has the wrong number of inputs",
            expected=str(len(own)),
            found=str(len(graph.inputs)),
        )
    names = (value.name for value in graph.inputs)
    return {**values, **dict(zip(names, own, strict=True))}


def _stacked(declared: Sequence[Value], rows: Sequence[Sequence[Array]]) -> list[Array]:
    """What the steps returned, one after the other; as it is declared where there were none."""
    if not rows:
        sizes = [[d if isinstance(d, int) else 0 for d in value.shape or ()] for value in declared]
        dtypes = [DTYPES[value.type] for value in declared]
        return [np.zeros((0, *s), dtype) for s, dtype in zip(sizes, dtypes, strict=True)]
    columns = list(zip(*rows, strict=True))
    if any(len({array.shape for array in column}) > 1 for column in columns):
        raise ShapeError("what the steps of a loop return has different shapes")
    return [np.stack(column) for column in columns]


def _truth(condition: Array) -> bool:
    if condition.size != 1:
        raise ExecutionError("a condition must be one boolean", found=str(condition.shape))
    return bool(condition.any())


_GRAPHS = {
    "If": (1, ("then_branch", "else_branch")),
    "Loop": (1, ("body",)),
    "Scan": (9, ("body",)),
}
"""The graphs of control flow that can run as subprograms, by op, and the op set from which on."""

_CONTROLS: Mapping[str, Callable[[Node, Values, Sequence[RunSubprogram]], Sequence[Array]]] = {
    "If": _branch,
    "Loop": _loop,
    "Scan": _scan,
}
