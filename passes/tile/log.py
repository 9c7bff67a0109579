"""The log of how a statement's schedule was chosen."""

from __future__ import annotations

from collections.abc import Iterator

from tessella.dialects import rt
from tessella.dialects.layout import ANY_LAYOUT
from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile import ContractOp, KernelOp, Schedule, ScheduleAttr
from tessella.dialects.tile.merge import with_places
from tessella.dialects.tile.nest import shared_loops, steps
from tessella.dialects.tile.reach import reaches
from tessella.passes.plaidml.log import statement_line
from tessella.passes.plaidml.stride_table import obstacle, stride_table
from tessella.passes.tile import parallel
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.model import CostModel, in_numbers
from tessella.passes.tile.nest import reason
from tessella.passes.tile.parallel import busy, choices
from tessella.passes.tile.plan import plan_accesses
from tessella.passes.tile.search import all_choices, best_schedule
from tessella.targets import Target

SHOWN = 6
"""The number of best candidates that are shown; the others are counted."""


def reasoning(op: ContractOp, kernel: KernelOp, target: Target) -> Iterator[str]:
    """Yield the log: the statement with its strides, the best candidates with a breakdown of their
    cycles, and the choice."""
    yield f"Contraction {kernel.sym_name.data} on {target.name}:"
    if obstacle(op) is None:
        table = stride_table(op)
        yield statement_line(op, table)
        yield str(table)
    loops = shared_loops(op).items()
    if loops:
        ats = zip(op.at_list, loops, strict=True)
        shared = ", ".join(f"{at} of {loop.extent} by {loop.step}" for at, (_, loop) in ats)
        yield f"One of {steps(op)} steps of shared loops: {shared}"
        yield f"  {reason(kernel, target)}"
        for name, reach in reaches(op).items():
            share = reach.share(op, name)
            yield f"  {name} ends at {reach.last}: {share:.0%} of it are run"
    found = sorted(all_choices(op, kernel, target), key=lambda choice: choice.cycles)
    for choice in found[:SHOWN]:
        yield f"Computing cost for {_schedule(choice)}"
        yield from _cost_lines(choice, target)
    if len(found) > SHOWN:
        yield f"  ... and {len(found) - SHOWN} more, up to cycles={found[-1].cycles:.6g}"
    choice = best_schedule(op, kernel, target)
    yield f"Chosen of {len(found)}: {_schedule(choice)}"
    yield from _cost_lines(choice, target)
    for operand, place in choice.places.items():
        yield f"  operand {operand} packed as {_packed(place)}"
    flat = with_places(op, choice.places)
    s = choice.schedule
    plan = plan_accesses(op, flat, s.vector, s.rows, s.dot)
    yield from (f"  {line}" for line in plan.lines())
    if not loops:
        model = CostModel(op, in_numbers(op, flat), target, op.summed)
        yield f"  threads: {_threads(model, choice.schedule)}"


def _packed(place: PlaceAttr) -> str:
    precision = place.precision.data
    layout = "it is" if place.layout == ANY_LAYOUT else str(place.layout)
    return layout if precision == "any" else f"{layout}, in {precision}"


def _threads(model: CostModel, s: Schedule) -> str:
    divided = min(choices(model, s), key=lambda choice: choice.time, default=None)
    if divided is None:
        return "1"
    name, grain = divided.index, divided.grain
    share = rt.Share(model.flat.ranges[name], grain)
    shares = ", ".join(f"{n} are {busy(share, n):.0%} busy" for n in parallel.THREADS)
    return f"{name} by {grain}: {shares}"


def _schedule(choice: Choice) -> str:
    return str(ScheduleAttr(choice.schedule)).removeprefix("#tile.schedule")


def _cost_lines(choice: Choice, target: Target) -> Iterator[str]:
    e = choice.estimate
    parts = {
        "arithmetic": e.arithmetic,
        "loads": e.loads,
        "latency": e.latency,
        "core": e.core,
        **e.traffic,
    }
    yield "  cycles: " + " ".join(f"{name}={value:.6g}" for name, value in parts.items())
    seconds = choice.cycles / (target.ghz * 1e9)
    code = f" code={choice.penalty:.3g}x" if choice.penalty != 1.0 else ""
    yield (
        f"  registers={e.registers}/{target.vector_registers}{code} cycles={choice.cycles:.6g} "
        f"microseconds={seconds * 1e6:.4g}"
    )
