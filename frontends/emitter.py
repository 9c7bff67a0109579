"""The emitter of every frontend: `nn` ops by operators on values, or by class with inferred
types."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from tessella.dialects import nn
from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import (
    PyValue,
    Tensor,
    dtype_of,
    element_type,
    is_float,
    shape_of,
    tensor,
    tensor_type,
    type_of,
)
from tessella.dialects.sizes import is_static
from tessella.frontends.functions import clean
from tessella.runtime.elements import converted, widened
from tessella.runtime.weights import WeightStore
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

Array = npt.NDArray[Any]
DType = np.dtype[Any]

_INT64 = np.iinfo(np.int64)


class Emitter:
    """An emitter of `nn` ops: it appends ops to a block and stores their weights.

    Each op records the current ``where``: its node or line in the source.
    """

    def __init__(self, block: Block, where: Callable[[], str | None] = lambda: None) -> None:
        self.block = block
        self.root = block
        """The block of the program. ``block`` is another block while a function's body is
        emitted."""
        self.functions: list[FuncOp] = []
        """The functions that ops of the program call, callees first."""
        self.weights = WeightStore()
        self.where = where

    def emit(
        self, op: type[nn.NnOp], *operands: Value, **properties: PyValue | None
    ) -> tuple[Value, ...]:
        """Append an op and return its results. Properties that are None are omitted. Raises
        ShapeError."""
        for name, value in properties.items():
            _check_range(name, value)
        values = [operand.ssa for operand in operands]
        return self.append(op.make(values, node=self.where(), **properties))

    def append(self, op: nn.NnOp) -> tuple[Value, ...]:
        """Append an existing op and return its results."""
        self.block.add_op(op)
        return self.values(op.results)

    def values(self, values: Sequence[SSAValue]) -> tuple[Value, ...]:
        """Wrap SSA values (results or arguments) as ``Value``, which has operators."""
        return tuple(Value(self, value) for value in values)

    def splat(
        self, value: complex, shape: Sequence[Size] = (), dtype: npt.DTypeLike = np.float32
    ) -> Value:
        """Return a tensor whose elements all equal ``value``. Raises ShapeError for a number that
        the dtype cannot represent."""
        type = tensor(element_type(dtype), shape)
        if element_of(type).is_complex:
            return self.constant(np.asarray(value, dtype)).expand(shape)
        if not element_of(type).is_real:
            raise ShapeError("a number is no string", expected="a dtype of numbers", found="string")
        number = cast(float, value)
        _check_fits(number, np.dtype(dtype))
        return self.append(nn.SplatOp(number, type))[0]

    def scalar(self, value: float | Size, dtype: npt.DTypeLike) -> Value:
        """Return a scalar tensor. ``value`` may be a symbolic size."""
        if isinstance(value, int | float):
            return self.splat(value, (), dtype)
        return self.sizes_as(np.array(value, object), dtype)

    def constant(self, array: Array, name: str = "constant") -> Value:
        """Return a tensor with the elements of an array. If the array has a single element, the
        tensor is a splat, otherwise a weight. Strings and complex numbers are always a weight."""
        type = type_of(array)
        if array.size == 1 and element_of(type).is_real:
            return self.splat(widened(array).reshape(-1)[0].item(), array.shape, array.dtype)
        symbol = self.weights.add(name, array)
        return self.append(nn.WeightOp(symbol, type))[0]

    def sizes(self, values: Sequence[Size]) -> Value:
        """Return a vector of int64 with these sizes, which may be symbolic."""
        if is_static(values):
            return self.constant(np.array(values, np.int64))
        return self.emit(nn.SizesOp, values=tuple(values))[0]

    def sizes_as(self, values: Array, dtype: npt.DTypeLike) -> Value:
        """Return a tensor of a dtype with the sizes in an array."""
        return self.sizes(values.reshape(-1).tolist()).reshape(values.shape).cast(dtype)

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Make ops go to another block within the context."""
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer

    def module(self, main: FuncOp) -> ModuleOp:
        """Return the finished program without unused ops, functions and weights."""
        used = clean(main)
        kept: list[FuncOp] = []
        for function in reversed(self.functions):
            if function.sym_name.data in used:
                used |= clean(function)
                kept.append(function)
        module = ModuleOp([*reversed(kept), main])
        ops = (op for op in module.walk() if isinstance(op, nn.WeightOp))
        self.weights.keep({op.symbol.root_reference.data for op in ops})
        return module


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a program under construction.

    Operators append ops. A number or an array takes the element type of the value beside it.
    """

    emitter: Emitter
    ssa: SSAValue

    __array_ufunc__ = None  # NumPy leaves the operator to the value if an array is on the left

    @property
    def type(self) -> Tensor:
        """The type of the tensor."""
        return tensor_type(self.ssa)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the tensor's dimensions."""
        return shape_of(self.ssa)

    @property
    def rank(self) -> int:
        """The number of the tensor's dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """The dtype of the tensor's elements."""
        return dtype_of(self.ssa.type)

    @property
    def is_float(self) -> bool:
        """True if the elements are floating-point numbers."""
        return is_float(self.ssa.type)

    @property
    def is_complex(self) -> bool:
        """True if the elements are complex numbers."""
        return element_of(self.ssa.type).is_complex

    def op(self, op: type[nn.NnOp], *others: Value | None, **properties: PyValue | None) -> Value:
        """Return the first result of an op on this value and the given others."""
        given = (other for other in others if other is not None)
        return self.emitter.emit(op, self, *given, **properties)[0]

    def like(self, numbers: Numbers) -> Value:
        """Return a number or an array as a constant of this value's element type."""
        if isinstance(numbers, np.ndarray):
            return self.emitter.constant(converted(numbers, self.dtype))
        return self.emitter.scalar(numbers, self.dtype)

    def _with(self, op: type[nn.NnOp], other: Operand) -> Value:
        return self.op(op, other if isinstance(other, Value) else self.like(other))

    # ** arithmetic, comparisons, logic **

    def __add__(self, other: Operand) -> Value:
        return self._with(nn.AddOp, other)

    def __radd__(self, other: Numbers) -> Value:
        return self.like(other) + self

    def __sub__(self, other: Operand) -> Value:
        return self._with(nn.SubOp, other)

    def __rsub__(self, other: Numbers) -> Value:
        return self.like(other) - self

    def __mul__(self, other: Operand) -> Value:
        return self._with(nn.MulOp, other)

    def __rmul__(self, other: Numbers) -> Value:
        return self.like(other) * self

    def __truediv__(self, other: Operand) -> Value:
        return self._with(nn.DivOp, other)

    def __rtruediv__(self, other: Numbers) -> Value:
        return self.like(other) / self

    def __mod__(self, other: Operand) -> Value:
        return self._with(nn.ModOp, other)

    def __pow__(self, other: Operand) -> Value:
        return self._with(nn.PowOp, other)

    def __matmul__(self, other: Value) -> Value:
        return self.op(nn.MatmulOp, other, transpose_b=False)

    def __neg__(self) -> Value:
        return self.op(nn.NegOp)

    def __abs__(self) -> Value:
        return self.op(nn.AbsOp)

    def __lt__(self, other: Operand) -> Value:
        return self._with(nn.LessOp, other)

    def __le__(self, other: Operand) -> Value:
        return self._with(nn.LessEqualOp, other)

    def __gt__(self, other: Operand) -> Value:
        return self._with(nn.GreaterOp, other)

    def __ge__(self, other: Operand) -> Value:
        return self._with(nn.GreaterEqualOp, other)

    def equals(self, other: Operand) -> Value:
        """Return whether elements are equal, elementwise. (``==`` compares the identity of
        values.)"""
        return self._with(nn.EqualOp, other)

    def __and__(self, other: Value) -> Value:
        return self.op(nn.AndOp, other)

    def __or__(self, other: Value) -> Value:
        return self.op(nn.OrOp, other)

    def __invert__(self) -> Value:
        return self.op(nn.NotOp)

    # ** reductions **

    def sum(self, axes: Sequence[int], *, keepdims: bool = False) -> Value:
        """Emit the sum over ``axes``."""
        return self.op(nn.ReduceSumOp, axes=tuple(axes), keepdims=keepdims)

    def mean(self, axes: Sequence[int], *, keepdims: bool = False) -> Value:
        """Emit the mean over ``axes``."""
        return self.op(nn.ReduceMeanOp, axes=tuple(axes), keepdims=keepdims)

    def max(self, axes: Sequence[int], *, keepdims: bool = False) -> Value:
        """Emit the maximum over ``axes``."""
        return self.op(nn.ReduceMaxOp, axes=tuple(axes), keepdims=keepdims)

    # ** type and shape: each returns the value itself if nothing changes **

    def cast(self, dtype: npt.DTypeLike) -> Value:
        """Emit a conversion of the elements to ``dtype``."""
        same = self.dtype == np.dtype(dtype)
        return self if same else self.op(nn.CastOp, to=element_type(dtype))

    def reshape(self, shape: Sequence[Size]) -> Value:
        """Emit a reshape: the elements in row-major order, in another shape."""
        same = self.shape == tuple(shape)
        return self if same else self.op(nn.ReshapeOp, shape=tuple(shape))

    def flat(self) -> Value:
        """Emit a reshape to one dimension."""
        return self.reshape((math.prod(self.shape),))

    def column(self) -> Value:
        """Emit a reshape that appends a dimension of size 1."""
        return self.reshape((*self.shape, 1))

    def scatter(self, places: Value, slices: Value, reduction: str = "none") -> Value:
        """Emit a copy with ``slices`` written at ``places`` along the first dimension, or combined
        with what is there by ``reduction``, in order."""
        return self.op(nn.ScatterNdOp, places.column(), slices, reduction=reduction)

    def transpose(self, perm: Sequence[int]) -> Value:
        """Emit a transpose: dimension ``perm[i]`` becomes dimension ``i``."""
        same = list(perm) == list(range(self.rank))
        return self if same else self.op(nn.TransposeOp, perm=tuple(perm))

    def expand(self, shape: Sequence[Size]) -> Value:
        """Emit a broadcast to ``shape``."""
        same = self.shape == tuple(shape)
        return self if same else self.op(nn.ExpandOp, shape=tuple(shape))

    def slice(
        self, starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[int] | None = None
    ) -> Value:
        """Emit a slice: along each dimension, ``sizes`` elements from ``starts`` on, with strides
        ``steps`` (1 by default)."""
        steps = (1,) * self.rank if steps is None else tuple(steps)
        if tuple(sizes) == self.shape and all(step == 1 for step in steps):
            return self
        return self.op(nn.SliceOp, starts=tuple(starts), sizes=tuple(sizes), steps=steps)

    def part(self, axis: int, start: Size, size: Size) -> Value:
        """Emit a slice along one axis: ``size`` elements from ``start`` on."""
        starts = [start if d == axis else 0 for d in range(self.rank)]
        return self.slice(starts, [*self.shape[:axis], size, *self.shape[axis + 1 :]])

    def pad(self, low: Sequence[Size], high: Sequence[Size], value: float = 0.0) -> Value:
        """Emit padding with ``value``: ``low`` elements before each dimension, ``high`` elements
        after it."""
        if not any((*low, *high)):
            return self
        pads = {"low": tuple(low), "high": tuple(high)}
        return self.op(nn.PadOp, **pads, mode="constant", value=value)

    def gather(self, indices: Value, axis: int) -> Value:
        """Emit a gather: the slices of this value at ``indices`` along ``axis``."""
        return self.op(nn.GatherOp, indices, axis=axis)


Numbers = float | Size | Array
Operand = Value | Numbers
Values = Sequence[Value]


def where(condition: Value, x: Operand, y: Operand) -> Value:
    """Emit a selection: the elements of ``x`` where ``condition`` is true, otherwise those of
    ``y``.

    At least one of ``x`` and ``y`` must be a ``Value``.
    """
    like = x if isinstance(x, Value) else y
    assert isinstance(like, Value)
    x, y = (side if isinstance(side, Value) else like.like(side) for side in (x, y))
    return condition.op(nn.WhereOp, x, y)


def product(a: Value, b: Value) -> Value:
    """Emit a matrix product as NumPy's ``matmul`` computes it: a vector on the left is a row, on
    the right a column.

    Raises ShapeError for a scalar.
    """
    if not a.rank or not b.rank:
        raise ShapeError("a matrix product takes no scalars", hint="multiply by them with *")
    left = a if a.rank > 1 else a.reshape((1, *a.shape))
    right = b if b.rank > 1 else b.column()
    result = left @ right
    *batch, rows, columns = result.shape
    return result.reshape([*batch, *[rows] * (a.rank > 1), *[columns] * (b.rank > 1)])


def concat(values: Values, axis: int) -> Value:
    """Emit a concatenation of values along ``axis``."""
    first, *others = values
    return first.op(nn.ConcatOp, *others, axis=axis) if others else first


def _check_fits(value: float, dtype: DType) -> None:
    if dtype.kind not in "iu":
        return
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max or value != int(value):
        raise ShapeError(f"{value} is not a value of type {dtype.name}")


def _check_range(name: str, value: PyValue | None) -> None:
    numbers = value if isinstance(value, tuple | list) else (value,)
    for number in numbers:
        if isinstance(number, int) and not _INT64.min <= number <= _INT64.max:
            raise ShapeError(f"{name} is out of the range of 64 bits", found=str(number))
