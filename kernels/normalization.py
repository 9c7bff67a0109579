"""Kernels of normalizations: reductions and elementwise statements of one kernel."""

from __future__ import annotations

import math as numbers
from collections.abc import Mapping, Sequence
from functools import reduce

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn import normalization
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Body, Form, KernelBuilder, Scalars
from tessella.kernels.elements import FLOATING, with_code
from tessella.kernels.reduction import average, averaged, inner_type, kept_shape, reduce_axes
from tessella.kernels.registry import native
from tessella.support.decisions import decided_min, known
from tessella.support.sizes import Size

Args = Sequence[SSAValue]


def _square(s: Scalars, a: Args) -> SSAValue:
    return s.op(arith.MulfOp(a[0], a[0]))


def _centred_square(s: Scalars, a: Args) -> SSAValue:
    centred = s.op(arith.SubfOp(a[0], a[1]))
    return s.op(arith.MulfOp(centred, centred))


def _inverse_root(s: Scalars, variance: SSAValue, epsilon: float) -> SSAValue:
    root = s.op(math.SqrtOp(s.op(arith.AddfOp(variance, s.like(epsilon, variance)))))
    return s.op(arith.DivfOp(s.like(1, root), root))


def _moments(k: KernelBuilder, x: SSAValue, axes: Sequence[int]) -> tuple[SSAValue, SSAValue]:
    """Return mean and variance over axes, in two passes.

    The mean is computed from differences to the first element. If the values are close together and
    far from zero, their differences are exact and the sum stays small.
    """
    count = numbers.prod(shape_of(x)[d] for d in axes)
    type = inner_type(x, kept_shape(x, axes))
    mean = _mean(k, x, axes, type)
    squares = reduce_axes(k, "+", [x, mean], axes, type, _centred_square, keepdims=False)
    return mean, averaged(k, squares, count)


def _mean(k: KernelBuilder, x: SSAValue, axes: Sequence[int], type: Tensor) -> SSAValue:
    names, shape = _names(x), shape_of(x)
    kept = {n: shape[d] for d, n in enumerate(names) if d not in axes}
    first: list[Form] = [0 if d in axes else n for d, n in enumerate(names)]
    total = k.contract(
        "+",
        kept,
        {names[d]: shape[d] for d in sorted(axes)},
        [(x, list(names)), (x, first)],
        (type, list(kept)),
        lambda s, a: s.op(arith.SubfOp(a[0], a[1])),
    )
    count = numbers.prod(shape[d] for d in axes)

    def mean(s: Scalars, a: Args) -> SSAValue:
        return s.op(arith.AddfOp(average(s, a[0], count), a[1]))

    inputs: list[tuple[SSAValue, Sequence[Form]]] = [(total, list(kept)), (x, first)]
    return k.contract("=", kept, {}, inputs, (type, list(kept)), mean)


def _names(x: SSAValue) -> list[str]:
    return [f"d{i}" for i in range(len(shape_of(x)))]


def _affine(
    k: KernelBuilder,
    op: normalization.NormalizationOp,
    x: SSAValue,
    statistics: Sequence[SSAValue],
    axes: Sequence[int],
    parameters: Sequence[tuple[SSAValue, Sequence[Form]]],
    epsilon: float,
) -> SSAValue:
    """Emit (x - mean) / sqrt(variance + epsilon) * scale + bias; mean and bias are optional."""
    names = _names(x)
    kept = [n for d, n in enumerate(names) if d not in axes]
    has_mean = len(statistics) == 2

    def body(s: Scalars, a: Args) -> SSAValue:
        value, rest = a[0], list(a[1:])
        if has_mean:
            value = s.op(arith.SubfOp(value, rest.pop(0)))
        value = s.op(arith.MulfOp(value, _inverse_root(s, rest.pop(0), epsilon)))
        value = s.op(arith.MulfOp(value, rest.pop(0)))
        return s.op(arith.AddfOp(value, rest.pop(0))) if rest else value

    return k.contract(
        "=",
        dict(zip(names, shape_of(x), strict=True)),
        {},
        [(x, list(names)), *((v, list(kept)) for v in statistics), *parameters],
        (k.result_type(op), list(names)),
        body,
    )


def _trailing(x: SSAValue, value: SSAValue) -> tuple[SSAValue, list[Form]]:
    """Return a parameter with its access: its dimensions are the last ones of x, broadcast as in
    NumPy."""
    names, shape = _names(x), shape_of(value)
    skip = len(names) - len(shape)
    return value, [
        names[skip + d] if n == shape_of(x)[skip + d] else 0 for d, n in enumerate(shape)
    ]


@native(normalization.LayerNormOp, "layer_norm", NCHW, elements=FLOATING)
def layer_norm(
    k: KernelBuilder,
    op: normalization.LayerNormOp,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue | None = None,
) -> SSAValue:
    """Emit mean and variance over the last axes, then the normalized and scaled value."""
    settings = op.settings
    axes = range(settings["axis"], len(shape_of(x)))
    moments = _moments(k, x, axes)
    parameters = [_trailing(x, v) for v in (scale, bias) if v is not None]
    return _affine(k, op, x, moments, axes, parameters, settings["epsilon"])


@native(normalization.RmsNormOp, "rms_norm", NCHW, elements=FLOATING)
def rms_norm(
    k: KernelBuilder, op: normalization.RmsNormOp, x: SSAValue, scale: SSAValue
) -> SSAValue:
    """Emit x / sqrt(mean(x²) + epsilon) * scale, with the mean over the last axes."""
    settings = op.settings
    axes = range(settings["axis"], len(shape_of(x)))
    type = inner_type(x, kept_shape(x, axes))
    total = reduce_axes(k, "+", [x], axes, type, _square, keepdims=False)
    mean = averaged(k, total, numbers.prod(shape_of(x)[d] for d in axes))
    return _affine(k, op, x, [mean], axes, [_trailing(x, scale)], settings["epsilon"])


@native(normalization.GroupNormOp, "group_norm", elements=FLOATING)
def group_norm(
    k: KernelBuilder,
    op: normalization.GroupNormOp,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue,
) -> SSAValue:
    """Emit sums over each channel, sums of the channels of each group, then an elementwise
    statement."""
    settings, c = op.settings, _Channels(k, x, op.settings["groups"])
    count = c.count * numbers.prod(shape_of(x)[2:])

    def difference(s: Scalars, a: Args) -> SSAValue:
        return s.op(arith.SubfOp(a[0], a[1]))

    def mean_of(s: Scalars, a: Args) -> SSAValue:
        return s.op(arith.AddfOp(average(s, a[0], count), a[1]))

    def gain_of(s: Scalars, a: Args) -> SSAValue:
        variance = average(s, a[0], count)
        return s.op(arith.MulfOp(_inverse_root(s, variance, settings["epsilon"]), a[1]))

    def body(s: Scalars, a: Args) -> SSAValue:
        return s.op(arith.AddfOp(s.op(arith.MulfOp(difference(s, a), a[2])), a[3]))

    total = c.of_group(c.sum([(x, c.every), (x, c.first)], difference))
    mean = c.to_channels(c.map(c.groups, [(total, c.group), (x, c.first)], mean_of))
    squares = c.of_group(c.sum([(x, c.every), (mean, c.each)], _centred_square))
    gain = c.map(c.free, [(squares, c.group), (scale, c.each[1:])], gain_of)
    parameters = [(mean, c.each), (gain, c.each), (bias, c.each[1:])]
    free, out = {**c.free, **c.pixels}, (k.result_type(op), c.every)
    return k.contract("=", free, {}, [(x, c.every), *parameters], out, body)


Inputs = Sequence[tuple[SSAValue, Sequence[Form]]]


class _Channels:
    """The channels of x[N, C, ..]; ``count * g + k`` is the k-th channel of group g.

    The loops that the statements share run over groups, and vector lanes over channels.
    """

    def __init__(self, k: KernelBuilder, x: SSAValue, groups: int) -> None:
        images, channels, *spatial = shape_of(x)
        self.builder, self.x, self.count = k, x, known(channels // groups)
        self.groups: dict[str, Size] = {"n": images, "g": groups}
        self.free: dict[str, Size] = {**self.groups, "k": self.count}
        self.pixels = {f"d{d}": size for d, size in enumerate(spatial, 2)}
        first = Linear.of("g", self.count)
        self.group: list[Form] = list(self.groups)
        self.each: list[Form] = ["n", first + Linear.of("k")]
        self.every: list[Form] = [*self.each, *self.pixels]
        self.first: list[Form] = ["n", first, *[0] * len(spatial)]

    def sum(self, inputs: Inputs, body: Body) -> SSAValue:
        """Return the sum of the body's values over the pixels of each channel."""
        return self._made("+", self.free, self.pixels, inputs, body)

    def map(self, free: Mapping[str, Size], inputs: Inputs, body: Body) -> SSAValue:
        """Return the body's value for each group, or for each channel if ``free`` has the
        index k."""
        return self._made("=", free, {}, inputs, body)

    def of_group(self, sums: SSAValue) -> SSAValue:
        """Return the sum of ``sums`` over the channels of each group."""
        if self.count == 1:
            return sums
        return self._made("+", self.groups, {"k": self.count}, [(sums, self.each)], _itself)

    def to_channels(self, value: SSAValue) -> SSAValue:
        """Return each group's value for all channels of the group, a tensor that vectors can be
        loaded from."""
        if self.count == 1:
            return value
        return self.map(self.free, [(value, self.group)], _itself)

    def _made(
        self,
        aggregation: str,
        free: Mapping[str, Size],
        reduced: Mapping[str, Size],
        inputs: Inputs,
        body: Body,
    ) -> SSAValue:
        images, *sizes = free.values()
        out = inner_type(self.x, [images, numbers.prod(sizes)])
        forms = self.each if "k" in free else self.group
        return self.builder.contract(aggregation, free, reduced, inputs, (out, forms), body)


def _itself(s: Scalars, a: Args) -> SSAValue:
    return a[0]


@native(normalization.BatchNormOp, "batch_norm", elements=FLOATING)
def batch_norm(
    k: KernelBuilder,
    op: normalization.BatchNormOp,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue,
    mean: SSAValue,
    variance: SSAValue,
) -> SSAValue:
    """Emit an elementwise statement with the parameters of each channel."""
    axes = [d for d in range(len(shape_of(x))) if d != 1]
    parameters: list[tuple[SSAValue, Sequence[Form]]] = [(scale, ["d1"]), (bias, ["d1"])]
    return _affine(k, op, x, [mean, variance], axes, parameters, op.settings["epsilon"])


def over_power(s: Scalars, x: SSAValue, base: SSAValue, exponent: float) -> SSAValue:
    """Return x / base^exponent, by roots if the exponent is a small multiple of 1/4."""
    quarters = 4 * exponent
    if not 0 < quarters <= MOST_QUARTERS or quarters != int(quarters):
        return s.op(arith.MulfOp(x, s.op(math.PowFOp(base, s.like(-exponent, base)))))
    whole, rest = divmod(int(quarters), 4)
    factors = [base] * whole
    if rest:
        root = s.op(math.SqrtOp(base))
        factors += [root] * (rest >= 2) + [s.op(math.SqrtOp(root))] * (rest % 2)
    return s.op(arith.DivfOp(x, reduce(lambda a, b: s.op(arith.MulfOp(a, b)), factors)))


MOST_QUARTERS = 8
"""The largest exponent that is computed by roots, in quarters: 8 is an exponent of 2. For larger
exponents, a power by logarithms is faster."""


@native(normalization.LrnOp, "lrn", NHWC, NCHW, elements=with_code("math.powf"))
def lrn(k: KernelBuilder, op: normalization.LrnOp, x: SSAValue) -> SSAValue:
    """Emit the sums S[n, c, ..] = +(X[n, c + k - before, ..]²), then X * (bias + alpha / size *
    S)^-beta."""
    settings, names, type = op.settings, _names(x), k.result_type(op)
    size, channels = settings["size"], shape_of(x)[1]
    # limit the window to the number of channels
    before, after = (decided_min(n, channels - 1) for n in ((size - 1) // 2, size // 2))
    window = Linear.of("d1") + Linear.of("k") - before
    free = dict(zip(names, shape_of(x), strict=True))
    total = k.contract(
        "+",
        free,
        {"k": before + 1 + after},
        [(x, [names[0], window, *names[2:]])],
        (type, list(names)),
        _square,
    )

    def body(s: Scalars, a: Args) -> SSAValue:
        scaled_sum = s.op(arith.MulfOp(a[1], s.like(settings["alpha"] / size, a[1])))
        base = s.op(arith.AddfOp(scaled_sum, s.like(settings["bias"], a[1])))
        return over_power(s, a[0], base, settings["beta"])

    return k.map([x, total], tensor_type(total), body)
