"""Kernels of transposed convolutions and of Col2Im: one statement for each phase of the output.

Along one dimension, output ``y`` is the sum over taps ``i`` of ``x[q] * w[i]`` where ``stride * q =
y + pad - dilation * i``. Outputs with equal residues modulo the stride use the same taps: every
``stride / gcd(stride, dilation)``-th tap, or none. The outputs of one residue are thus a
convolution of the input with these taps. Residues that read the same elements of the input form one
phase, if their positions and taps are evenly spaced: a statement in which the residue is an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects.layout import ANY_LAYOUT, NCHW, NHWC
from tessella.dialects.nn import linear, pooling
from tessella.dialects.nn.core import Array, Tensor, shape_of
from tessella.dialects.tile import Linear, access
from tessella.kernels.builder import Body, Form, KernelBuilder, Scalars
from tessella.kernels.elements import SAME
from tessella.kernels.linear import add_bias, multiply
from tessella.kernels.reduction import first, inner_type
from tessella.kernels.registry import native
from tessella.support.decisions import known, known_all
from tessella.support.sizes import Size, estimated

MAX_STRIDE = 256
"""The largest stride of a native kernel."""
MAX_PHASES = 64
"""The maximum number of statements of one kernel: compile time grows with them."""
FEW_CHANNELS = 16
"""The number of output channels per group from which `col2im` does not apply: the number of lanes
of the widest f32 vectors, which the channels alone then fill."""
MAX_PRODUCTS = 1 << 24
"""Limit on the elements of `col2im`'s intermediate tensor: 64 MiB of f32. Usual sizes stand for
symbols."""


# ** phases **


@dataclass(frozen=True)
class Residue:
    """The outputs ``stride * u + position``, ``u < extent``, of one dimension.

    They read the input from element ``u + shift`` on, with ``taps`` taps of the kernel, from number
    ``tap`` down.
    """

    position: int
    extent: int
    taps: int = 0
    tap: int = 0
    shift: int = 0

    @property
    def reading(self) -> tuple[int, int, int]:
        """The fields that are equal for residues which read the same elements."""
        return self.extent, self.taps, self.shift

    def distance(self, other: Residue) -> tuple[int, int]:
        """Return the distance to another residue's position and tap."""
        return other.position - self.position, other.tap - self.tap


@dataclass(frozen=True)
class ResidueSet:
    """Residues of one dimension in one statement.

    The accesses to output, input and kernel are affine expressions of the indices ``x`` (< extent),
    ``r`` (< residues) and ``k`` (< taps).
    """

    extent: int
    residues: int
    taps: int
    out: Linear
    source: Linear
    weight: Linear


def residues(stride: int, dilation: int, pad: int, taps: int, extent: int) -> Iterator[Residue]:
    """Yield the residues of an output's dimension.

    Taps descend, so that the input's elements ascend as in a convolution.
    """
    common = gcd(stride, dilation)
    step = stride // common
    inverse = pow(dilation // common, -1, step)
    for position in range(min(stride, extent)):
        count = -(-(extent - position) // stride)
        multiple, rest = divmod(position + pad, common)
        own = range(multiple * inverse % step, taps, step)
        if rest or not own:
            yield Residue(position, count)
        else:
            shift = (position + pad - dilation * own[-1]) // stride
            yield Residue(position, count, len(own), own[-1], shift)


def grouped(listed: Iterator[Residue]) -> list[list[Residue]]:
    """Group residues that read the same elements of the input and have evenly spaced positions and
    taps."""
    groups: list[list[Residue]] = []
    for residue in listed:
        for group in groups:
            head, *tail = group
            evenly = not tail or group[-1].distance(residue) == head.distance(tail[0])
            if evenly and head.reading == residue.reading:
                group.append(residue)
                break
        else:
            groups.append([residue])
    return groups


@dataclass(frozen=True)
class Windows:
    """The windows that are added up along a spatial dimension of an output."""

    stride: int
    dilation: int
    pad: int
    taps: int
    extent: int

    def phases(self, dim: int) -> list[ResidueSet]:
        """Return the phases of the dimension, the statements in which its outputs are computed. The
        names of their indices end in the dimension's number ``dim``."""
        listed = residues(self.stride, self.dilation, self.pad, self.taps, self.extent)
        return [_phase(group, self.stride, self.dilation, dim) for group in grouped(listed)]


def phases(windows: Sequence[Windows]) -> list[list[ResidueSet]]:
    """Return the phases of each dimension."""
    return [each.phases(dim) for dim, each in enumerate(windows)]


def windows_of(op: linear.ConvTransposeOp) -> list[Windows]:
    """Return the windows of each spatial dimension."""
    s, rank = op.settings, len(op.settings["strides"])
    taps, extents = known_all(shape_of(op.w)[2:]), known_all(shape_of(op.res)[2:])
    columns = zip(s["strides"], s["dilations"], s["pads"][:rank], taps, extents, strict=True)
    return [Windows(*column) for column in columns]


def _phase(group: Sequence[Residue], stride: int, dilation: int, dim: int) -> ResidueSet:
    head, common = group[0], gcd(stride, dilation)
    position, tap = head.distance(group[1]) if len(group) > 1 else (0, 0)
    x, r, k = f"x{dim}", f"r{dim}", f"k{dim}"
    return ResidueSet(
        head.extent,
        len(group),
        head.taps,
        out=Linear.of(x, stride) + Linear.of(r, position) + head.position,
        source=Linear.of(x) + Linear.of(k, dilation // common) + head.shift,
        weight=Linear.of(r, tap) - Linear.of(k, stride // common) + head.tap,
    )


# ** statements **


@dataclass(frozen=True)
class Channels:
    """The channels of a transposed convolution, by index: the group ``g``, and the channels ``c``
    of the input and ``o`` of the output in a group."""

    groups: int
    per_in: int
    per_out: int

    @staticmethod
    def of(op: linear.ConvTransposeOp) -> Channels:
        """Return the channels of an op."""
        groups, (inputs, per_out, *_) = op.settings["groups"], shape_of(op.w)
        return Channels(groups, known(inputs // groups), known(per_out))

    @property
    def ranges(self) -> dict[str, int]:
        """The ranges of the indices ``g``, ``c`` and ``o``."""
        return {"g": self.groups, "c": self.per_in, "o": self.per_out}

    @property
    def source(self) -> Linear:
        """The number of the input's channel, as an affine expression of ``g`` and ``c``."""
        return Linear.of("g", self.per_in) + Linear.of("c")

    @property
    def out(self) -> Linear:
        """The number of the output's channel, as an affine expression of ``g`` and ``o``."""
        return Linear.of("g", self.per_out) + Linear.of("o")


@dataclass(frozen=True)
class Summand:
    """The summand of a phase: ``body`` on elements of ``operands``. The sum is over the taps, and
    over the indices ``reduced``."""

    operands: Sequence[tuple[SSAValue, Sequence[Form]]]
    body: Body
    reduced: Mapping[str, Size]


def _limits(op: linear.ConvTransposeOp) -> str | None:
    return _limits_of(windows_of(op))


def _limits_of(windows: Sequence[Windows]) -> str | None:
    most = max(each.stride for each in windows)
    if most > MAX_STRIDE:
        return f"no native kernel for stride {most}, only up to {MAX_STRIDE}"
    count = prod(map(len, phases(windows)))
    if count > MAX_PHASES:
        return f"its {count} phases are more than the {MAX_PHASES} of a native kernel"
    return None


def _col2im_limits(op: linear.ConvTransposeOp) -> str | None:
    channels = Channels.of(op)
    if channels.per_out >= FEW_CHANNELS:
        return f"its {channels.per_out} channels fill vectors without its taps"
    batch, _, *extents = shape_of(op.x)
    count = prod((batch, *extents, channels.groups, *shape_of(op.w)[1:]))
    if estimated(count) > MAX_PRODUCTS:
        return f"its {count} products are more than the {MAX_PRODUCTS} that are kept at once"
    return _limits(op)


@native(linear.ConvTransposeOp, "conv_transpose", NHWC, applies=_limits, operands={1: ANY_LAYOUT})
def conv_transpose(
    k: KernelBuilder,
    op: linear.ConvTransposeOp,
    x: SSAValue,
    w: SSAValue,
    b: SSAValue | None = None,
) -> SSAValue:
    """Emit a sum for each phase, then add B. With stride 2, for example: R[n, g*O + o, 2*x + r, ..]
    = +(X[n, g*C + c, x + k, ..] * W[g*C + c, o, r - 2*k + 2, ..])."""
    channels = Channels.of(op)

    def summand(parts: Sequence[ResidueSet]) -> Summand:
        ranges = {**_residues(parts), **_taps(parts), **channels.ranges}
        taps = (part.weight for part in parts)
        weight = _gathered(k, w, ranges, [channels.source, "o", *taps])
        source = [Linear.of("n"), channels.source, *(part.source for part in parts)]
        operands = [(x, source), (weight, list(ranges))]
        return Summand(operands, multiply, {"c": channels.per_in})

    return _transposed(k, op, summand, b)


@native(linear.ConvTransposeOp, "col2im", NHWC, applies=_col2im_limits, operands={1: ANY_LAYOUT})
def col2im(
    k: KernelBuilder,
    op: linear.ConvTransposeOp,
    x: SSAValue,
    w: SSAValue,
    b: SSAValue | None = None,
) -> SSAValue:
    """Emit the products P[n, g, q, .., i, .., o] = +(X[n, g*C + c, q, ..] * W[g*C + c, o, i, ..]),
    with all taps in the vectors.

    Each phase then sums the products of its taps, and B is added.
    """
    channels = Channels.of(op)
    batch, _, *extents = shape_of(x)
    positions = {f"q{dim}": extent for dim, extent in enumerate(extents)}
    taps = {f"i{dim}": extent for dim, extent in enumerate(shape_of(w)[2:])}
    ranges = {"g": channels.groups, "c": channels.per_in, **taps, "o": channels.per_out}
    weight = _gathered(k, w, ranges, [channels.source, "o", *taps])
    free = {"n": batch, "g": channels.groups, **positions, **taps, "o": channels.per_out}
    products = k.contract(
        "+",
        free,
        {"c": channels.per_in},
        [(x, ["n", channels.source, *positions]), (weight, list(ranges))],
        (inner_type(x, list(free.values())), list(free)),
        multiply,
    )

    def summand(parts: Sequence[ResidueSet]) -> Summand:
        at = [*(part.source for part in parts), *(part.weight for part in parts)]
        return Summand([(products, ["n", "g", *at, "o"])], first, {})

    return _transposed(k, op, summand, b)


def _transposed(
    k: KernelBuilder,
    op: linear.ConvTransposeOp,
    summand: Callable[[Sequence[ResidueSet]], Summand],
    b: SSAValue | None,
) -> SSAValue:
    """Return the result of a transposed convolution: a statement for each phase, with the summand
    that ``summand`` returns, plus the bias ``b`` if there is one."""
    channels = Channels.of(op)
    outer = {"n": shape_of(op.res)[0], "g": channels.groups, "o": channels.per_out}
    at = [Linear.of("n"), channels.out]
    result = _by_phase(k, k.result_type(op), windows_of(op), outer, at, summand)
    return result if b is None else add_bias(k, result, b, 1)


@native(
    pooling.Col2imOp,
    "col2im",
    NCHW,
    elements=SAME,
    applies=lambda op: _limits_of(_windows_of_columns(op)),
)
def columns(k: KernelBuilder, op: pooling.Col2imOp, x: SSAValue) -> SSAValue:
    """Emit a sum for each phase. With stride 2, for example: R[n, c, 2*x + r, ..] = +(X[n, c, r -
    2*k + 2, .., x + k, ..])."""

    def summand(parts: Sequence[ResidueSet]) -> Summand:
        at = [*(part.weight for part in parts), *(part.source for part in parts)]
        return Summand([(x, ["n", "c", *at])], first, {})

    batch, channels, *_ = shape_of(op.res)
    outer = {"n": batch, "c": channels}
    return _by_phase(k, k.result_type(op), _windows_of_columns(op), outer, list(outer), summand)


def _windows_of_columns(op: pooling.Col2imOp) -> list[Windows]:
    s, rank = op.settings, len(op.settings["image"])
    taps = known_all(shape_of(op.x)[2 : 2 + rank])
    listed = zip(s["strides"], s["dilations"], s["starts"], taps, s["image"], strict=True)
    return [Windows(*column) for column in listed]


def _by_phase(
    k: KernelBuilder,
    type: Tensor,
    windows: Sequence[Windows],
    outer: Mapping[str, Size],
    at: Sequence[Form],
    summand: Callable[[Sequence[ResidueSet]], Summand],
) -> SSAValue:
    """Add a statement for each phase, and return the result. A phase without taps is filled with
    zeros.

    ``at`` gives the results' position in the dimensions before the spatial ones, by the indices
    ``outer``.
    """

    def zero(s: Scalars, _: Sequence[SSAValue]) -> SSAValue:
        return s.constant(0, k.computed(type.element_type))

    result = k.empty(type)
    for parts in product(*phases(windows)):
        free = {**outer, **_residues(parts)}
        free |= {f"x{dim}": part.extent for dim, part in enumerate(parts)}
        out = type, [*at, *(part.out for part in parts)]
        if all(part.taps for part in parts):
            each = summand(parts)
            reduced = {**_taps(parts), **each.reduced}
            result = k.contract("+", free, reduced, each.operands, out, each.body, init=result)
        else:
            result = k.contract("=", free, {}, [], out, zero, init=result)
    return result


def _residues(parts: Sequence[ResidueSet]) -> dict[str, int]:
    return {f"r{dim}": part.residues for dim, part in enumerate(parts)}


def _taps(parts: Sequence[ResidueSet]) -> dict[str, int]:
    return {f"k{dim}": part.taps for dim, part in enumerate(parts)}


def _gathered(
    k: KernelBuilder, w: SSAValue, ranges: Mapping[str, Size], forms: Sequence[Form]
) -> SSAValue:
    """Return the tensor T[ranges] = W[forms]. A constant W is gathered at compile time, so that T
    can be packed."""
    names, shape = list(ranges), tuple(ranges.values())

    def rearranged(array: Array) -> Array:
        grid = dict(zip(names, np.indices(known_all(shape), sparse=True), strict=True))
        at = [
            known(form.constant) + sum(grid[n] * c for n, c in form.terms)
            for form in access(*forms)
        ]
        return np.ascontiguousarray(array[tuple(at)])

    derived = k.derived(w, shape, rearranged)
    if derived is not None:
        return derived
    return k.contract("=", ranges, {}, [(w, forms)], (inner_type(w, shape), names), first)
