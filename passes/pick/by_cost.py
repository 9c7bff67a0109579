"""The static pick by cost: the kernels of a function with the least total cost.

The cost is the seconds of the kernels, plus the conversions between places (each counted once for
all its readers; constants convert at compile time), minus what fusing elementwise ops into their
producers saves. ``selection.py`` finds the choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.nn.elementwise import ElementwiseOp, widened_from
from tessella.dialects.place import CastOp, PlaceAttr, conversion_steps, precision_of
from tessella.dialects.place import Step as ConversionStep
from tessella.kernels.registry import NOT_FUSED
from tessella.passes.base import is_constant, places_of_arguments, places_of_results
from tessella.passes.pick.candidates import Candidate
from tessella.passes.pick.kernel_cost import Prices, step_seconds
from tessella.passes.pick.selection import (
    JointCost,
    PathStep,
    SelectedValue,
    SelectionProblem,
    Solution,
    ValueReader,
    solve,
)
from tessella.passes.pick.sized_cost import layout_matters


def pick_by_cost(
    function: FuncOp,
    options: Mapping[NnOp, Sequence[Candidate]],
    prices: Prices,
) -> tuple[dict[NnOp, Candidate], Solution]:
    """Return the chosen candidate of each op, and the solution. Ops with a single candidate do not
    count in the cost of the solution."""
    builder = ProblemBuilder(prices)
    problem = builder.build(function, options)
    solution = solve(problem)
    chosen = {op: listed[solution.choice[builder.nodes[op]]] for op, listed in options.items()}
    return chosen, solution


TOLERANCE = 1.1
"""The factor by which an estimate must be lower for a place that is listed later to be preferred.

Estimates are no more accurate, and every change of place adds a kernel.
"""

Conversions = tuple[tuple[ConversionStep, PlaceAttr], ...]
"""The steps of a conversion, and the place where each starts."""


@dataclass
class ProblemBuilder:
    """A builder of the selection problem of a function: a graph of choices, without ops and types.

    Arguments, ops and the return become nodes. The form in which a node reads or writes a value is
    the number of a place (device, element type, layout).
    """

    prices: Prices
    nodes: dict[object, int] = field(default_factory=dict[object, int])
    costs: list[list[float]] = field(default_factory=list[list[float]])
    places: dict[PlaceAttr, int] = field(default_factory=dict[PlaceAttr, int])
    made: dict[SSAValue, list[int]] = field(default_factory=dict[SSAValue, list[int]])
    """The place of each value for each candidate of its producer."""
    reads: dict[SSAValue, dict[int, list[list[int]]]] = field(
        default_factory=dict[SSAValue, dict[int, list[list[int]]]]
    )
    """The places at which each node reads a value, for each candidate of the node."""
    pairs: list[JointCost] = field(default_factory=list[JointCost])
    conversions: dict[tuple[int, int], Conversions] = field(
        default_factory=dict[tuple[int, int], Conversions]
    )

    def build(
        self, function: FuncOp, options: Mapping[NnOp, Sequence[Candidate]]
    ) -> SelectionProblem:
        """Return the problem of choosing a candidate for each op."""
        given = places_of_arguments(function, self.prices.target.arch)
        for argument, place in zip(function.body.block.args, given, strict=True):
            self._node(argument, [0.0])
            self.made[argument] = [self._place(place)]
        self._ops(options)
        last = function.body.block.last_op
        if isinstance(last, ReturnOp):
            node = self._node(last, [0.0])
            returned = places_of_results(function, self.prices.target.arch)
            for value, place in zip(last.operands, returned, strict=True):
                self._read(node, value, [self._place(place)])
        return self._problem(options)

    def build_alone(self, options: Mapping[NnOp, Sequence[Candidate]]) -> SelectionProblem:
        """Return the selection problem of ops outside any function. Their operands are available at
        every place, and their results may be at any place."""
        self._ops(options)
        return self._problem(options)

    def _ops(self, options: Mapping[NnOp, Sequence[Candidate]]) -> None:
        for op, listed in options.items():
            self._op(op, listed)

    def _problem(self, options: Mapping[NnOp, Sequence[Candidate]]) -> SelectionProblem:
        for op, listed in options.items():
            self._fusion(op, options, listed)
        return SelectionProblem(self.costs, list(map(self._value, self.reads)), self.pairs)

    def _node(self, key: object, costs: list[float]) -> int:
        self.nodes[key] = len(self.costs)
        self.costs.append(costs)
        return self.nodes[key]

    def _place(self, place: PlaceAttr) -> int:
        return self.places.setdefault(place, len(self.places))

    def _op(self, op: NnOp, listed: Sequence[Candidate]) -> None:
        node = self._node(op, self._seconds(op, listed))
        wants = [list(map(self._place, c.wants)) for c in listed]
        for i, value in enumerate(op.operands):
            self._read(node, value, [places[i] for places in wants])
        for i, result in enumerate(op.results, len(op.operands)):
            self.made[result] = [places[i] for places in wants]

    def _seconds(self, op: NnOp, listed: Sequence[Candidate]) -> list[float]:
        """Return the price of each candidate of an op; zeros if there is only one, or if all are
        one kernel whose cost is the same at all of its places.

        A kernel at a place that is listed later must be cheaper by a factor to be picked.
        """
        is_free = self.prices.function is None and costs_alike(op, listed)
        if len(listed) == 1 or is_free:
            return [0.0] * len(listed)
        cost = self.prices.of(op)
        first, costs = min(c.rank for c in listed), list[float]()
        known = cost.compared([(c.kernel, c.place) for c in listed])
        for c, (price, measured) in zip(listed, known, strict=True):
            later = c.kernel.cost is None and c.rank > first and not measured
            costs.append(price * (TOLERANCE if later else 1.0))
        return costs

    def _read(self, node: int, value: SSAValue, places: Sequence[int]) -> None:
        if is_constant(value) or value not in self.made:
            return
        forms = self.reads.setdefault(value, {}).setdefault(node, [[] for _ in places])
        for form, place in zip(forms, places, strict=True):
            form.append(place)

    def _value(self, value: SSAValue) -> SelectedValue:
        maker = value.owner if isinstance(value.owner, Operation) else value
        made, readers = self.made[value], self.reads[value]
        wanted = {place for forms in readers.values() for form in forms for place in form}
        paths = {
            (a, b): self._path(value, self._conversions(a, b))
            for a in dict.fromkeys(made)
            for b in wanted
            if a != b
        }
        reads = [ValueReader(node, forms) for node, forms in readers.items()]
        return SelectedValue(self.nodes[maker], made, reads, paths)

    def _conversions(self, a: int, b: int) -> Conversions:
        if (a, b) not in self.conversions:
            numbered = list(self.places)
            start, end = numbered[a], numbered[b]
            steps = conversion_steps(start, end.resolved(start))
            starts = (start, *(place for _, place in steps))
            self.conversions[a, b] = tuple(zip(steps, starts, strict=False))
        return self.conversions[a, b]

    def _path(self, value: SSAValue, conversions: Conversions) -> list[PathStep]:
        """Return the conversions that take a value from one place to another, each with its cost
        and named by the place that it leads to.

        A conversion that undoes a cast of the program costs nothing.
        """
        path: list[PathStep] = []
        source = widened_from(value)
        undone = None if source is None else precision_of(tensor_type(source).element_type)
        for step, start in conversions:
            kind, end = step
            is_undone = kind is CastOp and end.precision.data == undone
            cost = 0.0 if is_undone else step_seconds(step, value, start, self.prices.target)
            path.append(PathStep(self._place(end), cost))
        return path

    def _fusion(
        self, op: NnOp, options: Mapping[NnOp, Sequence[Candidate]], listed: Sequence[Candidate]
    ) -> None:
        """If an elementwise op can join the group of its latest producer, add the seconds that each
        pair of their candidates saves."""
        producer = self.joined(op, options)
        if producer is None:
            return
        value = producer.results[0]
        most = [self.prices.of(op).fused_seconds(b.kernel, b.place, value) for b in listed]
        saved = [
            [-seconds if fuses(a, b) else 0.0 for b, seconds in zip(listed, most, strict=True)]
            for a in options[producer]
        ]
        if any(map(any, saved)):
            self.pairs.append(JointCost(self.nodes[producer], self.nodes[op], saved))

    def joined(self, op: NnOp, options: Mapping[NnOp, Sequence[Candidate]]) -> NnOp | None:
        """Return the producer whose fusion group an elementwise op can join if both run at the same
        place; None if there is none.

        If several qualify, it is the latest one: the other operands are available when its group
        runs.
        """
        if not isinstance(op, ElementwiseOp):
            return None
        producers = (
            value.owner
            for value in op.operands
            if isinstance(value.owner, NnOp)
            and value.owner in options
            and value.has_one_use()
            and len(value.owner.results) == 1
            and shape_of(value) == shape_of(op.res)
        )
        return max(producers, key=self.nodes.__getitem__, default=None)


def costs_alike(op: NnOp, listed: Sequence[Candidate]) -> bool:
    """Return whether all candidates are one kernel whose cost does not depend on the place."""
    first = listed[0]
    kernel, precision = first.kernel, first.place.precision
    same = all(c.kernel is kernel and c.place.precision == precision for c in listed)
    return same and not layout_matters(kernel, op)


def fuses(producer: Candidate, consumer: Candidate) -> bool:
    """Return whether an elementwise op reads its producer's result from registers, because both
    kernels are generated and run at the same place."""
    in_registers = all(
        not c.kernel.is_called and c.kernel.source is None and c.kernel.name not in NOT_FUSED
        for c in (producer, consumer)
    )
    return in_registers and producer.place == consumer.place
