"""Fold what scales and shifts channels into the op before it.

    %1 = nn.conv %x, %w, %b
    %2 = nn.batch_norm %1, %scale, %bias, %mean, %variance
    ->
    %s = nn.div %scale, sqrt(%variance + epsilon)
    %2 = nn.conv %x, %w * %s, (%b - %mean) * %s + %bias

and likewise where a constant for each channel is added, subtracted, multiplied or divided by:

    %1 = nn.conv %x, %w
    %2 = nn.mul %1, %c : (tensor<1x8x4x4xf32>, tensor<8x1x1xf32>)
    ->
    %2 = nn.conv %x, %w * %c

Into ``conv``, ``conv_transpose``, ``fc`` and ``matmul`` (which a bias makes an ``fc``); their
result has no other use, and all parameters are constants. The new parameters are ops on
constants: ``fold-constants`` evaluates them. A batch normalization behind anything else becomes

    %2 = nn.add (nn.mul %x, %s), %bias - %mean * %s
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, PyValue, is_float, shape_of, tensor, tensor_type
from tessella.dialects.nn.elementwise import AddOp, BinaryOp, DivOp, MulOp, NegOp, SqrtOp, SubOp
from tessella.dialects.nn.linear import ConvOp, ConvTransposeOp, FcOp, MatmulOp
from tessella.dialects.nn.movement import ExpandOp, ReshapeOp
from tessella.dialects.nn.normalization import BatchNormOp
from tessella.passes.base import functions, is_constant


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Fold batch normalizations, and scales and shifts of channels, into the op before them."""

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            # first into batch normalizations themselves, so that they take along what follows
            for step in (_fold_arithmetic, _fold_norm):
                for inner in list(function.body.block.ops):
                    if isinstance(inner, NnOp) and inner.kernel is None:
                        step(inner)


# ** the ops that have a scale and a shift for each channel **


@dataclass(frozen=True)
class _Host:
    """An op whose result's channels can be scaled by its second operand and shifted by its third.

    ``axis`` is where the result's channels are, ``factor`` the shape in which a vector of them
    broadcasts to the second operand.
    """

    op: NnOp
    axis: int
    factor: Sequence[int]

    @property
    def channels(self) -> int:
        return shape_of(self.op.results[0])[self.axis]

    @property
    def scale(self) -> SSAValue:
        return self.op.operands[1]

    @property
    def shift(self) -> SSAValue | None:
        return self.op.operands[2] if len(self.op.operands) > 2 else None


def _host(value: SSAValue) -> _Host | None:
    """The op that gives a value, where it can be scaled and shifted for that value's one user."""
    op = value.owner
    if not isinstance(op, NnOp) or op.kernel is not None or not value.has_one_use():
        return None
    if not all(is_constant(parameter) for parameter in op.operands[1:]):
        return None
    rank = len(shape_of(value))
    match op:
        case ConvOp():
            return _Host(op, 1, (-1, *[1] * (rank - 1)))
        case ConvTransposeOp() if op.settings["groups"] == 1:
            return _Host(op, 1, (1, -1, *[1] * (rank - 2)))
        case FcOp():
            return _Host(op, rank - 1, (-1, 1) if op.settings["transpose_w"] else (-1,))
        case MatmulOp() if len(shape_of(op.b)) == 2:
            return _Host(op, rank - 1, (-1, 1) if op.settings["transpose_b"] else (-1,))
        case BatchNormOp():
            return _Host(op, 1, (-1,))
        case _:
            return None


def _replace(host: _Host, by: NnOp, scale: SSAValue, shift: SSAValue | None) -> None:
    """Put the host with other parameters where the op behind it stands."""
    operands = [host.op.operands[0], scale, *(() if shift is None else (shift,))]
    operands += host.op.operands[3:]
    kind, properties = type(host.op), dict(host.op.properties)
    if isinstance(host.op, MatmulOp) and shift is not None:
        kind, properties = FcOp, {"transpose_w": properties["transpose_b"]}
    new = kind.make(operands, node=_node(host.op), **properties)
    _put(new.results[0], by)
    Rewriter.erase_op(host.op)


def _put(value: SSAValue, by: NnOp) -> None:
    """Insert a value's op before another op, whose place it takes."""
    assert isinstance(value.owner, NnOp)
    Rewriter.insert_op(value.owner, InsertPoint.before(by))
    value.name_hint = by.results[0].name_hint
    by.results[0].replace_all_uses_with(value)
    Rewriter.erase_op(by)


def _node(op: NnOp, part: str = "") -> str | None:
    return op.node + part if "node" in op.attributes else None


@dataclass(frozen=True)
class _Writer:
    """Writes ops on constants before another op."""

    anchor: NnOp
    node: str | None

    def op(self, kind: type[NnOp], *operands: SSAValue, **properties: PyValue) -> SSAValue:
        """An op's result."""
        op = kind.make(operands, node=self.node, **properties)
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        return op.results[0]

    def splat(self, number: float, element: Attribute, shape: Sequence[int]) -> SSAValue:
        """A splat."""
        op = SplatOp(number, tensor(element, shape))
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        return op.res

    def shaped(self, value: SSAValue, form: Sequence[int]) -> SSAValue:
        """A value in another shape, in which -1 stands for the number of its elements."""
        size = math.prod(shape_of(value))
        shape = tuple(size if n == -1 else n for n in form)
        return value if shape == shape_of(value) else self.op(ReshapeOp, value, shape=shape)


# ** arithmetic with a constant for each channel **


def _fold_arithmetic(op: NnOp) -> None:
    """Fold an addition, subtraction, multiplication or division into the op before it."""
    if not isinstance(op, AddOp | SubOp | MulOp | DivOp):
        return
    pairs = [(op.lhs, op.rhs)]
    if isinstance(op, AddOp | MulOp):
        pairs.append((op.rhs, op.lhs))
    for value, constant in pairs:
        host = _host(value) if is_constant(constant) else None
        if host is not None and value.type == op.res.type and is_float(_element(value)):
            writer = _Writer(op, _node(host.op, ".b"))
            vector = _channel_vector(writer, constant, host)
            if vector is not None:
                _apply(op, host, writer, vector)
                return


def _channel_vector(writer: _Writer, constant: SSAValue, host: _Host) -> SSAValue | None:
    """A constant as a vector of the host's channels; None if it varies along other dimensions."""
    if isinstance(constant.owner, SplatOp):
        return writer.splat(constant.owner.number, _element(constant), [host.channels])
    shape = shape_of(constant)
    axis = host.axis - (len(shape_of(host.op.results[0])) - len(shape))
    size = math.prod(shape)
    if size == 1:
        single = writer.shaped(constant, [1])
        return writer.op(ExpandOp, single, shape=(host.channels,)) if host.channels > 1 else single
    return writer.shaped(constant, [-1]) if axis >= 0 and shape[axis] == size else None


def _apply(op: BinaryOp, host: _Host, writer: _Writer, vector: SSAValue) -> None:
    scale, shift = host.scale, host.shift
    if isinstance(op, MulOp | DivOp):
        weights = _Writer(op, _node(host.op, ".w"))
        scale = weights.op(type(op), scale, weights.shaped(vector, host.factor))
        shift = None if shift is None else writer.op(type(op), shift, vector)
    elif shift is not None:
        shift = writer.op(type(op), shift, vector)
    else:
        shift = writer.op(NegOp, vector) if isinstance(op, SubOp) else vector
    _replace(host, op, scale, shift)


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


# ** batch normalization **


def _fold_norm(op: NnOp) -> None:
    """Fold a batch normalization into the op before it, or make two ops of it."""
    if not isinstance(op, BatchNormOp) or not all(map(is_constant, op.operands[1:])):
        return
    host = _host(op.x)
    if host is not None and host.axis != 1:
        host = None
    weights = _Writer(op, _node(op if host is None else host.op, ".w"))
    writer = _Writer(op, _node(op if host is None else host.op, ".b"))
    epsilon = weights.splat(op.settings["epsilon"], _element(op.x), shape_of(op.variance))
    deviation = weights.op(SqrtOp, weights.op(AddOp, op.variance, epsilon))
    factor = weights.op(DivOp, op.scale, deviation)
    if host is not None and host.shift is not None:
        centred = writer.op(SubOp, host.shift, op.mean)
        shift = writer.op(AddOp, writer.op(MulOp, centred, factor), op.bias)
    else:
        shift = writer.op(SubOp, op.bias, writer.op(MulOp, op.mean, factor))
    if host is not None:
        scale = weights.op(MulOp, host.scale, weights.shaped(factor, host.factor))
        _replace(host, op, scale, shift)
        return
    form = (-1, *[1] * (len(shape_of(op.x)) - 2))
    outer = _Writer(op, _node(op))
    scaled = outer.op(MulOp, op.x, weights.shaped(factor, form))
    _put(AddOp.make([scaled, writer.shaped(shift, form)], node=_node(op)).res, op)
