"""LSTM, GRU and RNN: one matrix product for all inputs, then a loop over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import Node
from tessella.frontends.onnx.ops.activations import Activation, activations
from tessella.frontends.onnx.ops.movement import part
from tessella.frontends.onnx.registry import Converter, Rule, converts
from tessella.support.errors import ShapeError


@dataclass(frozen=True)
class _Cell:
    """One direction of a layer.

    ``inputs`` are the projections [S, B, gates * H] of all inputs by W, with W's part of B;
    ``weights`` is R as [gates * H, H], ``bias`` its part of B.
    """

    call: Call
    hidden: int
    inputs: SSAValue
    weights: SSAValue
    bias: SSAValue | None
    peepholes: SSAValue | None
    activations: Sequence[Activation]

    def gates(self, values: SSAValue, count: int) -> list[SSAValue]:
        """The parts of [B, count * H], clipped where the op says so."""
        size, axis = self.hidden, len(shape_of(values)) - 1
        return [part(self.call, values, axis, i * size, size) for i in range(count)]

    def recurrent(self, h: SSAValue, first: int, count: int) -> SSAValue:
        """h times some gates' part of R, with their part of the bias."""
        rows = part(self.call, self.weights, 0, first * self.hidden, count * self.hidden)
        y = self.call.emit(nn.MatmulOp, h, rows, transpose_b=True)
        if self.bias is None:
            return y
        size = count * self.hidden
        return self.call.add(y, part(self.call, self.bias, 0, first * self.hidden, size))

    def peephole(self, index: int, gate: SSAValue, c: SSAValue) -> SSAValue:
        """The gate's argument with its view of the cell state."""
        if self.peepholes is None:
            return gate
        weights = part(self.call, self.peepholes, 0, index * self.hidden, self.hidden)
        return self.call.add(gate, self.call.mul(weights, c))

    def clipped(self, x: SSAValue) -> SSAValue:
        """The argument of an activation, within the attribute ``clip``."""
        bound = self.call.attribute("clip")
        return self.call.emit(nn.ClipOp, x, low=-bound, high=bound) if bound else x


State = tuple[SSAValue, ...]
_Step = Callable[[_Cell, SSAValue, State], State]


def _lstm(cell: _Cell, x: SSAValue, state: State) -> State:
    call, (h, c) = cell.call, state
    f, g, last = cell.activations
    gates = call.add(x, cell.recurrent(h, 0, 4))
    i, o, forget, new = cell.gates(gates, 4)
    i = f(call, cell.clipped(cell.peephole(0, i, c)))
    if call.flag("input_forget"):
        forget = call.sub(call.scalar(1, i), i)
    else:
        forget = f(call, cell.clipped(cell.peephole(2, forget, c)))
    c = call.add(call.mul(forget, c), call.mul(i, g(call, cell.clipped(new))))
    o = f(call, cell.clipped(cell.peephole(1, o, c)))
    return call.mul(o, last(call, c)), c


def _gru(cell: _Cell, x: SSAValue, state: State) -> State:
    call, (h,) = cell.call, state
    f, g = cell.activations
    z_x, r_x, n_x = cell.gates(x, 3)
    z_h, r_h = cell.gates(cell.recurrent(h, 0, 2), 2)
    z = f(call, cell.clipped(call.add(z_x, z_h)))
    r = f(call, cell.clipped(call.add(r_x, r_h)))
    if call.attribute("linear_before_reset"):
        n_h = call.mul(r, cell.recurrent(h, 2, 1))
    else:
        n_h = cell.recurrent(call.mul(r, h), 2, 1)
    n = g(call, cell.clipped(call.add(n_x, n_h)))
    kept = call.sub(call.scalar(1, z), z)
    return (call.add(call.mul(kept, n), call.mul(z, h)),)


def _rnn(cell: _Cell, x: SSAValue, state: State) -> State:
    call = cell.call
    return (cell.activations[0](call, cell.clipped(call.add(x, cell.recurrent(state[0], 0, 1)))),)


@dataclass(frozen=True)
class _Kind:
    gates: int
    states: int
    activations: tuple[str, ...]
    step: _Step


_KINDS = {
    "LSTM": _Kind(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm),
    "GRU": _Kind(3, 1, ("Sigmoid", "Tanh"), _gru),
    "RNN": _Kind(1, 1, ("Tanh",), _rnn),
}


def _layer(call: Call, kind: _Kind) -> list[SSAValue | None]:
    call.check_ranks(3, 3, 3, 2, 1, 3, 3, 2)
    x, batch_first = call.x, call.version >= 14 and call.flag("layout")
    if batch_first:
        x = call.transpose(x, (1, 0, 2))
    if shape_of(x)[0] < 1:
        raise ShapeError("a sequence without steps", found=str(x.type))
    direction = call.text("direction").lower()
    count = 2 if direction == "bidirectional" else 1
    functions = activations(call, kind.activations, count)
    outputs: list[SSAValue] = []
    finals: list[State] = []
    for d in range(count):
        chosen = functions[d * len(kind.activations) : (d + 1) * len(kind.activations)]
        cell = _cell(call, x, kind, d, chosen)
        backward = direction == "reverse" or d == 1
        y, state = _run(cell, kind, _initial(call, kind, x, d, batch_first), backward)
        outputs.append(y)
        finals.append(state)
    return _results(call, outputs, finals, batch_first)


def _direction(call: Call, index: int, d: int) -> SSAValue | None:
    """One direction's part of an operand, without that dimension."""
    value = call.optional(index)
    if value is None:
        return None
    return call.reshape(part(call, value, 0, d, 1), shape_of(value)[1:])


def _cell(call: Call, x: SSAValue, kind: _Kind, d: int, chosen: Sequence[Activation]) -> _Cell:
    w, r = _direction(call, 1, d), _direction(call, 2, d)
    assert w is not None
    assert r is not None
    hidden = shape_of(r)[-1]
    steps, batch, size = shape_of(x)
    if shape_of(w) != (kind.gates * hidden, size) or shape_of(r) != (kind.gates * hidden, hidden):
        raise ShapeError("the weights do not fit", found=f"x {x.type}, W {w.type}, R {r.type}")
    rows = call.reshape(x, (steps * batch, size))
    inputs = call.emit(nn.MatmulOp, rows, w, transpose_b=True)
    bias, recurrent = _direction(call, 3, d), None
    if bias is not None:
        inputs = call.add(inputs, part(call, bias, 0, 0, kind.gates * hidden))
        recurrent = part(call, bias, 0, kind.gates * hidden, kind.gates * hidden)
    inputs = call.reshape(inputs, (steps, batch, kind.gates * hidden))
    peepholes = _direction(call, 7, d) if kind.states == 2 else None
    return _Cell(call, hidden, inputs, r, recurrent, peepholes, chosen)


def _initial(call: Call, kind: _Kind, x: SSAValue, d: int, batch_first: bool) -> State:
    hidden = shape_of(call.operand(2))[-1]
    shape, states = (shape_of(x)[1], hidden), list[SSAValue]()
    for index in range(5, 5 + kind.states):
        value = call.optional(index)
        if value is None:
            states.append(call.build.splat(0, shape, dtype_of(x.type)))
            continue
        axis = 1 if batch_first else 0
        states.append(call.reshape(part(call, value, axis, d, 1), shape))
    return tuple(states)


def _run(cell: _Cell, kind: _Kind, first: State, backward: bool) -> tuple[SSAValue, State]:
    """The outputs [S, B, H] in the order of the sequence, and the last state."""
    call, (steps, batch, _) = cell.call, shape_of(cell.inputs)
    lengths, sequences = call.optional(4), [cell.inputs]
    if lengths is not None:
        lengths = call.reshape(call.cast(lengths, np.int64), (batch, 1))
        sequences.append(call.positions(steps, 0, 1))

    def step(state: Sequence[SSAValue], inputs: Sequence[SSAValue]) -> tuple[State, State]:
        new = kind.step(cell, inputs[0], tuple(state))
        if lengths is None:
            return new, new[:1]
        # past a sequence's end the state stays and the output is 0
        inside = call.emit(nn.GreaterOp, lengths, inputs[1])
        zero = call.scalar(0, new[0])
        kept = (call.emit(nn.WhereOp, inside, a, b) for a, b in zip(new, state, strict=True))
        return tuple(kept), (call.emit(nn.WhereOp, inside, new[0], zero),)

    name = f"{call.node.op.lower()}_step"
    *state, y = call.build.scan(name, first, sequences, step, lambda _: backward)
    return y, tuple(state)


def _results(
    call: Call, outputs: list[SSAValue], finals: list[State], batch_first: bool
) -> list[SSAValue | None]:
    """Y [S, D, B, H] and the last states [D, B, H]; the batch comes first with ``layout``."""
    steps, batch, hidden = shape_of(outputs[0])
    parts = [call.reshape(y, (steps, 1, batch, hidden)) for y in outputs]
    y = _joined(call, parts, 1)
    states = [
        _joined(call, [call.reshape(value, (1, batch, hidden)) for value in values], 0)
        for values in zip(*finals, strict=True)
    ]
    if not batch_first:
        return [y, *states]
    return [call.transpose(y, (2, 0, 1, 3)), *(call.transpose(s, (1, 0, 2)) for s in states)]


def _joined(call: Call, values: Sequence[SSAValue], axis: int) -> SSAValue:
    return values[0] if len(values) == 1 else call.emit(nn.ConcatOp, *values, axis=axis)


def _converter(kind: _Kind) -> Converter:
    return lambda call: _layer(call, kind)


def _direction_known(node: Node) -> str | None:
    direction = str(node.attributes.get("direction", "forward")).lower()
    known = direction in ("forward", "reverse", "bidirectional")
    return None if known else f"direction={direction}"


for _name, _kind in _KINDS.items():
    converts(_name, 7, 22, Rule("", _direction_known))(_converter(_kind))
