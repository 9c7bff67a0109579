"""Kernels of resizes: elements, or weighted sums of two, at positions known at compile time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn import movement
from tessella.dialects.nn.core import NnOp, Tensor, dtype_of, shape_of
from tessella.dialects.sizes import dims
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.cost import copying
from tessella.kernels.elements import FLOATING, MOVED
from tessella.kernels.reduction import first
from tessella.kernels.registry import native
from tessella.runtime.host.movement import (
    linear_weights,
    nearest_indices,
    resize_positions,
    resized_axes,
)
from tessella.support.decisions import known, known_all
from tessella.support.sizes import Size

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Sampled:
    """How a resized dimension reads its operand.

    Element ``repeat * i + j`` of the result, with j below ``repeat``, is element ``start + step *
    i`` of the operand.
    """

    repeat: int
    step: int
    start: int


def _samples(op: NnOp) -> list[_Sampled] | None:
    """Return how each dimension of a nearest resize reads the operand; None if a dimension does not
    follow the pattern of `_Sampled`."""
    s = op.settings
    sampled: list[_Sampled] = []
    for old, new, scale in zip(shape_of(op.operands[0]), s["sizes"], s["scales"], strict=True):
        if (old, scale) == (new, 1):
            sampled.append(_Sampled(1, 1, 0))
            continue
        count = known(old)
        positions = resize_positions(count, new, scale, s["coordinates"])
        pattern = _pattern(nearest_indices(positions, count, s["nearest_mode"]), count)
        if pattern is None:
            return None
        sampled.append(pattern)
    return sampled


def _pattern(indices: Array, old: int) -> _Sampled | None:
    count = len(indices)
    if count == 0:
        return _Sampled(1, 1, 0)
    if count % old == 0 and (indices == np.arange(count) // (count // old)).all():
        return _Sampled(count // old, 1, 0)
    start, step = int(indices[0]), int(indices[1] - indices[0]) if count > 1 else 1
    return _Sampled(1, step, start) if (indices == start + step * np.arange(count)).all() else None


def _by_whole_factors(op: NnOp) -> str | None:
    if op.settings["mode"] != "nearest":
        return "the kernel takes the nearest element"
    if _samples(op) is None:
        return "the kernel needs factors that are whole numbers"
    return None


@native(movement.ResizeOp, "resize", elements=MOVED, applies=_by_whole_factors, cost=copying)
def resize(k: KernelBuilder, op: movement.ResizeOp, x: SSAValue) -> SSAValue:
    """Emit R[f * d + e, ..] = X[d, ..] for a dimension that grows by f; X[start + f * d, ..] for
    one that shrinks by f."""
    type, samples = k.result_type(op), _samples(op)
    assert samples is not None, "the kernel needs factors that are whole numbers"
    free: dict[str, Size] = {}
    reads: list[Form] = []
    writes: list[Form] = []
    for i, (size, sample) in enumerate(zip(shape_of(type), samples, strict=True)):
        free[f"d{i}"] = size // sample.repeat
        reads.append(Linear.of(f"d{i}", sample.step) + sample.start)
        writes.append(Linear.of(f"d{i}", sample.repeat))
        if sample.repeat > 1:
            free[f"e{i}"] = sample.repeat
            writes[i] = Linear.of(f"d{i}", sample.repeat) + Linear.of(f"e{i}")
    return k.contract("=", free, {}, [(x, reads)], (type, writes), first)


# ** by any factor **


def _is_nearest(op: NnOp) -> str | None:
    return None if op.settings["mode"] == "nearest" else "the kernel takes the nearest element"


@native(movement.ResizeOp, "resize_nearest", NCHW, NHWC, elements=MOVED, applies=_is_nearest)
def resize_nearest(k: KernelBuilder, op: movement.ResizeOp, x: SSAValue) -> SSAValue:
    """Emit R[d..] = X[I[d]..], with a table I of positions for each dimension."""
    type, shape, s = k.result_type(op), shape_of(x), op.settings
    names = [f"d{i}" for i in range(len(shape))]
    resized = resized_axes(known_all(shape), s["sizes"], s["scales"])
    tables: list[tuple[SSAValue, Sequence[Form]]] = []
    for axis in resized:
        old = known(shape[axis])
        places = nearest_indices(_positions(op, old, axis), old, s["nearest_mode"])
        tables.append((_table(k, places.astype(np.int32), "places"), [names[axis]]))

    def body(scalars: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return _read(scalars, x, names, dict(zip(resized, a, strict=True)))

    free = dict(zip(names, shape_of(type), strict=True))
    return k.contract("=", free, {}, tables, (type, list(names)), body)


def _is_linear(op: NnOp) -> str | None:
    return None if op.settings["mode"] == "linear" else "the kernel mixes two elements"


@native(movement.ResizeOp, "resize_linear", NCHW, NHWC, elements=FLOATING, applies=_is_linear)
def resize_linear(k: KernelBuilder, op: movement.ResizeOp, x: SSAValue) -> SSAValue:
    """Emit R[.., d, ..] = B[d] X[.., I[d], ..] + A[d] X[.., J[d], ..], dimension by dimension. I
    and J are tables of the positions of two elements, B and A tables of their weights."""
    result, s = k.result_type(op), op.settings
    resized = resized_axes(known_all(shape_of(x)), s["sizes"], s["scales"])
    if not resized:
        return k.map([x], result, first)
    for axis in resized:
        shape = list(shape_of(x))
        positions = _positions(op, known(shape[axis]), axis)
        shape[axis] = s["sizes"][axis]
        type = TensorType(result.element_type, dims(shape), result.encoding)
        x = _mixed(k, x, axis, positions, type)
    return k.stored(x, result)


def _mixed(k: KernelBuilder, x: SSAValue, axis: int, positions: Array, type: Tensor) -> SSAValue:
    """Return ``x`` resized along one dimension: each element is the weighted sum of the two
    elements around its position."""
    computed = k.computed(type.element_type)
    low, high, above = linear_weights(positions, known(shape_of(x)[axis]))
    above = above.astype(np.float64)
    places = [_table(k, array.astype(np.int32), name) for array, name in ((low, "i"), (high, "j"))]
    weights = [
        _table(k, array.astype(dtype_of(computed)), name)
        for array, name in ((1 - above, "b"), (above, "a"))
    ]
    names = [f"d{i}" for i in range(len(shape_of(type)))]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        i, j, below, above = a
        one, other = (s.cast(_read(s, x, names, {axis: place}), computed) for place in (i, j))
        return s.op(math.FmaOp(other, above, s.op(arith.MulfOp(one, below))))

    free = dict(zip(names, shape_of(type), strict=True))
    tables: list[tuple[SSAValue, Sequence[Form]]] = [
        (table, [names[axis]]) for table in (*places, *weights)
    ]
    return k.contract("=", free, {}, tables, (type, list(names)), body)


def _positions(op: NnOp, old: int, axis: int) -> Array:
    s = op.settings
    size, scale = s["sizes"][axis], s["scales"][axis]
    return resize_positions(old, size, scale, s["coordinates"])


def _table(k: KernelBuilder, array: Array, name: str) -> SSAValue:
    return k.constant(np.ascontiguousarray(array), f"resize_{name}")


def _read(
    s: Scalars, x: SSAValue, names: Sequence[str], places: Mapping[int, SSAValue]
) -> SSAValue:
    """Return the element of ``x`` at the positions ``places`` of some dimensions, and at the
    statement's indices of the other dimensions."""
    return s.extract(
        x,
        [
            s.op(arith.IndexCastOp(places[d], IndexType())) if d in places else s.index(name)
            for d, name in enumerate(names)
        ],
    )
