"""The emitter of the ONNX importer, with limits and values known at import."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, BlockArgument, OpResult, SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Array, Emitter, Value
from tessella.frontends.onnx.model import DTYPES, Tensor
from tessella.support.decisions import known_all
from tessella.support.errors import ResourceError
from tessella.support.sizes import MOST, Expr, Size, Symbol, bounds_of, symbols_of

__all__ = ["Array", "Builder", "check_size", "read_by"]

_MOST_MADE = 1 << 26  # maximum number of elements of constants that are computed at import


class Builder(Emitter):
    """An emitter of `nn` ops whose location is the ONNX node being converted.

    Raises ResourceError for a tensor of more than ``max_bytes``.
    """

    def __init__(self, block: Block, max_bytes: int, symbols: Sequence[Symbol] = ()) -> None:
        super().__init__(block, lambda: self.node)
        self.node: str | None = None
        self.defined: list[Symbol] = []
        """The symbols that ops of the program define, in order."""
        self._symbols = symbols
        self._max_bytes = max_bytes
        self._constants = Constants(self.weights, sizes=True)

    def append(self, op: nn.NnOp) -> tuple[Value, ...]:
        """Append an existing op and return its results. Raises ResourceError for a result that is
        too large."""
        try:
            for result in op.results:
                self.check_size(shape_of(result), dtype_of(result.type))
        except ResourceError:
            op.drop_all_references()
            raise
        return super().append(op)

    def splat(
        self, value: complex, shape: Sequence[Size] = (), dtype: npt.DTypeLike = np.float32
    ) -> Value:
        """Return a tensor whose elements all equal ``value``. If sizes are symbolic, it is an
        expanded scalar."""
        self.check_size(shape, dtype)
        if is_static(shape):
            return super().splat(value, shape, dtype)
        return super().splat(value, (), dtype).expand(shape)

    def tensor(self, source: Tensor, name: str = "") -> Value:
        """Return a tensor of the model as a constant. Its elements are read now."""
        self.check_size(source.shape, DTYPES[source.type])
        return self.constant(source.array, source.name or name)

    def static(self, value: Value) -> Array | None:
        """Return the elements of a value if constants and sizes alone determine it, otherwise None.

        The array has the dtype ``object`` if some elements are symbolic.
        """
        return self._constants.value(value.ssa)

    def define(self, most: Size) -> Size:
        """Return a new symbol of the program from 0 to ``most``, which an op is to define."""
        taken = {symbol.name for symbol in (*self._symbols, *self.defined)}
        names = (f"count_{i}" for i in itertools.count())
        name = next(name for name in names if name not in taken)
        symbol = Symbol(name, 0, min(MOST, bounds_of(most)[1]))
        if isinstance(symbol.size, Expr):
            self.defined.append(symbol)
        return symbol.size

    def depends_on_defined(self, value: Value) -> bool:
        """Return whether the shape of a value depends on a symbol that an op defines."""
        return not symbols_of(value.shape).isdisjoint(self.defined)

    def check_size(self, shape: Sequence[Size], dtype: npt.DTypeLike) -> None:
        """Raise ResourceError for a tensor of more than ``max_bytes`` bytes, the limit of this
        builder."""
        check_size(shape, dtype, self._max_bytes)

    def limited(self, *shape: Size, copies: int = 1) -> tuple[int, ...]:
        """Return a shape as integers, for a constant that is computed at import.

        Raises ResourceError if ``copies`` arrays of this shape exceed the limit on elements, and
        UndecidedSizeError for a symbolic size.
        """
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
    """Raise ResourceError for a tensor of more than ``max_bytes`` bytes."""
    dtype = np.dtype(dtype)
    # a dimension counts even if another one is 0
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


def read_by(value: Value) -> tuple[Sequence[BlockArgument], frozenset[Symbol]]:
    """Return the function arguments and the symbols that a value depends on."""
    seen: dict[SSAValue, None] = {}
    queue = [value.ssa]
    while queue:
        each = queue.pop()
        if each not in seen:
            seen[each] = None
            queue.extend(each.op.operands if isinstance(each, OpResult) else ())
    ops = (each.owner for each in seen)
    symbols = (symbol for op in ops if isinstance(op, nn.NnOp) for symbol in op.symbols)
    return [each for each in seen if isinstance(each, BlockArgument)], frozenset(symbols)
