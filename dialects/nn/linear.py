"""Matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, BoolAttr, DenseArrayBase, IntegerAttr, TensorType
from xdsl.ir import TypeAttribute
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tessella.dialects.elements import element_of
from tessella.dialects.nn.checks import (
    check_float,
    check_integer,
    check_length,
    check_number,
    check_same_element,
    product_element,
)
from tessella.dialects.nn.core import (
    ByRank,
    Defaults,
    NnOp,
    Tensor,
    broadcast_shapes,
    shape_of,
    shapes_differ,
    shown,
    tensor,
    tensor_type,
    to_python,
)
from tessella.dialects.nn.host_work import POINT, STEPS, WIDE, elements, padded
from tessella.dialects.nn.traits import SumsProducts, TakesComplex
from tessella.support.conditions import decided
from tessella.support.decisions import differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import MOST, Size, bounds_of

WINDOW: Defaults = {
    "strides": ByRank("ones", lambda rank: (1,) * (rank - 2)),
    "pads": ByRank("zeros", lambda rank: (0,) * 2 * (rank - 2)),
    "dilations": ByRank("ones", lambda rank: (1,) * (rank - 2)),
}
"""The default settings of a window that moves over the spatial dimensions of x[N, C, spatial..]."""


def window_extent(
    size: Size, kernel: Size, stride: int, before: int, after: int, dilation: int
) -> Size:
    """Return the number of positions of a window of ``kernel`` elements that moves over a padded
    dimension. Raises ShapeError if the window is malformed or too large."""
    rest = window_rest(size, kernel, stride, before, after, dilation)
    if decided(rest < 0):
        raise window_too_large(size, kernel, before, after, dilation)
    return rest // stride + 1


def window_rest(
    size: Size, kernel: Size, stride: int, before: int, after: int, dilation: int
) -> Size:
    """Return the number of elements of a padded dimension that lie after the window in its first
    position. The number is negative if the window is larger than the padded dimension. Raises
    ShapeError if the window is malformed."""
    if decided(kernel < 1) or min(stride, dilation) < 1 or min(before, after) < 0:
        raise ShapeError(
            "a window is malformed",
            expected="kernel, stride and dilation of at least 1, no negative padding",
            found=f"kernel {kernel}, stride {stride}, dilation {dilation}, pads {before}, {after}",
        )
    reach = (kernel - 1) * dilation
    if max(bounds_of(reach)[0], before + after) >= MOST:
        raise ShapeError(
            "a window, or its padding, is too large",
            expected=f"at most {MOST} elements",
            found=f"kernel {kernel}, dilation {dilation}, pads {before}, {after}",
        )
    return size + before + after - reach - 1


def window_too_large(
    size: Size, kernel: Size, before: int, after: int, dilation: int
) -> ShapeError:
    """Return the error for a window that is larger than the padded input."""
    return ShapeError(
        "a window is larger than the padded input",
        expected="a window that fits at one position at least",
        found=f"size {size}, kernel {kernel}, dilation {dilation}, pads {before}, {after}",
    )


def transposed_extent(
    size: Size, kernel: Size, stride: int, before: int, after: int, dilation: int, output_pad: int
) -> Size:
    """Return the size of a dimension of a transposed convolution's result: the positions that the
    moved windows write, plus ``output_pad``, minus the padding. Raises ShapeError if the window is
    malformed, or if the padding is larger than the result."""
    if (
        decided(size < 1)
        or decided(kernel < 1)
        or min(stride, dilation) < 1
        or min(before, after, output_pad) < 0
    ):
        raise ShapeError(
            "a transposed window is malformed",
            expected="size, kernel, stride and dilation of at least 1, no negative padding",
            found=f"size {size}, kernel {kernel}, stride {stride}, dilation {dilation}, "
            f"pads {before}, {after}, output pad {output_pad}",
        )
    if output_pad >= max(stride, dilation):
        raise ShapeError(
            "the output padding of a transposed convolution is too large",
            expected=f"less than the stride or the dilation, {max(stride, dilation)}",
            found=str(output_pad),
        )
    extent = (size - 1) * stride + (kernel - 1) * dilation + 1 + output_pad - before - after
    if decided(extent < 0):
        raise ShapeError(
            "the padding is larger than a transposed convolution's result",
            expected="padding that leaves a size >= 0",
            found=f"size {size}, kernel {kernel}, stride {stride}, pads {before}, {after}",
        )
    return extent


@irdl_op_definition
class MatmulOp(NnOp):
    """A matrix product with NumPy's rules, batches broadcast; `transpose_b` reads b as [.., N, K].

    `sums` is the element type in which products are summed, and of the result: i32 for signed or
    unsigned bytes. Without `sums`, operands and result have one element type.
    """

    name = "nn.matmul"
    TRANSPOSES: ClassVar[str | None] = "transpose_b"
    DEFAULTS: ClassVar[Defaults] = {"transpose_b": False}
    a = operand_def(base(TensorType))
    b = operand_def(base(TensorType))
    transpose_b = prop_def(BoolAttr)
    sums = opt_prop_def(TypeAttribute)
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts(), TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        element = product_element(self, self.sums, self.a, self.b)
        a, b = shape_of(self.a), shape_of(self.b)
        if len(a) < 2 or len(b) < 2:
            raise ShapeError("nn.matmul takes matrices", found=f"{self.a.type} and {self.b.type}")
        k, n = (b[-1], b[-2]) if to_python(self.transpose_b) else (b[-2], b[-1])
        if differs(a[-1], k):
            raise ShapeError(
                "nn.matmul: the inner sizes differ",
                expected="as many columns of a as rows of b",
                found=f"{a[-1]} and {k}: {shown(a)} x {shown(b)}",
            )
        batch = broadcast_shapes([a[:-2], b[:-2]])
        return [tensor(element, (*batch, a[-2], n))]

    @property
    def contracted(self) -> Mapping[int, int]:
        last = len(shape_of(self.b)) - 1
        return {0: len(shape_of(self.a)) - 1, 1: last - (not to_python(self.transpose_b))}

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.res)) * shape_of(self.a)[-1]

    @property
    def host_bytes(self) -> Size:
        return elements(self.res) * shape_of(self.operands[0])[-1] // STEPS


@irdl_op_definition
class FcOp(NnOp):
    """A fully connected layer: x[.., K] * w[K, N] + b[N]; `transpose_w` reads w as [N, K].

    `sums` is the element type of the sums, the bias and the result, as for `nn.matmul`.
    """

    name = "nn.fc"
    TRANSPOSES: ClassVar[str | None] = "transpose_w"
    DEFAULTS: ClassVar[Defaults] = {"transpose_w": False}
    x = operand_def(base(TensorType))
    w = operand_def(base(TensorType))
    b = operand_def(base(TensorType))
    transpose_w = prop_def(BoolAttr)
    sums = opt_prop_def(TypeAttribute)
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts(), TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        element = product_element(self, self.sums, self.x, self.w, self.b)
        x, w, b = shape_of(self.x), shape_of(self.w), shape_of(self.b)
        if len(x) < 1 or len(w) != 2:
            raise ShapeError(
                "nn.fc takes x[.., K] and w[K, N]", found=f"{self.x.type}, {self.w.type}"
            )
        k, n = (w[1], w[0]) if to_python(self.transpose_w) else w
        if differs(x[-1], k) or shapes_differ(b, (n,)):
            raise ShapeError(
                "nn.fc: sizes differ", expected=f"x[.., {k}] and b[{n}]", found=f"{x} and {b}"
            )
        return [tensor(element, (*x[:-1], n))]

    @property
    def contracted(self) -> Mapping[int, int]:
        return {0: len(shape_of(self.x)) - 1, 1: int(to_python(self.transpose_w))}

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.res)) * shape_of(self.x)[-1]

    @property
    def host_bytes(self) -> Size:
        return elements(self.res) * shape_of(self.operands[0])[-1] // STEPS


@irdl_op_definition
class PackedMatmulOp(NnOp):
    """A product with a matrix of small integers in blocks: x[.., K] * (scale * value)[K, N].

    w[N, blocks, words, group] holds the K signed integers of each column, `bits` bits each. The
    lowest `bits` bits of the words of a group hold the group's first integers, one in each word;
    the next `bits` bits hold the integers that follow, and so on. With a `table`, the integers are
    unsigned, and stand for the table's numbers. scale[N, blocks] has a factor for each block. If x
    holds integers, steps[.., blocks] has the factors of its blocks.
    """

    name = "nn.packed_matmul"
    DEFAULTS: ClassVar[Defaults] = {"table": ()}
    x = operand_def(base(TensorType))
    w = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))
    steps = opt_operand_def(base(TensorType))
    bits = prop_def(IntegerAttr[I64])
    table = prop_def(DenseArrayBase)
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts())

    @property
    def each(self) -> int:
        """The number of integers in a word."""
        return element_of(self.w.type).bits // int(to_python(self.bits))

    def infer(self) -> Sequence[Tensor]:
        floats = [self.scale, self.x if self.steps is None else self.steps]
        check_same_element(self, floats)
        check_float(self, self.scale)
        check_integer(self, self.w)
        x, w, scale = shape_of(self.x), shape_of(self.w), shape_of(self.scale)
        bits, word = self.settings["bits"], element_of(self.w.type).bits
        if bits < 1 or word % bits:
            raise ShapeError(f"{self.name}: {bits} bits do not divide a word", found=str(word))
        if len(x) < 1 or len(w) != 4 or shapes_differ(scale, w[:2]):
            raise ShapeError(
                f"{self.name} takes x[.., K], w[N, blocks, words, group] and scale[N, blocks]",
                found=f"{self.x.type}, {self.w.type}, {self.scale.type}",
            )
        table = self.settings["table"]
        if table and (len(table) != 1 << bits or self.steps is not None):
            raise ShapeError(
                f"{self.name}: a table does not fit",
                expected=f"{1 << bits} numbers, and no steps",
                found=f"{len(table)} numbers",
            )
        length = math.prod(w[1:]) * self.each
        if differs(x[-1], length):
            raise ShapeError(
                f"{self.name}: the inner sizes differ",
                expected=f"rows of {length}",
                found=str(self.x.type),
            )
        if self.steps is not None:
            check_same_element(self, [self.x, self.w])
            if shapes_differ(shape_of(self.steps), (*x[:-1], w[1])):
                raise ShapeError(
                    f"{self.name}: expected steps of each row and block", found=str(self.steps.type)
                )
        return [tensor(tensor_type(self.scale).element_type, (*x[:-1], w[0]))]

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.res)) * shape_of(self.x)[-1]

    @property
    def host_bytes(self) -> Size:
        return elements(self.w) * self.each * WIDE + self.operations // STEPS


@irdl_op_definition
class ConvOp(NnOp):
    """A convolution of x[N, C, spatial..] with w[O, C / groups, kernel..], plus a bias b[O].

    `pads` lists the padding before each spatial dimension, then the padding after each. `sums` is
    the element type of the sums, the bias and the result, as for `nn.matmul`.
    """

    name = "nn.conv"
    DEFAULTS: ClassVar[Defaults] = {**WINDOW, "groups": 1}
    x = operand_def(base(TensorType))
    w = operand_def(base(TensorType))
    b = opt_operand_def(base(TensorType))
    strides = prop_def(DenseArrayBase[I64])
    pads = prop_def(DenseArrayBase[I64])
    dilations = prop_def(DenseArrayBase[I64])
    groups = prop_def(IntegerAttr[I64])
    sums = opt_prop_def(TypeAttribute)
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts(), TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        biases = () if self.b is None else (self.b,)
        element = product_element(self, self.sums, self.x, self.w, *biases)
        rank, settings = _check_window(self), self.settings
        x, w, groups = shape_of(self.x), shape_of(self.w), settings["groups"]
        fit = groups > 0 and not w[0] % groups and not differs(x[1], w[1] * groups)
        _check_channels(self, fit, w[0])
        pads = settings["pads"]
        spatial = [
            window_extent(
                x[2 + d], w[2 + d], settings["strides"][d], pads[d], pads[rank + d],
                settings["dilations"][d],
            )
            for d in range(rank)
        ]  # fmt: skip
        return [tensor(element, (x[0], w[0], *spatial))]

    @property
    def contracted(self) -> Mapping[int, int]:
        return {0: 1, 1: 1} if to_python(self.groups) == 1 else {}

    @property
    def channels(self) -> Mapping[int, int]:
        of_bias = {2: 0} if self.b is not None else {}
        return {-1: 1, 1: 0, **of_bias} if to_python(self.groups) == 1 else {}

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.res)) * math.prod(shape_of(self.w)[1:])

    @property
    def host_bytes(self) -> Size:
        _, per_in, *kernel = shape_of(self.w)
        points = math.prod(kernel)
        products = elements(self.res) * per_in * points
        room = padded(self.x, self.settings["pads"])
        return room * WIDE + points * POINT + products // STEPS


@irdl_op_definition
class ConvTransposeOp(NnOp):
    """A transposed convolution of x[N, C, spatial..] with w[C, O / groups, kernel..], plus a bias
    b[O].

    Element x[i] adds w[k] * x[i] to position i * stride + k * dilation. Then `pads` are cut off,
    and `output_pads` positions are added at the end of each spatial dimension (ONNX's
    ConvTranspose).
    """

    name = "nn.conv_transpose"
    DEFAULTS: ClassVar[Defaults] = {
        **WINDOW,
        "output_pads": ByRank("zeros", lambda rank: (0,) * (rank - 2)),
        "groups": 1,
    }
    x = operand_def(base(TensorType))
    w = operand_def(base(TensorType))
    b = opt_operand_def(base(TensorType))
    strides = prop_def(DenseArrayBase[I64])
    pads = prop_def(DenseArrayBase[I64])
    dilations = prop_def(DenseArrayBase[I64])
    output_pads = prop_def(DenseArrayBase[I64])
    groups = prop_def(IntegerAttr[I64])
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts(), TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        check_number(self, self.x)
        rank, settings = _check_window(self), self.settings
        x, w, groups = shape_of(self.x), shape_of(self.w), settings["groups"]
        channels = w[1] * groups
        fit = groups > 0 and not x[1] % groups and not differs(x[1], w[0])
        _check_channels(self, fit, channels)
        pads = settings["pads"]
        spatial = [
            transposed_extent(
                x[2 + d], w[2 + d], settings["strides"][d], pads[d], pads[rank + d],
                settings["dilations"][d], settings["output_pads"][d],
            )
            for d in range(rank)
        ]  # fmt: skip
        return [tensor(tensor_type(self.x).element_type, (x[0], channels, *spatial))]

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.x)) * math.prod(shape_of(self.w)[1:])

    @property
    def host_bytes(self) -> Size:
        _, per_out, *kernel = shape_of(self.w)
        points = math.prod(kernel)
        products = elements(self.x) * per_out * points
        room = padded(self.res, self.settings["pads"])
        return room * WIDE + points * POINT + products // STEPS


def _check_window(op: ConvOp | ConvTransposeOp) -> int:
    """Return the number of spatial dimensions of a convolution. Raises ShapeError unless the ranks
    of the operands and the lengths of the settings agree."""
    x, w = shape_of(op.x), shape_of(op.w)
    rank = len(x) - 2
    if rank < 1 or len(w) != len(x):
        raise ShapeError(f"{op.name}: ranks differ", found=f"x {x}, w {w}")
    for name, values in op.settings.items():
        if name not in ("groups", "sums"):
            check_length(op, name, values, rank * (2 if name == "pads" else 1))
    return rank


def _check_channels(op: ConvOp | ConvTransposeOp, fit: bool, channels: Size) -> None:
    """Raise ShapeError unless ``fit`` is true, which states that the channels of the operands
    match, and the bias, if any, has one element for each of the result's ``channels``."""
    if not fit:
        x, w, groups = shape_of(op.x), shape_of(op.w), to_python(op.groups)
        raise ShapeError(
            f"{op.name}: channels do not fit",
            expected="positive groups that divide the channels of x and w",
            found=f"x {x}, w {w}, groups {groups}",
        )
    if op.b is not None and shapes_differ(shape_of(op.b), (channels,)):
        raise ShapeError(
            f"{op.name}: the bias does not fit",
            expected=f"{channels} elements, one for each channel",
            found=str(op.b.type),
        )
