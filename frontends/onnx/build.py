"""Emission of `nn` ops into one block: constants, limits, and values known at import."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import PyValue, dtype_of, element_type, shape_of, tensor, type_of
from tessella.dialects.nn.evaluate import Constants
from tessella.frontends.onnx import model as onnx_model
from tessella.runtime.weights import WeightStore
from tessella.support.errors import ResourceError, ShapeError

Array = npt.NDArray[Any]

_INT64 = np.iinfo(np.int64)
_MOST_MADE = 1 << 26  # elements


class Builder:
    """Appends ops to a block; each carries the name of the ONNX node that is being converted."""

    def __init__(self, block: Block, max_bytes: int) -> None:
        self.block = block
        self.weights = WeightStore()
        self.node: str | None = None
        self._max_bytes = max_bytes
        self._constants = Constants(self.weights)

    def emit(
        self, op: type[nn.NnOp], operands: Sequence[SSAValue], **properties: PyValue | None
    ) -> tuple[SSAValue, ...]:
        """Append an op; its results. Raises ShapeError or ResourceError."""
        for name, value in properties.items():
            _check_range(name, value)
        made = op.make(operands, node=self.node, **properties)
        try:
            for result in made.results:
                self.check_size(shape_of(result), dtype_of(result.type))
        except ResourceError:
            made.drop_all_references()
            raise
        return self._add(made)

    def splat(
        self, value: float, shape: Sequence[int] = (), dtype: npt.DTypeLike = np.float32
    ) -> SSAValue:
        """A tensor of equal elements."""
        self.check_size(shape, dtype)
        _check_fits(value, np.dtype(dtype))
        return self._add(nn.SplatOp(value, tensor(element_type(dtype), shape)))[0]

    def constant(self, array: Array, name: str = "constant") -> SSAValue:
        """A tensor that holds these elements; one element is a splat."""
        if array.size == 1:
            return self.splat(array.reshape(-1)[0].item(), array.shape, array.dtype)
        self.check_size(array.shape, array.dtype)
        symbol = self.weights.add(name, array)
        return self._add(nn.WeightOp(symbol, type_of(array)))[0]

    def tensor(self, source: onnx_model.Tensor, name: str = "") -> SSAValue:
        """A tensor of the model; its elements are read now."""
        self.check_size(source.shape, source.type)
        return self.constant(source.array, source.name or name)

    def static(self, value: SSAValue) -> Array | None:
        """The elements of a value where constants alone determine them."""
        return self._constants.value(value)

    def _add(self, op: nn.NnOp) -> tuple[SSAValue, ...]:
        self.block.add_op(op)
        return tuple(op.results)

    def check_size(self, shape: Sequence[int], dtype: npt.DTypeLike) -> None:
        """Raises ResourceError for a tensor that is over the limit."""
        check_size(shape, dtype, self._max_bytes)

    def check_made(self, *shape: int) -> None:
        """Raises ResourceError for a constant that is too large to be computed at import."""
        if math.prod(max(size, 0) for size in shape) > _MOST_MADE:
            raise ResourceError(
                "a constant that is computed at import is too large",
                expected=f"at most {_MOST_MADE} elements",
                found=" x ".join(map(str, shape)),
            )

    def clean(self) -> None:
        """Drop the ops whose results are not used, and the weights that no op names."""
        for op in reversed(tuple(self.block.ops)):
            if isinstance(op, nn.NnOp) and not any(result.uses for result in op.results):
                op.detach()
                op.erase()
        self.weights.keep(
            {op.settings["symbol"] for op in self.block.ops if isinstance(op, nn.WeightOp)}
        )


def check_size(
    shape: Sequence[int], dtype: npt.DTypeLike, max_bytes: int, where: str | None = None
) -> None:
    """Raises ResourceError for a tensor of more bytes than that."""
    dtype = np.dtype(dtype)
    # a dimension counts even where another one is 0
    size = max(math.prod(shape), *shape, 0) * dtype.itemsize
    if size > max_bytes:
        raise ResourceError(
            "a tensor is too large",
            where=where,
            expected=f"at most {max_bytes} bytes",
            found=f"{size} bytes in {dtype.name}[{', '.join(map(str, shape))}]",
            hint="if it is meant, raise the limit: max_bytes=",
        )


def arguments_behind(value: SSAValue) -> list[BlockArgument]:
    """The arguments of the function that a value depends on."""
    seen: set[SSAValue] = set()
    queue, found = [value], list[BlockArgument]()
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            found.append(value)
        elif isinstance(value, OpResult):
            owner: Operation = value.op
            queue.extend(owner.operands)
    return found


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
