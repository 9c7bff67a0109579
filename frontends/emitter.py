"""How every frontend makes `nn` ops: by class, with inferred types, appended to a block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import (
    PyValue,
    dtype_of,
    element_type,
    shape_of,
    tensor,
    tensor_type,
    type_of,
)
from tessella.frontends.functions import clean, isolate
from tessella.runtime.elements import widened
from tessella.runtime.scan import Loop
from tessella.runtime.weights import WeightStore
from tessella.support.errors import ShapeError

Array = npt.NDArray[Any]
Values = Sequence[SSAValue]
Step = Callable[[Values, Values], tuple[Values, Values]]
"""From carried values and an element of each sequence to the next carried values, and an element of
each sequence that is returned."""

_INT64 = np.iinfo(np.int64)


class Emitter:
    """Appends ops to a block, and keeps the weights that they name.

    Each op carries what ``where`` says at that time: the node or line of the source it comes from.
    """

    def __init__(self, block: Block, where: Callable[[], str | None] = lambda: None) -> None:
        self.block = block
        self.root = block
        """The block of the program; ``block`` is another one while a function is made."""
        self.functions: list[FuncOp] = []
        """The functions that the program runs, those first that others run."""
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

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Append ops to another block for a while."""
        outer, self.block = self.block, block
        try:
            yield
        finally:
            self.block = outer

    def scan(
        self,
        name: str,
        first: Values,
        sequences: Values,
        step: Step,
        backward: Callable[[int], bool] = lambda sequence: False,
        *,
        conditional: bool = False,
    ) -> Values:
        """Run a step for each element of sequences; with ``conditional``, while the first carried
        value is true, which needs no sequence.

        ``step`` emits the ops of a function of its own, which may read all values there are.
        ``backward`` says which sequences run from their last element to their first: those that are
        taken have the first numbers, those that are returned the next. Gives the last carried
        values, and the sequences that are returned. Raises ShapeError.
        """
        steps = _length(sequences) if sequences or not conditional else None
        body, carried, outputs = self._body(first, sequences, step)
        if steps == 0:
            types = [tensor_type(y) for y in outputs]
            body.erase(safe_erase=False)
            empty = (self.splat(0, (0, *t.get_shape()), dtype_of(t)) for t in types)
            return [*first, *empty]
        body.add_op(ReturnOp(*carried, *outputs))
        others = isolate(body)
        length = () if steps is None else (steps,)
        stacked = [tensor(tensor_type(y).element_type, (*length, *shape_of(y))) for y in outputs]
        types = [*(tensor_type(x) for x in first), *stacked]
        name = f"{name}_{len(self.functions)}"
        returned = [value.type for value in (*carried, *outputs)]
        self.functions.append(
            FuncOp(name, ([argument.type for argument in body.args], returned), Region(body))
        )
        numbers = filter(backward, range(len(sequences) + len(outputs)))
        loop = Loop(len(first), len(sequences), tuple(numbers), conditional)
        op = nn.ScanOp(name, [*first, *sequences, *others], types, loop)
        if where := self._where():
            op.attributes["node"] = StringAttr(where)
        return self.append(op)

    def _body(self, first: Values, sequences: Values, step: Step) -> tuple[Block, Values, Values]:
        """A block with the ops of a step, the next carried values, and the elements."""
        elements = [tensor(tensor_type(x).element_type, shape_of(x)[1:]) for x in sequences]
        body = Block(arg_types=[*(tensor_type(x) for x in first), *elements])
        try:
            with self.inside(body):
                carried, outputs = step(body.args[: len(first)], body.args[len(first) :])
            for old, new in zip(first, carried, strict=True):
                _check_carried(old, new)
        except Exception:
            # its ops use values of the program
            body.erase(safe_erase=False)
            raise
        return body, carried, outputs

    def module(self, main: FuncOp) -> ModuleOp:
        """The finished program, without ops whose results are not used, functions that nothing
        runs, and weights that no op names."""
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


def _length(sequences: Values) -> int:
    """How many elements each sequence has."""
    lengths = {shape_of(x)[:1] for x in sequences}
    if len(lengths) != 1 or lengths == {()}:
        found = ", ".join(str(x.type) for x in sequences)
        raise ShapeError("sequences differ in length, or have none", found=found)
    return shape_of(sequences[0])[0]


def _check_carried(old: SSAValue, new: SSAValue) -> None:
    if new.type != old.type:
        raise ShapeError(
            "a value that is carried from step to step changes its type",
            expected=str(old.type),
            found=str(new.type),
        )


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
