"""Fold scales and shifts of channels into the op before them.

    %1 = nn.conv %x, %w, %b
    %2 = nn.batch_norm %1, %scale, %bias, %mean, %variance
    ->
    %s = nn.div %scale, sqrt(%variance + epsilon)
    %2 = nn.conv %x, %w * %s, (%b - %mean) * %s + %bias

The same applies to the addition, subtraction, multiplication and division of a constant for each
channel:

    %1 = nn.conv %x, %w
    %2 = nn.mul %1, %c
    ->
    %2 = nn.conv %x, %w * %c

The op before may be ``conv``, ``conv_transpose``, ``fc``, ``batch_norm``, or ``matmul`` (which
becomes ``fc`` with a bias). Its result must have no other use, and all parameters must be
constants. The new parameters are ops on constants; ``fold-constants`` evaluates them. A batch
normalization after any other op becomes

    %2 = nn.add (nn.mul %x, %s), %bias - %mean * %s

The results differ by rounding only, unless an intermediate number is out of the range of its
element: a product may overflow with the fold and not without it, or the other way round. An op is
not folded if that makes a parameter infinite or NaN, which would make zeros of the input NaN.
Examples are a division by 0, and a scale of 1e10 for weights of 1e30.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Commutative

from tessella.dialects.elements import element_of
from tessella.dialects.graph import weights_of
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import Array, NnOp, PyValue, shape_of
from tessella.dialects.nn.elementwise import AddOp, BinaryOp, DivOp, MulOp, NegOp, SqrtOp, SubOp
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.nn.linear import ConvOp, ConvTransposeOp, FcOp, MatmulOp
from tessella.dialects.nn.movement import ExpandOp
from tessella.dialects.nn.normalization import BatchNormOp
from tessella.passes.base import functions, record_fusion
from tessella.passes.fold_constants import will_be_constant
from tessella.passes.pick.fusions import FusionJudge, FusionPass
from tessella.passes.writer import OpWriter, node_of
from tessella.runtime.elements import widened
from tessella.runtime.weights import WeightStore
from tessella.support.sizes import Size


@dataclass(frozen=True)
class FoldBatchNormPass(FusionPass):
    """Fold batch normalizations, and scales and shifts of channels, into the op before them."""

    name = "fold-batch-norm"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            judge = self.judge()
            folder = _BatchNormFolder(weights_of(ctx), judge)
            # Batch normalizations first absorb the scales and shifts that follow them.
            for fold in (folder.fold_arithmetic, folder.fold_norm):
                for inner in list(function.body.block.ops):
                    if isinstance(inner, NnOp) and not inner.is_fixed:
                        fold(inner)
            judge.record(function)


@dataclass(frozen=True)
class _Host:
    """An op whose weights can absorb a scale, and whose bias can absorb a shift, of the channels of
    its result.

    ``axis`` is the channel axis of the result. ``factor`` is the shape in which a vector of
    channels broadcasts to the weights, the second operand (-1 stands for the number of channels).
    """

    op: NnOp
    axis: int
    factor: Sequence[int]

    @property
    def channels(self) -> Size:
        return shape_of(self.op.results[0])[self.axis]

    @property
    def scale(self) -> SSAValue:
        return self.op.operands[1]

    @property
    def shift(self) -> SSAValue | None:
        return self.op.operands[2] if len(self.op.operands) > 2 else None


def _host(op: NnOp) -> _Host | None:
    """Return the op as one that can absorb scales and shifts of channels; None if it cannot."""
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


class _BatchNormFolder:
    """Folds ops of one function, caching values computed from constants."""

    def __init__(self, weights: WeightStore, judge: FusionJudge) -> None:
        self.judge = judge
        self.made: dict[SSAValue, None] = {}
        self.constants = Constants(weights)
        self.largest: dict[SSAValue, Array] = {}
        """The largest magnitude of scaled weights, for each channel."""

    def is_constant(self, value: SSAValue) -> bool:
        return value in self.made or will_be_constant(value)

    def host(self, value: SSAValue) -> _Host | None:
        """Return the producer of a value as an op that can absorb scales and shifts. None if it
        cannot, if its parameters are not constants, or if the value has several uses."""
        op = value.owner
        if not isinstance(op, NnOp) or op.is_fixed or not value.has_one_use():
            return None
        return _host(op) if all(map(self.is_constant, op.operands[1:])) else None

    # ** arithmetic with a constant for each channel **

    def fold_arithmetic(self, op: NnOp) -> None:
        """Fold an addition, subtraction, multiplication or division into the op before it."""
        if not isinstance(op, BinaryOp) or type(op) not in (AddOp, SubOp, MulOp, DivOp):
            return
        pairs = [(op.lhs, op.rhs)]
        if op.has_trait(Commutative):
            pairs.append((op.rhs, op.lhs))
        for value, constant in pairs:
            host = self.host(value) if self.is_constant(constant) else None
            if host is None or value.type != op.res.type or not element_of(value.type).is_float:
                continue
            if self._attempt(lambda c=constant, h=host: self._fold_constant(op, c, h)):
                return

    def _fold_constant(self, op: BinaryOp, constant: SSAValue, host: _Host) -> bool:
        vector = self._channel_vector(op, constant, host)
        return vector is not None and self._apply(op, host, vector)

    def _attempt(self, fold: Callable[[], bool]) -> bool:
        """Try a fold and return whether it was done. Ops of a failed fold are removed."""
        before = len(self.made)
        if fold():
            return True
        for value in reversed([*self.made][before:]):
            del self.made[value]
            assert isinstance(value.owner, NnOp)
            Rewriter.erase_op(value.owner)
        return False

    def _channel_vector(self, op: BinaryOp, constant: SSAValue, host: _Host) -> SSAValue | None:
        """Return a constant as a vector with one number for each channel of the host's result; None
        if the constant varies along other axes."""
        writer = OpWriter(op, host.op, part=".b", made=self.made)
        if isinstance(constant.owner, SplatOp):
            return writer.splat(constant.owner.number, _element(constant), [host.channels])
        shape = shape_of(constant)
        axis = host.axis - (len(shape_of(host.op.results[0])) - len(shape))
        size = math.prod(shape)
        if size == 1 < host.channels:
            return writer.op(ExpandOp, writer.shaped(constant, [1]), shape=(host.channels,))
        is_vector = size == 1 or (axis >= 0 and shape[axis] == size)
        return writer.shaped(constant, [-1]) if is_vector else None

    def _apply(self, op: BinaryOp, host: _Host, vector: SSAValue) -> bool:
        """Apply the op ``op`` to the parameters of the host instead of its result, if the new
        parameters are finite. Returns whether that was done."""
        weights = OpWriter(op, host.op, part=".w", made=self.made)
        writer = OpWriter(op, host.op, part=".b", made=self.made)
        scale, shift = host.scale, host.shift
        if type(op) in (MulOp, DivOp):
            scale = self._scaled(host, type(op), vector, weights)
        if shift is not None:
            shift = writer.op(type(op), shift, vector)
        elif type(op) in (AddOp, SubOp):
            shift = vector if type(op) is AddOp else writer.op(NegOp, vector)
        return scale is not None and self._is_finite(shift) and self._put(host, op, scale, shift)

    def _scaled(
        self, host: _Host, kind: type[BinaryOp], vector: SSAValue, writer: OpWriter
    ) -> SSAValue | None:
        """Scale the host's weights by a vector or its reciprocal; None if one would not be
        finite."""
        most = self._magnitudes(host)
        found = self.constants.value(vector)
        factors = 1.0 if found is None else np.abs(widened(found).astype(np.float64))
        with np.errstate(all="ignore"):
            most = most * factors if kind is MulOp else most / factors
        if not (most <= element_of(host.scale.type).largest).all():
            return None
        scaled = writer.op(kind, host.scale, writer.shaped(vector, host.factor))
        self.largest[scaled] = most
        return scaled

    def _magnitudes(self, host: _Host) -> Array:
        """Return the largest weight magnitude of each channel; 1 if they are unknown."""
        value = host.scale
        if value in self.largest:
            return self.largest[value]
        found = self.constants.value(value)
        if found is None:
            return np.ones(1)
        array = widened(found)
        channels = array.ndim - len(host.factor) + host.factor.index(-1)
        axes = tuple(axis for axis in range(array.ndim) if axis != channels)
        most, least = array.max(axes, initial=0), array.min(axes, initial=0)
        return np.maximum(most, -least).astype(np.float64)

    def _is_finite(self, value: SSAValue | None) -> bool:
        """Return whether a vector is finite; True if it is absent or unknown."""
        array = None if value is None else self.constants.value(value)
        return array is None or bool(np.isfinite(widened(array)).all())

    # ** batch normalization **

    def fold_norm(self, op: NnOp) -> None:
        """Fold a batch normalization into the op before it, or split it into two ops."""
        if not isinstance(op, BatchNormOp) or not all(map(self.is_constant, op.operands[1:])):
            return
        host = self.host(op.x)
        if (
            host is None
            or host.axis != 1
            or not self._attempt(lambda: self._fold_norm_into(op, host))
        ):
            self._attempt(lambda: self._split_norm(op))

    def _fold_norm_into(self, op: BatchNormOp, host: _Host) -> bool:
        weights = OpWriter(op, host.op, part=".w", made=self.made)
        writer = OpWriter(op, host.op, part=".b", made=self.made)
        factor = _norm_factor(op, weights)
        shift = _norm_shift(op, factor, host.shift, writer)
        scale = self._scaled(host, MulOp, factor, weights)
        return scale is not None and self._is_finite(shift) and self._put(host, op, scale, shift)

    def _split_norm(self, op: BatchNormOp) -> bool:
        weights = OpWriter(op, op, part=".w", made=self.made)
        writer = OpWriter(op, op, part=".b", made=self.made)
        factor = _norm_factor(op, weights)
        shift = _norm_shift(op, factor, None, writer)
        if not (self._is_finite(factor) and self._is_finite(shift)):
            return False
        form = (-1, *[1] * (len(shape_of(op.x)) - 2))
        scaled = MulOp.make([op.x, weights.shaped(factor, form)], node=node_of(op))
        shifted = AddOp.make([scaled, writer.shaped(shift, form)], node=node_of(op))
        return self._replace([scaled, shifted], [op])

    # ** replacements **

    def _put(self, host: _Host, by: NnOp, scale: SSAValue, shift: SSAValue | None) -> bool:
        """Replace the host, and the op ``by`` after it, by one op of the host's kind with new
        parameters. Returns False if the judge of fusions rejects that."""
        op = host.op
        operands = [op.operands[0], scale, *(() if shift is None else (shift,)), *op.operands[3:]]
        kind: type[NnOp] = type(op)
        properties: Mapping[str, PyValue | None] = op.setting_properties
        if isinstance(op, MatmulOp) and shift is not None:
            kind, properties = FcOp, {"transpose_w": op.transpose_b, "sums": op.sums}
        return self._replace([kind.make(operands, node=node_of(op), **properties)], [op, by])

    def _replace(self, new: Sequence[NnOp], old: Sequence[NnOp]) -> bool:
        """Replace the ops ``old`` by ``new`` unless the pass's judge rejects the fusion. Returns
        whether they were replaced."""
        name, constants = FoldBatchNormPass.name, self.made
        is_made = self.judge.makes(name, new, old, constants=constants, gain="sure")
        if is_made and len(old) > 1:
            record_fusion(new[-1], name, old)
        if is_made:
            Rewriter.insert_op(new, InsertPoint.before(old[-1]))
            new[-1].results[0].name_hint = old[-1].results[0].name_hint
            old[-1].results[0].replace_all_uses_with(new[-1].results[0])
        for op in reversed(old if is_made else new):
            Rewriter.erase_op(op)
        return is_made


def _norm_factor(op: BatchNormOp, writer: OpWriter) -> SSAValue:
    """Emit scale / sqrt(variance + epsilon)."""
    epsilon = writer.splat(op.settings["epsilon"], _element(op.x), shape_of(op.variance))
    deviation = writer.op(SqrtOp, writer.op(AddOp, op.variance, epsilon))
    return writer.op(DivOp, op.scale, deviation)


def _norm_shift(
    op: BatchNormOp, factor: SSAValue, before: SSAValue | None, writer: OpWriter
) -> SSAValue:
    """Emit (before - mean) * factor + bias; an absent ``before`` is 0."""
    if before is None:
        return writer.op(SubOp, op.bias, writer.op(MulOp, op.mean, factor))
    centred = writer.op(SubOp, before, op.mean)
    return writer.op(AddOp, writer.op(MulOp, centred, factor), op.bias)


def _element(value: SSAValue) -> str:
    return element_of(value.type).name
