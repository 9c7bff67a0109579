"""Converters of ONNX Runtime's ops on tensors of small integers in blocks.

    MatMulNBits x w s z           ->  matmul x (reshape (dequantize w s z)), transposed
    GatherBlockQuantized w i s z  ->  dequantize (gather w i) (gather s i) (gather z i)
    MatMulBnb4 x w s              ->  packed_matmul x w s, with a table

``passes/packed_products.py`` makes products of this form multiply packed integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Value, product
from tessella.frontends.onnx.build import Array
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.ops.quantization import in_blocks
from tessella.frontends.onnx.registry import contributed
from tessella.runtime.elements import DTYPES, element_of, unpacked, widened
from tessella.support.decisions import differs
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import ceil_div

ELEMENTS_OF = {2: "u2", 4: "u4", 8: "u8"}
"""The elements of packed integers, by their bits."""
LARGEST = 127
"""The largest integer to which activations are quantized."""
LEAST = 1e-30
"""The least magnitude by which activations are quantized, so that zeros stay zeros."""


@contributed("MatMulNBits", reads=(1, 3), accuracy_level=0, bits=4, weight_prepacked=0)
def matmul_n_bits(call: Call) -> Value:
    """Emit a product with a matrix of integers in blocks. With accuracy level 4, the rows are
    quantized to signed bytes in the same blocks."""
    bits, length, n, k = _bits(call), _length(call), call.integer("N"), call.integer("K")
    if call.optional(4) is not None:
        call.unsupported("g_idx, the order of the rows of B, is not supported")
    if call.integer("weight_prepacked"):
        call.unsupported("weights that are packed for one machine are not supported")
    if min(n, k) < 1 or not call.x.rank or differs(call.x.shape[-1], k):
        raise ShapeError("A does not have rows of K elements", expected=str(k), found=_type(call.x))
    blocks = ceil_div(k, length)
    values = _integers(call.static(1, "the packed matrix"), (n, blocks * length), bits)
    scale = call.operand(2).reshape((n, blocks)).cast(np.float32)
    outer = call.x.shape[:-1] or (1,)
    more = [*[0] * len(outer), blocks * length - k]
    rows = call.x.reshape((*outer, k)).pad([0] * len(more), more)
    if call.integer("accuracy_level") == 4:
        rows = _quantized(rows, blocks)
    zero, offset = _zero_points(call, (n, blocks), bits)
    whole = call.constant(values.reshape(n, blocks, length))
    wide = whole.op(nn.DequantizeOp, scale.reshape((n, blocks, 1)), zero.reshape((n, blocks, 1)))
    matrix = wide.reshape((n, blocks * length)).cast(rows.dtype)
    y = rows.op(nn.MatmulOp, matrix, transpose_b=True)
    if offset is not None:
        sums = rows.reshape((*outer, blocks, length)).sum((len(outer) + 1,))
        y = y - sums.op(nn.MatmulOp, (offset * scale).cast(rows.dtype), transpose_b=True)
    y, bias = y.reshape((*call.x.shape[:-1], n)), call.optional(5)
    return y if bias is None else y + bias


def _type(value: Value) -> str:
    return str(value.type)


def _bits(call: Call) -> int:
    bits = call.integer("bits")
    if bits not in ELEMENTS_OF:
        call.unsupported(f"integers of {bits} bits are not supported")
    return bits


def _length(call: Call) -> int:
    """Return the number of values in a block, a power of two from 16 on."""
    length = call.integer("block_size")
    if length < 16 or length & (length - 1):
        raise InvalidModelError(
            "a block has an invalid number of values",
            expected="a power of two from 16 on",
            found=str(length),
            where=call.node.where,
        )
    return length


def _integers(packed: Array, shape: tuple[int, int], bits: int) -> Array:
    """Return the unsigned integers in bytes. Each row begins with a new byte."""
    rows, count = shape
    size = ceil_div(count * bits, 8)
    if packed.dtype != np.uint8 or packed.size != rows * size:
        raise ShapeError(
            "a packed matrix does not have the right number of bytes",
            expected=f"{rows} rows of {size} bytes",
            found=f"{packed.dtype} {packed.shape}",
        )
    each = size * 8 // bits
    values = unpacked(packed.reshape(-1), (rows, each), DTYPES[ELEMENTS_OF[bits]])
    return values.reshape(rows, each)[:, :count]


def _zero_points(call: Call, shape: tuple[int, int], bits: int) -> tuple[Value, Value | None]:
    """Return the integer zero points of blocks [N, blocks], and those that are floats; an absent
    zero point is half the range."""
    given = call.optional(3)
    element = DTYPES[ELEMENTS_OF[bits]]
    half = call.x.emitter.splat(1 << (bits - 1), shape, element)
    if given is None:
        return half, None
    if given.is_float:
        none = call.x.emitter.splat(0, shape, element)
        return none, given.reshape(shape).cast(np.float32)
    return call.constant(_integers(call.static(3, "the zero points"), shape, bits)), None


def _quantized(rows: Value, blocks: int) -> Value:
    """Emit rows that are quantized to signed bytes in blocks, and dequantized again."""
    *outer, k = rows.shape
    parts = rows.reshape((*outer, blocks, k // blocks)).cast(np.float32)
    largest = abs(parts).op(nn.ReduceMaxOp, axes=(len(outer) + 1,), keepdims=True)
    step = largest.op(nn.MaxOp, largest.like(LEAST)) * (1 / LARGEST)
    zero = rows.emitter.splat(0, (), np.int8)
    near = parts.op(nn.QuantizeOp, step, zero).op(nn.DequantizeOp, step, zero)
    return near.reshape((*outer, k)).cast(rows.dtype)


# ** tables **


@contributed(
    "GatherBlockQuantized",
    reads=(0, 3),
    bits=4,
    block_size=128,
    gather_axis=0,
    quantize_axis=1,
)
def gather_block_quantized(call: Call) -> Value:
    """Emit slices of a table of integers in blocks, as floats. Only the gathered integers are
    unpacked. Unlike in ONNX Runtime, an index out of range is an error."""
    length, scale, indices = _length(call), call.operand(2), call.operand(1)
    codes, half = _codes(call, call.static(0, "the table"), None)
    axis, blocked = (
        front_axis(call.integer(name), codes.ndim) for name in ("gather_axis", "quantize_axis")
    )
    sizes = list(codes.shape)
    sizes[blocked] = ceil_div(codes.shape[blocked], length)
    if shapes_differ(scale.shape, tuple(sizes)):
        raise ShapeError("scales do not fit the blocks", expected=str(sizes), found=_type(scale))
    if call.optional(3) is None:
        points = np.full(sizes, half, np.uint8)
    else:
        points, _ = _codes(call, call.static(3, "the zero points"), sizes[-1])
    more = sizes[blocked] * length - codes.shape[blocked]
    padded = np.pad(codes, [(0, more if d == blocked else 0) for d in range(codes.ndim)])
    rows = _gathered(call, padded, indices, axis)
    blocked += indices.rank - 1 if blocked > axis else 0
    x, step, zero = in_blocks(
        rows,
        scale.gather(indices, axis).cast(np.float32),
        call.constant(points).gather(indices, axis),
        blocked,
    )
    y = x.op(nn.DequantizeOp, step, zero).reshape(rows.shape).cast(scale.dtype)
    return y.part(blocked, 0, rows.shape[blocked] - more)


def _codes(call: Call, array: Array, last: int | None) -> tuple[Array, int]:
    """Return integers in bytes, unsigned, and the code of an absent zero point. Bytes hold several
    integers along the last dimension; ``last`` is the number of these integers."""
    element = element_of(array.dtype)
    bits = _bits(call)
    half = 1 << (bits - 1)
    if element is not None and element.name == "u8":
        each = 8 // bits
        count = array.shape[-1] * each if last is None else last
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        fields = (array[..., None] >> shifts) & np.uint8((1 << bits) - 1)
        return fields.reshape(*array.shape[:-1], -1)[..., :count], half
    if element is None or element.name not in ("i4", "u4"):
        call.unsupported(f"a table of {array.dtype} is not supported")
    values = widened(array)
    return (values, 0) if element.name == "u4" else ((values + 8).astype(np.uint8), half)


def _gathered(call: Call, codes: Array, indices: Value, axis: int) -> Value:
    """Emit slices of a table of integers, which are packed in bytes along the last dimension if
    nothing is gathered there and they fill bytes."""
    bits = _bits(call)
    each = 8 // bits
    if axis == codes.ndim - 1 or codes.shape[-1] % each:
        return call.constant(codes).gather(indices, axis)
    parts = codes.reshape(*codes.shape[:-1], -1, each)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    rows = call.constant(np.bitwise_or.reduce(parts << shifts, axis=-1)).gather(indices, axis)
    wide = rows.column().op(nn.OPS["bit_right"], call.constant(shifts))
    fields = wide.op(nn.OPS["bit_and"], wide.like((1 << bits) - 1))
    return fields.reshape((*rows.shape[:-1], rows.shape[-1] * each))


# ** floats of four bits **

FP4 = (0, 5.208333333e-03, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
TABLES: Sequence[tuple[float, ...]] = ((*FP4, *(-x for x in FP4)), NF4)
"""The values of codes by the attribute ``quant_type``: floats with three bits and a sign, and
quantiles of the normal distribution (bitsandbytes)."""


@contributed("MatMulBnb4", reads=(1, 2), quant_type=1, training_mode=0, transB=1)
def matmul_bnb4(call: Call) -> Value:
    """Emit a product with a matrix of floats of four bits. It becomes a matrix of floats if it is
    not transposed, or if blocks do not end with its rows."""
    n, k, length = call.integer("N"), call.integer("K"), _length(call)
    call.meaningless("training_mode")
    kind = call.integer("quant_type")
    if kind not in range(len(TABLES)):
        call.unsupported(f"quant_type {kind} is not supported")
    packed, largest = call.static(1, "the packed matrix"), call.static(2, "absmax")
    count = n * k
    if packed.size != ceil_div(count, 2) or largest.size != ceil_div(count, length):
        raise ShapeError(
            "a packed matrix does not fit its blocks",
            expected=f"{ceil_div(count, 2)} bytes and {ceil_div(count, length)} numbers",
            found=f"{packed.size} and {largest.size}",
        )
    codes = np.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 15], axis=1).reshape(-1)
    if call.flag("transB") and k % length == 0 and call.x.rank:
        return _looked_up(call, codes[:count].reshape(n, k // length, length), largest, kind)
    values = np.array(TABLES[kind], np.float32)[codes[:count]]
    factors = np.repeat(largest.reshape(-1).astype(np.float32), length)[:count]
    matrix = call.constant((values * factors).reshape(n, k)).cast(call.x.dtype)
    return product(call.x, matrix.transpose((1, 0)) if call.flag("transB") else matrix)


def _looked_up(call: Call, codes: Array, largest: Array, kind: int) -> Value:
    """Emit a product with the numbers of a table at codes [N, blocks, length], which stay packed in
    words."""
    n, blocks, length = codes.shape
    parts = codes.reshape(n, blocks, length // 8, 8).astype(np.uint32)
    words = np.bitwise_or.reduce(parts << np.arange(0, 32, 4, dtype=np.uint32), axis=-1)
    packed = call.constant(words.view(np.int32).reshape(n, blocks, -1, 1))
    scale = call.constant(largest.reshape(n, blocks).astype(call.x.dtype))
    return call.x.op(nn.PackedMatmulOp, packed, scale, bits=4, table=TABLES[kind])
