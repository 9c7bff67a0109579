"""How every frontend makes `nn` ops: by class, with inferred types, appended to a block."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import (
    PyValue,
    Tensor,
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
from tessella.support.sizes import estimated

Array = npt.NDArray[Any]
Values = Sequence[SSAValue]
Step = Callable[[Values, Values], tuple[Values, Values]]
"""From carried values and an element of each sequence to the next carried values, and an element of
each sequence that is returned."""

MOST_CARRIED = 1 << 20
"""Bytes that are carried past a branch that is not taken, which copies them."""

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
        numbers = filter(backward, range(len(sequences) + len(outputs)))
        loop = Loop(len(first), len(sequences), tuple(numbers), conditional)
        return self._loop(name, loop, body, [*first, *sequences], [*carried, *outputs])

    def branch(self, name: str, condition: SSAValue, *sides: Callable[[], Values]) -> Values:
        """What the first of two functions gives if a condition holds, else what the second gives;
        both give the same types, of few bytes. Only one of them runs.

        Each is a scan of one step, or of none, where its results are what it carries. Raises
        ShapeError.
        """
        bodies: list[tuple[Block, Values]] = []
        try:
            for side in sides:
                bodies.append((Block(arg_types=[tensor_type(condition)]), ()))
                with self.inside(bodies[-1][0]):
                    bodies[-1] = (bodies[-1][0], side())
            types = _common_types([values for _, values in bodies])
        except Exception:
            for body, _ in bodies:
                body.erase(safe_erase=False)
            raise
        made: Values = [self.splat(0, t.get_shape(), dtype_of(t)) for t in types]
        once, goes = self.constant(np.zeros(1, np.int64)), condition
        loop = Loop(1 + len(made), 1, conditional=True)
        for body, values in bodies:
            for type in (*types, tensor(i64, ())):
                body.insert_arg(type, len(body.args))
            carried = [body.args[0], *values]
            made = self._loop(name, loop, body, [goes, *made, once], carried)[1:]
            (goes,) = self.emit(nn.NotOp, condition)
        return made

    def _loop(
        self, name: str, loop: Loop, body: Block, operands: Values, returned: Values
    ) -> Values:
        """A loop around a function of this block, which returns these of its values."""
        body.add_op(ReturnOp(*returned))
        others = isolate(body)
        given = [tensor_type(value) for value in returned]
        after = loop.carried + loop.scanned
        length = shape_of(operands[loop.carried])[:1] if after > loop.carried else ()
        stacked = [tensor(t.element_type, (*length, *t.get_shape())) for t in given[loop.carried :]]
        name = f"{name}_{len(self.functions)}"
        takes = [argument.type for argument in body.args]
        self.functions.append(FuncOp(name, (takes, given), Region(body)))
        types = [*given[: loop.carried], *stacked]
        op = nn.ScanOp(name, [*operands, *others], types, loop)
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


def _common_types(sides: Sequence[Values]) -> Sequence[Tensor]:
    """The types of values that are the same on each side. Raises ShapeError."""
    types = [[tensor_type(value) for value in values] for values in sides]
    if any(each != types[0] for each in types):
        raise ShapeError("branches give different types")
    bytes = sum(prod(map(estimated, t.get_shape())) * dtype_of(t).itemsize for t in types[0])
    if bytes > MOST_CARRIED:
        raise ShapeError("branches give many bytes", found=str(bytes))
    return types[0]


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
