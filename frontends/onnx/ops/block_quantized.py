"""Converters of ONNX Runtime's ops on matrices of small integers in blocks.

    MatMulNBits x w s z  ->  matmul x (reshape (dequantize w s z)), transposed

``passes/packed_products.py`` makes products of this form multiply packed integers.
"""

from __future__ import annotations

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.build import Array
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import contributed
from tessella.runtime.elements import DTYPES, unpacked
from tessella.support.decisions import differs
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import ceil_div

ELEMENTS_OF = {2: "u2", 4: "u4", 8: "u8"}
"""The elements of packed integers, by their bits."""
LARGEST = 127
"""The largest integer to which activations are quantized."""
LEAST = 1e-30
"""The least magnitude by which activations are quantized, so that zeros stay zeros."""


@contributed("MatMulNBits", accuracy_level=0, bits=4, weight_prepacked=0)
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
    """Return the unsigned integers in bytes, of which each row begins with a byte of its own."""
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
