"""Control flow: branches that are decided at import, and loops over sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import shape_of
from tessella.frontends.emitter import Values
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.model import Graph
from tessella.frontends.onnx.registry import converts, no_input
from tessella.support.errors import InvalidModelError, ShapeError, UnsupportedError

_UNKNOWN = "not known at import"


@converts(
    "If", 1, 25, note=f"a program of its own for each branch where the condition is {_UNKNOWN}"
)
def branch(call: Call) -> list[SSAValue | None]:
    """The branch that is taken, in place."""
    condition = call.static(0, "the condition of If")
    if condition.size != 1:
        raise ShapeError("a condition must be one boolean", found=str(call.x.type))
    return call.branch(call.graph("then_branch" if condition.any() else "else_branch"), ())


UNROLLED = 64
"""Steps that are put one after the other at most, where they have to know their numbers."""


@converts(
    "Loop",
    1,
    25,
    note=f"steps in Python where the number of trips is {_UNKNOWN}",
)
def loop(call: Call) -> Sequence[SSAValue]:
    """The body, as often as the trip count says, with the number of the step. Where the body cannot
    be a function of all steps, as it slices by its number or makes its state grow, the steps are
    put one after the other, if they are few."""
    body = _LoopBody(call, call.graph("body"))
    first = [call.operand(i) for i in range(2, len(call.inputs))]
    if call.optional(0) is None:
        raise CutError(call.node)
    trips = max(0, call.static_int(0, "the trip count of Loop"))
    if call.optional(1) is not None and not call.static(1, "the condition of Loop").all():
        trips = 0

    def step(state: Values, numbers: Values) -> tuple[Values, Values]:
        again, made, elements = body.run(numbers[0], state)
        if not again:
            raise ShapeError("the condition of Loop ends it before its trip count")
        return made, elements

    try:
        return call.build.scan("loop_body", first, [call.positions(trips, 0, 1)], step)
    except ShapeError:
        if not 0 < trips <= UNROLLED:
            raise
    return _unrolled(body, first, trips)


def _unrolled(body: _LoopBody, state: Values, trips: int) -> Sequence[SSAValue]:
    call = body.call
    stacked: list[Values] = []
    for number in range(trips):
        again, state, elements = body.run(call.constant(np.array(number)), state)
        stacked.append([call.reshape(x, (1, *shape_of(x))) for x in elements])
        if not again:
            break
    columns = zip(*stacked, strict=True)
    joined = (c[0] if len(c) == 1 else call.emit(nn.ConcatOp, *c, axis=0) for c in columns)
    return [*state, *joined]


@dataclass(frozen=True)
class _LoopBody:
    """The body of a Loop."""

    call: Call
    graph: Graph

    def run(self, number: SSAValue, state: Values) -> tuple[bool, Values, Values]:
        """One step: whether there is another one, the next state, and elements of what is
        returned. Raises UnknownValueError."""
        call, count = self.call, len(state)
        go = call.build.splat(True, (), np.bool_)
        condition, *made = _converted(call, self.graph, [number, go, *state], 1 + count)
        again = call.build.static(condition)
        if again is None:
            raise call.unknown(condition, "the condition of Loop")
        return bool(again.all()), made[:count], made[count:]


@converts("Scan", 8, 8, no_input(0, "sequence_lens"))
def scan_of_batch(call: Call) -> Sequence[SSAValue]:
    """A loop for each element of a batch, the first dimension of all inputs and outputs."""
    values = [call.operand(i) for i in range(1, len(call.inputs))]
    body = _Body.of(call, len(values))
    directions = [*_listed(call, "directions", body.scanned), *(0,) * body.returned]

    def of_one(_: Values, inputs: Values) -> tuple[Values, Values]:
        return (), body.run(inputs, directions)

    return call.build.scan("scan_batch", (), values, of_one)


@converts("Scan", 9, 25, note=f"steps in Python where sizes in its body are {_UNKNOWN}")
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
    found = [value for value in made if value is not None]
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
