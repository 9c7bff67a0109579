"""The body of an ONNX Loop as a function on values, and helpers that Scan shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tessella.frontends.emitter import Value, Values, concat
from tessella.frontends.onnx.appended import Appended, find_appended, without
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.held import Held
from tessella.frontends.onnx.model import NodeGraph
from tessella.support.errors import InvalidModelError, UnsupportedError


@dataclass(frozen=True)
class LoopBody:
    """The body of a Loop, its initial state, and the states that iterations only append to.

    The latter are not carried: the body returns the piece that an iteration appends to each of
    them, after all other elements.
    """

    call: Call
    graph: NodeGraph
    first: Values
    appended: tuple[Appended, ...] = ()

    @staticmethod
    def of(call: Call, *, may_split: bool = True) -> LoopBody:
        """Return the body of a Loop. Unless ``may_split``, all states are carried, including those
        that iterations only append to."""
        graph, first = call.graph("body"), call.operands(2)
        appended = find_appended(graph, len(first)) if may_split else ()
        numbers = {each.number for each in appended}
        kept = [value for i, value in enumerate(first) if i not in numbers]
        return LoopBody(call, without(graph, appended), kept, appended)

    @property
    def carried(self) -> int:
        """The number of carried values."""
        return len(self.first)

    @property
    def elements(self) -> int:
        """The number of values other than the state that an iteration returns, appended pieces
        included."""
        return max(0, len(self.graph.outputs) - 1 - self.carried)

    @property
    def returned(self) -> Sequence[int]:
        """The indices, among the elements of an iteration, of those that the node's outputs use,
        and of the appended pieces."""
        states, own = self.carried + len(self.appended), self.elements - len(self.appended)
        uses = self.call.node.uses
        return [i for i in range(self.elements) if i >= own or uses(states + i)]

    def run(self, number: Value, state: Values) -> tuple[Value, Values, Values]:
        """Emit one iteration. Returns whether another iteration follows, the next state, and the
        elements."""
        go = self.call.build.splat(True, (), np.bool_)
        condition, *made = converted(self.call, self.graph, [number, go, *state], 1 + self.carried)
        return condition, made[: self.carried], made[self.carried :]

    def is_true(self, condition: Value) -> bool:
        """Return whether a condition that is known at import is true. Raises UnknownValueError for
        another one."""
        known = self.call.build.static(condition)
        if known is None:
            raise self.call.unknown(condition, "the condition of Loop")
        return bool(known.all())

    def results(self, made: Values) -> Sequence[Value | None]:
        """Return the Loop's results in order. ``made`` holds its last state, then the stacked
        elements of all iterations, if there are any."""
        state, rows = iter(made[: self.carried]), [*made[self.carried :]]
        own = self.elements - len(self.appended)
        joined = self._joined(rows[own:])
        states = range(self.carried + len(self.appended))
        return [*(joined[i] if i in joined else next(state) for i in states), *rows[:own]]

    def _joined(self, pieces: Values) -> Mapping[int, Value | None]:
        """Return the final values of the states that iterations append to, by number; None for each
        if there are no ``pieces``."""
        if not pieces:
            return {each.number: None for each in self.appended}
        pairs = zip(self.appended, pieces, strict=True)
        return {each.number: self._joined_one(each, rows) for each, rows in pairs}

    def _joined_one(self, appended: Appended, rows: Value) -> Value:
        first = self.call.operand(2 + appended.number)
        axis = front_axis(appended.axis, first.rank)
        rows = moved_axis(rows, axis, to_front=False)
        *shape, steps, size = rows.shape[: axis + 2]
        piece = rows.reshape((*shape, steps * size, *rows.shape[axis + 2 :]))
        return concat([first, piece], axis)


def converted(call: Call, body: NodeGraph, values: Values, least: int) -> Values:
    """Emit the nodes of a body and return its outputs. Raises CutError for an output that is not a
    tensor, and InvalidModelError for fewer than ``least`` outputs."""
    made = call.branch(body, values)
    if any(isinstance(value, Held) for value in made):
        raise CutError(call.node)
    found = [value for value in made if isinstance(value, Value)]
    if len(found) < len(made):
        raise UnsupportedError([])  # the unsupported nodes in the body are already reported
    if len(found) < least:
        raise InvalidModelError(
            "a body has too few outputs", expected=f"at least {least}", found=str(len(found))
        )
    return found


def moved_axis(x: Value, axis: int, *, to_front: bool) -> Value:
    """Move an axis to the front, or the first axis to position ``axis``."""
    axis = front_axis(axis, x.rank)
    if to_front:
        return x.transpose((axis, *(d for d in range(x.rank) if d != axis)))
    return x.transpose((*range(1, axis + 1), 0, *range(axis + 1, x.rank)))
