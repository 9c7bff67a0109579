"""Converters of bags of embeddings: rows of a table that are added up, averaged or compared."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value, where
from tessella.frontends.searching import found_places
from tessella.frontends.torch.ops.creation import filled, positions
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.sizes import Size


class Mode(IntEnum):
    """The reduction of the rows of a bag."""

    SUM = 0
    MEAN = 1
    MAX = 2


class _Bags:
    """The bag of each index."""

    def __init__(self, indices: Value, offsets: Value, count: Size, padding: int) -> None:
        emit = indices.emitter
        self.indices = indices.cast(np.int64)
        places = positions(emit, indices.shape[0])
        self.bag = found_places(offsets.cast(np.int64), places, "right") - 1
        self.counts: Value | None = None if padding < 0 else ~self.indices.equals(padding)
        """True for each index that counts; None if all do."""
        ones = self.counting(filled(emit, 1, indices.shape, np.dtype(np.int64)), 0)
        self.sizes = filled(emit, 0, (count,), np.dtype(np.int64)).scatter(self.bag, ones, "add")

    def counting(self, x: Value, neutral: float) -> Value:
        """Emit the slices of each index, with a number in those that do not count."""
        if self.counts is None:
            return x
        return where(self.counts.reshape((*x.shape[:1], *[1] * (x.rank - 1))), x, neutral)

    def divisors(self, like: Value) -> Value:
        """Emit the size of each bag as a float, at least 1."""
        return self.sizes.op(nn.MaxOp, self.sizes.like(1)).cast(like.dtype)

    def largest(self, rows: Value, count: Size) -> tuple[Value, Value]:
        """Emit the maxima of each bag, 0 for an empty one, and the indices of the first of them."""
        shape, places = (count, rows.shape[1]), positions(rows.emitter, rows.shape[0])
        lowest = filled(rows.emitter, -math.inf, shape, rows.dtype)
        found = lowest.scatter(self.bag, self.counting(rows, -math.inf), "max")
        total = rows.shape[0]
        is_found = self.counting(rows.equals(found.gather(self.bag, 0)), False)
        firsts = where(is_found, places.column(), total)
        none = filled(rows.emitter, total, shape, places.dtype)
        first = none.scatter(self.bag, firsts, "min")
        is_empty = first.equals(total)
        index = self.indices.gather(where(is_empty, 0, first), 0)
        return where(is_empty, 0, found), where(is_empty, 0, index)


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    emit: Emitter,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = Mode.SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Value, Value, Value, Value]:
    count = offsets.shape[0] - include_last_offset
    bags, kind = _Bags(indices, offsets, count, padding_idx), offsets.dtype
    sizes, rows = bags.sizes.cast(kind), weight.gather(bags.indices, 0)
    of_indices = bags.bag.cast(kind)
    if mode == Mode.MAX:
        found, largest = bags.largest(rows, count)
        return found, of_indices, sizes, largest.cast(kind)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.column()
    zeros = filled(emit, 0, (count, weight.shape[1]), weight.dtype)
    found = zeros.scatter(bags.bag, bags.counting(rows, 0), "add")
    if mode == Mode.MEAN:
        found = found / bags.divisors(found).column()
    elif padding_idx < 0 and weight.dtype.name in ("float32", "float16"):
        of_indices = of_indices.part(0, 0, 0)  # PyTorch returns none of them either
    return found, of_indices, sizes, sizes


@aten("_embedding_bag_backward", note="dense")
def embedding_bag_backward(
    emit: Emitter,
    grad: Value,
    indices: Value,
    offsets: Value,
    of_indices: Value,
    sizes: Value,
    largest: Value,
    rows: Size,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Value | None,
    padding_idx: int = -1,
) -> Value:
    if sparse:
        raise refuse("a sparse gradient")
    zeros = filled(emit, 0, (rows, grad.shape[1]), grad.dtype)
    bags = _Bags(indices, offsets, grad.shape[0], padding_idx)
    if mode == Mode.MAX:
        given = where(bags.sizes.equals(0).column(), 0, grad)
        at = largest.cast(np.int64)
        return zeros.op(nn.ScatterElementsOp, at, given, axis=0, reduction="add")
    if mode == Mode.MEAN:
        grad = grad / bags.divisors(grad).column()
    given = grad.gather(bags.bag, 0)
    if per_sample_weights is not None:
        given = given * per_sample_weights.column()
    if scale_grad_by_freq:
        ones = filled(emit, 1, indices.shape, grad.dtype)
        found = filled(emit, 0, (rows,), grad.dtype).scatter(bags.indices, ones, "add")
        given = given / found.gather(bags.indices, 0).column()
    return zeros.scatter(bags.indices, bags.counting(given, 0), "add")


@aten("_embedding_bag_per_sample_weights_backward")
def of_sample_weights(
    emit: Emitter,
    grad: Value,
    weight: Value,
    indices: Value,
    offsets: Value,
    of_indices: Value,
    mode: int,
    padding_idx: int = -1,
) -> Value:
    bags = _Bags(indices, offsets, grad.shape[0], padding_idx)
    products = grad.gather(bags.bag, 0) * weight.gather(bags.indices, 0)
    return bags.counting(products.sum([1]), 0)
