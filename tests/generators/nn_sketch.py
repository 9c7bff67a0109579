"""A random small program that grows op by op.

Its numbers are small integers, so that most ops are exact whatever the order of summation is and
whether multiply-adds are fused. Inexact ones are only drawn where they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp, PyValue, element_type, tensor
from tessella.runtime.scan import Loop
from tests.generators.choices import Choices
from tests.native import Array, GraphBuilder

DTypes = npt.DTypeLike

SIZES = (1, 2, 3, 4, 5, 7, 9, 16, 17, 33)
"""Around the numbers of lanes, and odd."""
MOST_ELEMENTS = 3000
LARGEST = 1 << 20
"""Of the numbers in exact programs: float32 holds sums of such numbers exactly."""


@dataclass(frozen=True)
class Step:
    """A weight, a splat, or an op on values by number: first the inputs, then what steps give."""

    kind: type[NnOp]
    operands: tuple[int, ...] = ()
    settings: Mapping[str, PyValue] = field(default_factory=dict[str, PyValue])
    array: Array | None = None
    """Of a weight; of a splat, any view that has its shape and its number."""
    loop: Loop | None = None
    body: Program | None = None
    """Of a scan: what it runs."""
    result: int = 0
    """Of a scan: which of its results the step gives."""


@dataclass
class Program:
    """A program that can be built again and again."""

    inputs: dict[str, Array]
    steps: list[Step] = field(default_factory=list[Step])
    results: tuple[int, ...] = ()
    scale: float = 1.0
    """The largest absolute value on the way."""

    def graph(self) -> Graph:
        """The program, built anew."""
        g = GraphBuilder(**self.inputs)
        values = list(g.inputs.values())
        for step in self.steps:
            values.append(build(g, step, values))
        return g.graph(*(values[i] for i in self.results))

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """Its results, by the interpreter."""
        return interpret(self.graph(), dict(zip(self.inputs, arrays, strict=True)))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        lines = [f"{name}: {a.dtype}{list(a.shape)}" for name, a in self.inputs.items()]
        for step in self.steps:
            array = "" if step.array is None else f" {step.array.dtype}{list(step.array.shape)}"
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
        type = tensor(element_type(step.array.dtype), step.array.shape)
        op = nn.SplatOp(step.array.flat[0].item(), type)
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


class Sketch(Choices):
    """A program that grows by steps, with the arrays that its values have for its inputs."""

    def __init__(
        self,
        random: Random,
        dtype: DTypes,
        *,
        exact: bool,
        inputs: Mapping[str, Array] | None = None,
    ) -> None:
        super().__init__(random)
        self.dtype = np.dtype(dtype)
        self.exact = exact
        if inputs is None:
            shapes = [self.shape() for _ in range(self.between(1, 2))]
            inputs = {f"x{i}": self.numbers(shape) for i, shape in enumerate(shapes)}
        self.program = Program(dict(inputs))
        self.builder = GraphBuilder(**self.program.inputs)
        self.values: list[SSAValue] = list(self.builder.inputs.values())
        self.arrays: list[Array] = list(self.program.inputs.values())

    # ** choices **

    def shape(self) -> tuple[int, ...]:
        """The shape of an input."""
        sizes = [self.one_of(*SIZES) for _ in range(self.one_of(0, 1, 2, 2, 3, 3, 4, 4, 4))]
        while math.prod(sizes) > MOST_ELEMENTS:
            sizes[sizes.index(max(sizes))] //= 2
        return tuple(sizes)

    def numbers(self, shape: Sequence[int], reach: int = 4) -> Array:
        """Small integers."""
        return self.integers(shape, -reach, reach).astype(self.dtype)

    def pick(self, wanted: Callable[[Array], bool] = lambda a: True) -> int | None:
        """A value of the program's dtype, rather a late one."""
        numbers = [i for i, a in enumerate(self.arrays) if a.dtype == self.dtype and wanted(a)]
        return self.one_of(*numbers, *numbers[-2:]) if numbers else None

    def most(self, value: int) -> float:
        """The largest absolute value of a value."""
        array = self.arrays[value]
        return float(np.abs(array.astype(np.float64)).max(initial=0.0))

    def fits(self, most: float) -> bool:
        """Whether numbers may get as large as this."""
        return most <= (LARGEST if self.exact else 1 << 10)

    # ** steps **

    def constant(self, array: Array) -> int:
        """A weight, or a splat of its first element."""
        if array.size and self.coin():
            return self.add(Step(nn.WeightOp, array=array))
        return self.splat(array.flat[0] if array.size else 1, array.shape)

    def splat(self, value: Any, shape: Sequence[int], dtype: DTypes | None = None) -> int:
        number = np.asarray(value, dtype or self.dtype)
        return self.add(Step(nn.SplatOp, array=np.broadcast_to(number, tuple(shape))))

    def op(self, kind: type[NnOp], *operands: int, **settings: PyValue) -> int:
        """An op, unless its result is too large; its number."""
        return self.add(Step(kind, operands, settings))

    def add(self, step: Step) -> int:
        value = build(self.builder, step, self.values)
        arrays = [self.arrays[i] for i in step.operands]
        if step.array is not None:
            array = step.array
        elif step.body is not None and step.loop is not None:
            array = step.loop.run(step.body.run, arrays)[step.result]
        else:
            owner = value.owner
            assert isinstance(owner, NnOp)
            array = owner.evaluate(*arrays)[0]
        self.program.steps.append(step)
        self.values.append(value)
        self.arrays.append(array)
        return len(self.values) - 1

    def finish(self) -> Program:
        """The program, with one to three results."""
        last = len(self.values) - 1
        chosen = [last, *(self.between(0, last) for _ in range(self.one_of(0, 0, 1, 2)))]
        self.program.results = tuple(chosen)
        self.program.scale = max(1.0, *(self.most(i) for i in range(last + 1)))
        return self.program
