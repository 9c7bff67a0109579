"""How every frontend makes `nn` ops: by class, with inferred types, appended to a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import PyValue, dtype_of, element_type, shape_of, tensor, type_of
from tessella.runtime.elements import widened
from tessella.runtime.weights import WeightStore
from tessella.support.errors import ShapeError

Array = npt.NDArray[Any]

_INT64 = np.iinfo(np.int64)


class Emitter:
    """Appends ops to a block, and keeps the weights that they name.

    Each op carries what ``where`` says at that time: the node or line of the source it comes from.
    """

    def __init__(self, block: Block, where: Callable[[], str | None] = lambda: None) -> None:
        self.block = block
        self.weights = WeightStore()
        self._where = where

    def emit(
        self, op: type[nn.NnOp], *operands: SSAValue, **properties: PyValue | None
    ) -> tuple[SSAValue, ...]:
        """Append an op; its results. Properties that are None are left out. Raises ShapeError."""
        for name, value in properties.items():
            _check_range(name, value)
        return self.append(op.make(operands, node=self._where(), **properties))

    def append(self, op: nn.NnOp) -> tuple[SSAValue, ...]:
        """Append an op that is made; its results."""
        self.block.add_op(op)
        return tuple(op.results)

    def splat(
        self, value: float, shape: Sequence[int] = (), dtype: npt.DTypeLike = np.float32
    ) -> SSAValue:
        """A tensor of equal elements. Raises ShapeError for a number that the dtype lacks."""
        _check_fits(value, np.dtype(dtype))
        return self.append(nn.SplatOp(value, tensor(element_type(dtype), shape)))[0]

    def constant(self, array: Array, name: str = "constant") -> SSAValue:
        """A tensor that holds these elements; one element is a splat."""
        if array.size == 1:
            return self.splat(widened(array).reshape(-1)[0].item(), array.shape, array.dtype)
        symbol = self.weights.add(name, array)
        return self.append(nn.WeightOp(symbol, type_of(array)))[0]

    # each of these is the value itself where nothing changes

    def cast(self, value: SSAValue, dtype: npt.DTypeLike) -> SSAValue:
        """The value converted to a dtype."""
        if dtype_of(value.type) == np.dtype(dtype):
            return value
        return self.emit(nn.CastOp, value, to=element_type(dtype))[0]

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The elements in another shape, in row-major order."""
        if shape_of(value) == tuple(shape):
            return value
        return self.emit(nn.ReshapeOp, value, shape=tuple(shape))[0]

    def transpose(self, value: SSAValue, perm: Sequence[int]) -> SSAValue:
        """The value with permuted dimensions."""
        if list(perm) == list(range(len(perm))):
            return value
        return self.emit(nn.TransposeOp, value, perm=tuple(perm))[0]

    def expand(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The value broadcast to a shape."""
        if shape_of(value) == tuple(shape):
            return value
        return self.emit(nn.ExpandOp, value, shape=tuple(shape))[0]

    def clean(self) -> None:
        """Drop the ops whose results are not used, and the weights that no op names."""
        for op in reversed(tuple(self.block.ops)):
            if isinstance(op, nn.NnOp) and not any(result.uses for result in op.results):
                op.detach()
                op.erase()
        ops = (op for op in self.block.ops if isinstance(op, nn.WeightOp))
        self.weights.keep({op.symbol.root_reference.data for op in ops})


def _check_fits(value: float, dtype: np.dtype[Any]) -> None:
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
