"""A random small program that grows op by op.

Its numbers are small integers, so that most ops are exact whatever the order of summation is and
whether multiply-adds are fused. Inexact ones are only drawn where they are asked for.

With symbols, sizes of its inputs are open, and what is drawn holds for all of them. It is the
program for certain sizes with ``at``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.elements import dtype_of
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import (
    NnOp,
    PyValue,
    broadcast_shapes,
    element_type,
    shape_of,
    tensor,
)
from tessella.dialects.sizes import declare_symbols, is_static
from tessella.runtime.scan import Loop
from tessella.support.conditions import UndecidedSizeError
from tessella.support.decisions import known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, Symbol, symbols_of, with_symbols
from tests.generators.choices import Choices
from tests.native import Array, GraphBuilder

DTypes = npt.DTypeLike
Shape = tuple[Size, ...]

SIZES = (1, 2, 3, 4, 5, 7, 9, 16, 17, 33)
"""Around the numbers of lanes, and odd."""
MOST_ELEMENTS = 3000
LARGEST = 1 << 20
"""Of the numbers in exact programs: float32 holds sums of such numbers exactly."""


@dataclass(frozen=True)
class Drawn:
    """A value: its shape, and what it is for the arrays of the program's inputs."""

    shape: Shape
    array: Array

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the size of the array."""
        return self.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype


@dataclass(frozen=True)
class Step:
    """A weight, a splat, or an op on values by number: first the inputs, then what steps give."""

    kind: type[NnOp]
    operands: tuple[int, ...] = ()
    settings: Mapping[str, PyValue] = field(default_factory=dict[str, PyValue])
    array: Array | None = None
    """Of a weight; of a splat, its number."""
    shape: Shape = ()
    """Of a splat."""
    loop: Loop | None = None
    body: Program | None = None
    """Of a scan: what it runs."""
    result: int = 0
    """Of a scan: which of its results the step gives."""

    def at(self, sizes: Mapping[str, Size]) -> Step:
        """The step with other sizes for symbols."""
        return replace(
            self,
            settings={name: _with_sizes(value, sizes) for name, value in self.settings.items()},
            shape=_with_sizes(self.shape, sizes),
            body=None if self.body is None else self.body.at(sizes),
        )


def _with_sizes(value: Any, sizes: Mapping[str, Size]) -> Any:
    if isinstance(value, tuple):
        return tuple(_with_sizes(each, sizes) for each in cast("tuple[Any, ...]", value))
    return with_symbols(value, sizes)


@dataclass
class Program:
    """A program that can be built again and again."""

    inputs: dict[str, Array]
    shapes: dict[str, Shape]
    """Of the inputs."""
    steps: list[Step] = field(default_factory=list[Step])
    results: tuple[int, ...] = ()
    scale: float = 1.0
    """The largest absolute value on the way."""

    @property
    def symbols(self) -> Sequence[Symbol]:
        """The sizes that are open."""
        return sorted(symbols_of(size for shape in self.shapes.values() for size in shape))

    def at(self, sizes: Mapping[str, Size]) -> Program:
        """The program with other sizes for symbols; with arrays of these sizes, if they are
        numbers."""
        shapes = {name: _with_sizes(shape, sizes) for name, shape in self.shapes.items()}
        inputs = {
            name: _resized(array, shapes[name]) if is_static(shapes[name]) else array
            for name, array in self.inputs.items()
        }
        return replace(
            self, inputs=inputs, shapes=shapes, steps=[step.at(sizes) for step in self.steps]
        )

    def graph(self) -> Graph:
        """The program, built anew."""
        g = GraphBuilder(
            **{
                name: tensor(element_type(array.dtype), self.shapes[name])
                for name, array in self.inputs.items()
            }
        )
        values = list(g.inputs.values())
        for step in self.steps:
            values.append(build(g, step, values))
        graph = g.graph(*(values[i] for i in self.results))
        declare_symbols(graph.module, self.symbols)
        return graph

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Its results, by the interpreter."""
        return interpret(self.graph(), dict(zip(self.inputs, arrays, strict=True)))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        dtypes = {name: array.dtype for name, array in self.inputs.items()}
        lines = [
            f"{name}: {dtypes[name]}[{', '.join(map(str, shape))}]"
            for name, shape in self.shapes.items()
        ]
        for step in self.steps:
            shape = step.array.shape if step.array is not None and step.array.ndim else step.shape
            array = (
                "" if step.array is None else f" {step.array.dtype}[{', '.join(map(str, shape))}]"
            )
            number = (
                f" {step.array.flat[0]}"
                if step.kind is nn.SplatOp and step.array is not None
                else ""
            )
            settings = "".join(f", {k}={v}" for k, v in step.settings.items())
            if step.body is not None:
                settings += f" {step.loop}, result {step.result}, of" + repr(step.body)
            lines.append(
                f"{step.kind.name} {', '.join(map(str, step.operands))}{array}{number}{settings}"
            )
        numbered = "\n".join(f"  {i}: {line}" for i, line in enumerate(lines))
        return f"\n{numbered}\n  return {', '.join(map(str, self.results))}\n"


def build(g: GraphBuilder, step: Step, values: Sequence[SSAValue]) -> SSAValue:
    """Add a step; its result."""
    if step.kind is nn.WeightOp:
        assert step.array is not None
        return g.weight(step.array)
    if step.kind is nn.SplatOp:
        assert step.array is not None
        type = tensor(element_type(step.array.dtype), step.shape)
        op = nn.SplatOp(step.array.item(), type)
        g.block.add_op(op)
        return op.res
    if step.body is not None and step.loop is not None:
        body = step.body

        def made(arguments: Sequence[SSAValue]) -> Sequence[SSAValue]:
            inner = list(arguments)
            for each in body.steps:
                inner.append(build(g, each, inner))
            return [inner[i] for i in body.results]

        return g.scan([values[i] for i in step.operands], step.loop, made)[step.result]
    return g.op(step.kind, [values[i] for i in step.operands], **step.settings)


def _resized(array: Array, shape: Sequence[int]) -> Array:
    """The array, or one of numbers as small of another shape; itself where there is no such."""
    if array.shape == tuple(shape) or min(shape, default=0) < 0:
        return array
    most = int(np.abs(array).max(initial=1))
    random = np.random.default_rng((array.ndim, *shape))
    return np.asarray(random.integers(-most, most, tuple(shape), endpoint=True), array.dtype)


class Sketch(Choices):
    """A program that grows by steps, with the arrays that its values have for its inputs."""

    def __init__(
        self,
        random: Random,
        dtype: DTypes,
        *,
        exact: bool,
        inputs: Mapping[str, Drawn] | None = None,
        symbols: Mapping[Symbol, int] | None = None,
    ) -> None:
        """``symbols`` are sizes of inputs that stay open, with those that the arrays have."""
        super().__init__(random)
        self.dtype = np.dtype(dtype)
        self.exact = exact
        self.symbols = symbols or {}
        if inputs is None:
            shapes = [self.shape() for _ in range(self.between(1, 2))]
            arrays = [self.numbers(self.sampled(shape)) for shape in shapes]
            pairs = zip(shapes, arrays, strict=True)
            inputs = {f"x{i}": Drawn(*pair) for i, pair in enumerate(pairs)}
        self.program = Program(
            {name: x.array for name, x in inputs.items()},
            {name: x.shape for name, x in inputs.items()},
        )
        types = [tensor(element_type(x.dtype), x.shape) for x in inputs.values()]
        self.builder = GraphBuilder(**dict(zip(inputs, types, strict=True)))
        self.values: list[SSAValue] = list(self.builder.inputs.values())
        self.drawn: list[Drawn] = list(inputs.values())

    # ** choices **

    def shape(self) -> Shape:
        """The shape of an input."""
        sizes = [self.one_of(*SIZES) for _ in range(self.one_of(0, 1, 2, 2, 3, 3, 4, 4, 4))]
        while math.prod(sizes) > MOST_ELEMENTS:
            sizes[sizes.index(max(sizes))] //= 2
        for axis in range(len(sizes)):
            if self.symbols and self.coin():
                other = [*sizes]
                other[axis] = self.one_of(*self.symbols).size
                if math.prod(self.sampled(other)) <= MOST_ELEMENTS:
                    sizes = other
        return tuple(sizes)

    def sampled(self, shape: Sequence[Size]) -> tuple[int, ...]:
        """A shape with the sizes of the arrays."""
        return _with_sizes(tuple(shape), {s.name: number for s, number in self.symbols.items()})

    def numbers(self, shape: Sequence[int], reach: int = 4) -> Array:
        """Small integers."""
        return self.integers(shape, -reach, reach).astype(self.dtype)

    def pick(self, wanted: Callable[[Drawn], bool] = lambda a: True) -> int | None:
        """A value of the program's dtype that is wanted for all sizes, rather a late one."""

        def fits(x: Drawn) -> bool:
            try:
                return x.dtype == self.dtype and wanted(x)
            except UndecidedSizeError:
                return False

        numbers = [i for i, x in enumerate(self.drawn) if fits(x)]
        return self.one_of(*numbers, *numbers[-2:]) if numbers else None

    def most(self, value: int) -> float:
        """The largest absolute value of a value."""
        array = self.drawn[value].array
        return float(np.abs(array.astype(np.float64)).max(initial=0.0))

    def broadcasts(self, a: Shape, b: Shape) -> bool:
        """Return whether two shapes broadcast, to few elements."""
        try:
            return math.prod(self.sampled(broadcast_shapes([a, b]))) <= MOST_ELEMENTS
        except ShapeError:
            return False

    def fits(self, most: float) -> bool:
        """Return whether numbers may get as large as this."""
        return most <= (LARGEST if self.exact else 1 << 10)

    # ** steps **

    def constant(self, shape: Sequence[Size]) -> int:
        """A weight of small integers, or a splat; of open sizes a splat."""
        array = self.numbers(self.sampled(shape))
        if array.size and is_static(shape) and self.coin():
            return self.add(Step(nn.WeightOp, array=array))
        return self.splat(array.flat[0] if array.size else 1, shape)

    def splat(self, value: Any, shape: Sequence[Size], dtype: DTypes | None = None) -> int:
        number = np.asarray(value, dtype or self.dtype)
        return self.add(Step(nn.SplatOp, array=number, shape=tuple(shape)))

    def op(self, kind: type[NnOp], *operands: int, **settings: PyValue) -> int:
        """An op, unless its result is too large; its number."""
        return self.add(Step(kind, operands, settings))

    def add(self, step: Step) -> int:
        """A step; its number. Raises UndecidedSizeError where it depends on open sizes."""
        value = build(self.builder, step, self.values)
        self.program.steps.append(step)
        self.values.append(value)
        self.drawn.append(Drawn(shape_of(value), self._array(step)))
        return len(self.values) - 1

    def _array(self, step: Step) -> Array:
        """The step's result for the arrays."""
        arrays = [self.drawn[i].array for i in step.operands]
        step = step.at({symbol.name: number for symbol, number in self.symbols.items()})
        if step.kind is nn.WeightOp and step.array is not None:
            return step.array
        g = GraphBuilder(**{f"x{i}": array for i, array in enumerate(arrays)})
        owner = build(g, replace(step, operands=(*range(len(arrays)),)), [*g.inputs.values()]).owner
        assert isinstance(owner, NnOp)
        if step.body is not None and step.loop is not None:
            types = [result.type for result in owner.results[step.loop.carried :]]
            rows = [np.zeros(shape_of(type), dtype_of(type)) for type in types]
            return step.loop.run(step.body.run, arrays, rows)[step.result]
        if step.array is not None:
            return np.broadcast_to(step.array, known_all(step.shape))
        return owner.evaluate(*arrays)[0]

    def finish(self) -> Program:
        """The program, with one to three results."""
        last = len(self.values) - 1
        chosen = [last, *(self.between(0, last) for _ in range(self.one_of(0, 0, 1, 2)))]
        self.program.results = tuple(chosen)
        self.program.scale = max(1.0, *(self.most(i) for i in range(last + 1)))
        return self.program
