"""The steps of a program and the values between them, read from the `tile` stage."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from tessella.dialects import tile
from tessella.dialects.calls import NODES, nodes_of
from tessella.dialects.elements import bytes_of
from tessella.dialects.graph import NAME, main_function
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, tensor_type
from tessella.dialects.nn.recurrent import ScanOp
from tessella.dialects.place import CastOp, CopyOp, place_of
from tessella.dialects.rt import LaunchOp
from tessella.dialects.symbols import callee_of
from tessella.driver.report.data import Edge, StepData
from tessella.kernels.registry import picked_kernel
from tessella.support.sizes import estimated, symbols_of

CONVERSION = "place."
"""The prefix of the names of ops that convert between places. The name of such an op stands for a
node, as the model has no node for it."""


@dataclass
class StepGraph:
    """The steps of a program, and the values that they pass to each other."""

    steps: list[StepData] = field(default_factory=list[StepData])
    edges: dict[tuple[int, int], Edge] = field(default_factory=dict[tuple[int, int], Edge])
    _from: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The value that each alias stands for: for example, the source of a copy for its result."""
    _made: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """The step that makes each value."""
    _calls: Counter[str] = field(default_factory=Counter[str])
    """The number of calls of each kernel."""

    @staticmethod
    def of(module: ModuleOp) -> StepGraph:
        """Return the steps of a program at the stage `tile`."""
        calls = (op.callee_name for op in module.walk() if isinstance(op, tile.CallOp))
        graph = StepGraph(_calls=Counter(calls))
        main = main_function(module)
        for name, argument in zip(_names(main), main.body.block.args, strict=True):
            graph._make("input", name, [], [argument])
        graph._function(main, "")
        return graph

    def _function(self, function: FuncOp, where: str) -> None:
        names = _names(function, results=True)
        for op in function.body.block.ops:
            match op:
                case ConstantOp():
                    pass
                case CopyOp():
                    self._from[op.res] = op.source
                case LaunchOp():
                    self._launch(op, where)
                case CastOp():
                    self._make("conversion", "cast", [op.source], [op.res], kernel=op.name)
                case ScanOp():
                    self._loop(op, op.body_name, [op.node], where)
                case NnOp():
                    self._host(op, where)
                case ReturnOp() if not where:
                    for name, value in zip(names, op.operands, strict=True):
                        self._make("output", name, [value], [], type=_type(value))
                case _:
                    pass

    def _launch(self, op: LaunchOp, where: str) -> None:
        segment = callee_of(op, op.callee, tile.SegmentOp)
        self._from |= dict(zip(segment.body.block.args, op.arguments, strict=True))
        self._from |= dict(zip(op.res, segment.returned.values, strict=True))
        self._segment(segment, where)

    def _segment(self, segment: tile.SegmentOp, where: str) -> None:
        for op in segment.body.block.ops:
            match op:
                case tile.CallOp():
                    self._call(op, where)
                case tile.ScanOp():
                    self._loop(op, op.callee_name, [], where)
                case tile.ViewOp():
                    self._from[op.res] = op.source
                case _:
                    pass

    def _call(self, op: tile.CallOp, where: str) -> None:
        kernel = callee_of(op, op.callee, tile.KernelOp)
        nodes = [node.data for node in nodes_of(op, kernel.nodes)]
        if NODES not in op.attributes:
            # the kernel names those of all its calls, which are alike
            nodes = nodes[: len(nodes) // max(1, self._calls[op.callee_name])]
        is_conversion = all(node.startswith(CONVERSION) for node in nodes)
        kind = "conversion" if is_conversion else "kernel"
        shown = ", ".join(dict.fromkeys(nodes))
        label = op.callee_name.rpartition("_")[0] if is_conversion else shown
        name = op.callee_name
        self._make(kind, label, op.arguments, op.res, kernel=name, nodes=nodes, where=where)

    def _host(self, op: NnOp, where: str) -> None:
        function = picked_kernel(op).function or op.name
        ends = op.operands, op.results
        self._make("numpy", op.node, *ends, kernel=function, nodes=[op.node], where=where)

    def _loop(self, op: tile.ScanOp | ScanOp, body: str, nodes: Sequence[str], where: str) -> None:
        name = f"loop over {body}"
        self._make("loop", name, op.operands, op.results, nodes=nodes, where=where)
        module = op.parent_op()
        while module is not None and not isinstance(module, ModuleOp):
            module = module.parent_op()
        found = module.body.block.ops if module is not None else ()
        for each in found:
            if isinstance(each, FuncOp) and each.sym_name.data == body:
                self._function(each, body)
            elif isinstance(each, tile.SegmentOp) and each.sym_name.data == body:
                self._segment(each, body)

    def _make(
        self,
        kind: str,
        label: str,
        operands: Sequence[SSAValue],
        results: Sequence[SSAValue],
        *,
        kernel: str = "",
        nodes: Sequence[str] = (),
        where: str = "",
        type: str = "",
    ) -> None:
        """Append a step, and edges from the steps that make its operands."""
        number = len(self.steps)
        type = type or (_type(results[0]) if results else "")
        step = StepData(number, kind, label, kernel, [*nodes], where, type, (), (), (), {})
        self.steps.append(step)
        self._made |= dict.fromkeys(results, number)
        for value in operands:
            source = self._made.get(self._origin(value))
            if source is not None:
                edge = Edge(source, number, _type(value), _bytes(value))
                self.edges.setdefault((source, number), edge)

    def _origin(self, value: SSAValue) -> SSAValue:
        while value in self._from:
            value = self._from[value]
        return value


def with_ops(
    steps: Sequence[StepData], at: Mapping[str, Sequence[int]], inner: Sequence[tuple[int, int]]
) -> Sequence[StepData]:
    """Return steps with their ops: ``at`` gives the indices of the ops of each node, in the order
    of the program, and ``inner`` the values between ops.

    A node may have several ops, in several steps. Each step takes as many as it names the node.
    """
    left = {node: deque(ops) for node, ops in at.items()}
    found: dict[int, StepData] = {}
    # the bodies of loops are functions after the main one
    for step in sorted(steps, key=lambda step: bool(step.where)):
        ops = [left[node].popleft() for node in step.nodes if left.get(node)]
        own = set(ops)
        pairs = [pair for pair in inner if own.issuperset(pair)]
        found[step.id] = replace(step, nodes=[*dict.fromkeys(step.nodes)], ops=ops, inner=pairs)
    return [found[step.id] for step in steps]


def _names(function: FuncOp, *, results: bool = False) -> list[str]:
    """Return the names that users know of a function's arguments, or of its results."""
    type = function.function_type
    found = function.res_attrs if results else function.arg_attrs
    count = len(type.outputs.data if results else type.inputs.data)
    marks = found.data if found is not None else [None] * count
    return [_name(mark, i) for i, mark in enumerate(marks)]


def _name(mark: DictionaryAttr | None, number: int) -> str:
    name = mark.data.get(NAME) if mark is not None else None
    return name.data if isinstance(name, StringAttr) else str(number)


def _type(value: SSAValue) -> str:
    """Return the shape, the element type and the layout of a tensor, such as `f32 1x8x6x6 nhwc`."""
    type = tensor_type(value)
    place = place_of(value.type)
    shape = "x".join(map(str, type.get_shape())) or "scalar"
    layout = f" {place.layout.name}" if place is not None else ""
    return f"{type.element_type} {shape}{layout}"


def _bytes(value: SSAValue) -> int | None:
    size = bytes_of(tensor_type(value))
    return None if symbols_of([size]) else estimated(size)
