"""Fusions of convolutions with the ops before or after them.

    conv(pad x)  with zeros, in spatial dimensions     ->  conv x, with larger pads
    conv(batch_norm x, w, b)  without pads             ->  conv x w' b'
    conv(x[N, C, ..] * s[C, ..], w, b)                 ->  conv x (w * s[1, C, ..]) b
    conv1x1(conv x w b) v c                            ->  conv x (v w) (v b + c)

The last three compute their weights from constants; s may also divide x. Results differ by
rounding. If there are few channels between two convolutions, their fusion takes more operations, so
the costs are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import SSAValue

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, PyValue, is_float, shape_of, tensor_type
from tessella.dialects.nn.linear import ConvOp, MatmulOp
from tessella.dialects.nn.movement import PadOp, ReshapeOp
from tessella.dialects.nn.normalization import BatchNormOp
from tessella.dialects.nn.reduction import ReduceSumOp
from tessella.passes.fold_constants import will_be_constant
from tessella.passes.patterns.nodes import AnyValue, Node, either, op
from tessella.passes.patterns.pattern import Match, Pattern

x, b = AnyValue("x"), AnyValue("b")


def _constant(name: str) -> AnyValue:
    return AnyValue(name, where=will_be_constant)


# ** padding **


def _is_of_zeros(pad: PadOp) -> bool:
    """Return whether an `nn.pad` adds zeros in spatial dimensions only, and its sizes are known
    numbers."""
    low, high = pad.settings["low"], pad.settings["high"]
    sizes = all(isinstance(size, int) for size in (*low, *high))
    is_spatial = sizes and not any((*low[:2], *high[:2]))
    return is_spatial and (pad.settings["mode"], pad.settings["value"]) == ("constant", 0.0)


_PADDED = op(PadOp, x, name="pad", where=_is_of_zeros)
_CONV_OF_PADDED = either(op(ConvOp, _PADDED, AnyValue("w"), b), op(ConvOp, _PADDED, AnyValue("w")))


def _pad(m: Match) -> NnOp:
    added = m.op("pad").settings
    pads = (*added["low"][2:], *added["high"][2:])
    own = m.root.settings["pads"]
    settings = {**m.root.settings, "pads": tuple(map(sum, zip(own, pads, strict=True)))}
    return m.make(ConvOp, m["x"], m["w"], m.get("b"), **settings)


# ** constant weights **


def _is_plain(conv: ConvOp) -> bool:
    """Return whether a convolution of floats has one group."""
    return conv.settings["groups"] == 1 and is_float(tensor_type(conv.res).element_type)


def _is_unpadded(conv: ConvOp) -> bool:
    return _is_plain(conv) and not any(conv.settings["pads"])


def _is_pointwise(conv: ConvOp) -> bool:
    return _is_unpadded(conv) and set(shape_of(conv.w)[2:]) == {1}


def _conv(x: Node, w: str, b: str, name: str, where: Callable[[ConvOp], bool]) -> Node:
    weights = (_constant(w), _constant(b))
    return either(
        *(op(ConvOp, x, *some, name=name, where=where) for some in (weights, weights[:1]))
    )


_NORM = op(BatchNormOp, x, *map(_constant, ("scale", "bias", "mean", "variance")), name="norm")
_CONV_OF_NORM = _conv(_NORM, "w", "b", "conv", _is_unpadded)
_CONV_OF_CONV = _conv(_conv(x, "w", "b", "first", _is_plain), "v", "c", "second", _is_pointwise)


def _norm(m: Match) -> NnOp | None:
    w, channels = m["w"], shape_of(m["scale"])
    apart = (1, *channels, *[1] * (len(shape_of(w)) - 2))
    epsilon = m.splat(m.op("norm").settings["epsilon"], channels, m["variance"])
    deviation = m.make(ew.SqrtOp, m.make(ew.AddOp, m["variance"], epsilon).res)
    factor = m.make(ew.DivOp, m["scale"], deviation.res).res
    shift = m.make(ew.SubOp, m["bias"], m.make(ew.MulOp, m["mean"], factor).res).res
    scaled = m.make(ew.MulOp, w, m.reshaped(factor, apart)).res
    shifted = m.make(ew.MulOp, w, m.reshaped(shift, apart)).res
    sums = m.make(ReduceSumOp, shifted, axes=tuple(range(1, len(apart))), keepdims=False).res
    bias = _plus(m, sums, m.get("b"))
    return _with_weights(m, "conv", [scaled, bias], {})


_SCALED = either(*(op(k, x, _constant("s"), name="scaling") for k in (ew.MulOp, ew.DivOp)))
_CONV_OF_SCALED = _conv(_SCALED, "w", "b", "conv", _is_plain)


def _scale(m: Match) -> NnOp | None:
    """Return the convolution with scaled weights; None unless each channel of x has one factor."""
    scaling: NnOp = m.op("scaling")
    scaled, shape = scaling.results[0], shape_of(m["s"])
    _, channels, *extents = shape_of(scaled)
    factors = (1, channels, *[1] * len(extents))
    padded = (*[1] * (len(factors) - len(shape)), *shape)
    if padded != factors or m["x"].type != scaled.type:
        return None
    weights = m.make(type(scaling), m["w"], m.reshaped(m["s"], factors)).results[0]
    bias = m.get("b")
    return _with_weights(m, "conv", [weights, *([] if bias is None else [bias])], {})


def _joined(m: Match) -> NnOp | None:
    w, (outputs, inner) = m["w"], shape_of(m["v"])[:2]
    v = m.reshaped(m["v"], (outputs, inner))
    flat = m.make(ReshapeOp, w, shape=(inner, math.prod(shape_of(w)[1:])))
    product = m.make(MatmulOp, v, flat.res, transpose_b=False).res
    weights = [m.reshaped(product, (outputs, *shape_of(w)[1:]))]
    if (b := m.get("b")) is not None:
        column = m.make(ReshapeOp, b, shape=(inner, 1)).res
        moved = m.make(MatmulOp, v, column, transpose_b=False).res
        weights.append(_plus(m, m.make(ReshapeOp, moved, shape=(outputs,)).res, m.get("c")))
    elif (c := m.get("c")) is not None:
        weights.append(c)
    steps = (m.op(name).settings["strides"] for name in ("first", "second"))
    return _with_weights(
        m, "first", weights, {"strides": tuple(a * b for a, b in zip(*steps, strict=True))}
    )


def _plus(m: Match, value: SSAValue, other: SSAValue | None) -> SSAValue:
    return value if other is None else m.make(ew.AddOp, value, other).res


def _with_weights(
    m: Match, name: str, weights: Sequence[SSAValue], settings: Mapping[str, PyValue]
) -> NnOp | None:
    """Return a convolution of x with new weights, and the settings of the convolution ``name`` in
    the match; None if a weight is not finite."""
    if not all(map(m.is_finite, weights)):
        return None
    return m.make(ConvOp, m["x"], *weights, **{**m.op(name).settings, **settings})


PATTERNS = (
    Pattern("pad-conv", _CONV_OF_PADDED, _pad),
    Pattern("batch-norm-conv", _CONV_OF_NORM, _norm),
    Pattern("conv-conv", _CONV_OF_CONV, _joined, gain="open"),
    Pattern("scaled-operand", _CONV_OF_SCALED, _scale, is_late=True),
)
