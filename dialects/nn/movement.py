"""Ops that change shapes or move elements, without arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from tessella.dialects.elements import element_of, part_of
from tessella.dialects.nn.checks import (
    check_axes,
    check_choice,
    check_float,
    check_least,
    check_length,
    check_rank,
    check_same_element,
)
from tessella.dialects.nn.core import (
    ByRank,
    Defaults,
    NnOp,
    Tensor,
    broadcast_shapes,
    is_float,
    shape_of,
    shapes_differ,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.host_work import elements
from tessella.dialects.nn.positions import Positions
from tessella.dialects.nn.traits import (
    CountsPositions,
    IdentityByType,
    MovesElements,
    Overrides,
    ReadAsAccess,
)
from tessella.dialects.sizes import sizes_def
from tessella.support.conditions import decided
from tessella.support.decisions import at_most, decided_zero, differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

PAD_MODES = ("constant", "reflect", "edge", "wrap")
RESIZE_MODES = ("nearest", "linear")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


Ints = tuple[Size, ...]


class MovementOp(NnOp):
    """An op with one operand, x, whose element type the result has."""

    x = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def result(self, shape: Sequence[Size]) -> Sequence[Tensor]:
        """Return the type of the result in a list: the element type of x, and this shape."""
        return [tensor(tensor_type(self.x).element_type, shape)]


def _reshaped(op: MovementOp, x: Positions) -> Positions | None:
    """Return the result of a reshape as a linear function of its positions, given ``x``, the
    operand as such a function. None if the reshape does more than add and remove dimensions of size
    1."""
    before, after = (
        [d - len(shape) for d, n in enumerate(shape) if n != 1]
        for shape in map(shape_of, (op.x, op.res))
    )
    sizes = [[shape_of(x)[d] for d in axes] for x, axes in ((op.x, before), (op.res, after))]
    if sizes[0] != sizes[1]:
        return None
    moved = dict(zip(before, after, strict=True))
    return Positions({moved[d]: k for d, k in x.factors.items()}, x.constant)


@irdl_op_definition
class ReshapeOp(MovementOp):
    """The elements of x, in row-major order, in another shape."""

    name = "nn.reshape"
    traits = traits_def(
        *(MovesElements(), ReadAsAccess(), IdentityByType(), Overrides()),
        CountsPositions(_reshaped),
    )
    shape = sizes_def()

    def infer(self) -> Sequence[Tensor]:
        old, new = shape_of(self.x), self.settings["shape"]
        check_least(self, "shape", new, 0)
        if differs(math.prod(old), math.prod(new)):
            raise ShapeError(
                "nn.reshape: the number of elements changes",
                expected=f"{math.prod(old)}, as {old} has",
                found=f"{math.prod(new)} in {new}",
            )
        return self.result(new)


def _transposed(op: MovementOp, x: Positions) -> Positions:
    perm = op.settings["perm"]
    moved = {old - len(perm): new - len(perm) for new, old in enumerate(perm)}
    return Positions({moved[d]: k for d, k in x.factors.items()}, x.constant)


@irdl_op_definition
class TransposeOp(MovementOp):
    """A permutation of dimensions: dimension d of the result is dimension perm[d] of x."""

    name = "nn.transpose"
    traits = traits_def(MovesElements(), ReadAsAccess(), CountsPositions(_transposed))
    DEFAULTS: ClassVar[Defaults] = {
        "perm": ByRank("reversed", lambda rank: tuple(range(rank)[::-1]))
    }
    perm = prop_def(DenseArrayBase[I64])

    def infer(self) -> Sequence[Tensor]:
        shape = shape_of(self.x)
        perm: tuple[int, ...] = self.settings["perm"]
        check_length(self, "perm", perm, len(shape))
        check_axes(self, perm, len(shape))
        return self.result([shape[axis] for axis in perm])

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return x for transpose(x, [0, 1, ..]), and transpose(x, [p[i] for i in q]) for
        transpose(transpose(x, p), q); None for any other transpose."""
        perm, inner = self.settings["perm"], self.x.owner
        if perm == tuple(range(len(perm))):
            return self.x
        if not isinstance(inner, TransposeOp):
            return None
        first = inner.settings["perm"]
        return [TransposeOp.make([inner.x], perm=tuple(first[i] for i in perm))]


@irdl_op_definition
class ChannelShuffleOp(MovementOp):
    """x[N, C, ..] with permuted channels: C is read as [groups, C / groups], and these two
    dimensions are transposed."""

    name = "nn.channel_shuffle"
    traits = traits_def(MovesElements())
    groups = prop_def(IntegerAttr[I64])

    def infer(self) -> Sequence[Tensor]:
        check_rank(self, self.x, 2)
        shape, groups = shape_of(self.x), self.settings["groups"]
        check_least(self, "groups", [groups], 1)
        if shape[1] % groups:
            raise ShapeError(
                "nn.channel_shuffle: the channels are not a multiple of groups",
                found=f"{shape[1]} channels, {groups} groups",
            )
        return self.result(shape)


def _sliced(op: MovementOp, x: Positions) -> Positions:
    starts, steps = op.settings["starts"], op.settings["steps"]
    first = sum((k * starts[d] for d, k in x.factors.items()), x.constant)
    return Positions({d: k * steps[d] for d, k in x.factors.items()}, first)


@irdl_op_definition
class SliceOp(MovementOp):
    """A strided slice: x[start], x[start + step], ..., with `size` elements in each dimension.
    Steps may be negative."""

    name = "nn.slice"
    traits = traits_def(MovesElements(), ReadAsAccess(), CountsPositions(_sliced))
    DEFAULTS: ClassVar[Defaults] = {"steps": ByRank("ones", lambda rank: (1,) * rank)}
    starts = sizes_def()
    sizes = sizes_def()
    steps = sizes_def()

    def infer(self) -> Sequence[Tensor]:
        shape, settings = shape_of(self.x), self.settings
        for name in ("starts", "sizes", "steps"):
            check_length(self, name, settings[name], len(shape))
        check_least(self, "sizes", settings["sizes"], 0)
        columns = (shape, settings["starts"], settings["sizes"], settings["steps"])
        for axis, (extent, start, size, step) in enumerate(zip(*columns, strict=True)):
            if step == 0:
                raise ShapeError(f"nn.slice: the step of axis {axis} is zero")
            last = start + (size - 1) * step
            if decided_zero(size):
                continue
            if not all(decided(at >= 0) and decided(at < extent) for at in (start, last)):
                raise ShapeError(
                    f"nn.slice: the slice leaves x along axis {axis}",
                    expected=f"indices in [0, {extent})",
                    found=f"{start} to {last}",
                )
        return self.result(settings["sizes"])

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return x if the slice starts at 0 with step 1 in each dimension of more than one element;
        otherwise None."""
        columns = (self.settings["starts"], self.settings["steps"], shape_of(self.x))
        whole = all(
            (start, step) == (0, 1) or at_most(n, 1)
            for start, step, n in zip(*columns, strict=True)
        )
        return self.x if whole else None


@irdl_op_definition
class PadOp(MovementOp):
    """x with `low` elements before and `high` elements after it in every dimension.

    `mode` is one of `constant` (the `value`, which saturates to an integer type's range), `edge`
    (the nearest element of x), `reflect` (x mirrored repeatedly at its edges), `wrap` (x repeated).
    """

    name = "nn.pad"
    # the result has the shape of x only if no element is added
    traits = traits_def(MovesElements(fills=True), IdentityByType())
    DEFAULTS: ClassVar[Defaults] = {"mode": "constant", "value": 0.0}
    low = sizes_def()
    high = sizes_def()
    mode = prop_def(StringAttr)
    value = prop_def(FloatAttr[Float64Type])

    def infer(self) -> Sequence[Tensor]:
        shape, settings = shape_of(self.x), self.settings
        check_choice(self, "mode", settings["mode"], PAD_MODES)
        for name in ("low", "high"):
            check_length(self, name, settings[name], len(shape))
            check_least(self, name, settings[name], 0)
        if math.isnan(settings["value"]) and not is_float(
            part_of(tensor_type(self.x).element_type)
        ):
            raise ShapeError("nn.pad: an integer cannot be NaN", found=str(self.x.type))
        padding = [a + b for a, b in zip(settings["low"], settings["high"], strict=True)]
        if settings["mode"] != "constant" and any(
            more and decided_zero(size) for size, more in zip(shape, padding, strict=True)
        ):
            raise ShapeError(
                f"nn.pad: nothing to pad with in mode {settings['mode']!r}",
                expected="elements, or the mode 'constant'",
                found=str(self.x.type),
            )
        return self.result([a + b for a, b in zip(shape, padding, strict=True)])


@irdl_op_definition
class ConcatOp(NnOp):
    """The operands concatenated along an axis."""

    name = "nn.concat"
    inputs = var_operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), MovesElements(), ReadAsAccess())

    def infer(self) -> Sequence[Tensor]:
        if not self.operands:
            raise ShapeError("nn.concat: there are no operands", expected="at least one")
        check_same_element(self)
        axis: int = self.settings["axis"]
        shapes = [shape_of(x) for x in self.operands]
        first = shapes[0]
        check_axes(self, [axis], len(first))
        kept = [(*s[:axis], *s[axis + 1 :]) for s in shapes]
        if any(shapes_differ(k, kept[0]) for k in kept):
            raise ShapeError(
                f"nn.concat: shapes differ in more than axis {axis}",
                found=" and ".join(map(str, shapes)),
            )
        total = sum(s[axis] for s in shapes)
        element = tensor_type(self.operands[0]).element_type
        return [tensor(element, (*first[:axis], total, *first[axis + 1 :]))]

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return the concatenation without the operands that have no elements: if one operand
        remains, that operand. None if there are several operands and all of them have elements."""
        axis: int = self.settings["axis"]
        filled = [x for x in self.operands if not at_most(shape_of(x)[axis], 0)]
        filled = filled or [self.operands[0]]
        if len(filled) == 1:
            return filled[0]
        return [ConcatOp.make(filled, axis=axis)] if len(filled) < len(self.operands) else None


def _same_positions(op: ExpandOp, x: Positions) -> Positions:
    return x


@irdl_op_definition
class ExpandOp(MovementOp):
    """x broadcast to `shape`, the shape of the result."""

    name = "nn.expand"
    traits = traits_def(
        *(MovesElements(), ReadAsAccess(), IdentityByType(), Overrides()),
        CountsPositions(_same_positions),
    )
    shape = sizes_def()

    def infer(self) -> Sequence[Tensor]:
        old, new = shape_of(self.x), self.settings["shape"]
        check_least(self, "shape", new, 0)
        if shapes_differ(broadcast_shapes([old, new]), new):
            raise ShapeError(
                "nn.expand: x does not broadcast to the shape", expected=str(new), found=str(old)
            )
        return self.result(new)


@irdl_op_definition
class TileOp(MovementOp):
    """x repeated `repeats[d]` times along every dimension d."""

    name = "nn.tile"
    traits = traits_def(MovesElements(), IdentityByType())
    repeats = sizes_def()

    def infer(self) -> Sequence[Tensor]:
        shape, repeats = shape_of(self.x), self.settings["repeats"]
        check_length(self, "repeats", repeats, len(shape))
        check_least(self, "repeats", repeats, 0)
        return self.result([n * count for n, count in zip(shape, repeats, strict=True)])

    @property
    def host_bytes(self) -> Size:
        # the kernel repeats one dimension after the other, each time into another array
        return element_of(self.res.type).bytes(elements(self.res))


@irdl_op_definition
class ResizeOp(MovementOp):
    """x sampled at `sizes` points in each dimension: ONNX's Resize without cubic modes and regions.

    Element i of a dimension is read at the position `coordinates`(i), which depends on the
    dimension's scale. `coordinates` is one of ONNX's modes `half_pixel`, `half_pixel_symmetric`,
    `pytorch_half_pixel`, `align_corners` and `asymmetric`. The mode `nearest` rounds the position
    as `nearest_mode` says: `round_prefer_floor`, `round_prefer_ceil`, `floor` or `ceil`. The mode
    `linear` interpolates between the two elements around the position, in each dimension.
    """

    name = "nn.resize"
    DEFAULTS: ClassVar[Defaults] = {
        "mode": "nearest", "coordinates": "half_pixel", "nearest_mode": "round_prefer_floor",
    }  # fmt: skip
    sizes = sizes_def()
    scales = prop_def(DenseArrayBase)
    mode = prop_def(StringAttr)
    coordinates = prop_def(StringAttr)
    nearest_mode = prop_def(StringAttr)

    def infer(self) -> Sequence[Tensor]:
        shape, settings = shape_of(self.x), self.settings
        sizes, scales = settings["sizes"], settings["scales"]
        check_choice(self, "mode", settings["mode"], RESIZE_MODES)
        check_choice(self, "coordinates", settings["coordinates"], COORDINATES)
        check_choice(self, "nearest_mode", settings["nearest_mode"], NEAREST_MODES)
        check_length(self, "sizes", sizes, len(shape))
        check_length(self, "scales", scales, len(shape))
        check_least(self, "sizes", sizes, 0)
        if not all(math.isfinite(scale) and scale > 0 for scale in scales):
            raise ShapeError(
                "nn.resize: a scale is not positive",
                expected="finite, > 0",
                found=str(list(scales)),
            )
        resized = [(n, m) for n, m in zip(sizes, shape, strict=True) if n != m]
        if any(not at_most(size, 0) and decided_zero(extent) for size, extent in resized):
            raise ShapeError("nn.resize: nothing to read from", found=str(self.x.type))
        if settings["mode"] == "linear":
            check_float(self, self.x)
        return self.result(sizes)
