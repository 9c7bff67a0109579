"""Normalizations over the last axes, from their pieces.

    c = x - mean x;  s = sqrt(mean(c^2) + epsilon)
    c / s * scale + bias                                       ->  layer_norm x scale bias
    g = scale / s;  x * g + (bias - mean x * g)                ->  layer_norm x scale bias
    x / sqrt(mean(x^2) + epsilon) * scale                      ->  rms_norm x scale
    x[N, C, ..]: reshape to [N, G, ..], group_norm by G, reshape to [N, C, ..], * scale[C] + bias[C]
                                                               ->  group_norm x scale bias

Scale, bias and epsilon may be missing. Scale and bias may vary only along the normalized axes.
Others are not parameters: they scale and shift the result of the norm.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.movement import ReshapeOp
from tessella.dialects.nn.normalization import GroupNormOp, LayerNormOp, RmsNormOp
from tessella.dialects.nn.reduction import ReduceMeanOp
from tessella.passes.patterns.nodes import AnyValue, Node, Number, Product, either, op
from tessella.passes.patterns.pattern import Match, Pattern
from tessella.support.decisions import is_multiple
from tessella.support.sizes import Size

x, scale, bias = AnyValue("x"), AnyValue("scale"), AnyValue("bias")


def _is_trailing(mean: ReduceMeanOp) -> bool:
    """Return whether a mean is over the last axes, which keep size 1."""
    axes, rank = sorted(mean.settings["axes"]), len(shape_of(mean.x))
    return bool(axes) and axes == list(range(axes[0], rank)) and mean.settings["keepdims"]


def _mean(of: Node, name: str) -> Node:
    return op(ReduceMeanOp, of, name=name, where=_is_trailing)


def _square(of: Node) -> Node:
    return either(op(ew.MulOp, of, of), op(ew.PowOp, of, 2.0))


def _root(of: Node) -> Node:
    """Return a node for sqrt(of + epsilon), or for sqrt(of) without an epsilon."""
    return op(ew.SqrtOp, either(op(ew.AddOp, of, Number(name="epsilon")), of))


def _over(value: Node, divisor: Node) -> Node:
    """Return a node for value / divisor * scale; a scale with equal elements is bound as the number
    ``factor``."""
    return either(
        Product((value, scale), over=(divisor,)),
        Product((value,), over=(divisor,), scale="factor"),
    )


_MEAN = _mean(x, "mean")
_CENTRED = op(ew.SubOp, x, _MEAN)
_DEVIATION = _root(_mean(_square(_CENTRED), "square"))
_UNIT = _over(_CENTRED, _DEVIATION)
_LAYER_NORM = either(op(ew.AddOp, _UNIT, bias), _UNIT)

_GAIN = either(
    Product((scale,), over=(_DEVIATION,)), Product((), over=(_DEVIATION,), scale="factor")
)
_FOLDED_LAYER_NORM = op(
    ew.AddOp, op(ew.MulOp, x, _GAIN), op(ew.SubOp, bias, op(ew.MulOp, _MEAN, _GAIN))
)

_RMS_NORM = _over(x, _root(_mean(_square(x), "square")))


def _first_axis(m: Match) -> int | None:
    """Return the first normalized axis; None if mean and variance are over different axes."""
    means = [m.op(name) for name in ("mean", "square") if m.get(name) is not None]
    first = {min(mean.settings["axes"]) for mean in means}
    return first.pop() if len(first) == 1 else None


def _varies_from(axis: int, value: SSAValue, x: SSAValue) -> bool:
    """Return whether a value that broadcasts to x varies only along the dimension ``axis`` and
    those after it."""
    shape, rank = shape_of(value), len(shape_of(x))
    return all(size == 1 or rank - len(shape) + d >= axis for d, size in enumerate(shape))


def _normalization(m: Match, kind: type[NnOp]) -> NnOp | None:
    x, axis = m["x"], _first_axis(m)
    parameters = [value for value in (m.get("scale"), m.get("bias")) if value is not None]
    if axis is None or m.shape != shape_of(x):
        return None
    if not all(_varies_from(axis, value, x) for value in parameters):
        return None
    if m.get("scale") is None:
        parameters.insert(0, m.splat(m.number("factor"), shape_of(x)[axis:], x))
    return m.make(kind, x, *parameters, axis=axis, epsilon=m.number("epsilon", 0.0))


# ** groups of channels **


def _is_image(value: SSAValue) -> bool:
    return len(shape_of(value)) > 2


def _is_column(value: SSAValue) -> bool:
    return shape_of(value)[-1:] == (1,)


_IMAGE = AnyValue("x", where=_is_image)
_OF_GROUPS = op(GroupNormOp, op(ReshapeOp, _IMAGE, name="grouped"), 1.0, 0.0, name="norm")
_SCALED = op(ew.MulOp, op(ReshapeOp, _OF_GROUPS), AnyValue("scale", where=_is_column))
_GROUP_NORM = op(ew.AddOp, _SCALED, AnyValue("bias", where=_is_column))


def _group_norm(m: Match) -> NnOp | None:
    """Return a group normalization of x with a scale and bias for each channel; None if the shapes
    do not match."""
    shape, grouped = shape_of(m["x"]), shape_of(m["grouped"])
    groups = m.op("norm").settings["groups"]
    if m.shape != shape or grouped[:2] != (shape[0], groups):
        return None
    parameters = [m["scale"], m["bias"]]
    if not is_multiple(shape[1], groups):
        return None
    if not all(_is_of_channels(value, shape) for value in parameters):
        return None
    parameters = [m.reshaped(value, shape[1:2]) for value in parameters]
    epsilon = m.op("norm").settings["epsilon"]
    return m.make(GroupNormOp, m["x"], *parameters, groups=groups, epsilon=epsilon)


def _is_of_channels(value: SSAValue, shape: Sequence[Size]) -> bool:
    """Return whether a value that broadcasts to x[N, C, ..] holds one number for each channel."""
    _, channels, *spatial = shape
    padded = (1,) * (len(shape) - len(shape_of(value))) + shape_of(value)
    return padded == (1, channels, *[1] * len(spatial))


PATTERNS = (
    Pattern("group-norm", _GROUP_NORM, _group_norm),
    Pattern("layer-norm", _LAYER_NORM, lambda m: _normalization(m, LayerNormOp)),
    Pattern("layer-norm-folded", _FOLDED_LAYER_NORM, lambda m: _normalization(m, LayerNormOp)),
    Pattern("rms-norm", _RMS_NORM, lambda m: _normalization(m, RmsNormOp)),
)
