"""Measure, on this machine, the kernels that the compiler chooses from, and store the times.

A measurement runs a kernel for an op at a place (device, precision and layout) as its own program,
with the schedules, packed weights and copies that it has in any program. The candidates of an op
with the lowest estimates run interleaved, on one thread, with weights outside the caches. The most
expensive ops come first, until the budget is spent; measurements in the database are not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from statistics import quantiles
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tessella import kernels, targets
from tessella.dialects.graph import CompileContext, Graph, finish_main, main_function, make_main
from tessella.dialects.layout import NCHW, pack
from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, Tensor, dtype_of, is_float, shape_of, tensor_type
from tessella.dialects.place import place_of
from tessella.driver.build.build import build
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import CheckedOptions
from tessella.passes.base import functions, is_constant, places_of_arguments
from tessella.passes.pick.by_cost import costs_alike
from tessella.passes.pick.candidates import Candidate, layouts_in_play
from tessella.passes.pick.cost_key import exact_key, is_input, op_text
from tessella.passes.pick.kernel_cost import OpCost, Prices, timing_key
from tessella.passes.pick.scratch import picked_op
from tessella.passes.pick_kernels import PickKernelsPass
from tessella.runtime.arena import aligned
from tessella.runtime.elements import converted
from tessella.runtime.program import Program
from tessella.runtime.weights import WeightStore
from tessella.support.errors import OptionError, ResourceError, UnsupportedError
from tessella.targets import Target, database
from tessella.targets.database import Database, Timing

Array = npt.NDArray[Any]
Report = Callable[[str], None]

FEW = 4
"""The most candidates of an op that are measured."""
FAR = 3.0
"""The ratio of a candidate's estimate to the best one above which the candidate is not measured."""
TURNS, LONGEST = 25, 1.0
"""The most runs of each candidate of an op, and seconds after which the runs of the op end."""
COPIES = 16
"""The most copies of a program, each with its own weights, that alternate in a measurement.

Weights found in a cache take negligible time to read, which would distort the measurement.
"""


@dataclass(frozen=True)
class Measurement:
    """The measured time of a kernel for an op at a place (device, precision and layout).
    ``estimated`` and ``seconds`` are in seconds."""

    key: str
    node: str
    kernel: str
    place: str
    estimated: float
    timing: Timing
    seconds: float


@dataclass
class Unit:
    """Equal ops of a program, and their candidates."""

    op: NnOp
    candidates: Sequence[Candidate]
    estimates: Sequence[float]
    count: int = 0

    @property
    def cost(self) -> float:
        """The estimated seconds of all these equal ops together, with the best candidate."""
        return self.count * min(self.estimates)

    def key(self, candidate: Candidate) -> str:
        """Return the key of a candidate's timing in the database."""
        return timing_key(op_text(self.op), candidate.kernel.name, candidate.place)


WHOLE = (0, 1)
"""The value of the argument ``share`` of ``tune`` that stands for all ops."""


def tune(
    graph: Graph,
    options: CheckedOptions,
    seconds: float,
    report: Report = lambda text: None,
    share: tuple[int, int] = WHOLE,
) -> list[Measurement]:
    """Measure kernels of a program at the stage `nn`, which is consumed, within a time budget.
    Returns the new measurements.

    ``share`` is the index of the share to measure, counted from 0, and the number of shares. Each
    op belongs to exactly one share.

    The times are added to the database of the options, op by op. Raises OptionError if the database
    cannot be written, or if this machine cannot run the target.
    """
    deadline = perf_counter() + seconds
    target = targets.resolve(options.target)
    if not targets.can_run(target):
        raise OptionError(
            f"this machine cannot run code for {target.name}", hint="measure on one that can"
        )
    where, file = database.this_machine(target), options.database
    database.update(file, Database())
    known, made = database.read(file).of(where), list[Measurement]()
    bench = _Bench(target, replace(options, pick="cost", database="", threads=1))
    listed = units(graph, options)[share[0] :: share[1]]
    for number, unit in enumerate(listed, start=1):
        if all(unit.key(candidate) in known for candidate in unit.candidates):
            continue
        if perf_counter() >= deadline:
            break
        report(f"op {number} of {len(listed)}: {unit.op.name} {unit.op.node}")
        found = bench.measure(unit, deadline)
        database.update(file, Database({where: {m.key: m.timing for m in found}}))
        made += found
    return made


def units(graph: Graph, options: CheckedOptions) -> list[Unit]:
    """Return the ops of a program with kernels that are worth measuring, those that take longest
    first. Equal ops are one unit."""
    kernels.load()
    found: dict[str, Unit] = {}
    prices = Prices(targets.resolve(options.target), shared=options.several)
    for function, step in _before_the_pick(graph, options):
        candidates = step.candidates(function)
        layouts = layouts_in_play(candidates, places_of_arguments(function, options.arch))
        for op, entry in candidates.items():
            key = op_text(op)
            if key not in found:
                unit = _unit(prices.of(op), entry.placed(op, layouts))
                if unit is None:
                    continue
                found[key] = unit
            found[key].count += 1
    return sorted(found.values(), key=lambda unit: -unit.cost)


def _before_the_pick(
    graph: Graph, options: CheckedOptions
) -> Iterator[tuple[FuncOp, PickKernelsPass]]:
    """Run the passes before the pick on a program, and yield each function with the pass that picks
    kernels."""
    ctx = CompileContext(graph.weights)
    _, passes = pipeline(options)[0]
    for step in passes:
        if isinstance(step, PickKernelsPass):
            yield from ((function, step) for function in functions(graph.module))
            return
        step.apply(ctx, graph.module)


def _unit(cost: OpCost, listed: Sequence[Candidate]) -> Unit | None:
    """Return an op with the best candidates; None if fewer than two are worth measuring."""
    if len(listed) < 2 or costs_alike(cost.op, listed):
        return None
    ranked = sorted(((cost.modelled(c.kernel, c.place), i) for i, c in enumerate(listed)))
    near = [(s, i) for s, i in ranked[:FEW] if s <= FAR * ranked[0][0]]
    if len(near) < 2:
        return None
    return Unit(cost.op, [listed[i] for _, i in near], [s for s, _ in near])


class _Runnable:
    """A program whose weights and inputs are not in the caches: copies of it alternate.

    Inputs that are not ``cold`` are the same in all copies: another op has just produced them.
    """

    def __init__(
        self, program: Program, inputs: Sequence[Array], cold: Sequence[bool], target: Target
    ) -> None:
        size = sum(weight.nbytes for weight in program.weights)
        size += sum(x.nbytes for x, is_cold in zip(inputs, cold, strict=True) if is_cold)
        count = min(COPIES, 1 + 2 * target.l3 // size) if size else 1
        self._calls = [partial(program.run, list(inputs))]
        for _ in range(count - 1):
            own = [x.copy() if is_cold else x for x, is_cold in zip(inputs, cold, strict=True)]
            self._calls.append(partial(_copy(program).run, own))
        self._turns = cycle(self._calls)

    def warm_up(self) -> None:
        """Call each copy, as its first call resolves addresses."""
        for call in self._calls:
            call()

    def seconds(self) -> float:
        """Return the seconds of a call of one copy, after a call of another copy has loaded other
        data into the caches."""
        next(self._turns)()
        call = next(self._turns)
        start = perf_counter()
        call()
        return perf_counter() - start


def _copy(program: Program) -> Program:
    weights = [aligned(weight.nbytes) for weight in program.weights]
    for copy, weight in zip(weights, program.weights, strict=True):
        copy[:] = weight
    return replace(program, weights=weights)


class _Bench:
    """A benchmark of kernels, each of which runs as its own program with cold weights."""

    def __init__(self, target: Target, options: CheckedOptions) -> None:
        self.target = target
        self.options = options
        nothing = _Runnable(Program(0, (), (), {}, []), [], [], target)
        nothing.warm_up()
        self._overhead = min(nothing.seconds() for _ in range(5))

    def measure(self, unit: Unit, deadline: float) -> list[Measurement]:
        """Measure a unit's candidates. A candidate is left out if this machine cannot run it or,
        except for the first one, if ``deadline`` has passed."""
        runnable: dict[int, _Runnable] = {}
        for i, candidate in enumerate(unit.candidates):
            if perf_counter() < deadline or not i:
                try:
                    runnable[i] = self._built(unit.op, candidate)
                except (UnsupportedError, ResourceError):
                    continue  # the candidate's device is missing, or memory is short
        seconds = self._times(runnable, min(deadline, perf_counter() + LONGEST))
        return [self._measurement(unit, i, times) for i, times in seconds.items()]

    def _times(self, runs: Mapping[int, _Runnable], end: float) -> dict[int, list[float]]:
        """Return the seconds of each run of each program. The programs alternate until the time
        ``end``, at least three times and at most ``TURNS`` times."""
        times: dict[int, list[float]] = {i: [] for i in runs}
        for run in runs.values():
            run.warm_up()
        for turn in range(TURNS):
            if turn >= 3 and perf_counter() >= end:
                break
            for i, run in runs.items():
                times[i].append(run.seconds())
        return times

    def _measurement(self, unit: Unit, i: int, times: Sequence[float]) -> Measurement:
        low, middle, _ = quantiles(times, n=4)
        seconds = max(low - self._overhead, 1e-8)
        cycles = seconds * self.target.ghz * 1e9
        candidate = unit.candidates[i]
        return Measurement(
            key=unit.key(candidate),
            node=unit.op.node,
            kernel=candidate.kernel.name,
            place=str(candidate.place),
            estimated=unit.estimates[i],
            timing=Timing(cycles, (middle - low) / low, len(times)),
            seconds=seconds,
        )

    def _built(self, op: NnOp, candidate: Candidate) -> _Runnable:
        """Return a program of the op alone, with inputs and outputs on the device, and in the
        element types and layouts, that the kernel requires."""
        graph = _program(op, candidate)
        arguments = main_function(graph.module).body.block.args
        inputs = [_memory(tensor_type(value)) for value in arguments]
        # converting an input loads it into the caches
        variables = [value for value in op.operands if not is_constant(value)]
        cold = [
            is_input(value) and _is_row_major(argument)
            for value, argument in zip(variables, arguments, strict=True)
        ]
        program = build(graph, self.options).program
        return _Runnable(program, inputs, cold, self.target)


def _is_row_major(value: SSAValue) -> bool:
    place = place_of(value.type)
    return place is None or place.layout.same_memory(NCHW, shape_of(value))


def _program(op: NnOp, candidate: Candidate) -> Graph:
    picked, weights = picked_op(exact_key(op), op, candidate.kernel, candidate.place), WeightStore()
    sources = list(dict.fromkeys(picked.operands))
    variables = [v for v in sources if not isinstance(v.owner, WeightOp | SplatOp)]
    main = make_main([f"x{i}" for i in range(len(variables))], list(map(tensor_type, variables)))
    values: dict[SSAValue, SSAValue] = dict(zip(variables, main.body.block.args, strict=True))
    for value in sources:
        if value not in values:
            values[value] = _constant(value, main, weights)
    picked.operands = [values[value] for value in picked.operands]
    picked.picked_places = None
    main.body.block.add_op(picked)
    finish_main(main, [f"y{i}" for i in range(len(picked.results))], picked.results)
    return Graph(ModuleOp([main]), weights, "placed")


def _constant(value: SSAValue, main: FuncOp, weights: WeightStore) -> SSAValue:
    type = tensor_type(value)
    if isinstance(value.owner, SplatOp):
        made: WeightOp | SplatOp = value.owner.clone()
    else:
        made = WeightOp(weights.add("weight", _memory(type)), type)
    main.body.block.add_op(made)
    return made.res


def _memory(type: Tensor) -> Array:
    """Return an array for a tensor of this type, in the layout of its place: normally distributed
    floats, or zeros, which are valid indices."""
    shape = shape_of(type)
    random = np.random.default_rng(0).standard_normal
    array = converted(
        random(shape) if is_float(type.element_type) else np.zeros(shape), dtype_of(type)
    )
    place = place_of(type)
    if place is None or place.layout.same_memory(NCHW, shape):
        return array
    return pack(array, place.layout)
