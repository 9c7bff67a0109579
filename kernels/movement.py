"""Kernels that move elements: elementwise statements that copy, with different accesses to operand
and result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product, starmap
from math import prod

from xdsl.ir import SSAValue

from tessella.dialects.layout import ANY_LAYOUT, NCHW
from tessella.dialects.nn import movement
from tessella.dialects.nn.core import NnOp, Tensor, dtype_of, shape_of
from tessella.dialects.sizes import dims
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Form, KernelBuilder
from tessella.kernels.cost import copying, no_cost
from tessella.kernels.elements import MOVED
from tessella.kernels.reduction import first
from tessella.kernels.registry import VIEW_KERNEL, native
from tessella.runtime.host.values import saturate
from tessella.support.decisions import are_ordered, is_multiple, known
from tessella.support.sizes import Size, bounds_of


@native(movement.ReshapeOp, VIEW_KERNEL, NCHW, elements=MOVED, cost=no_cost)
def reshape(k: KernelBuilder, op: movement.ReshapeOp, x: SSAValue) -> SSAValue:
    """Emit a reshape inside a group: a copy in loops with extents that are factors of both shapes.
    Outside a group, a reshape is a view without code."""
    return rearranged(k, x, k.result_type(op))


def rearranged(k: KernelBuilder, x: SSAValue, type: Tensor) -> SSAValue:
    """Copy a tensor to another shape, in row-major order of the elements.

    The loops run over common factors of both shapes (`common_digits`). If none are known, the
    elements pass through a tensor with one dimension.
    """
    digits = common_digits(shape_of(x), shape_of(type))
    if digits is None:
        flat = Tensor(type.element_type, dims([prod(shape_of(type))]), type.encoding)
        return rearranged(k, rearranged(k, x, flat), type)
    free = {f"r{i}": n for i, n in enumerate(digits)}
    read, written = (_of_digits(free, shape) for shape in (shape_of(x), shape_of(type)))
    return k.contract("=", free, {}, [(x, read)], (type, written), first)


def common_digits(old: Sequence[Size], new: Sequence[Size]) -> list[Size] | None:
    """Return the extents of loops, outermost first, that can index both shapes: each dimension of
    either shape is the product of consecutive extents.

    None if the extents are not known, or if the shapes have no elements.
    """
    if 0 in (*old, *new):
        return None
    steps = {prod(shape[d:]) for shape in (old, new) for d in range(len(shape) + 1)}
    if not all(starmap(are_ordered, combinations(steps, 2))):
        return None
    pairs = list(pairwise(sorted(steps, key=bounds_of)))
    if not all(is_multiple(outer, inner) for inner, outer in pairs):
        return None
    return [outer // inner for inner, outer in reversed(pairs)]


def _of_digits(free: Mapping[str, Size], shape: Sequence[Size]) -> list[Form]:
    """Return the access to a tensor of shape ``shape``, as affine expressions of the indices
    ``free``, whose ranges are factors of its dimensions."""
    left, forms = list(free.items()), list[Form]()
    for extent in reversed(shape):
        form, step = Linear(), 1
        while step != extent:
            name, size = left.pop()
            form += Linear.of(name, known(step))
            step *= size
        forms.append(form)
    return forms[::-1]


MOST_BORDERS = 6
"""The maximum number of borders that the kernel pads. Each combination of interior and borders is
one statement: 27 for both borders of three dimensions."""


def _names(rank: int) -> list[Form]:
    return [f"d{i}" for i in range(rank)]


def _move(k: KernelBuilder, op: NnOp, x: SSAValue, forms: list[Form]) -> SSAValue:
    """Emit R[d0, d1, ..] = X[forms]."""
    type = k.result_type(op)
    shape = shape_of(type)
    free = {f"d{i}": n for i, n in enumerate(shape)}
    return k.contract("=", free, {}, [(x, forms)], (type, _names(len(shape))), first)


@native(movement.TransposeOp, "transpose", NCHW, elements=MOVED, operands={0: ANY_LAYOUT})
def transpose(k: KernelBuilder, op: movement.TransposeOp, x: SSAValue) -> SSAValue:
    """Emit R[d_0, d_1, ..] = X[..], where d_i is the index of dimension perm[i] of X."""
    perm = op.settings["perm"]
    forms: list[Form] = [0] * len(perm)
    for i, source in enumerate(perm):
        forms[source] = f"d{i}"
    return _move(k, op, x, forms)


@native(movement.ChannelShuffleOp, "channel_shuffle", elements=MOVED, cost=copying)
def channel_shuffle(k: KernelBuilder, op: movement.ChannelShuffleOp, x: SSAValue) -> SSAValue:
    """Emit R[n, j * G + i, ..] = X[n, i * C + j, ..] for G groups of C channels."""
    type, groups = k.result_type(op), op.settings["groups"]
    batch, channels, *sizes = shape_of(type)
    each = channels // groups
    spatial = {f"d{i}": n for i, n in enumerate(sizes)}
    source = Linear.of("i", each) + Linear.of("j")
    target = Linear.of("i") + Linear.of("j", groups)
    free = {"n": batch, "i": groups, "j": each, **spatial}
    return k.contract(
        "=", free, {}, [(x, ["n", source, *spatial])], (type, ["n", target, *spatial]), first
    )


@native(movement.SliceOp, "slice", elements=MOVED, cost=copying)
def slice_(k: KernelBuilder, op: movement.SliceOp, x: SSAValue) -> SSAValue:
    """Emit R[d] = X[start + step * d]."""
    settings = op.settings
    pairs = zip(settings["starts"], settings["steps"], strict=True)
    forms: list[Form] = [Linear.of(f"d{i}", step) + start for i, (start, step) in enumerate(pairs)]
    return _move(k, op, x, forms)


@native(movement.ExpandOp, "expand", elements=MOVED, cost=copying)
def expand(k: KernelBuilder, op: movement.ExpandOp, x: SSAValue) -> SSAValue:
    """Emit a copy of X that is broadcast to the result's shape."""
    return k.map([x], k.result_type(op), first)


def _constant_mode(op: NnOp) -> str | None:
    mode = op.settings["mode"]
    return None if mode == "constant" else f"padding with mode {mode!r} has no native kernel"


@native(movement.PadOp, "pad", elements=MOVED, applies=_constant_mode, cost=copying)
def pad(k: KernelBuilder, op: movement.PadOp, x: SSAValue) -> SSAValue:
    """Emit R[d] = X[d - low], with a constant out of bounds."""
    settings, type = op.settings, k.result_type(op)
    free = {f"d{i}": n for i, n in enumerate(shape_of(type))}
    forms: list[Form] = [Linear.of(f"d{i}") - low for i, low in enumerate(settings["low"])]
    return k.contract(
        "=",
        free,
        {},
        [(x, forms)],
        (type, list(free)),
        first,
        default=saturate(settings["value"], dtype_of(type)),
    )


@dataclass(frozen=True)
class _Piece:
    """A part of a padded dimension: elements ``start`` to ``start + count`` of the result read the
    operand's elements ``read``, an affine expression of the index ``i``."""

    start: Size
    count: Size
    read: Linear


def _pieces(n: Size, low: Size, high: Size, mode: str) -> list[_Piece]:
    """Return the interior and the borders of a padded dimension, except empty ones."""
    i = Linear.of("i")
    before, after = {
        "edge": (Linear(), Linear() + (n - 1)),
        "reflect": (i * -1 + low, i * -1 + (n - 2)),
        "wrap": (i + (n - low), i),
    }[mode]
    pieces = [_Piece(low, n, i), _Piece(0, low, before), _Piece(low + n, high, after)]
    return [each for each in pieces if each.count != 0]


def _read_once(op: NnOp) -> str | None:
    s = op.settings
    if s["mode"] == "constant":
        return "a constant is no element of the operand"
    spare = {"edge": None, "reflect": 1, "wrap": 0}[s["mode"]]
    padded = [size for size in (*s["low"], *s["high"]) if size != 0]
    if len(padded) > MOST_BORDERS:
        return f"the kernel pads at {MOST_BORDERS} borders at the most"
    for n, *sizes in zip(shape_of(op.operands[0]), s["low"], s["high"], strict=True):
        if spare is not None and any(bounds_of(n - spare - size)[0] < 0 for size in sizes):
            return "a border is longer than the operand, which it would repeat"
    return None


@native(movement.PadOp, "pad_borders", elements=MOVED, applies=_read_once, cost=copying)
def pad_borders(k: KernelBuilder, op: movement.PadOp, x: SSAValue) -> SSAValue:
    """Emit one statement for the interior and one for each border: R[low + d] = X[d] in the
    interior, R[d] = X[low - d] for a reflected border, .."""
    s, type = op.settings, k.result_type(op)
    parts = [
        _pieces(*sizes, s["mode"]) for sizes in zip(shape_of(x), s["low"], s["high"], strict=True)
    ]
    result = k.empty(type)
    for part in product(*parts):
        free = {f"d{d}": piece.count for d, piece in enumerate(part)}
        reads: list[Form] = [
            piece.read.substitute({"i": Linear.of(f"d{d}")}) for d, piece in enumerate(part)
        ]
        out: list[Form] = [Linear.of(f"d{d}") + piece.start for d, piece in enumerate(part)]
        result = k.contract("=", free, {}, [(x, reads)], (type, out), first, init=result)
    return result


@native(movement.ConcatOp, "concat", elements=MOVED, cost=copying)
def concat(k: KernelBuilder, op: movement.ConcatOp, *inputs: SSAValue) -> SSAValue:
    """Emit one statement for each operand, which writes the operand's part of the result."""
    axis: int = op.settings["axis"]
    type = k.result_type(op)
    rank, start = len(shape_of(type)), 0
    result = k.empty(type)
    for x in inputs:
        shape = shape_of(x)
        names = _names(rank)
        out = list(names)
        out[axis] = Linear.of(f"d{axis}") + start
        free = {f"d{i}": n for i, n in enumerate(shape)}
        result = k.contract("=", free, {}, [(x, names)], (type, out), first, init=result)
        start += shape[axis]
    return result


@native(movement.TileOp, "tile", elements=MOVED, cost=copying)
def tile(k: KernelBuilder, op: movement.TileOp, x: SSAValue) -> SSAValue:
    """Emit R[r * n + d] = X[d], for all repetitions r."""
    shape, type = shape_of(x), k.result_type(op)
    free = {f"r{i}": r for i, r in enumerate(op.settings["repeats"])}
    free |= {f"d{i}": n for i, n in enumerate(shape)}
    out: list[Form] = [
        Linear.of(f"r{i}", known(n)) + Linear.of(f"d{i}") for i, n in enumerate(shape)
    ]
    return k.contract("=", free, {}, [(x, _names(len(shape)))], (type, out), first)
