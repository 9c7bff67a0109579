"""Products with small integers that stay packed in memory.

    %w = nn.dequantize %a, %s, %z : tensor<Nx(blocks)x(length)xf32>    %a: u4, i4, u2, i2, u8 or i8
    %v = nn.reshape %w : tensor<NxKxf32>
    %y = nn.matmul %x, %v transpose_b
    ->
    %y = nn.packed_matmul %x, %words, %scales bits 4

The matrix is a constant in blocks along K, each with a scale and a zero point. Integers below 8
bits also match without blocks. Half the range is subtracted from unsigned integers. Zero points
that remain are subtracted by a product with the sums of the blocks of x:

    nn.packed_matmul(%x, ..) - sum(%x in blocks) * (%z * %s)

If x is dequantized in the same blocks, from signed bytes with a zero point of 0, its integers are
multiplied:

    nn.packed_matmul (%x as integers), %words, %scales, (scales of %x) bits 4

Words have 32 bits for floats. For integers they have the elements of an instruction of the target
that sums products, and a group of words has as many of them as the instruction sums.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tessella import targets
from tessella.dialects.elements import element_of
from tessella.dialects.graph import weights_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import Array, NnOp, is_float, shape_of, tensor_type, type_of
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.nn.linear import FcOp, MatmulOp, PackedMatmulOp
from tessella.dialects.nn.movement import PadOp, ReshapeOp, TransposeOp
from tessella.dialects.nn.reduction import ReduceSumOp
from tessella.passes.base import functions, record_fusion
from tessella.passes.kinds import ProgramPass
from tessella.passes.quantized.products import turned
from tessella.passes.writer import OpWriter, replace
from tessella.runtime.elements import widened
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known, known_all
from tessella.support.elements import ELEMENTS
from tessella.targets import Target
from tessella.targets.instructions import of_product

PATTERN = "packed-products"
WORD = "i32"
"""The element type of words whose integers are multiplied by floats."""
LENGTHS = (256, 128, 64, 32)
"""The lengths into which a single block is divided: its sums are then partial sums."""
USUAL = ("i16", 2)
"""The element type of words, and the number of words in a group, for targets without an instruction
that multiplies integers."""


@dataclass(frozen=True)
class PackedProductsPass(ProgramPass):
    """Turn products with constant matrices of small integers into products with packed words."""

    name = "packed-products"
    stages = ("nn", "placed")

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = targets.resolve(self.target)
        for function in functions(op):
            rewriter = _PackedRewriter(weights_of(ctx), *words_of_integers(target))
            for inner in list(function.body.block.ops):
                if isinstance(inner, MatmulOp | FcOp) and not inner.is_fixed and inner.parent:
                    rewriter.visit(inner)


def words_of_integers(target: Target) -> tuple[str, int]:
    """Return the format of words whose integers a target multiplies by other integers: the element
    type of a word, and the number of words in a group."""
    for element in ("i8", "i16"):
        for row in of_product(element, element, "i32", target):
            if row.m == 1 and not row.widens(element):
                return element, row.k
    return USUAL


@dataclass(frozen=True)
class _Matrix:
    """A constant matrix of integers in blocks: (value - zero) * scale."""

    values: Array
    """The integers of each column in blocks, [N, blocks, length]."""
    scale: Array
    """The factors of the blocks, [N, blocks]."""
    zero: Array
    """The zero points of the blocks, [N, blocks]."""
    bits: int
    symbol: str
    """The name of the weight with the integers."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of columns, of blocks, and of values in a block."""
        columns, blocks, length = self.values.shape
        return columns, blocks, length


@dataclass(frozen=True)
class _Factor:
    """The first factor of a product: floats, or integers with a factor for each block."""

    x: SSAValue
    steps: SSAValue | None = None


class _PackedRewriter:
    """Rewrites the products of one function."""

    def __init__(self, weights: WeightStore, element: str, group: int) -> None:
        self.weights = weights
        self.constants = Constants(weights)
        self.element = element
        self.group = group

    def visit(self, op: MatmulOp | FcOp) -> None:
        """Replace a product whose second factor is a matrix of small integers."""
        if not is_float(tensor_type(op.res).element_type):
            return
        found = self._matrix(op)
        if found is None:
            return
        w, matrix = OpWriter(op), _signed(_divided(found))
        x = self._factor(w, op.operands[0], matrix)
        element, group = (WORD, 1) if x.steps is None else (self.element, self.group)
        whole = group * (ELEMENTS[element].bits // matrix.bits)
        if matrix.shape[2] % whole:
            if matrix.shape[1] > 1:
                return
            x, matrix = _padded(w, x, matrix, whole)
        words = _words(matrix, element, group)
        total = self._product(w, x, matrix, words)
        made = total.owner
        assert isinstance(made, NnOp)
        record_fusion(made, PATTERN, [op])
        total = self._corrected(w, total, x, matrix)
        if isinstance(op, FcOp):
            total = w.add(total, op.b)
        replace(op, total)

    # ** the factors **

    def _matrix(self, op: MatmulOp | FcOp) -> _Matrix | None:
        """Return the second factor of a product; None unless it is a known matrix of integers."""
        value, last, is_blocked = _moved(op.operands[1], turned(op))
        source = value.owner
        if not isinstance(source, ew.DequantizeOp) or len(shape_of(op.operands[1])) != 2:
            return None
        bits, whole = element_of(source.x.type).bits, shape_of(value)
        found = [self._array(operand) for operand in source.operands]
        if bits > (8 if is_blocked else 4) or any(array is None for array in found):
            return None
        arrays = [np.broadcast_to(widened(a), known_all(whole)) for a in found if a is not None]
        if not is_blocked:
            arrays = [np.expand_dims(a, 1 if last else 0) for a in arrays]
        if any(a.ndim != 3 or not a.size for a in arrays):
            return None
        values, *parameters = (a if last else a.transpose(2, 0, 1) for a in arrays)
        scale, zero = map(_of_blocks, parameters)
        if scale is None or zero is None or len(values) != known(shape_of(op.res)[-1]):
            return None
        return _Matrix(values, scale, zero, bits, _name(source.x))

    def _array(self, value: SSAValue) -> Array | None:
        """Return the array of a constant; None for any other value. Reshapes take no memory."""
        if not isinstance(value.owner, ReshapeOp):
            return self.constants.value(value)
        array = self._array(value.owner.x)
        return None if array is None else array.reshape(known_all(shape_of(value)))

    def _factor(self, w: OpWriter, x: SSAValue, matrix: _Matrix) -> _Factor:
        """Return the first factor of a product: its integers, if it is dequantized from signed
        bytes in the blocks of the matrix; otherwise its floats."""
        source = x.owner.x.owner if isinstance(x.owner, ReshapeOp) else None
        if not isinstance(source, ew.DequantizeOp) or element_of(source.x.type).name != "i8":
            return _Factor(x)
        _, blocks, length = matrix.shape
        outer, zero = shape_of(x)[:-1], self.constants.value(source.zero)
        if zero is None or zero.any() or shape_of(source.x) != (*outer, blocks, length):
            return _Factor(x)
        if shape_of(source.scale) != (*outer, blocks, 1) or blocks == 1:
            return _Factor(x)
        integers = w.cast(w.shaped(source.x, shape_of(x)), self.element)
        return _Factor(integers, w.shaped(source.scale, (*outer, blocks)))

    # ** the product **

    def _product(self, w: OpWriter, x: _Factor, matrix: _Matrix, words: Array) -> SSAValue:
        """Emit the product of the values, without zero points."""
        packed = self._weight(w, f"{matrix.symbol}.words", words)
        floats = element_of((x.x if x.steps is None else x.steps).type).name
        scale = w.cast(self._weight(w, f"{matrix.symbol}.scale", matrix.scale), floats)
        operands = [x.x, packed, scale, *([] if x.steps is None else [x.steps])]
        return w.op(PackedMatmulOp, *operands, bits=matrix.bits, table=())

    def _corrected(self, w: OpWriter, total: SSAValue, x: _Factor, matrix: _Matrix) -> SSAValue:
        """Emit a product minus the contribution of zero points, if there are any."""
        if not matrix.zero.any():
            return total
        _, blocks, length = matrix.shape
        outer = shape_of(x.x)[:-1]
        within = w.shaped(x.x, (*outer, blocks, length))
        if x.steps is not None:
            within = w.cast(within, "i32")
        sums = w.op(ReduceSumOp, within, axes=(len(outer) + 1,), keepdims=False)
        if x.steps is not None:
            sums = w.mul(w.cast(sums, element_of(x.steps.type).name), x.steps)
        offsets = self._weight(w, f"{matrix.symbol}.offset", matrix.zero * matrix.scale)
        offsets = w.cast(offsets, element_of(sums.type).name)
        return w.sub(total, w.op(MatmulOp, sums, offsets, transpose_b=True))

    def _weight(self, w: OpWriter, name: str, array: Array) -> SSAValue:
        return w.weight(self.weights.add(name, array), type_of(array))


def _moved(value: SSAValue, turned: bool) -> tuple[SSAValue, bool, bool]:
    """Return the value from which a matrix is cast, transposed and reshaped, whether its last
    dimension is the summed one, and whether it was reshaped."""
    if isinstance(value.owner, ew.CastOp):
        value = value.owner.x
    if isinstance(value.owner, TransposeOp):
        value, turned = value.owner.x, not turned
    if isinstance(value.owner, ReshapeOp):
        return value.owner.x, turned, True
    return value, turned, False


def _name(value: SSAValue) -> str:
    """Return the name of the weight with the elements of a value."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    owner = value.owner
    return owner.symbol.root_reference.data if isinstance(owner, WeightOp) else "matrix"


def _of_blocks(array: Array) -> Array | None:
    """Return an array [N, blocks] with the number that all values of each block share; None if the
    values of a block differ."""
    first = array[..., :1]
    is_shared = array.strides[-1] == 0 or bool((array == first).all())
    return np.ascontiguousarray(first[..., 0]) if is_shared else None


def _divided(matrix: _Matrix) -> _Matrix:
    """Return a matrix that has one block for each column divided into blocks of the first of
    ``LENGTHS`` that divides the column's length, all with the same scale and zero point.

    The matrix is returned unchanged if it has several blocks, or if no such length exists.
    """
    columns, blocks, length = matrix.shape
    size = next((n for n in LENGTHS if length % n == 0), length)
    if blocks > 1 or size == length:
        return matrix
    values = matrix.values.reshape(columns, -1, size)
    scale, zero = (np.repeat(a, length // size, axis=1) for a in (matrix.scale, matrix.zero))
    return dataclasses.replace(matrix, values=values, scale=scale, zero=zero)


def _signed(matrix: _Matrix) -> _Matrix:
    """Return the matrix with values that fit into signed integers of its bits, and without zero
    points if the differences from them fit."""
    half, zero = 1 << (matrix.bits - 1), matrix.zero.astype(np.int32)
    least, most = (f(matrix.values, axis=2).astype(np.int32) for f in (np.min, np.max))
    fits = bool(((least - zero >= -half) & (most - zero < half)).all())
    unsigned = matrix.values.dtype == np.uint8
    offset = zero if fits else np.full_like(zero, half if unsigned else 0)
    # the differences fit into bytes, so bytes may wrap
    values = matrix.values.view(np.uint8) - offset.astype(np.uint8)[..., None]
    return dataclasses.replace(
        matrix, values=values.view(np.int8), zero=(zero - offset).astype(np.float32)
    )


def _padded(w: OpWriter, x: _Factor, matrix: _Matrix, whole: int) -> tuple[_Factor, _Matrix]:
    """Return the factors of a product with zeros appended along the summed dimension, up to a
    multiple of ``whole`` values."""
    more = -matrix.shape[2] % whole
    values = np.pad(matrix.values, ((0, 0), (0, 0), (0, more)))
    rank = len(shape_of(x.x))
    pads = {"low": (0,) * rank, "high": (*(0,) * (rank - 1), more)}
    wide = w.op(PadOp, x.x, **pads, mode="constant", value=0.0)
    return _Factor(wide, x.steps), dataclasses.replace(matrix, values=values)


def _words(matrix: _Matrix, element: str, group: int) -> Array:
    """Return the values packed into words of an element type. The lowest bits of the words in a
    group hold the group's first values, one in each word."""
    width, bits = ELEMENTS[element].bits, matrix.bits
    each, (columns, blocks, length) = width // bits, matrix.shape
    fields = matrix.values.view(np.uint8) & np.uint8((1 << bits) - 1)
    fields = fields.reshape(columns, blocks, length // (each * group), each, group)
    words = np.zeros((*fields.shape[:3], group), f"uint{width}")
    for number in range(each):
        words |= fields[..., number, :].astype(words.dtype) << (bits * number)
    return words.view(f"int{width}")
