"""The choice of least total cost, against exhaustive search on random graphs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella.passes.pick.selection import (
    FEW,
    JointCost,
    PathStep,
    SelectedValue,
    SelectionProblem,
    Solution,
    ValueReader,
    solve,
)
from tests.sampling import sampled

FORMS = "abcd"
CANDIDATES = 4
Draw = st.DrawFn


@st.composite
def problems(draw: Draw, most: int = FEW, *, pairs: bool = False) -> SelectionProblem:
    """Nodes that read up to three of those before them, at one or two forms each; conversions of
    one or two steps, of which the first are shared between forms."""
    count = draw(st.sampled_from([*range(1, most + 1), *[most] * 4]))
    cost = st.integers(0, 20).map(float)
    costs = [draw(st.lists(cost, min_size=1, max_size=CANDIDATES)) for _ in range(count)]
    readers: dict[int, list[int]] = {}
    for node in range(1, count):
        sources = st.lists(st.integers(0, node - 1), min_size=0, max_size=3, unique=True)
        for source in draw(sources):
            readers.setdefault(source, []).append(node)
    values = [draw(_values(source, found, costs)) for source, found in readers.items()]
    count = draw(st.integers(0, 3)) if pairs and len(costs) > 1 else 0
    further = [draw(_pairs(costs)) for _ in range(count)]
    return SelectionProblem(costs, values, further)


@st.composite
def _values(draw: Draw, source: int, readers: list[int], costs: list[list[float]]) -> SelectedValue:
    form = st.sampled_from(FORMS)
    wanted = st.lists(form, min_size=1, max_size=2)
    reads = [ValueReader(node, [draw(wanted) for _ in costs[node]]) for node in readers]
    cost = st.integers(0, 9).map(float)
    first = {f: PathStep(("from", f), draw(cost)) for f in FORMS}
    last = {f: PathStep(("to", f), draw(cost)) for f in FORMS}
    direct = draw(st.sets(st.tuples(form, form)))
    paths = {
        (a, b): [last[b]] if (a, b) in direct else [first[a], last[b]]
        for a, b in itertools.permutations(FORMS, 2)
    }
    return SelectedValue(source, [draw(form) for _ in costs[source]], reads, paths)


@st.composite
def _pairs(draw: Draw, costs: list[list[float]]) -> JointCost:
    first, second = (draw(st.integers(0, len(costs) - 1)) for _ in range(2))
    second = (second + 1) % len(costs) if first == second else second
    cell = st.integers(-5, 5).map(float)
    table = [[draw(cell) for _ in costs[second]] for _ in costs[first]]
    return JointCost(first, second, table)


def exhaustive(problem: SelectionProblem) -> float:
    """The least cost of all choices. A beginning that costs no less than the best choice so far is
    not continued: no cost is negative."""
    reads: dict[int, list[tuple[int, SelectedValue, ValueReader]]] = {}
    for number, value in enumerate(problem.values):
        for read in value.reads:
            reads.setdefault(read.node, []).append((number, value, read))
    best = math.inf

    def extend(choice: list[int], cost: float, taken: frozenset[tuple[int, Hashable]]) -> None:
        nonlocal best
        if cost >= best:
            return
        node = len(choice)
        if node == len(problem.costs):
            best = cost
            return
        for candidate, own in enumerate(problem.costs[node]):
            steps: dict[tuple[int, Hashable], float] = {}
            for number, value, read in reads.get(node, ()):
                made = value.made[choice[value.node]]
                found = value.steps(made, read.forms[candidate])
                steps |= {(number, name): c for name, c in found.items()}
            new = sum(c for key, c in steps.items() if key not in taken)
            extend([*choice, candidate], cost + own + new, taken | steps.keys())

    extend([], 0.0, frozenset())
    return best


def by_product(problem: SelectionProblem) -> float:
    """The least cost, by trying all choices."""
    return min(map(problem.total, itertools.product(*(range(len(c)) for c in problem.costs))))


def checked(problem: SelectionProblem) -> Solution:
    """The solution; its choice costs what it says, and it is exact."""
    solution = solve(problem)
    assert solution.cost == problem.total(solution.choice)
    assert solution.exact
    return solution


@settings(max_examples=sampled(150))
@given(problem=problems())
def test_equals_exhaustive_search(problem: SelectionProblem) -> None:
    assert checked(problem).cost == exhaustive(problem)


@settings(max_examples=sampled(80))
@given(problem=problems(6, pairs=True))
def test_costs_of_pairs(problem: SelectionProblem) -> None:
    assert checked(problem).cost == by_product(problem)


@settings(max_examples=sampled(30))
@given(problem=problems(6))
def test_the_two_searches_agree(problem: SelectionProblem) -> None:
    assert exhaustive(problem) == by_product(problem)


def dense(nodes: int, candidates: int = CANDIDATES) -> SelectionProblem:
    """Every node reads every one before it."""
    costs = [[float(3 * n + 5 * c) % 7 for c in range(candidates)] for n in range(nodes)]
    steps = {f: PathStep(f, 1.0 + i) for i, f in enumerate(FORMS)}
    paths = {(a, b): [steps[b]] for a, b in itertools.permutations(FORMS, 2)}

    def forms(node: int) -> list[str]:
        return [FORMS[(node + c) % len(FORMS)] for c in range(candidates)]

    values = [
        SelectedValue(
            node,
            forms(node),
            [ValueReader(r, list(forms(r))) for r in range(node + 1, nodes)],
            paths,
        )
        for node in range(nodes - 1)
    ]
    return SelectionProblem(costs, values)


def test_exact_where_every_node_reads_every_other() -> None:
    problem = dense(8)
    assert checked(problem).cost == exhaustive(problem)


@pytest.mark.slow
def test_exact_however_few_nodes_are_connected() -> None:
    problem = dense(FEW)
    assert checked(problem).cost == exhaustive(problem)


def test_a_step_that_several_need_is_paid_once() -> None:
    paths = {("a", "b"): [PathStep("b", 5.0)]}
    # each reader alone had better take its dear candidate that reads `a`; together they convert
    value = SelectedValue(0, ["a"], [ValueReader(n, [["a"], ["b"]]) for n in (1, 2)], paths)
    problem = SelectionProblem([[0.0], [4.0, 0.0], [4.0, 0.0]], [value])
    assert checked(problem).choice == (0, 1, 1)
    alone = SelectionProblem(
        [[0.0], [4.0, 0.0]], [SelectedValue(0, ["a"], [ValueReader(1, [["a"], ["b"]])], paths)]
    )
    assert checked(alone).choice == (0, 0)


def test_a_long_chain_with_shortcuts_is_exact_and_fast() -> None:
    steps = {f: PathStep(f, 2.0) for f in "ab"}
    paths = {("a", "b"): [steps["b"]], ("b", "a"): [steps["a"]]}
    count = 600
    costs = [[float(7 * n % 5), float(3 * n % 4)] for n in range(count)]
    both = [["a"], ["b"]]
    values = [
        SelectedValue(
            n, ["a", "b"], [ValueReader(m, both) for m in (n + 1, n + 3) if m < count], paths
        )
        for n in range(count - 1)
    ]
    problem = SelectionProblem(costs, values)
    solution = checked(problem)  # trying all choices would take years
    # each way through the first nodes, continued in the best way, costs no less
    short = SelectionProblem(costs[:10], [_cut(value, 10) for value in values[:9]])
    assert checked(short).cost == by_product(short)
    assert solution.cost <= min(problem.total([c] * count) for c in (0, 1))


def _cut(value: SelectedValue, count: int) -> SelectedValue:
    return SelectedValue(
        value.node, value.made, [r for r in value.reads if r.node < count], value.paths
    )


@pytest.mark.parametrize("nodes", [40, 60])
def test_what_is_too_large_is_bounded_and_says_so(nodes: int) -> None:
    problem = dense(nodes)
    solution = solve(problem)
    assert not solution.exact
    assert solution.cost == problem.total(solution.choice)
    cheapest = [min(range(CANDIDATES), key=costs.__getitem__) for costs in problem.costs]
    assert solution.cost <= problem.total(cheapest)
