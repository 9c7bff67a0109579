"""Programs with symbols: compiled once, run for many sizes.

A program is made for a size that stands for a symbol, and then opened: each dimension of this size
becomes the symbol. The oracle is the program made for the size of a run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from tessella import targets
from tessella.codegen.emit import emit
from tessella.codegen.link import link
from tessella.codegen.objects import Compilation
from tessella.dialects import rt
from tessella.dialects.elements import dtype_of
from tessella.dialects.graph import Graph, main_function
from tessella.dialects.nn.core import shape_of, to_attribute
from tessella.dialects.sizes import declare_symbols, dims
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.passes.base import buffer_weights
from tessella.runtime.image import Library
from tessella.runtime.native_steps import SEGMENT
from tessella.runtime.pool import CONTEXT, CONTEXT_SLOTS
from tessella.support.sizes import Size, Symbol, value_of
from tests.lowering.guarded import Memory
from tests.native import Array
from tests.turns import Turns

STANDING = {"n": 109, "m": 139, "b": 83}
"""The number that stands for each symbol while a program is made: primes that are no other size."""

SMALL = 8
"""What is added to a symbol at most."""


def opened(graph: Graph, symbols: Sequence[Symbol]) -> Graph:
    """The graph with symbols in place of the numbers that stand for them."""
    sizes = {STANDING[symbol.name]: symbol.size for symbol in symbols}
    for op in graph.module.walk():
        _open(op, sizes)
    declare_symbols(graph.module, symbols)
    return graph


def _open(op: Operation, sizes: Mapping[int, Size]) -> None:
    for result in op.results:
        Rewriter.replace_value_with_new_type(result, _opened(result.type, sizes))
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                Rewriter.replace_value_with_new_type(argument, _opened(argument.type, sizes))
    for name, attribute in op.properties.items():
        op.properties[name] = _opened(attribute, sizes)


def _opened(attribute: Any, sizes: Mapping[int, Size]) -> Any:
    if isinstance(attribute, TensorType):
        shape = [_size(size, sizes) for size in attribute.get_shape()]
        return TensorType(attribute.element_type, dims(shape), attribute.encoding)
    if isinstance(attribute, FunctionType):
        ends = (attribute.inputs, attribute.outputs)
        return FunctionType.from_lists(*([_opened(t, sizes) for t in end] for end in ends))
    if isinstance(attribute, IntegerAttr) and attribute.value.data in sizes:
        return to_attribute(sizes[attribute.value.data])
    if isinstance(attribute, DenseArrayBase) and attribute.elt_type == i64:
        return to_attribute(tuple(_exact(number, sizes) for number in attribute.get_values()))
    return attribute


def _exact(number: Any, sizes: Mapping[int, Size]) -> Size:
    return sizes.get(number, number)


def _size(size: int, sizes: Mapping[int, Size]) -> Size:
    """The size that a number stands for: a product of symbols and a number, or a sum of symbols and
    a small number."""
    for number, symbol in sizes.items():
        if 0 < size - number < SMALL:
            return symbol + (size - number)
    if len(sizes) > 1 and size == sum(sizes):
        return sum(sizes.values())
    found: Size = 1
    for number, symbol in sizes.items():
        while size % number == 0 and size:
            size, found = size // number, found * symbol
    return size * found


class Compiled:
    """A symbolic program at the stage `placed`, compiled."""

    def __init__(self, graph: Graph, symbols: Sequence[Symbol], target: str | None = None) -> None:
        self.symbols = symbols
        options = make_options(target=target)
        self.lowered = lower(graph, options, start="placed")
        module = self.lowered.stages["loops"]
        module.verify()
        machine = targets.resolve(options.target)
        with Compilation(machine) as compilation:
            compilation.add_all(emit(module, machine))
            objects = compilation.objects(lambda _: None)
        self.library = Library(link(objects.files, objects.symbols, self.lowered.nodes))
        self.main = main_function(module)
        (self.launch,) = (op for op in module.walk() if isinstance(op, rt.LaunchOp))
        segments = (op for op in module.ops if isinstance(op, rt.SegmentOp))
        self.segment = next(s for s in segments if s.sym_name.data == self.launch.callee_name)
        found = (w for w in buffer_weights(module) if w.slot is not None)
        slots = {w.slot.value.data: w.weight_name for w in found if w.slot is not None}
        self.weights = [_aligned(self.lowered.weights[slots[i]]) for i in sorted(slots)]

    @property
    def module(self) -> ModuleOp:
        return self.lowered.stages["loops"]

    def run(
        self,
        values: Mapping[str, int],
        inputs: Sequence[Array],
        threads: int = 1,
        memory: Memory | None = None,
    ) -> list[Array]:
        """The outputs for values of the symbols, with inputs, outputs and the arena in a memory
        where one is given."""
        empty = np.empty if memory is None else memory.empty
        if memory is not None:
            inputs = [memory.copy(array) for array in inputs]
        arguments = self.main.body.block.args
        given: dict[SSAValue, Array] = dict(zip(arguments, inputs, strict=True))
        for value, array in given.items():
            assert array.shape == tuple(value_of(d, values) for d in shape_of(value))
        taken = [given[value] for value in self.launch.arguments]
        outputs = [
            empty([value_of(d, values) for d in shape_of(v)], dtype_of(v.type))
            for v in self.launch.res
        ]
        size = value_of(self.segment.arena_size, values)
        private = value_of(self.segment.private_size, values)
        needed = size + threads * private
        arena = _aligned(np.empty(needed, np.uint8)) if memory is None else memory.aligned(needed)
        arena.fill(255)
        sizes = np.array([values[s.name] for s in self.symbols] or [0], np.int64)
        contexts = _aligned(np.zeros(threads * CONTEXT_SLOTS, np.int64))
        rows = contexts.reshape(threads, CONTEXT_SLOTS)
        rows[:, CONTEXT.index("sizes")] = sizes.ctypes.data
        tables = [_pointers(arrays) for arrays in (taken, outputs, self.weights)]
        function = SEGMENT(self.library.address(self.launch.callee_name))
        turns = Turns(range(threads))
        rows[0, CONTEXT.index("launch")] = turns.address if threads > 1 else 0
        rows[0, CONTEXT.index("shares")] = threads
        start, pointers = arena.ctypes.data, map(ctypes.addressof, tables)
        addresses = contexts.ctypes.data, *pointers, start, start + size, private
        arguments = (ctypes.c_int64 * len(addresses))(*addresses)
        function(ctypes.addressof(arguments))
        assert not rows[:, 0].any()
        made: dict[SSAValue, Array] = dict(zip(self.launch.res, outputs, strict=True))
        last = self.main.body.block.last_op
        assert last is not None
        return [made[value] for value in last.operands]


def _pointers(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _aligned(array: Array) -> Array:
    memory = np.empty(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 128
    placed = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    placed[...] = array
    return placed


def compiled(
    make: Callable[..., Graph], symbols: Sequence[Symbol], target: str | None = None
) -> Compiled:
    """The program that ``make`` makes for sizes of symbols, compiled for all of them."""
    standing = {symbol.name: STANDING[symbol.name] for symbol in symbols}
    graph = lower(make(**standing), make_options(target=target), stop="placed")
    placed = Graph(graph.stages["placed"], graph.weights, "placed")
    return Compiled(opened(placed, symbols), symbols, target)
