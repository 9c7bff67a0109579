"""Fold scales and shifts of channels into the op before them.

    %1 = nn.conv %x, %w, %b
    %2 = nn.batch_norm %1, %scale, %bias, %mean, %variance
    ->
    %s = nn.div %scale, sqrt(%variance + epsilon)
    %2 = nn.conv %x, %w * %s, (%b - %mean) * %s + %bias

and likewise where a constant for each channel is added, subtracted, multiplied or divided by:

    %1 = nn.conv %x, %w
    %2 = nn.mul %1, %c
    ->
    %2 = nn.conv %x, %w * %c

The op before may be ``conv``, ``conv_transpose``, ``fc`` or ``matmul`` (which becomes ``fc`` with a
bias). Its result must have no other use, and all parameters must be constants. The new parameters
are ops on constants; ``fold-constants`` evaluates them. A batch normalization after any other op
becomes

    %2 = nn.add (nn.mul %x, %s), %bias - %mean * %s
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, PyValue, is_float, shape_of, tensor, tensor_type
from tessella.dialects.nn.elementwise import AddOp, BinaryOp, DivOp, MulOp, NegOp, SqrtOp, SubOp
from tessella.dialects.nn.linear import ConvOp, ConvTransposeOp, FcOp, MatmulOp
from tessella.dialects.nn.movement import ExpandOp, ReshapeOp
from tessella.dialects.nn.normalization import BatchNormOp
from tessella.passes.base import functions, is_constant, record_fusion
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class FoldBatchNormPass(ProgramPass):
    """Fold batch normalizations, and scales and shifts of channels, into the op before them."""

    name = "fold-batch-norm"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            folder = _Folder()
            # first into batch normalizations themselves, so that they take along what follows
            for fold in (folder.fold_arithmetic, folder.fold_norm):
                for inner in list(function.body.block.ops):
                    if isinstance(inner, NnOp) and inner.kernel is None:
                        fold(inner)


@dataclass(frozen=True)
class _Host:
    """An op whose second operand can scale the channels of the result and whose third can shift
    them.

    ``axis`` is the channel axis of the result. ``factor`` is the shape in which a vector of
    channels broadcasts to the second operand (-1 stands for their number).
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


def _host(op: NnOp) -> _Host | None:
    """The op as a host for scales and shifts, or None."""
    rank = len(shape_of(op.results[0]))
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


class _Folder:
    """Folds ops of one function. It remembers the values that it computed from constants."""

    def __init__(self) -> None:
        self.made: set[SSAValue] = set()

    def is_constant(self, value: SSAValue) -> bool:
        return is_constant(value) or value in self.made

    def host(self, value: SSAValue) -> _Host | None:
        """The op that produces a value, if it can be changed for the value's only user."""
        op = value.owner
        if not isinstance(op, NnOp) or op.kernel is not None or not value.has_one_use():
            return None
        return _host(op) if all(map(self.is_constant, op.operands[1:])) else None

    # ** arithmetic with a constant for each channel **

    def fold_arithmetic(self, op: NnOp) -> None:
        """Fold an addition, subtraction, multiplication or division into the op before it."""
        if not isinstance(op, AddOp | SubOp | MulOp | DivOp) or _divides_by_zero(op):
            return
        pairs = [(op.lhs, op.rhs)]
        if isinstance(op, AddOp | MulOp):
            pairs.append((op.rhs, op.lhs))
        for value, constant in pairs:
            host = self.host(value) if self.is_constant(constant) else None
            if host is not None and value.type == op.res.type and is_float(_element(value)):
                vector = self._channel_vector(op, constant, host)
                if vector is not None:
                    self._apply(op, host, vector)
                    return

    def _channel_vector(self, op: BinaryOp, constant: SSAValue, host: _Host) -> SSAValue | None:
        """A constant as a vector of the host's channels; None if it varies along other axes."""
        writer = _Writer(op, _node(host.op, ".b"), self.made)
        if isinstance(constant.owner, SplatOp):
            return writer.splat(constant.owner.number, _element(constant), [host.channels])
        shape = shape_of(constant)
        axis = host.axis - (len(shape_of(host.op.results[0])) - len(shape))
        size = math.prod(shape)
        if size == 1 < host.channels:
            return writer.op(ExpandOp, writer.shaped(constant, [1]), shape=(host.channels,))
        is_vector = size == 1 or (axis >= 0 and shape[axis] == size)
        return writer.shaped(constant, [-1]) if is_vector else None

    def _apply(self, op: BinaryOp, host: _Host, vector: SSAValue) -> None:
        """Apply the op to the host's parameters instead of its result."""
        weights = _Writer(op, _node(host.op, ".w"), self.made)
        writer = _Writer(op, _node(host.op, ".b"), self.made)
        scale, shift = host.scale, host.shift
        if isinstance(op, MulOp | DivOp):
            scale = weights.op(type(op), scale, weights.shaped(vector, host.factor))
        if shift is not None:
            shift = writer.op(type(op), shift, vector)
        elif isinstance(op, AddOp | SubOp):
            shift = vector if isinstance(op, AddOp) else writer.op(NegOp, vector)
        _replace(host, op, scale, shift)

    # ** batch normalization **

    def fold_norm(self, op: NnOp) -> None:
        """Fold a batch normalization into the op before it, or make two ops of it."""
        if not isinstance(op, BatchNormOp) or not all(map(self.is_constant, op.operands[1:])):
            return
        host = self.host(op.x)
        if host is not None and host.axis != 1:
            host = None
        node = op if host is None else host.op
        weights = _Writer(op, _node(node, ".w"), self.made)
        writer = _Writer(op, _node(node, ".b"), self.made)
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
        scaled = MulOp.make([op.x, weights.shaped(factor, form)], node=_node(op))
        Rewriter.insert_op(scaled, InsertPoint.before(op))
        _put(AddOp.make([scaled, writer.shaped(shift, form)], node=_node(op)), op)


@dataclass(frozen=True)
class _Writer:
    """Inserts ops on constants before another op."""

    anchor: NnOp
    node: str | None
    made: set[SSAValue]

    def op(self, kind: type[NnOp], *operands: SSAValue, **properties: PyValue) -> SSAValue:
        """An op's result."""
        return self._insert(kind.make(operands, node=self.node, **properties))

    def splat(self, number: float, element: Attribute, shape: Sequence[int]) -> SSAValue:
        """A splat."""
        return self._insert(SplatOp(number, tensor(element, shape)))

    def shaped(self, value: SSAValue, form: Sequence[int]) -> SSAValue:
        """A value in another shape; -1 stands for its number of elements."""
        size = math.prod(shape_of(value))
        shape = tuple(size if n == -1 else n for n in form)
        return value if shape == shape_of(value) else self.op(ReshapeOp, value, shape=shape)

    def _insert(self, op: NnOp) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        self.made.add(op.results[0])
        return op.results[0]


def _replace(host: _Host, by: NnOp, scale: SSAValue, shift: SSAValue | None) -> None:
    """Replace the op after the host by the host with new parameters."""
    op = host.op
    operands = [op.operands[0], scale, *(() if shift is None else (shift,)), *op.operands[3:]]
    kind, properties = type(op), dict(op.properties)
    if isinstance(op, MatmulOp) and shift is not None:
        kind, properties = FcOp, {"transpose_w": op.transpose_b}
    new = kind.make(operands, node=_node(op), **properties)
    record_fusion(new, FoldBatchNormPass.name, [op, by])
    _put(new, by)
    Rewriter.erase_op(op)


def _put(new: NnOp, old: NnOp) -> None:
    """Replace an op by a new one."""
    Rewriter.insert_op(new, InsertPoint.before(old))
    new.results[0].name_hint = old.results[0].name_hint
    old.results[0].replace_all_uses_with(new.results[0])
    Rewriter.erase_op(old)


def _divides_by_zero(op: BinaryOp) -> bool:
    """Weights must not be divided by zero first: a sum of infinities of both signs is NaN."""
    divisor = op.rhs.owner
    return isinstance(op, DivOp) and isinstance(divisor, SplatOp) and divisor.number == 0


def _node(op: NnOp, part: str = "") -> str | None:
    """The name of an op's node, with a suffix."""
    return op.node + part if "node" in op.attributes else None


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type
