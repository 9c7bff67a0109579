"""Converters of products with one matrix for each group of rows, as in mixtures of experts.
``ends`` has the row after the last one of each group, in order."""

from __future__ import annotations

from tessella.dialects import nn
from tessella.frontends.emitter import DType, Emitter, Value, product
from tessella.frontends.torch.registry import aten, refuse


def _of_rows(x: Value, weights: Value, ends: Value) -> Value:
    """Emit the product of each row of x[S, K] with the matrix of its group, weights[E, K, N]; 0 for
    rows after the last group."""
    return x.op(nn.GroupedMatmulOp, weights, ends)


def _of_columns(a: Value, b: Value, ends: Value) -> Value:
    """Emit the product of the columns of a[M, S] and the rows of b[S, N] of each group."""
    return _transposed(a).op(nn.GroupedOuterOp, b, ends)


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
