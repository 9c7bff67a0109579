"""Control flow: branches that are decided at import, and loops over sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import shape_of
from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Values
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.held import Held, Known
from tessella.frontends.onnx.model import Graph, Node, Tensor, Value
from tessella.frontends.onnx.registry import converts, no_input
from tessella.support.errors import (
    InvalidModelError,
    ShapeError,
    UnknownValueError,
    UnsupportedError,
)
from tessella.support.sizes import Size


@converts(
    "If",
    1,
    25,
    note="a program of its own for each branch where they give different types, more than 1 MiB, "
    "or sequences",
)
def branch(call: Call) -> Sequence[Known | None]:
    """The branch that is taken, in place where that is known."""
    try:
        condition = call.static(0, "the condition of If")
    except UnknownValueError as error:
        # a program for each value of inputs has no branches
        if error.names and not error.is_computed:
            raise
        return _computed(call)
    if condition.size != 1:
        raise ShapeError("a condition must be one boolean", found=str(call.x.type))
    return call.branch(call.graph("then_branch" if condition.any() else "else_branch"), ())


def _computed(call: Call) -> Values:
    """Native code that takes a branch. Raises CutError where they cannot be in one program."""
    sides = (
        partial(_converted, call, call.graph(name), (), 0)
        for name in ("then_branch", "else_branch")
    )
    try:
        return call.build.branch("branch", _scalar(call, call.x), *sides)
    except (ShapeError, CutError) as error:
        raise CutError(call.node) from error


UNROLLED = 64
"""Steps that are put one after the other at most, where they have to know their numbers."""

MOST_ROWS = 1 << 16
"""Steps that there is room for at most, in what a loop returns of each."""

ENDLESS = 1 << 62
"""A trip count that means that there is none."""

PADDED = "padded"
"""An attribute of a Loop that returns elements for as many steps as its trip count says, and last
whether each step has run."""


@converts(
    "Loop",
    1,
    25,
    note="steps in Python where its state grows or has sequences, its body is cut, or it returns "
    "elements of an unknown number of steps: more than 65536, or before version 11",
)
def loop(call: Call) -> Sequence[SSAValue | None]:
    """The body, with the number of the step, as often as the trip count and the conditions say.
    Where they are known, and the body cannot be a function of all steps, as it slices by its number
    or makes its state grow, the steps are put one after the other, if they are few."""
    body = _LoopBody(call, call.graph("body"), len(call.inputs) - 2)
    trips = _trips(call)
    if trips is not None:
        try:
            return _counted(body, trips)
        except UnknownValueError as error:
            # the values of inputs say how much is returned
            if body.returned and error.names and not error.is_computed:
                raise
    return _conditional(body, trips)


def _trips(call: Call) -> Size | None:
    """The trip count; None if there is none that is known."""
    operand = call.optional(0)
    if operand is None or call.build.static(operand) is None:
        return None
    trips = call.static_size(0, "the trip count of Loop")
    return None if is_static([trips]) and trips >= ENDLESS else max(0, trips)


def _counted(body: _LoopBody, trips: Size) -> Sequence[SSAValue]:
    """The steps of a loop with known conditions. Raises UnknownValueError where they are not."""
    call = body.call
    if call.optional(1) is not None and not call.static(1, "the condition of Loop").all():
        trips = 0

    def step(state: Values, numbers: Values) -> tuple[Values, Values]:
        again, made, elements = body.run(numbers[0], state)
        if not body.is_true(again):
            raise ShapeError("the condition of Loop ends it before its trip count")
        return made, elements

    try:
        return call.build.scan("loop_body", body.first, [call.positions(trips, 0, 1)], step)
    except ShapeError:
        if not is_static([trips]) or not 0 < trips <= UNROLLED:
            raise
    return _unrolled(body, trips)


def _unrolled(body: _LoopBody, trips: int) -> Sequence[SSAValue]:
    call = body.call
    state: Values = body.first
    stacked: list[Values] = []
    for number in range(trips):
        again, state, elements = body.run(call.constant(np.array(number)), state)
        stacked.append([call.reshape(x, (1, *shape_of(x))) for x in elements])
        if not body.is_true(again):
            break
    columns = zip(*stacked, strict=True)
    joined = (c[0] if len(c) == 1 else call.emit(nn.ConcatOp, *c, axis=0) for c in columns)
    return [*state, *joined]


def _conditional(body: _LoopBody, trips: Size | None) -> Sequence[SSAValue | None]:
    """A loop whose end is computed. Raises CutError where its steps have to be subprograms, and as
    it returns as many elements as there are steps."""
    call, node = body.call, body.call.node
    most = None if trips is None or (is_static([trips]) and trips > MOST_ROWS) else trips
    if body.returned and not node.attributes.get(PADDED):
        if trips is None and call.optional(0) is not None:
            call.static(0, "the trip count of Loop")
        # the op that drops the elements of other steps is not older
        raise CutError(node, nodes=_padded(body) if most is not None and call.version >= 11 else ())
    try:
        made = _unbounded(body, trips) if most is None else _bounded(body, most)
    except (ShapeError, CutError) as error:
        if trips is None and call.optional(0) is not None:
            call.static(0, "the trip count of Loop")
        raise CutError(node) from error
    returned = iter(made[body.carried :])
    rows = [next(returned) if i in body.returned else None for i in range(body.elements)]
    return [*made[: body.carried], *rows]


def _bounded(body: _LoopBody, trips: Size) -> Sequence[SSAValue]:
    """A loop with so many steps at most."""

    def step(state: Values, numbers: Values) -> tuple[Values, Values]:
        again, made, elements = body.run(numbers[0], state[1:])
        return [_scalar(body.call, again), *made], [elements[i] for i in body.returned]

    call, first = body.call, [_condition(body.call), *body.first]
    numbers = [call.positions(trips, 0, 1)]
    _, *made = call.build.scan("loop_body", first, numbers, step, conditional=True)
    return made


def _unbounded(body: _LoopBody, trips: Size | None) -> Sequence[SSAValue]:
    """A loop that counts its steps, as the trip count is computed, or there is none."""
    call = body.call
    operand = call.optional(0)
    has_limit = operand is not None and (trips is not None or call.build.static(operand) is None)
    limit = _scalar(call, call.operand(0)) if has_limit else None
    zero, one = (call.constant(np.array(number)) for number in (0, 1))

    def goes_on(condition: SSAValue, number: SSAValue) -> SSAValue:
        if limit is None:
            return condition
        return call.emit(nn.AndOp, condition, call.emit(nn.LessOp, number, limit))

    def step(state: Values, _: Values) -> tuple[Values, Values]:
        number = state[1]
        again, made, _ = body.run(number, state[2:])
        following = call.emit(nn.AddOp, number, one)
        return [goes_on(_scalar(call, again), following), following, *made], ()

    first = [goes_on(_condition(call), zero), zero, *body.first]
    _, _, *made = call.build.scan("loop_body", first, (), step, conditional=True)
    return made


def _condition(call: Call) -> SSAValue:
    """The condition that a Loop begins with."""
    if call.optional(1) is None:
        return call.build.splat(True, (), np.bool_)
    return _scalar(call, call.operand(1))


def _scalar(call: Call, value: SSAValue) -> SSAValue:
    """A value of one element."""
    return call.reshape(value, ())


def _padded(body: _LoopBody) -> Sequence[Node]:
    """Nodes that stand for a loop that may end before its trip count does: such that returns
    elements for all trips, and those that drop what no step has made."""
    node, graph = body.call.node, body.graph
    ran = f"{node.name}/ran"
    graph = replace(
        graph,
        outputs=(*graph.outputs, Value(ran, "bool", ())),
        tensors={**graph.tensors, ran: Tensor.of(ran, np.array(True))},
    )
    outputs = [*node.outputs, *[""] * (body.carried + body.elements - len(node.outputs))]
    rows = {body.carried + i: f"{node.name}/rows{i}" for i in body.returned}
    named = (rows.get(i, name) for i, name in enumerate(outputs))
    attributes = {**node.attributes, "body": graph, PADDED: 1}
    loop = replace(node, outputs=(*named, ran), attributes=attributes)
    kept = (
        Node("Compress", "", "", f"{node.name}/{i}", (name, ran), (outputs[i],), {"axis": 0})
        for i, name in rows.items()
    )
    return [loop, *kept]


@dataclass(frozen=True)
class _LoopBody:
    """The body of a Loop, and how many values it carries."""

    call: Call
    graph: Graph
    carried: int

    @property
    def first(self) -> Values:
        """What it carries at first."""
        return [self.call.operand(2 + i) for i in range(self.carried)]

    @property
    def elements(self) -> int:
        """How many elements of what is returned each step makes."""
        return max(0, len(self.graph.outputs) - 1 - self.carried)

    @property
    def returned(self) -> Sequence[int]:
        """The numbers of those that are asked for."""
        return [i for i in range(self.elements) if self.call.node.uses(self.carried + i)]

    def run(self, number: SSAValue, state: Values) -> tuple[SSAValue, Values, Values]:
        """One step: whether there is another one, the next state, and elements of what is
        returned."""
        go = self.call.build.splat(True, (), np.bool_)
        condition, *made = _converted(self.call, self.graph, [number, go, *state], 1 + self.carried)
        return condition, made[: self.carried], made[self.carried :]

    def is_true(self, condition: SSAValue) -> bool:
        """Whether a condition holds. Raises UnknownValueError."""
        known = self.call.build.static(condition)
        if known is None:
            raise self.call.unknown(condition, "the condition of Loop")
        return bool(known.all())


@converts("Scan", 8, 8, no_input(0, "sequence_lens"))
def scan_of_batch(call: Call) -> Sequence[SSAValue]:
    """A loop for each element of a batch, the first dimension of all inputs and outputs."""
    values = [call.operand(i) for i in range(1, len(call.inputs))]
    body = _Body.of(call, len(values))
    directions = [*_listed(call, "directions", body.scanned), *(0,) * body.returned]

    def of_one(_: Values, inputs: Values) -> tuple[Values, Values]:
        return (), body.run(inputs, directions)

    return call.build.scan("scan_batch", (), values, of_one)


@converts("Scan", 9, 25, note="steps in Python where sizes in its body are not known at import")
def scan(call: Call) -> Sequence[SSAValue]:
    """The body, for each element of the sequences along their axes."""
    values = call.operands()
    body = _Body.of(call, len(values))
    first, sequences = values[: body.carried], values[body.carried :]
    axes = _listed(call, "scan_input_axes", body.scanned)
    taken = [_moved(call, x, axis, to_front=True) for x, axis in zip(sequences, axes, strict=True)]
    directions = [
        *_listed(call, "scan_input_directions", body.scanned),
        *_listed(call, "scan_output_directions", body.returned),
    ]
    made = body.run([*first, *taken], directions)
    axes = _listed(call, "scan_output_axes", body.returned)
    stacked = zip(made[body.carried :], axes, strict=True)
    return [*made[: body.carried], *(_moved(call, y, axis, to_front=False) for y, axis in stacked)]


@dataclass(frozen=True)
class _Body:
    """The body of a Scan: how many values it carries, takes from sequences, and returns for
    sequences."""

    call: Call
    graph: Graph
    carried: int
    scanned: int
    returned: int

    @staticmethod
    def of(call: Call, operands: int) -> _Body:
        """That of a call with so many operands."""
        scanned, graph = call.integer("num_scan_inputs"), call.graph("body")
        if not 1 <= scanned <= operands:
            raise InvalidModelError("num_scan_inputs does not fit the inputs", found=str(scanned))
        carried = operands - scanned
        return _Body(call, graph, carried, scanned, len(graph.outputs) - carried)

    def run(self, values: Values, directions: Sequence[int]) -> Values:
        """Its loop."""
        first, sequences = values[: self.carried], values[self.carried :]

        def step(state: Values, inputs: Values) -> tuple[Values, Values]:
            found = _converted(self.call, self.graph, [*state, *inputs], self.carried)
            return found[: self.carried], found[self.carried :]

        backward = [bool(direction) for direction in directions]
        scan = self.call.build.scan
        return scan("scan_body", first, sequences, step, backward.__getitem__)


def _converted(call: Call, body: Graph, values: Values, least: int) -> Values:
    """The outputs of a body, which has at least so many."""
    made = call.branch(body, values)
    if any(isinstance(value, Held) for value in made):
        raise CutError(call.node)
    found = [value for value in made if isinstance(value, SSAValue)]
    if len(found) < len(made):
        raise UnsupportedError([])  # each was reported where it is
    if len(found) < least:
        raise InvalidModelError(
            "a body has too few outputs", expected=f"at least {least}", found=str(len(found))
        )
    return found


def _listed(call: Call, name: str, count: int) -> Sequence[int]:
    """An attribute with a number for each sequence; zeros where it is left out."""
    numbers = call.integers(name) or (0,) * max(0, count)
    if len(numbers) != count:
        raise InvalidModelError(
            f"attribute {name!r} has the wrong length", expected=str(count), found=str(numbers)
        )
    return numbers


def _moved(call: Call, x: SSAValue, axis: int, *, to_front: bool) -> SSAValue:
    """An axis moved to the front, or the first one moved to where ``axis`` is."""
    rank = len(shape_of(x))
    axis = front_axis(axis, rank)
    if to_front:
        return call.transpose(x, (axis, *(d for d in range(rank) if d != axis)))
    return call.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, rank)))
