"""The emitter of the ONNX importer: limits, and values known at import."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.nn.evaluate_sizes import passes_sizes
from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Array, Emitter, Value
from tessella.frontends.onnx.model import DTYPES, Tensor
from tessella.support.decisions import known_all
from tessella.support.errors import ResourceError
from tessella.support.sizes import Size, Symbol, bounds_of

__all__ = ["Array", "Builder", "arguments_read", "check_size", "passes_sizes_to", "symbols_read"]

_MOST_MADE = 1 << 26  # elements


class Builder(Emitter):
    """Appends ops to a block; each carries the name of the ONNX node that is being converted.

    Raises ResourceError for a tensor of more than ``max_bytes``.
    """

    def __init__(self, block: Block, max_bytes: int) -> None:
        super().__init__(block, lambda: self.node)
        self.node: str | None = None
        self._max_bytes = max_bytes
        self._constants = Constants(self.weights, sizes=True)

    def append(self, op: nn.NnOp) -> tuple[Value, ...]:
        """Append an op that is made; its results."""
        try:
            for result in op.results:
                self.check_size(shape_of(result), dtype_of(result.type))
        except ResourceError:
            op.drop_all_references()
            raise
        return super().append(op)

    def splat(
        self, value: float, shape: Sequence[Size] = (), dtype: npt.DTypeLike = np.float32
    ) -> Value:
        """A tensor of equal elements; one of symbolic sizes is a scalar that is expanded."""
        self.check_size(shape, dtype)
        if is_static(shape):
            return super().splat(value, shape, dtype)
        return super().splat(value, (), dtype).expand(shape)

    def tensor(self, source: Tensor, name: str = "") -> Value:
        """A tensor of the model; its elements are read now."""
        self.check_size(source.shape, DTYPES[source.type])
        return self.constant(source.array, source.name or name)

    def static(self, value: Value) -> Array | None:
        """The elements of a value, if constants and sizes alone determine them: an array of objects
        where some are expressions."""
        return self._constants.value(value.ssa)

    def check_size(self, shape: Sequence[Size], dtype: npt.DTypeLike) -> None:
        """Raises ResourceError for a tensor that is over the limit."""
        check_size(shape, dtype, self._max_bytes)

    def limited(self, *shape: Size, copies: int = 1) -> tuple[int, ...]:
        """The shape, in numbers, of a constant that is computed at import. Raises ResourceError
        for one that is too large, where so many arrays of its size are needed at once, and
        UndecidedSizeError for one whose size depends on symbols."""
        most, numbers = _MOST_MADE // copies, known_all(shape)
        if math.prod(max(number, 0) for number in numbers) > most:
            raise ResourceError(
                "a constant that is computed at import is too large",
                expected=f"at most {most} elements",
                found=" x ".join(map(str, shape)),
            )
        return numbers


def check_size(
    shape: Sequence[Size], dtype: npt.DTypeLike, max_bytes: int, where: str | None = None
) -> None:
    """Raises ResourceError for a tensor of more bytes than that."""
    dtype = np.dtype(dtype)
    # a dimension counts even where another one is 0
    least = [bounds_of(size)[0] for size in shape]
    size = max(math.prod(least), *least, 0) * dtype.itemsize
    if size > max_bytes:
        raise ResourceError(
            "a tensor is too large",
            where=where,
            expected=f"at most {max_bytes} bytes",
            found=f"{size} bytes in {dtype.name}[{', '.join(map(str, shape))}]",
            hint="if it is meant, raise the limit: max_bytes=",
        )


def arguments_read(value: Value) -> list[BlockArgument]:
    """The arguments of the function that a value depends on."""
    return [found for found in _read(value.ssa) if isinstance(found, BlockArgument)]


def symbols_read(value: Value) -> frozenset[Symbol]:
    """The symbols that a value depends on."""
    ops = (found.owner for found in _read(value.ssa))
    return frozenset(symbol for op in ops if isinstance(op, nn.NnOp) for symbol in op.symbols)


def passes_sizes_to(value: Value) -> bool:
    """Whether all that a value is computed by gives sizes for sizes."""
    ops = (found.owner for found in _read(value.ssa))
    return all(passes_sizes(op) for op in ops if isinstance(op, nn.NnOp))


def _read(value: SSAValue) -> list[SSAValue]:
    """A value, and those that it depends on."""
    seen: set[SSAValue] = set()
    queue, found = [value], list[SSAValue]()
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        found.append(value)
        if isinstance(value, OpResult):
            owner: Operation = value.op
            queue.extend(owner.operands)
    return found
