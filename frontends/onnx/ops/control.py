"""Converters of control flow: branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tessella.frontends import loops
from tessella.frontends.emitter import Value, Values, concat
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.chunks import CHUNK, chunked
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.held import Known
from tessella.frontends.onnx.loop_body import LoopBody, converted, moved_axis
from tessella.frontends.onnx.model import NodeGraph
from tessella.frontends.onnx.registry import converts, no_input
from tessella.support.conditions import always
from tessella.support.decisions import decided_max
from tessella.support.errors import (
    InvalidModelError,
    ShapeError,
    UnknownValueError,
)
from tessella.support.sizes import Size

_BRANCHES = {"then_branch": True, "else_branch": False}


@converts(
    "If",
    1,
    25,
    note="a program of its own for each branch where they give different types, more than 1 MiB, "
    "or sequences",
    runs="native or Python",
)
def branch(call: Call) -> Sequence[Known | None]:
    """Emit a branch: the nodes of the taken graph if the condition is known, otherwise native code
    that branches."""
    branches = {taken: call.graph(name) for name, taken in _BRANCHES.items()}
    try:
        condition = call.static(0, "the condition of If")
    except UnknownValueError:
        return _computed(call)
    if condition.size != 1:
        raise ShapeError("a condition must be one boolean", found=str(call.x.type))
    return call.branch(branches[bool(condition.any())], ())


def _computed(call: Call) -> Values:
    """Emit native code that branches. Raises CutError if the branches cannot be in one program."""
    sides = (partial(converted, call, call.graph(name), (), 0) for name in _BRANCHES)
    try:
        return loops.branch(call.build, "branch", _scalar(call.x), *sides)
    except (ShapeError, CutError) as error:
        raise CutError(call.node) from error


UNROLLED = 64
"""The maximum number of iterations of a loop that is unrolled."""

ENDLESS = 1 << 62
"""The trip count from which a loop counts as one without a trip count."""


@converts(
    "Loop",
    1,
    25,
    note="steps in Python where its body reads a state that grows, it carries sequences or reads "
    "some and returns elements, or its body is cut",
    runs="native or Python",
)
def loop(call: Call) -> Sequence[Value | None]:
    """Emit a loop that runs the body as long as the trip count and the condition allow.

    A short loop with a known trip count is unrolled if its body cannot be one function for all
    iterations, because it slices by the iteration number or its state grows.
    """
    if CHUNK in call.node.attributes:
        return _chunk(call)
    body, trips = LoopBody.of(call), _trips(call)
    if trips is not None:
        try:
            return _counted(body, trips)
        except UnknownValueError:
            pass  # the condition after an iteration is not known at import
    return _conditional(body, trips)


def _trips(call: Call) -> Size | None:
    """Return the trip count of a Loop; None if it is absent, unlimited or not known at import."""
    operand = call.optional(0)
    if operand is None or call.build.static(operand) is None:
        return None
    trips = decided_max(0, call.static_size(0, "the trip count of Loop"))
    return None if always(trips >= ENDLESS) else trips


def _counted(body: LoopBody, trips: Size) -> Sequence[Value | None]:
    """Emit a loop with a known trip count. Raises UnknownValueError if its conditions are not known
    at import."""
    call = body.call
    if call.optional(1) is not None and not call.static(1, "the condition of Loop").all():
        trips = 0

    def step(state: Values, numbers: Values) -> tuple[Values, Values]:
        again, made, elements = body.run(numbers[0], state)
        if not body.is_true(again):
            raise ShapeError("the condition of Loop ends it before its trip count")
        return made, elements

    try:
        made = loops.scan(call.build, "loop_body", body.first, [call.positions(trips, 0, 1)], step)
        return body.results(made)
    except ShapeError as error:
        if not isinstance(trips, int):
            raise
        if not 0 < trips <= UNROLLED:
            if isinstance(error, UnknownValueError):
                raise
            raise CutError(call.node) from error
        few = trips
    return _unrolled(LoopBody.of(call, may_split=False), few)


def _unrolled(body: LoopBody, trips: int) -> Sequence[Value]:
    call = body.call
    state: Values = body.first
    stacked: list[Values] = []
    for number in range(trips):
        again, state, elements = body.run(call.constant(np.array(number)), state)
        stacked.append([x.reshape((1, *x.shape)) for x in elements])
        if not body.is_true(again):
            break
    return [*state, *(concat(column, 0) for column in zip(*stacked, strict=True))]


def _conditional(body: LoopBody, trips: Size | None) -> Sequence[Value | None]:
    """Emit a loop whose end is computed.

    Raises CutError if the loop must be a step: a loop that returns elements runs natively in
    chunks; the iterations of any other are subprograms.
    """
    call, elements = body.call, list[Value]()
    try:
        made = _unbounded(body, trips, elements)
        if not body.returned:
            return body.results(made)
        in_chunks = chunked(body, elements)
    except (ShapeError, CutError) as error:
        raise CutError(call.node) from error
    raise CutError(call.node, in_chunks)


def _unbounded(body: LoopBody, trips: Size | None, elements: list[Value]) -> Values:
    """Emit a loop whose trip count is computed or absent, and return its last state. The loop
    counts its iterations.

    ``elements`` receives the elements that one iteration returns.
    """
    call = body.call
    operand = call.optional(0)
    has_limit = operand is not None and (trips is not None or call.build.static(operand) is None)
    limit = _scalar(call.operand(0)) if has_limit else None
    zero = call.constant(np.array(0))

    def goes_on(condition: Value, number: Value) -> Value:
        return condition if limit is None else condition & (number < limit)

    def step(state: Values, _: Values) -> tuple[Values, Values]:
        number = state[1]
        again, made, found = body.run(number, state[2:])
        elements[:] = found
        following = number + 1
        return [goes_on(_scalar(again), following), following, *made], ()

    first = [goes_on(_condition(call), zero), zero, *body.first]
    _, _, *made = loops.scan(call.build, "loop_body", first, (), step, conditional=True)
    return made


def _chunk(call: Call) -> Values:
    """Emit a Loop that is a chunk of a longer loop: see ``frontends.onnx.chunks``."""
    numbers, more, *first = (call.operand(0), call.optional(2), *call.operands(3))
    body = LoopBody(call, call.graph("body"), first)
    call.attribute(CHUNK)

    def step(state: Values, taken: Values) -> tuple[Values, Values]:
        again, made, elements = body.run(taken[0], state[2:])
        again = _scalar(again)
        if more is not None:
            again = again & taken[1]
        return [again, taken[0] + 1, *made], elements

    state = [_scalar(call.operand(1)), call.constant(np.array(0)), *first]
    sequences = [numbers] if more is None else [numbers, more]
    return loops.scan(call.build, "loop_body", state, sequences, step, conditional=True)


def _condition(call: Call) -> Value:
    """Return a Loop's initial condition as a scalar; true if it is absent."""
    if call.optional(1) is None:
        return call.build.splat(True, (), np.bool_)
    return _scalar(call.operand(1))


def _scalar(value: Value) -> Value:
    """Reshape a value of one element to a scalar."""
    return value.reshape(())


@converts("Scan", 8, 8, no_input(0, "sequence_lens"))
def scan_of_batch(call: Call) -> Sequence[Value]:
    """Emit a Scan of version 8: a loop for each element of a batch, the first dimension of all
    inputs and outputs."""
    values = [call.operand(i) for i in range(1, len(call.inputs))]
    body = _Body.of(call, len(values))
    directions = [*_listed(call, "directions", body.scanned), *(0,) * body.returned]

    def of_one(_: Values, inputs: Values) -> tuple[Values, Values]:
        return (), body.run(inputs, directions)

    return loops.scan(call.build, "scan_batch", (), values, of_one)


@converts(
    "Scan",
    9,
    25,
    note="steps in Python where sizes in its body are not known at import",
    runs="native or Python",
)
def scan(call: Call) -> Sequence[Value]:
    """Emit a Scan: a loop that runs the body for each element of the input sequences along their
    axes."""
    values = call.operands()
    body = _Body.of(call, len(values))
    first, sequences = values[: body.carried], values[body.carried :]
    axes = _listed(call, "scan_input_axes", body.scanned)
    taken = [moved_axis(x, axis, to_front=True) for x, axis in zip(sequences, axes, strict=True)]
    directions = [
        *_listed(call, "scan_input_directions", body.scanned),
        *_listed(call, "scan_output_directions", body.returned),
    ]
    made = body.run([*first, *taken], directions)
    axes = _listed(call, "scan_output_axes", body.returned)
    stacked = zip(made[body.carried :], axes, strict=True)
    return [
        *made[: body.carried],
        *(moved_axis(y, axis, to_front=False) for y, axis in stacked),
    ]


@dataclass(frozen=True)
class _Body:
    """The body of a Scan, with the numbers of its states (``carried``), input sequences
    (``scanned``) and output sequences (``returned``)."""

    call: Call
    graph: NodeGraph
    carried: int
    scanned: int
    returned: int

    @staticmethod
    def of(call: Call, operands: int) -> _Body:
        """Return the body of a Scan with this number of states and input sequences together
        (``operands``)."""
        scanned, graph = call.integer("num_scan_inputs"), call.graph("body")
        if not 1 <= scanned <= operands:
            raise InvalidModelError("num_scan_inputs does not fit the inputs", found=str(scanned))
        carried = operands - scanned
        return _Body(call, graph, carried, scanned, len(graph.outputs) - carried)

    def run(self, values: Values, directions: Sequence[int]) -> Values:
        """Emit the loop on ``values``, the initial states and the input sequences. ``directions``
        has 1 for each sequence that runs backward, inputs first."""
        first, sequences = values[: self.carried], values[self.carried :]

        def step(state: Values, inputs: Values) -> tuple[Values, Values]:
            found = converted(self.call, self.graph, [*state, *inputs], self.carried)
            return found[: self.carried], found[self.carried :]

        backward = [bool(direction) for direction in directions]
        build = self.call.build
        return loops.scan(build, "scan_body", first, sequences, step, backward.__getitem__)


def _listed(call: Call, name: str, count: int) -> Sequence[int]:
    """Return an attribute that has ``count`` numbers, one for each sequence; zeros if it is
    absent."""
    numbers = call.integers(name) or (0,) * max(0, count)
    if len(numbers) != count:
        raise InvalidModelError(
            f"attribute {name!r} has the wrong length", expected=str(count), found=str(numbers)
        )
    return numbers
