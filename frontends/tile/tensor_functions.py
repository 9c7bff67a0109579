"""Functions of whole tensors in the Tile language: their result types, and the statements that
compute them.

A new function is a new row of the table ``TENSOR_FUNCTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import (
    Tensor,
    dtype_of,
    shape_of,
    shapes_differ,
    shown,
    tensor,
    tensor_type,
)
from tessella.dialects.place import place_of, placed
from tessella.dialects.tile.aggregations import aggregation_of
from tessella.kernels.builder import Form, KernelBuilder, Scalars, retyped
from tessella.kernels.indexing import clamped, gathered, scattered
from tessella.kernels.movement import rearranged
from tessella.runtime.specs import TensorSpec
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero, differs, known
from tessella.support.sizes import Size, product

MAX_RANK = 64
"""The maximum number of dimensions of a NumPy array."""

_INT32 = np.dtype(np.int32)

Specs = Sequence[TensorSpec]
Numbers = Sequence[Size]


class MisfitError(ValueError):
    """The error for an argument that a function does not accept; ``argument`` is its index."""

    def __init__(
        self,
        argument: int,
        what: str,
        *,
        expected: str,
        found: str,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.argument = argument
        self.what = what
        self.expected = expected
        self.found = found
        self.hint = hint


@dataclass(frozen=True)
class TensorFunction:
    """A function of whole tensors: ``tensors`` tensors, followed by constant numbers."""

    tensors: int
    numbers: tuple[int, int]
    """The least and the greatest number of constant arguments."""
    spec: Callable[[Specs, Numbers], TensorSpec]
    """A function that returns the spec of the result, from the specs of the tensors and the
    numbers. Raises MisfitError."""
    build: Callable[[KernelBuilder, Sequence[SSAValue], Numbers, Tensor], SSAValue]
    """A function that appends statements for a nonempty result to a kernel, and returns the
    result."""

    @property
    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of arguments, tensors and numbers together."""
        least, most = self.numbers
        return self.tensors + least, self.tensors + most


def _check_indices(spec: TensorSpec, argument: int) -> None:
    if spec.dtype.kind not in "iu":
        raise MisfitError(
            argument,
            "indices are integers",
            expected="a tensor of integers",
            found=spec.dtype.name,
            hint="convert with as_int(x, 32)",
        )


def has_no_elements(shape: Sequence[Size]) -> bool:
    """Return whether a tensor of this shape is empty."""
    return any(map(decided_zero, shape))


def _axis(spec: TensorSpec, number: Size, argument: int) -> int:
    """Return a dimension of a tensor as a nonnegative number. Raises MisfitError if it is out of
    range."""
    rank, axis = len(spec.shape), known(number)
    if not -rank <= axis < rank:
        raise MisfitError(
            argument,
            "the dimension is out of range",
            expected=f"in [{-rank}, {rank})" if rank else "a tensor with dimensions",
            found=f"{axis}, and a tensor of shape {shown(spec.shape)}",
        )
    return axis % rank


# ** gather and scatter **


def _gathered(specs: Specs, _: Numbers) -> TensorSpec:
    data, indices = specs
    _check_indices(indices, 1)
    chosen = indices.shape
    if not data.shape:
        raise MisfitError(
            0, "the tensor has no rows", expected="at least one dimension", found="a scalar"
        )
    if decided_zero(data.shape[0]) and not has_no_elements(chosen):
        raise MisfitError(
            0, "the tensor has no rows", expected="at least one", found=shown(data.shape)
        )
    return TensorSpec((*chosen, *data.shape[1:]), data.dtype)


def _gather(k: KernelBuilder, operands: Sequence[SSAValue], _: Numbers, type: Tensor) -> SSAValue:
    """Emit a gather: R[i.., b..] = D[I[i..], b..]."""
    data, indices = operands
    return gathered(k, data, indices, 0, type, clamped)


def _scattered(specs: Specs, _: Numbers) -> TensorSpec:
    values, indices, like = specs
    _check_indices(indices, 1)
    rank = len(indices.shape)
    if shapes_differ(values.shape[:rank], indices.shape):
        raise MisfitError(
            0,
            "the first dimensions of the values are those of the indices",
            expected=f"{shown(indices.shape)}, and others after it",
            found=shown(values.shape),
        )
    if not like.shape:
        raise MisfitError(
            2, "the tensor has no rows", expected="at least one dimension", found="a scalar"
        )
    if decided_zero(like.shape[0]) and not has_no_elements(values.shape):
        raise MisfitError(
            2, "there are no rows to add to", expected="at least one", found=shown(like.shape)
        )
    return TensorSpec((like.shape[0], *values.shape[rank:]), values.dtype)


def _scatter(aggregation: str) -> TensorFunction:
    """Return the function of a scatter: R[I[i..], b..] op= V[i.., b..]. An element that no index
    names is 0, as in contractions."""

    def build(k: KernelBuilder, operands: Sequence[SSAValue], _: Numbers, type: Tensor) -> SSAValue:
        values, indices, _like = operands
        if has_no_elements(shape_of(values)):
            return _filled(k, type, 0)
        first = _before_any(aggregation, type.element_type)
        start = _filled(k, type, first)
        written = scattered(k, aggregation, start, (indices, [[]]), values, clamped)
        return written if first == 0 else _zero_where_unwritten(k, indices, written, type)

    return TensorFunction(3, (0, 0), _scattered, build)


def _before_any(aggregation: str, element: Attribute) -> float:
    """Return the initial value of an element, before any value is aggregated into it."""
    if aggregation == "=":
        return 0
    return aggregation_of(aggregation, element).identity(element_of(element).bits)


def _filled(k: KernelBuilder, type: Tensor, value: float) -> SSAValue:
    return k.map([], type, lambda s, _: s.constant(value, type.element_type))


def _zero_where_unwritten(
    k: KernelBuilder, indices: SSAValue, written: SSAValue, type: Tensor
) -> SSAValue:
    """Emit a copy of ``written`` in which the rows that no index names are zero."""
    shape = shape_of(type)
    names = [f"d{i}" for i in range(len(shape))]
    nowhere = _filled(k, _flags(type, shape[:1]), 0)
    ones = _filled(k, _flags(type, shape_of(indices)), 1)
    reached = scattered(k, "=", nowhere, (indices, [[]]), ones, clamped)

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return s.op(arith.SelectOp(a[1], a[0], s.like(0, a[0])))

    reads: list[tuple[SSAValue, Sequence[Form]]] = [(written, names), (reached, names[:1])]
    return k.contract("=", dict(zip(names, shape, strict=True)), {}, reads, (type, names), body)


def _flags(like: Tensor, shape: Sequence[Size]) -> Tensor:
    """Return the type of a tensor of booleans with this shape, at the same place as the tensor type
    ``like``."""
    place, flags = place_of(retyped(like, i1)), tensor(i1, shape)
    return flags if place is None else placed(flags, place)


# ** places **


def _indexed(specs: Specs, numbers: Numbers) -> TensorSpec:
    _axis(specs[0], numbers[0], 1)
    return TensorSpec(specs[0].shape, _INT32)


def _index(
    k: KernelBuilder, operands: Sequence[SSAValue], numbers: Numbers, type: Tensor
) -> SSAValue:
    """Emit a tensor of positions along a dimension: R[.., d, ..] = d."""
    name = f"d{known(numbers[0]) % len(shape_of(operands[0]))}"
    return k.map([], type, lambda s, _: s.op(arith.IndexCastOp(s.index(name), i32)))


def _shaped(specs: Specs, _: Numbers) -> TensorSpec:
    return TensorSpec((len(specs[0].shape),), _INT32)


def _shape(k: KernelBuilder, operands: Sequence[SSAValue], _: Numbers, type: Tensor) -> SSAValue:
    """Emit the shape of a tensor: R[d] = the size of dimension d."""
    first, *others = shape_of(operands[0])

    def body(s: Scalars, _: Sequence[SSAValue]) -> SSAValue:
        size = s.size(first)
        for d, other in enumerate(others, 1):
            here = s.op(arith.CmpiOp(s.index("d0"), s.size(d), "eq"))
            size = s.op(arith.SelectOp(here, s.size(other), size))
        return s.op(arith.IndexCastOp(size, i32))

    return k.map([], type, body)


def _reshaped(specs: Specs, numbers: Numbers) -> TensorSpec:
    shape = specs[0].shape
    for i, size in enumerate(numbers, 1):
        if decided(size < 0):
            raise MisfitError(i, "a size is negative", expected="0 or more", found=str(size))
    if differs(product(numbers), product(shape)):
        raise MisfitError(
            0,
            "the shapes have different numbers of elements",
            expected=f"{product(numbers)}, as {shown(numbers)} has",
            found=f"{product(shape)} in {shown(shape)}",
        )
    return TensorSpec(tuple(numbers), specs[0].dtype)


def _reshape(k: KernelBuilder, operands: Sequence[SSAValue], _: Numbers, type: Tensor) -> SSAValue:
    return rearranged(k, operands[0], type)


# ** selections **


def _sorted(specs: Specs, numbers: Numbers) -> TensorSpec:
    """Return the spec of the result of `argsort(x, axis, descending, count)`."""
    shape, (along, _, count) = specs[0].shape, _of_sort(specs[0], numbers)
    return TensorSpec((*shape[:along], count, *shape[along + 1 :]), _INT32)


def _of_sort(spec: TensorSpec, numbers: Numbers) -> tuple[int, bool, Size]:
    """Return the arguments of a sort: its dimension, whether the order is descending, and the
    number of selected elements."""
    axis, descending, count = (*numbers, *(None,) * (3 - len(numbers)))
    along = _axis(spec, -1 if axis is None else axis, 0 if axis is None else 1)
    if descending not in (None, 0, 1):
        raise MisfitError(
            2, "unknown order", expected="0 for ascending, or 1", found=str(descending)
        )
    size = spec.shape[along]
    if count is not None and not (decided(count >= 0) and decided(count <= size)):
        raise MisfitError(
            3, "the dimension has fewer elements", expected=f"in [0, {size}]", found=str(count)
        )
    return along, bool(descending), size if count is None else count


def _argsort(
    k: KernelBuilder, operands: Sequence[SSAValue], numbers: Numbers, type: Tensor
) -> SSAValue:
    """Emit the positions of the elements of a tensor in sorted order along a dimension."""
    (x,) = operands
    spec = TensorSpec(shape_of(x), dtype_of(x.type))
    along, descending, count = _of_sort(spec, numbers)
    element = tensor_type(x).element_type
    key = i8 if element == i1 else element
    types = [retyped(type, key), retyped(type, i64)]
    _, places = k.sort(
        shape_of(x), along, count, [x], types, lambda s, a: s.cast(a[0], key), descending=descending
    )
    return k.stored(places, type)


TENSOR_FUNCTIONS: Mapping[str, TensorFunction] = {
    "gather": TensorFunction(2, (0, 0), _gathered, _gather),
    "scatter": _scatter("+"),
    "scatter_mul": _scatter("*"),
    "scatter_max": _scatter(">"),
    "scatter_min": _scatter("<"),
    "scatter_last": _scatter("="),
    "index": TensorFunction(1, (1, 1), _indexed, _index),
    "shape": TensorFunction(1, (0, 0), _shaped, _shape),
    "reshape": TensorFunction(1, (0, MAX_RANK), _reshaped, _reshape),
    "argsort": TensorFunction(1, (0, 3), _sorted, _argsort),
}
