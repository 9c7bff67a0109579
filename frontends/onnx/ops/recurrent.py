"""Converters of LSTM, GRU and RNN: one matrix product with all inputs, then a loop over the time
steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Value, Values, concat, where
from tessella.frontends.loops import scan
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import Node
from tessella.frontends.onnx.ops.activations import Activation, activations
from tessella.frontends.onnx.registry import Converter, Rule, converts
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import Size


@dataclass(frozen=True)
class _Cell:
    """The operands of one direction of a layer.

    ``inputs`` are the products [S, B, gates * H] of all inputs with W, plus the first half of the
    bias. ``weights`` is R as [gates * H, H], ``bias`` the second half of the bias.
    """

    call: Call
    hidden: Size
    inputs: Value
    weights: Value
    bias: Value | None
    peepholes: Value | None
    activations: Sequence[Activation]

    def gates(self, values: Value, count: int) -> list[Value]:
        """Split [B, count * H] into ``count`` gates [B, H]."""
        size, axis = self.hidden, values.rank - 1
        return [values.part(axis, i * size, size) for i in range(count)]

    def recurrent(self, h: Value, first: int, count: int) -> Value:
        """Emit the product of ``h`` with the part of R that belongs to ``count`` gates from
        ``first`` on, plus their part of the bias."""
        start, size = first * self.hidden, count * self.hidden
        y = h.op(nn.MatmulOp, self.weights.part(0, start, size), transpose_b=True)
        return y if self.bias is None else y + self.bias.part(0, start, size)

    def peephole(self, index: int, gate: Value, c: Value) -> Value:
        """Emit a gate's argument plus the peephole connection from the cell state ``c``, if there
        are peepholes."""
        if self.peepholes is None:
            return gate
        return gate + self.peepholes.part(0, index * self.hidden, self.hidden) * c

    def clipped(self, x: Value) -> Value:
        """Emit an activation's argument clipped to the attribute ``clip``, if it is given."""
        bound = self.call.attribute("clip")
        return x.op(nn.ClipOp, low=-bound, high=bound) if bound else x


State = tuple[Value, ...]
_Step = Callable[[_Cell, Value, State], State]


def _lstm(cell: _Cell, x: Value, state: State) -> State:
    h, c = state
    f, g, last = cell.activations
    i, o, forget, new = cell.gates(x + cell.recurrent(h, 0, 4), 4)
    i = f(cell.clipped(cell.peephole(0, i, c)))
    if cell.call.flag("input_forget"):
        forget = 1 - i
    else:
        forget = f(cell.clipped(cell.peephole(2, forget, c)))
    c = forget * c + i * g(cell.clipped(new))
    o = f(cell.clipped(cell.peephole(1, o, c)))
    return o * last(c), c


def _gru(cell: _Cell, x: Value, state: State) -> State:
    (h,) = state
    f, g = cell.activations
    z_x, r_x, n_x = cell.gates(x, 3)
    z_h, r_h = cell.gates(cell.recurrent(h, 0, 2), 2)
    z = f(cell.clipped(z_x + z_h))
    r = f(cell.clipped(r_x + r_h))
    if cell.call.attribute("linear_before_reset"):
        n_h = r * cell.recurrent(h, 2, 1)
    else:
        n_h = cell.recurrent(r * h, 2, 1)
    n = g(cell.clipped(n_x + n_h))
    return ((1 - z) * n + z * h,)


def _rnn(cell: _Cell, x: Value, state: State) -> State:
    return (cell.activations[0](cell.clipped(x + cell.recurrent(state[0], 0, 1))),)


@dataclass(frozen=True)
class _CellKind:
    gates: int
    states: int
    activations: tuple[str, ...]
    step: _Step


_KINDS = {
    "LSTM": _CellKind(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm),
    "GRU": _CellKind(3, 1, ("Sigmoid", "Tanh"), _gru),
    "RNN": _CellKind(1, 1, ("Tanh",), _rnn),
}


def _layer(call: Call, kind: _CellKind) -> list[Value | None]:
    call.check_ranks(3, 3, 3, 2, 1, 3, 3, 2)
    x, batch_first = call.x, call.flag("layout")
    if batch_first:
        x = x.transpose((1, 0, 2))
    direction = call.text("direction").lower()
    count = 2 if direction == "bidirectional" else 1
    _check_shapes(call, kind, x, count, batch_first)
    _check_clip(call)
    functions = activations(call, kind.activations, count)
    outputs: list[Value] = []
    finals: list[State] = []
    for d in range(count):
        chosen = functions[d * len(kind.activations) : (d + 1) * len(kind.activations)]
        cell = _cell(call, x, kind, d, chosen)
        backward = direction == "reverse" or d == 1
        y, state = _run(cell, kind, _initial(call, kind, x, d, batch_first), backward)
        outputs.append(y)
        finals.append(state)
    return _results(outputs, finals, batch_first)


_NAMES = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")


def _check_shapes(call: Call, kind: _CellKind, x: Value, count: int, batch_first: bool) -> None:
    """Raise ShapeError unless all operands have the shapes of a layer of ``count`` directions that
    reads ``x``, [S, B, I]."""
    (_, batch, size), hidden = x.shape, call.operand(2).shape[-1]
    rows = kind.gates * hidden
    state = (batch, count, hidden) if batch_first else (count, batch, hidden)
    weights = ((count, rows, size), (count, rows, hidden), (count, 2 * rows))
    shapes = (*weights, (batch,), state, state, (count, 3 * hidden))
    for index, shape in enumerate(shapes, 1):
        value = call.optional(index)
        if value is not None and shapes_differ(value.shape, shape):
            raise ShapeError(
                f"{_NAMES[index]} does not fit the layer",
                expected=f"{list(shape)}, of {count} directions and {hidden} hidden values",
                found=str(list(value.shape)),
            )


def _check_clip(call: Call) -> None:
    clip = call.attribute("clip")
    if clip is not None and not clip > 0:
        raise InvalidModelError("attribute 'clip' is not positive", expected="> 0", found=str(clip))


def _direction(call: Call, index: int, d: int) -> Value | None:
    """Return the part of the operand at ``index`` that belongs to direction ``d``, without the
    dimension of directions; None if the operand is absent."""
    value = call.optional(index)
    if value is None:
        return None
    return value.part(0, d, 1).reshape(value.shape[1:])


def _cell(call: Call, x: Value, kind: _CellKind, d: int, chosen: Sequence[Activation]) -> _Cell:
    w, r = _direction(call, 1, d), _direction(call, 2, d)
    assert w is not None
    assert r is not None
    hidden = r.shape[-1]
    if call.attribute("hidden_size") not in (None, hidden):
        found = str(call.attribute("hidden_size"))
        raise ShapeError(
            "hidden_size is not that of the weights", expected=str(hidden), found=found
        )
    steps, batch, size = x.shape
    inputs = x.reshape((steps * batch, size)).op(nn.MatmulOp, w, transpose_b=True)
    bias, recurrent = _direction(call, 3, d), None
    if bias is not None:
        inputs = inputs + bias.part(0, 0, kind.gates * hidden)
        recurrent = bias.part(0, kind.gates * hidden, kind.gates * hidden)
    inputs = inputs.reshape((steps, batch, kind.gates * hidden))
    peepholes = _direction(call, 7, d) if kind.states == 2 else None
    return _Cell(call, hidden, inputs, r, recurrent, peepholes, chosen)


def _initial(call: Call, kind: _CellKind, x: Value, d: int, batch_first: bool) -> State:
    shape, states = (x.shape[1], call.operand(2).shape[-1]), list[Value]()
    for index in range(5, 5 + kind.states):
        value = call.optional(index)
        if value is None:
            states.append(call.build.splat(0, shape, x.dtype))
            continue
        states.append(value.part(1 if batch_first else 0, d, 1).reshape(shape))
    return tuple(states)


def _run(cell: _Cell, kind: _CellKind, first: State, backward: bool) -> tuple[Value, State]:
    """Emit the loop over the time steps. Returns the outputs [S, B, H] in the order of the
    sequence, and the last state."""
    call, (steps, batch, _) = cell.call, cell.inputs.shape
    lengths, sequences = call.optional(4), [cell.inputs]
    if lengths is not None:
        lengths = call.checked(lengths.cast(np.int64), 0, steps, "sequence_lens")
        lengths = lengths.reshape((batch, 1))
        sequences.append(call.positions(steps, 0, 1))

    def step(state: Values, inputs: Values) -> tuple[State, State]:
        new = kind.step(cell, inputs[0], tuple(state))
        if lengths is None:
            return new, new[:1]
        # beyond the end of a sequence, the state does not change and the output is 0
        inside = lengths > inputs[1]
        kept = (where(inside, a, b) for a, b in zip(new, state, strict=True))
        return tuple(kept), (where(inside, new[0], 0),)

    name = f"{call.node.op.lower()}_step"
    *state, y = scan(call.build, name, first, sequences, step, lambda _: backward)
    return y, tuple(state)


def _results(outputs: list[Value], finals: list[State], batch_first: bool) -> list[Value | None]:
    """Return Y [S, D, B, H] and the last states [D, B, H]; with ``layout``, the batch comes
    first."""
    steps, batch, hidden = outputs[0].shape
    y = concat([y.reshape((steps, 1, batch, hidden)) for y in outputs], 1)
    states = [
        concat([value.reshape((1, batch, hidden)) for value in values], 0)
        for values in zip(*finals, strict=True)
    ]
    if not batch_first:
        return [y, *states]
    return [y.transpose((2, 0, 1, 3)), *(s.transpose((1, 0, 2)) for s in states)]


def _converter(kind: _CellKind) -> Converter:
    return lambda call: _layer(call, kind)


def _direction_known(node: Node) -> str | None:
    direction = str(node.attributes.get("direction", "forward")).lower()
    known = direction in ("forward", "reverse", "bidirectional")
    return None if known else f"direction={direction}"


for _name, _kind in _KINDS.items():
    converts(_name, 7, 22, Rule("", _direction_known))(_converter(_kind))
