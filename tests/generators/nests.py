"""Random kernels of several statements that share loops, and their kernels run.

A statement runs over rows, columns, or blocks of rows, whose numbers may be open. Sums of integers
are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from unittest import mock

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.graph import CompileContext
from tessella.dialects.nn.core import dtype_of, shape_of, tensor_type
from tessella.dialects.tile import (
    AtAttr,
    ContractOp,
    KernelOp,
    Nest,
    NestAttr,
    ScheduleAttr,
    SharedLoop,
)
from tessella.dialects.tile.check_nest import check_nest, is_valid
from tessella.lowering.pack_operands import PackOperandsPass
from tessella.passes import tile_parallelize
from tessella.passes.tile import parallel
from tessella.passes.tile.cost import scheduling_passes
from tessella.passes.tile.storage import store_results
from tessella.passes.tile.sums import in_blocks, streams
from tessella.passes.tile_parallelize import TileParallelizePass
from tessella.support.sizes import Size, ceil_div
from tessella.targets import Target
from tests.generators.choices import Choices
from tests.generators.open_sizes import CLOSED, OpenSizes, draw_size, is_open, least
from tests.generators.schedules import Fences, Planner
from tests.generators.tile_statements import Numbers
from tests.lowering import reference
from tests.lowering.segments import Lowered
from tests.native import Array

LENGTHS = (1, 2, 3, 4, 5, 8)
COLUMNS = (1, 3, 4, 7, 16, 17, 33)
ADD = {"i32": "arith.addi", "f64": "arith.addf"}
SUBTRACT = {"i32": "arith.subi", "f64": "arith.subf"}
SPACES = (
    ("rc", ""), ("rc", ""), ("r", ""), ("r", "c"), ("r", "c"), ("b", "l"), ("bc", "l"),
    ("b", "lc"), ("c", "b"), ("", "b"), ("c", "r"), ("", "rc"), ("rc", "w"), ("r", "w"),
    ("rc", "w"), ("r", "wc"), ("vc", "w"), ("v", "w"), ("hc", "w"), ("h", "w"), ("vc", ""),
    ("hc", ""),
)  # fmt: skip
"""Free and reduced indices: rows, columns, blocks of rows, the rows of a block, and of a window. Of
all rows, there are those at which windows have room, and every other one."""
ROWS = "rvh"
MOST_ELEMENTS = 4000
DRAWN = 12
"""Kernels, of which one in seven has windows."""


@dataclass(frozen=True)
class Nested:
    """A kernel `@k` whose statements share loops."""

    text: str
    """Its module without schedules."""
    module: ModuleOp
    operands: Sequence[Numbers]
    """Its arguments."""
    target: Target
    sizes: OpenSizes
    threads: int = 1
    """That run it in turn."""

    @property
    def kernel(self) -> KernelOp:
        return next(op for op in self.module.walk() if isinstance(op, KernelOp))

    def check(self) -> None:
        """Assert that the kernel's code gives what its statements mean, and writes nothing else."""
        fences = Fences()
        self.check_on(fences.place)
        fences.check()

    def check_on(self, place: Callable[[Array], Array]) -> None:
        """Assert that the code gives what the statements mean, on memory of its own, for all
        sizes."""
        lowered = Lowered(self.module, self.target)
        for values in self.sizes.runs:
            arrays = [numbers.at(values).array for numbers in self.operands]
            wanted = _wanted(self.sizes.at(values).parse(self.text), arrays)
            results = lowered.run(values, arrays, self.threads, place)
            for found, expected in zip(results, wanted, strict=True):
                message = f"{values} {self.threads} threads"
                np.testing.assert_array_equal(found, expected.reshape(-1), message)


def _wanted(module: ModuleOp, arrays: Sequence[Array]) -> list[Array]:
    """The results, statement by statement."""
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    values: dict[SSAValue, Array] = dict(zip(kernel.body.block.args, arrays, strict=True))
    for op in kernel.body.block.ops:
        if isinstance(op, ContractOp):
            values[op.res] = reference.run(op, values, _empty(op.res))
    return [values[value] for value in kernel.returned.values]


def _empty(value: SSAValue) -> Array:
    return np.zeros(shape_of(value), dtype_of(tensor_type(value).element_type))


class _Sketch(Choices):
    """A kernel that grows statement by statement."""

    def __init__(self, random: Random, sizes: OpenSizes, *, in_turn: bool = False) -> None:
        super().__init__(random)
        self.sizes = sizes
        self.in_turn = in_turn
        """True if each statement reads the one before it, and windows are many."""
        self.element = self.one_of(*ADD)
        self.length: int = self.one_of(*LENGTHS)
        self.blocks = self.open_or(self.between(1, 6))
        self.columns = self.open_or(self.one_of(*COLUMNS))
        if sizes.elements((self.length, self.blocks, self.columns)) > MOST_ELEMENTS:
            self.length, self.columns = 2, least(self.columns)
        self.lines: list[str] = []
        self.tensors: dict[str, str] = {"x": "rc", "y": "r", "z": "c"}
        """The dimensions of tensors by name: rows, columns, blocks of rows."""

    def open_or(self, number: int) -> Size:
        """A size that is open, by chance."""
        return draw_size(self, self.sizes) if self.sizes.symbols and self.chance(70) else number

    @property
    def extents(self) -> dict[str, Size]:
        rows = self.length * self.blocks
        with_room = rows - 2 if least(rows) > 2 else rows if is_open(rows) else 1
        every = {"r": rows, "v": with_room, "h": ceil_div(rows, 2)}
        return {**every, "c": self.columns, "b": self.blocks}

    def type(self, dims: str) -> str:
        extents = "".join(f"{self.extents[dim]:d}x" for dim in dims)
        return f"tensor<{extents}{self.element}>"

    def statement(self) -> None:
        """Append a statement that reads two of the existing tensors."""
        in_windows = [space for space in SPACES if "w" in space[1]]
        free, reduced = self.one_of(*(in_windows if self.in_turn and self.chance(70) else SPACES))
        below = self.one_of(*ROWS) if "w" in reduced else "r"
        rows = {below} if {*"lw"} & {*reduced} else set[str]()
        fitting = [n for n, dims in self.tensors.items() if {*dims} <= {*free, *reduced, *rows}]
        moving = [n for n in fitting if {*self.tensors[n]} & ({*reduced, *rows} - {"w"})]
        if "w" in reduced:
            moving = [n for n in fitting if below in self.tensors[n]]
        if not fitting or (reduced and not moving):
            return
        operands = [self.one_of(*(moving or fitting)[::-1]), self.one_of(*fitting[::-1])]
        if self.in_turn:
            operands[0] = (moving or fitting)[-1]
        window, shift = self.between(1, 4), self.between(-2, 3)
        forms = {name: name for name in self.extents}
        if "w" in reduced:
            scale = "2*" if free[0] == "h" != below else ""
            forms[below] = f"{scale}{free[0]} + w - {shift}".replace("- -", "+ ")
        elif rows:
            forms["r"] = f"{self.length}*b + l"
        accesses = ", ".join(
            f"%{name}[{', '.join(forms[dim] for dim in self.tensors[name])}]" for name in operands
        )
        extents = {**self.extents, "l": self.length, "w": window}
        groups = [", ".join(f"{i}: {extents[i]}" for i in names) for names in (free, reduced)]
        space = " | ".join(groups) if reduced else groups[0]
        kind = self.one_of("+", "+", ">") if reduced else "="
        name, body = f"v{len(self.lines)}", self.one_of(ADD, SUBTRACT)[self.element]
        self.lines.append(
            f"%{name} = tile.contract {kind} [{space}] ({accesses}) -> [{', '.join(free)}] {{\n"
            f"^bb0(%a: {self.element}, %b: {self.element}):\n"
            f"  %d = {body} %a, %b : {self.element}\n"
            f"  tile.yield %d : {self.element}\n}} : {self.type(free)}"
        )
        self.tensors[name] = free

    def text(self) -> str:
        """The kernel. It returns its last result, and others by chance."""
        made = [name for name in self.tensors if name not in ("x", "y", "z")]
        few = 0 if self.in_turn else 20
        returned = [name for name in made if name == made[-1] or self.chance(few)]
        types = ", ".join(self.type(self.tensors[name]) for name in returned)
        values = ", ".join(f"%{name}" for name in returned)
        arguments = ", ".join(f"%{n}: {self.type(self.tensors[n])}" for n in ("x", "y", "z"))
        body = "\n".join(self.lines)
        return (
            f"tile.kernel @k({arguments}) -> ({types}) {{\n{body}\n"
            f"tile.return {values} : {types}\n}}\n"
            f"tile.segment @s({arguments}) -> ({types}) {{\n"
            f"{values} = tile.call @k(%x, %y, %z) : {types}\n"
            f"tile.return {values} : {types}\n}}"
        )

    def operands(self) -> list[Numbers]:
        dtype = np.dtype(np.int32 if self.element == "i32" else np.float64)
        shapes = ([self.extents[dim] for dim in self.tensors[name]] for name in ("x", "y", "z"))
        return [
            Numbers(tuple(shape), dtype, range(-3, 4), self.random.getrandbits(32))
            for shape in shapes
        ]

    # ** the nest **

    def share(self, kernel: KernelOp) -> None:
        """Let statements share loops, as many as they may, or fewer."""
        dims = self.one_of("r", "r", "r", "c", "rc", "cr", "v", "h", "hc", "cv")
        loops: list[SharedLoop] = []
        for dim in dims:
            extent = self.extents[dim]
            block = self.length if dim == "r" and self.chance(75) else 1
            block = min(block, least(extent))
            loops.append(SharedLoop(extent, block * self.between(1, least(extent) // block)))
        prefetch, ahead = self.one_of((0, 1), (64, 1), (64, 2))
        kernel.nest = NestAttr(Nest(tuple(loops), prefetch, ahead))
        for op in kernel.statements[:: self.one_of(1, -1, -1)]:
            self._place(op, kernel, dims)
        if self.coin():
            self._divide(kernel, kernel.nest.data)

    def _divide(self, kernel: KernelOp, nest: Nest) -> None:
        """Let threads divide one of the shared loops, or two as one, where they may."""
        number = self.between(0, len(nest.loops) - 1)
        for each in (number, *[number - 1] * (number > 0 and self.coin())):
            nest = nest.dividing(each, nest.loops[each].step * self.one_of(1, 1, 2))
        if is_valid(kernel, NestAttr(nest)):
            kernel.nest = NestAttr(nest)

    def _place(self, op: ContractOp, kernel: KernelOp, dims: str) -> None:
        free = [index.name for index in op.index_list if not index.reduced]
        rows = [name for name in free if name in ROWS]
        names = ["b" if dim == "r" and "b" in free else dim for dim in dims]
        names = [rows[0] if name in ROWS and rows else name for name in names]
        for depth in range(self.one_of(*[len(names)] * 4, *range(len(names))), 0, -1):
            op.at = AtAttr.of(*names[:depth])
            try:
                if {*names[:depth]} <= {*free}:
                    store_results(kernel)
                check_nest(kernel, kernel.nest)
            except VerifyException:
                op.at = None
                continue
            return
        store_results(kernel)


def nested(random: Random, target: Target, sizes: OpenSizes = CLOSED) -> Nested:
    """A kernel with a random nest, and random schedules in it."""
    sketch = _Sketch(random, sizes)
    made = _parsed(sketch, target)
    sketch.share(made.kernel)
    return _scheduled(made, random)


def with_sums_in_steps(random: Random, target: Target, sizes: OpenSizes = CLOSED) -> Nested | None:
    """A kernel, some of whose statements sum over a loop that they share; None if there are no such
    statements in what is drawn."""
    sketch = _Sketch(random, sizes)
    made = _parsed(sketch, target)
    found = list(streams(made.kernel))
    if not found:
        return None
    stream = sketch.one_of(*found)
    most = least(stream.extent)
    block = sketch.one_of(*(n for n in range(1, most + 1) if stream.extent % n == 0))
    in_blocks(made.kernel, stream, block)
    made.kernel.nest = NestAttr(Nest((SharedLoop(stream.extent, block),)))
    store_results(made.kernel)
    return _scheduled(made, random)


def with_windows(random: Random, target: Target, sizes: OpenSizes = CLOSED) -> Nested | None:
    """A kernel, some of whose statements read neighbours of what others write in a step; None if
    there are none in what is drawn."""
    for _ in range(DRAWN):
        sketch = _Sketch(random, sizes, in_turn=True)
        made = _parsed(sketch, target)
        sketch.share(made.kernel)
        if any(at.window is not None for op in made.kernel.statements for at in op.at_list):
            return _scheduled(made, random)
    return None


def with_chosen_loops(random: Random, target: Target, sizes: OpenSizes = CLOSED) -> Nested:
    """A kernel with the loops and schedules that are chosen for it, divided between threads however
    small it is."""
    made = _parsed(_Sketch(random, sizes, in_turn=random.random() < 0.5), target)
    steps = (
        *scheduling_passes(target.name),
        PackOperandsPass(),
        *scheduling_passes(target.name),  # packing has added the kernels that copy operands
        TileParallelizePass(target.name),
    )
    with (
        mock.patch.object(parallel, "WORTH", 0),
        mock.patch.object(tile_parallelize, "WAKES", 0),
    ):
        for step in steps:
            step.apply(CompileContext(), made.module)
            made.module.verify()
    return replace(made, threads=random.randint(1, 4))


def _parsed(sketch: _Sketch, target: Target) -> Nested:
    """A kernel without schedules."""
    while len(sketch.lines) < 2:
        sketch.statement()
    for _ in range(sketch.between(0, 4)):
        sketch.statement()
    text = sketch.text()
    return Nested(text, sketch.sizes.parse(text), sketch.operands(), target, sketch.sizes)


def _scheduled(made: Nested, random: Random) -> Nested:
    for op in made.kernel.body.block.ops:
        if isinstance(op, ContractOp):
            plan = Planner(random, op, made.kernel, made.target).draw()
            if plan.places:  # what is packed is not in the order of its type
                plan = Planner(random, op, made.kernel, made.target).scalar()
            op.schedule = ScheduleAttr(plan.schedule)
    made.module.verify()
    return replace(made, threads=random.randint(1, 4))
