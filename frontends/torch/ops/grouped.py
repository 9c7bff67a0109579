"""Converters of products with one matrix for each group of rows, as in mixtures of experts.
``ends`` has the row after the last one of each group, in order."""

from __future__ import annotations

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import DType, Emitter, Value, product, where
from tessella.frontends.torch.ops.creation import filled, positions
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.sizes import Size


def _groups(ends: Value, count: Size) -> tuple[Value, Value]:
    """Emit the group of each row, and whether it has one: rows after the last group are counted
    as its rows."""
    rows = positions(ends.emitter, count).reshape((count, 1))
    ended = (ends.cast(np.int64).reshape((1, *ends.shape)) <= rows).cast(np.int64).sum([1])
    last = ends.shape[0] - 1
    return ended.op(nn.MinOp, ended.like(last)), ended <= last


def _of_rows(x: Value, weights: Value, ends: Value) -> Value:
    """Emit the product of each row of x[S, K] with the matrix of its group, weights[E, K, N]; 0 for
    rows after the last group."""
    count, inner = x.shape
    group, has_group = _groups(ends, count)
    found = product(x.reshape((count, 1, inner)), weights.gather(group, 0))
    return where(has_group.reshape((count, 1)), found.reshape((count, weights.shape[2])), 0)


def _of_columns(a: Value, b: Value, ends: Value) -> Value:
    """Emit the product of the columns of a[M, S] and the rows of b[S, N] of each group."""
    (rows, count), columns = a.shape, b.shape[1]
    group, has_group = _groups(ends, count)
    given = where(has_group.reshape((count, 1)), a.transpose([1, 0]), 0)
    parts = given.reshape((count, rows, 1)) * b.reshape((count, 1, columns))
    zeros = filled(a.emitter, 0, (ends.shape[0], rows, columns), a.dtype)
    return zeros.scatter(group, parts, "add")


def _transposed(x: Value) -> Value:
    return x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2])


@aten("_grouped_mm")
def grouped_mm(
    emit: Emitter,
    a: Value,
    b: Value,
    ends: Value | None = None,
    bias: Value | None = None,
    out_dtype: DType | None = None,
) -> Value:
    if bias is not None:
        raise refuse("a grouped product with a bias")
    found = product(a, b) if ends is None else _grouped(a, b, ends)
    return found if out_dtype is None else found.cast(out_dtype)


def _grouped(a: Value, b: Value, ends: Value) -> Value:
    if a.rank == b.rank:
        return _of_columns(a, b, ends)
    if a.rank == 2:
        return _of_rows(a, b, ends)
    return _transposed(_of_rows(_transposed(b), _transposed(a), ends))


@aten("transformers::grouped_mm_fallback")
def grouped_mm_fallback(emit: Emitter, input: Value, weight: Value, offs: Value) -> Value:
    return _of_rows(input, weight, offs)


@aten("transformers::grouped_mm_fallback_backward")
def grouped_mm_fallback_backward(
    emit: Emitter, input: Value, weight: Value, offs: Value, grad_output: Value
) -> tuple[Value, Value]:
    of_input = _of_rows(grad_output, _transposed(weight), offs)
    return of_input, _of_columns(_transposed(input), grad_output, offs)
