"""The cheapest choice of one candidate for each node of a graph.

This module does not depend on the IR. A node has candidates, each with a cost. A value is produced
by one node in the form of its candidate, and read by others in the forms that their candidates
want. A conversion from one form to another is a path of steps; a step that several readers need is
paid once.

The choice is found by bucket elimination (Dechter, 1999): one variable after the other is
eliminated. The variables are the nodes, and for each step that several readers may need whether it
is taken. Sharing is therefore exact, and no table has more axes than a variable has neighbours. If
every table would be too large, a variable is fixed: to each of its states in turn in a problem with
few nodes, otherwise to the most promising one, and the solution is marked as possibly suboptimal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import numpy.typing as npt

Form = Any
"""A form in which a value can be produced and read, such as a layout; any hashable object."""
Table = npt.NDArray[np.float64]
Scope = tuple[int, ...]

FEW = 12
"""The number of nodes with several candidates up to which problems are solved exactly, whatever
their connections.

This assumes up to 4 candidates for each node.
"""
MAX_TABLE = 1 << 17
"""The maximum number of entries of a table. It suffices for the rest of a problem with ``FEW``
nodes once 4 of them are fixed."""
MAX_BRANCHES = 4**4
"""The maximum number of combinations of fixed states that are tried in a problem with ``FEW``
nodes."""
SMALL_TABLE = 1 << 12
"""Entries of the largest table if the solution will not be exact anyway."""


@dataclass(frozen=True)
class PathStep:
    """One conversion on the path from one form of a value to another. Steps of one value with equal
    names are the same conversion."""

    name: Hashable
    cost: float


@dataclass(frozen=True)
class ValueReader:
    """A node that reads a value, with the form that each of its candidates requires."""

    node: int
    forms: Sequence[Collection[Form]]


@dataclass(frozen=True)
class SelectedValue:
    """A value: the node that produces it, its form for each candidate of that node, and its
    readers.

    ``paths`` maps a pair of a produced and a required form to the conversions between them; a
    missing pair needs none.
    """

    node: int
    made: Sequence[Form]
    reads: Sequence[ValueReader]
    paths: Mapping[tuple[Form, Form], Sequence[PathStep]]

    def steps(self, made: Form, forms: Iterable[Form]) -> dict[Hashable, float]:
        """Return the cost of each conversion, by its name, on the paths from the form ``made`` to
        ``forms``. A conversion on several paths occurs once."""
        return {s.name: s.cost for form in forms for s in self.paths.get((made, form), ())}


@dataclass(frozen=True)
class JointCost:
    """A joint cost of two nodes' candidates, such as the saving of fusing them."""

    first: int
    second: int
    costs: Sequence[Sequence[float]]


@dataclass(frozen=True)
class SelectionProblem:
    """Costs of the candidates of each node, the values between nodes, and further costs."""

    costs: Sequence[Sequence[float]]
    values: Sequence[SelectedValue] = ()
    pairs: Sequence[JointCost] = ()

    def total(self, choice: Sequence[int]) -> float:
        """Return the total cost of choosing a candidate for each node."""
        total = sum(costs[c] for costs, c in zip(self.costs, choice, strict=True))
        total += sum(p.costs[choice[p.first]][choice[p.second]] for p in self.pairs)
        for value in self.values:
            wanted = (form for r in value.reads for form in r.forms[choice[r.node]])
            total += sum(value.steps(value.made[choice[value.node]], wanted).values())
        return total


@dataclass(frozen=True)
class Solution:
    """The candidate of each node, their total cost, and whether it is known to be minimal."""

    choice: tuple[int, ...]
    cost: float
    exact: bool


def solve(problem: SelectionProblem) -> Solution:
    """Return the choice with the least total cost. Ties are broken deterministically."""
    network = _network(problem)
    few = sum(len(costs) > 1 for costs in problem.costs) <= FEW
    try:
        states, exact = _solve(network.copy(), MAX_TABLE, MAX_BRANCHES if few else 0)
    except _TooWideError:
        states, exact = _solve(network, SMALL_TABLE, 1)
    choice = tuple(states[node] for node in range(len(problem.costs)))
    return Solution(choice, problem.total(choice), exact)


# ** the tables of a problem **


def _network(problem: SelectionProblem) -> _Network:
    network = _Network([len(costs) for costs in problem.costs])
    for node, costs in enumerate(problem.costs):
        network.add_costs((node,), costs)
    for pair in problem.pairs:
        network.add_costs((pair.first, pair.second), pair.costs)
    for value in problem.values:
        _add_value(network, value)
    return network


def _add_value(network: _Network, value: SelectedValue) -> None:
    """Add the cost tables of a value to the network.

    The cost of a conversion that only one reader may need depends on that reader and the producer.
    For any other conversion, a variable says whether it is made: 1 adds its cost, and 0 is
    forbidden for candidates of readers that need it.
    """
    needs = [
        [[value.steps(made, forms) for forms in read.forms] for made in value.made]
        for read in value.reads
    ]
    users: dict[Hashable, set[int]] = {}
    costs: dict[Hashable, float] = {}
    for i, table in enumerate(needs):
        for steps in (steps for row in table for steps in row):
            costs |= steps
            for name in steps:
                users.setdefault(name, set()).add(i)
    shared = {name for name, readers in users.items() if len(readers) > 1 and costs[name] > 0}
    for read, table in zip(value.reads, needs, strict=True):
        alone = [
            [sum(c for n, c in steps.items() if n not in shared) for steps in row] for row in table
        ]
        network.add_costs((value.node, read.node), alone)
    for name in sorted(shared, key=list(users).index):
        taken = network.variable(2)
        network.add((taken,), np.array([0.0, costs[name]]))
        for i in sorted(users[name]):
            needed = np.array([[name in steps for steps in row] for row in needs[i]])
            forbidden = np.stack([np.where(needed, math.inf, 0.0), np.zeros(needed.shape)], axis=-1)
            network.add((value.node, value.reads[i].node, taken), forbidden)


# ** elimination **


class _TooWideError(Exception):
    """A table would be too large."""


@dataclass
class _Eliminated:
    """The best state of an eliminated variable for each combination of states of the variables in
    ``scope``."""

    variable: int
    scope: Scope
    states: npt.NDArray[np.intp]


@dataclass
class _Network:
    """Variables and cost tables over them. Tables over the same variables are merged."""

    sizes: list[int]
    tables: dict[Scope, Table] = field(default_factory=dict[Scope, Table])
    scopes: dict[int, set[Scope]] = field(default_factory=dict[int, set[Scope]])
    """The scopes that contain a variable."""
    fixed: dict[int, int] = field(default_factory=dict[int, int])
    eliminated: list[_Eliminated] = field(default_factory=list[_Eliminated])
    cost: float = 0.0

    def __post_init__(self) -> None:
        self.scopes = self.scopes or {v: set() for v in range(len(self.sizes))}

    def copy(self) -> _Network:
        """Return an independent copy. Tables are never modified."""
        return _Network(
            list(self.sizes),
            dict(self.tables),
            {v: set(scopes) for v, scopes in self.scopes.items()},
            dict(self.fixed),
            list(self.eliminated),
            self.cost,
        )

    def variable(self, size: int) -> int:
        """Add a variable with this many states."""
        self.sizes.append(size)
        self.scopes[len(self.sizes) - 1] = set()
        return len(self.sizes) - 1

    def add_costs(self, scope: Scope, costs: Sequence[Any]) -> None:
        """Add a table of costs unless it is zero, which would only connect nodes."""
        table = np.array(costs, np.float64)
        if table.any():
            self.add(scope, table)

    def add(self, scope: Scope, table: Table) -> None:
        """Add a table with one axis for each variable of the scope; single states have none."""
        table = table.reshape([n for n in table.shape if n > 1])
        scope = tuple(v for v in scope if self.sizes[v] > 1)
        order = sorted(range(len(scope)), key=scope.__getitem__)
        scope = tuple(scope[axis] for axis in order)
        table = table.transpose(order)
        if not scope:
            self.cost += float(table.item())
        elif scope in self.tables:
            self.tables[scope] = self.tables[scope] + table
        else:
            self.tables[scope] = table
            for variable in scope:
                self.scopes[variable].add(scope)

    def take(self, variable: int) -> list[tuple[Scope, Table]]:
        """Remove the variable and its tables. Returns the tables."""
        taken = [(scope, self.tables.pop(scope)) for scope in sorted(self.scopes.pop(variable))]
        for scope, _ in taken:
            for other in scope:
                if other != variable:
                    self.scopes[other].discard(scope)
        return taken

    def neighbours(self, variable: int) -> set[int]:
        """Return the variables that share a table with this one."""
        return {other for scope in self.scopes[variable] for other in scope} - {variable}

    def width(self, variable: int) -> int:
        """Return the number of entries of the table that eliminating a variable creates."""
        sizes = (self.sizes[other] for other in self.neighbours(variable))
        return self.sizes[variable] * math.prod(sizes)

    def eliminate(self, variable: int) -> None:
        """Replace the variable's tables by the minimum over its states."""
        rest = tuple(sorted(self.neighbours(variable)))
        axes = (*rest, variable)
        total = np.zeros([self.sizes[v] for v in axes])
        for scope, table in self.take(variable):
            total += _spread(table, scope, axes)
        self.eliminated.append(_Eliminated(variable, rest, total.argmin(axis=-1)))
        self.add(rest, np.asarray(total.min(axis=-1)))

    def fix(self, variable: int, state: int) -> None:
        """Fix the state of a variable."""
        self.fixed[variable] = state
        for scope, table in self.take(variable):
            axis = scope.index(variable)
            self.add(scope[:axis] + scope[axis + 1 :], np.asarray(table.take(state, axis)))

    def states(self) -> dict[int, int]:
        """Return the state of every variable, once all are eliminated."""
        states = dict(self.fixed)
        for step in reversed(self.eliminated):
            states[step.variable] = int(step.states[tuple(states[v] for v in step.scope)])
        return states


def _spread(table: Table, scope: Scope, axes: Scope) -> Table:
    """Return the table with an axis for each of ``axes``, of extent 1 for variables outside its
    scope."""
    order = sorted(range(len(scope)), key=lambda axis: axes.index(scope[axis]))
    extents = dict(zip(scope, table.shape, strict=True))
    return table.transpose(order).reshape([extents.get(v, 1) for v in axes])


def _solve(network: _Network, most: int, branches: int) -> tuple[dict[int, int], bool]:
    """Return the states of least cost, and whether they are known to be optimal.

    Raises _TooWideError if a table would have more than ``most`` entries and there are no
    ``branches``.
    """
    queue = [(network.width(v), v) for v in network.scopes]
    heapify(queue)
    while network.scopes:
        width, variable = heappop(queue)
        if variable not in network.scopes or width != network.width(variable):
            continue  # a newer entry is in the queue
        if width > most:
            return _branch(network, most, branches)
        changed = network.neighbours(variable)
        network.eliminate(variable)
        for other in changed:
            heappush(queue, (network.width(other), other))
    return network.states(), True


def _branch(network: _Network, most: int, branches: int) -> tuple[dict[int, int], bool]:
    """Solve a network whose tables are too large: fix the variable with the most states and
    neighbours, to each state in turn or to a likely one.

    Returns the states of least cost, and whether they are known to be optimal. Raises _TooWideError
    if there are no ``branches``.
    """
    if not branches:
        raise _TooWideError
    variable = max(network.scopes, key=lambda v: (network.sizes[v], len(network.neighbours(v)), -v))
    size = network.sizes[variable]
    if branches < size:
        network.fix(variable, _likely(network, variable))
        states, _ = _solve(network, most, branches)
        return states, False
    options: list[tuple[float, dict[int, int], bool]] = []
    for state in range(size):
        part = network.copy()
        part.fix(variable, state)
        states, exact = _solve(part, most, branches // size)
        options.append((_cost(network, states), states, exact))
    _, states, _ = min(options, key=lambda option: option[0])
    return states, all(exact for _, _, exact in options)


def _likely(network: _Network, variable: int) -> int:
    """Return a variable's state with the least cost under an optimistic assumption: in each of its
    tables, the other variables have their best states."""
    total = np.zeros(network.sizes[variable])
    for scope in network.scopes[variable]:
        others = tuple(axis for axis, v in enumerate(scope) if v != variable)
        total += network.tables[scope].min(axis=others)
    return int(total.argmin())


def _cost(network: _Network, states: Mapping[int, int]) -> float:
    """Return the cost of the states in the network's tables."""
    cells = (t[tuple(states[v] for v in scope)] for scope, t in network.tables.items())
    return network.cost + float(sum(cells))
