"""Comparison of each kernel's native code with its `tile` statements, interpreted in NumPy.

A program at the stage `tile` is interpreted, recording the arguments of each kernel's first call. A
program with these calls is then compiled, and the results are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tessella.dialects.graph import Graph, finish_main, main_function, make_main
from tessella.dialects.interpret import Interpreter, Values, in_order
from tessella.dialects.layout import NCHW, Layout, pack, unpack
from tessella.dialects.nn.core import Array, shape_of, tensor_type
from tessella.dialects.place import place_of
from tessella.dialects.rt import LaunchOp
from tessella.dialects.symbols import callee_of
from tessella.dialects.tile import CallOp, KernelOp, ReturnOp, SegmentOp, weight_of
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import CheckedOptions


@dataclass(frozen=True)
class WrongKernel:
    """A kernel whose native code computes something other than its statements."""

    name: str
    nodes: Sequence[str]
    difference: str


@dataclass(frozen=True)
class _Call:
    """A call of a kernel, with the arrays of its arguments and results."""

    op: CallOp
    arguments: Sequence[Array]
    results: Sequence[Array]

    @property
    def variable(self) -> list[int]:
        """Indices of the arguments that are not weights."""
        return [i for i, value in enumerate(self.op.arguments) if weight_of(value) is None]

    @property
    def can_be_alone(self) -> bool:
        """True if a program can consist of the call.

        The call must overwrite no argument, and its arguments and results must have no padding, as
        they become inputs and outputs.
        """
        if callee_of(self.op, self.op.callee, KernelOp).taken:
            return False
        values = [*(self.op.arguments[i] for i in self.variable), *self.op.res]
        return all(_layout(v.type).size(shape_of(v)) == math.prod(shape_of(v)) for v in values)


class _Recorder(Interpreter):
    """An interpreter that records the first call of each kernel."""

    calls: dict[str, _Call]

    def op(self, op: Operation, values: Values) -> list[Array]:
        results = super().op(op, values)
        if isinstance(op, CallOp):
            arguments = [values[value] for value in op.arguments]
            self.calls.setdefault(op.callee_name, _Call(op, arguments, results))
        return results


def wrong_kernel(
    graph: Graph,
    feeds: Mapping[str, Array],
    options: CheckedOptions,
    compare: Callable[[Array, Array], str | None],
) -> WrongKernel | None:
    """Return the first kernel at the stage `tile` whose native code differs from its statements.

    ``compare`` describes the difference of two arrays.
    """
    recorder = _Recorder(graph.weights)
    recorder.calls = {}
    recorder.block(main_function(graph.module).body.block, in_order(graph, feeds))
    calls = [call for call in recorder.calls.values() if call.can_be_alone]
    found = iter(_run(calls, graph, options))
    for call in calls:
        for value, expected in zip(call.op.res, call.results, strict=True):
            array = unpack(np.reshape(next(found), -1), _layout(value.type), expected.shape)
            difference = compare(array, expected)
            if difference is not None:
                name = call.op.callee_name
                return WrongKernel(name, _nodes(graph.module, name), difference)
    return None


def _run(calls: Sequence[_Call], graph: Graph, options: CheckedOptions) -> list[Array]:
    """Return the results of calls, computed by native code."""
    program = compile_graph(_program(calls, graph), options).program
    return program.run(
        [
            pack(call.arguments[i], _layout(call.op.arguments[i].type))
            for call in calls
            for i in call.variable
        ],
        options.threads,
    )


def _program(calls: Sequence[_Call], graph: Graph) -> Graph:
    """Return a program that makes these calls in sequence. All arguments that are not weights are
    its inputs."""
    names = {call.op.callee_name for call in calls}
    kernels = [op for op in graph.module.ops if isinstance(op, KernelOp)]
    inputs = [call.op.arguments[i].type for call in calls for i in call.variable]
    block = Block(arg_types=inputs)
    arguments, results = iter(block.args), list[SSAValue]()
    for call in calls:
        operands = [
            next(arguments) if i in call.variable else _weight(value, block)
            for i, value in enumerate(call.op.arguments)
        ]
        new = CallOp(call.op.callee_name, operands, call.op.res.types)
        block.add_op(new)
        results += new.res
    block.add_op(ReturnOp(results))
    outputs = [value.type for value in results]
    segment = SegmentOp("segment_0", FunctionType.from_lists(inputs, outputs), Region(block))
    main = make_main([f"x{i}" for i in range(len(inputs))], list(map(tensor_type, block.args)))
    launch = LaunchOp("segment_0", main.body.block.args, outputs)
    main.body.block.add_op(launch)
    finish_main(main, [f"y{i}" for i in range(len(outputs))], launch.res)
    used = [kernel.clone() for kernel in kernels if kernel.sym_name.data in names]
    return Graph(ModuleOp([*used, segment, main]), graph.weights.copy(), "tile")


def _weight(value: SSAValue, block: Block) -> SSAValue:
    """Add a copy of a weight, or of a view of a weight, to ``block``. Returns its value."""
    owner = value.owner
    assert isinstance(owner, Operation)
    sources = {x: _weight(x, block) for x in owner.operands}
    copy = owner.clone(sources)
    block.add_op(copy)
    return copy.results[0]


def _nodes(module: ModuleOp, name: str) -> list[str]:
    kernels = (op for op in module.ops if isinstance(op, KernelOp))
    nodes = next(kernel.nodes for kernel in kernels if kernel.sym_name.data == name)
    return [node.data for node in nodes or ()]


def _layout(type: Attribute) -> Layout:
    place = place_of(type)
    return NCHW if place is None else place.layout
