"""Cut the program into steps: native segments, and ops that run in NumPy.

    func.func @main(%x) {
      %1 = nn.conv %x, %w {kernel = "conv"}
      %2, %3 = nn.topk %1 {kernel = "host"}
    ->
    tile.segment @segment_0(%x) -> (..) {
      %1 = nn.conv %x, %w {kernel = "conv"}
      tile.return %1
    }
    func.func @main(%x) {
      %1 = rt.launch @segment_0(%x)
      %2, %3 = nn.topk %1 {kernel = "host"}

A program whose ops are all native becomes one segment. So does the function of an `nn.scan` whose
kernel is `loop`, under its own name. Copies between places are steps; between the host and a CPU
they cost nothing, as both use the same memory. All ops of a segment run on one device, and their
results have the same fields. An op with symbols stays behind the op that defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, cycle

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import kernels
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.recurrent import ScanOp
from tessella.dialects.nn.traits import definitions
from tessella.dialects.place import CastOp, CopyOp, is_apart, place_of
from tessella.dialects.rt import LaunchOp
from tessella.dialects.tile import ReturnOp as TileReturnOp
from tessella.dialects.tile import SegmentOp
from tessella.dialects.verify import SymbolsOf
from tessella.kernels.registry import CPU, LOOP_KERNEL, is_called
from tessella.passes.base import find_function, functions
from tessella.passes.kinds import ProgramPass
from tessella.support.errors import InternalError, InvalidModelError

PROGRAM = "program"
"""The result of ``_runner`` for ops that the program itself runs, between segments."""


@dataclass(frozen=True)
class OutlineSegmentsPass(ProgramPass):
    """Move runs of native ops of `@main`, and of the functions that its loops run, into
    segments."""

    name = "outline-segments"
    stages = ("nn", "placed", "tile")  # tile: frontends may call existing kernels

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels.load()
        kinds = {scan.body_name: scan.kernel for scan in op.walk() if isinstance(scan, ScanOp)}
        names = _free_names(op)
        main = find_function(op, "main")
        for function in list(functions(op)):
            name = function.sym_name.data
            if kinds.get(name) == LOOP_KERNEL:
                _become_segment(function)
            elif function is main or name in kinds:
                for stretch in _stretches(function):
                    _outline(function, stretch, next(names))


def _free_names(module: ModuleOp) -> Iterator[str]:
    """Yield unused names of segments."""
    taken = {function.sym_name.data for function in functions(module)}
    return (name for i in count() if (name := f"segment_{i}") not in taken)


def _become_segment(function: FuncOp) -> None:
    """Replace a function whose ops are all native by a segment."""
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    Rewriter.replace_op(last, TileReturnOp(last.arguments))
    body = function.detach_region(0)
    segment = SegmentOp(function.sym_name.data, function.function_type, body)
    Rewriter.replace_op(function, segment)


def _runner(op: Operation) -> str:
    """Return what runs an op: a device, followed by the parts of the place that this device
    defines; or ``PROGRAM`` for ops that the program itself runs as steps. Ops without a place run
    on the CPU."""
    is_step = isinstance(op, CopyOp | ConstantOp) or (isinstance(op, NnOp) and is_called(op))
    if is_step or (isinstance(op, CastOp) and 0 in shape_of(op.res)):
        return PROGRAM
    place = place_of(op.results[0].type) if op.results else None
    if place is None or not is_apart(place.device.data):
        return CPU
    return "/".join((place.device.data, *map("=".join, place.fields)))


def _stretches(function: FuncOp) -> list[list[Operation]]:
    """Return lists of ops that one device runs without interruption. The ops of the function are
    reordered so that there are few lists."""
    definers = _definers(function)
    block = function.body.block
    done: set[Operation] = {
        op for op in block.ops if isinstance(op, ConstantOp) and op not in definers
    }
    ops = [op for op in block.ops if not isinstance(op, ReturnOp) and op not in done]
    stretches: list[list[Operation]] = []
    ordered: list[Operation] = []
    runners = {op: _runner(op) for op in ops}
    order, waiting = list(dict.fromkeys((CPU, PROGRAM, *runners.values()))), 0
    for runner in cycle(order):
        if not ops:
            break
        taken = _ready(ops, done, definers, lambda op, runner=runner: runners[op] == runner)
        waiting = 0 if taken else waiting + 1
        if waiting == len(order):  # no op can run
            raise InvalidModelError(f"{ops[0].name} waits for its own result", where=str(ops[0]))
        if runner != PROGRAM and taken:
            stretches.append(taken)
        ordered += taken
        ops = [op for op in ops if op not in done]
    last = function.body.block.last_op
    if last is None:
        raise InternalError(f"@{function.sym_name.data} has no terminator")
    for op in ordered:
        op.detach()
        Rewriter.insert_op(op, InsertPoint.before(last))
    return stretches


def _definers(function: FuncOp) -> Mapping[Operation, Sequence[Operation]]:
    """Return the ops that define the symbols of each op that depends on such symbols."""
    ops = function.body.block.ops
    found = {each.symbol: op for op in ops for each in definitions(op)}
    module = function.parent_op()
    if not found or not isinstance(module, ModuleOp):
        return {}
    used = SymbolsOf(module)
    read = ((op, used.by(op) & found.keys()) for op in ops)
    return {
        op: [found[s] for s in symbols if found[s] is not op] for op, symbols in read if symbols
    }


def _ready(
    ops: list[Operation],
    done: set[Operation],
    definers: Mapping[Operation, Sequence[Operation]],
    wanted: Callable[[Operation], bool],
) -> list[Operation]:
    """Return the ops that satisfy ``wanted`` and have all their operands computed and their symbols
    defined, in order, and add them to ``done``."""
    taken: list[Operation] = []
    for op in ops:
        owners = (*(v.owner for v in op.operands), *definers.get(op, ()))
        if wanted(op) and all(o in done for o in owners if isinstance(o, Operation)):
            taken.append(op)
            done.add(op)
    return taken


def _outline(function: FuncOp, stretch: list[Operation], name: str) -> None:
    members = set(stretch)
    outside, constants = _operands(stretch)
    results = [
        r for op in stretch for r in op.results if any(u.operation not in members for u in r.uses)
    ]
    types = [r.type for r in results]
    inputs = [v.type for v in outside]
    block = Block(arg_types=inputs)
    launch = LaunchOp(name, outside, types)
    Rewriter.insert_op(launch, InsertPoint.before(stretch[0]))
    for result, new in zip(results, launch.res, strict=True):
        new.name_hint = result.name_hint
        result.replace_uses_with_if(new, lambda use: use.operation not in members)
    inner: dict[SSAValue, SSAValue] = dict(zip(outside, block.args, strict=True))
    for constant in constants:
        clone = constant.clone()
        block.add_op(clone)
        inner[constant.res] = clone.results[0]
    for value, copy in inner.items():
        copy.name_hint = value.name_hint
    _move(stretch, block, inner)
    block.add_op(TileReturnOp(results))
    for constant in constants:
        if constant.res.first_use is None:
            Rewriter.erase_op(constant)
    segment = SegmentOp(name, FunctionType.from_lists(inputs, types), Region(block))
    Rewriter.insert_op(segment, InsertPoint.before(function))


def _operands(stretch: list[Operation]) -> tuple[list[SSAValue], list[ConstantOp]]:
    """Return the inputs of a list of ops that becomes a segment: values computed outside, and
    constants."""
    members = set(stretch)
    outside: dict[SSAValue, None] = {}
    constants: dict[ConstantOp, None] = {}
    for value in (v for op in stretch for v in op.operands):
        if isinstance(value.owner, ConstantOp):
            constants[value.owner] = None
        elif value.owner not in members:
            outside[value] = None
    return list(outside), list(constants)


def _move(ops: list[Operation], block: Block, values: dict[SSAValue, SSAValue]) -> None:
    """Move ops to the end of a block and replace their operands."""
    for op in ops:
        op.detach()
        block.add_op(op)
        for i, value in enumerate(op.operands):
            op.operands[i] = values.get(value, value)
