"""Which kernel runs each op, where and why: read from the `placed` stage or a later one.

The `placed` stage records what was picked and how; rejected candidates are enumerated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from tessella.dialects import rt
from tessella.dialects.graph import main_function
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import is_conversion
from tessella.dialects.nn.fused import FusedOp, YieldOp, outside
from tessella.dialects.nn.traits import Definition, definitions
from tessella.dialects.place import CastOp, CopyOp, PlaceAttr, RelayoutOp, place_of
from tessella.dialects.tile import CallOp, KernelOp
from tessella.driver.explain.explain_pick import Explainer
from tessella.driver.explain.explain_threads import explain_threads
from tessella.kernels.cost import bytes_of
from tessella.passes.base import CONSUMED, PATTERN, functions
from tessella.passes.pick.refusals import refusals_of
from tessella.runtime.explain_types import Conversion, Fusion, OpEntry, Threads
from tessella.runtime.explanation import Explanation

DERIVED = (
    "The program was loaded from the stage {stage!r}, which no longer knows its ops: "
    "these are the kernels of its nodes."
)


def explain(
    stages: Mapping[str, ModuleOp], values: Sequence[str] = (), sizes: Sequence[str] = ()
) -> Explanation:
    """Return the explanation of a program.

    It uses the program's stages, ``values``, the inputs that the program is specialised on, and
    ``sizes``, the treatment of dynamic dimensions. Without the `placed` stage, the explanation has
    an entry for each node that a kernel computes, which says only which kernel that is.
    """
    if "placed" not in stages:
        stage = next(iter(stages))
        note = DERIVED.format(stage=stage)
        entries = list(_kernels(stages[stage]))
        return Explanation(entries, note=note, threads=_threads(stages), values=values, sizes=sizes)
    module = stages["placed"]
    main = main_function(module)
    others = [function for function in functions(module) if function is not main]
    explainers = [Explainer(function) for function in (main, *others)]
    groups = count()
    defined = [f"{d.symbol}: defined by {op.node}, {d.symbol.range}" for op, d in _defined(main)]
    return Explanation(
        [entry for e in explainers for entry in _placed(module, e, groups)],
        [conversion for e in explainers for conversion in _conversions(e)],
        [fusion for e in explainers for fusion in _fusions(e.function)],
        [refusal for e in explainers for refusal in refusals_of(e.function)],
        [regret for e in explainers for op in e.found for regret in e.regrets(op)],
        explainers[0].pick,
        threads=_threads(stages),
        values=values,
        sizes=[*sizes, *defined],
    )


def _defined(function: FuncOp) -> Iterator[tuple[NnOp, Definition]]:
    """Yield the symbols that the ops of a function define, each with the op."""
    ops = (op for op in function.body.block.ops if isinstance(op, NnOp))
    yield from ((op, each) for op in ops for each in definitions(op))


def _threads(stages: Mapping[str, ModuleOp]) -> Threads | None:
    return explain_threads(stages["loops"]) if "loops" in stages else None


def _placed(module: ModuleOp, explainer: Explainer, groups: Iterator[int]) -> Iterator[OpEntry]:
    kernels = {k.sym_name.data: k for k in module.body.block.ops if isinstance(k, KernelOp)}
    steps = (op for op in explainer.function.body.block.ops if _is_step(op))
    for outer, group in zip(steps, groups, strict=False):
        for op in list(outer.body.block.ops) if isinstance(outer, FusedOp) else [outer]:
            if is_conversion(op):
                continue
            if isinstance(op, NnOp):
                yield explainer.entry(op, group)
            elif isinstance(op, CallOp):
                yield from _nodes(op.name, kernels[op.callee_name], group)


def _is_step(op: Operation) -> bool:
    """Return whether an op runs as its own group."""
    return isinstance(op, NnOp | FusedOp | CallOp) and not isinstance(op, ConstantOp)


def _conversions(explainer: Explainer) -> Iterator[Conversion]:
    for op in explainer.function.walk():
        alone = isinstance(op, CopyOp | CastOp | RelayoutOp)
        if alone or is_conversion(op):
            source, result = op.operands[0], op.results[0]
            yield {
                "op": op.name if alone else CastOp.name,
                "value": _name(source),
                "source": str(place_of(source.type)),
                "target": str(place_of(result.type)),
                "bytes": bytes_of(source),
                "estimate": explainer.conversion_seconds(op) if alone else 0.0,
                "readers": list(dict.fromkeys(_readers(result))),
            }


def producer(value: SSAValue) -> NnOp | SSAValue:
    """Return the op that produces a value, ignoring conversions and groups; the value itself if no
    op of a model does."""
    value = outside(value)
    match value.owner:
        case CopyOp() | CastOp() | RelayoutOp() as op:
            return producer(op.source)
        case NnOp() as op if is_conversion(op):
            return producer(op.x)
        case FusedOp() as op if isinstance(value, OpResult):
            return producer(op.yielded.values[value.index])
        case NnOp() as op:
            return op
        case _:
            return value


def _name(value: SSAValue) -> str:
    """Return the node that produces a value, ignoring conversions and groups, or the value's
    name."""
    found = producer(value)
    return found.node if isinstance(found, NnOp) else found.name_hint or ""


def _readers(value: SSAValue) -> Iterator[str]:
    """Yield the nodes that read a value, ignoring conversions and groups."""
    for use in value.uses:
        match use.operation:
            case CopyOp() | CastOp() | RelayoutOp() as op:
                yield from _readers(op.res)
            case FusedOp() as op:
                yield from _readers(op.body.block.args[use.index])
            case YieldOp() as op if isinstance(group := op.parent_op(), FusedOp):
                yield from _readers(group.res[use.index])
            case NnOp() as op if is_conversion(op):
                yield from _readers(op.res)
            case NnOp() as op:
                yield op.node
            case op:
                yield op.name.rpartition(".")[2]


def _fusions(function: FuncOp) -> Iterator[Fusion]:
    """Yield the fusions in a function: ops that patterns produced, and groups of elementwise ops
    that run as one kernel."""
    for op in function.walk():
        pattern = op.attributes.get(PATTERN)
        if isinstance(op, NnOp) and isinstance(pattern, StringAttr):
            consumed = op.attributes.get(CONSUMED, ArrayAttr([]))
            assert isinstance(consumed, ArrayAttr)
            names = [n.data for n in consumed if isinstance(n, StringAttr)]
            yield {"op": op.name, "node": op.node, "pattern": pattern.data, "consumed": names}
        elif isinstance(op, FusedOp):
            members = (i for i in op.body.block.ops if isinstance(i, NnOp))
            inner = [i for i in members if not is_conversion(i)]
            names = [f"{i.name}@{i.node}" for i in inner]
            node = inner[-1].node if inner else ""
            yield {"op": op.name, "node": node, "pattern": "elementwise", "consumed": names}


# ** entries of programs without the stage `placed` **


def _row(
    op: str, node: str, kernel: str, place: PlaceAttr | None, group: int, *, native: bool = True
) -> OpEntry:
    return {
        "op": op,
        "node": node,
        "kernel": kernel,
        "native": native,
        "place": str(place) if place is not None else "",
        "storage": "",
        "arithmetic": "",
        "group": group,
        "estimate": None,
        "measured": False,
        "saved": 0.0,
        "fallback": None,
        "runner_up": None,
        "rejected": [],
    }


def _nodes(op: str, kernel: KernelOp | rt.KernelOp, group: int) -> Iterator[OpEntry]:
    """Yield an entry of the explanation for each node that a kernel computes."""
    outputs = kernel.function_type.outputs.data if isinstance(kernel, KernelOp) else ()
    place = place_of(outputs[0]) if outputs else None
    for node in kernel.nodes or ():
        yield _row(op, node.data, kernel.sym_name.data, place, group)


def _code(kernel: KernelOp | rt.KernelOp) -> int:
    """Return the number of a kernel, by which kernels are sorted; 0 if it has none."""
    return kernel.code.value.data if kernel.code is not None else 0


def _kernels(module: ModuleOp) -> Iterator[OpEntry]:
    """Yield the entries of a module without places: the nodes of each kernel in the order of the
    kernels' numbers, then the ops that run in NumPy."""
    found = (op for op in module.body.block.ops if isinstance(op, KernelOp | rt.KernelOp))
    kernels = sorted(found, key=_code)
    for group, op in enumerate(kernels):
        yield from _nodes("", op, group)
    host = [op for f in functions(module) for op in f.body.block.ops if isinstance(op, NnOp)]
    for group, op in enumerate(host, len(kernels)):
        if not isinstance(op, ConstantOp):
            place = place_of(op.results[0].type)
            yield _row(op.name, op.node, op.kernel or "", place, group, native=False)
