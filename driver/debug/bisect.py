"""Find the first pass of the pipeline that changes a program's results.

The program is copied after each pass. Bisection selects which copies to run in NumPy: a dozen
passes take four runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.passes import ModulePass

from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import Array
from tessella.driver.build.build import lower
from tessella.driver.build.plugged import plugin_of
from tessella.driver.build.run_passes import PassObserver
from tessella.driver.options import CheckedOptions
from tessella.support.errors import TessellaError
from tessella.support.plugins import Plugin

LAST = "tile"
"""The last stage that NumPy can run."""

Verdict = Callable[[Sequence[Array]], str | None]
"""A function that describes the error in a program's outputs. It returns None if they are right."""


@dataclass(frozen=True)
class State:
    """A program at some point of the pipeline."""

    graph: Graph
    step: ModulePass | None = None
    """The pass that has just run; None at the beginning."""

    @property
    def plugin(self) -> Plugin | None:
        """The plugin that provides the pass."""
        return None if self.step is None else plugin_of(self.step)


@dataclass(frozen=True)
class Culprit:
    """The pass that changes a result, and how."""

    number: int
    """The number of the pass, from 1."""
    before: State
    after: State
    difference: str


def states(graph: Graph, options: CheckedOptions) -> list[State]:
    """Return copies of the program: before the first pass, and after each pass to the stage `tile`.
    The graph is consumed."""
    kept = _Kept([State(_copy(graph))])
    lower(graph, options, start=graph.stage, stop=LAST, observer=kept)
    return kept.states


@dataclass(frozen=True)
class _Kept(PassObserver):
    """An observer that copies the program after each pass."""

    states: list[State]

    def after(self, step: ModulePass, graph: Graph) -> None:
        self.states.append(State(_copy(graph), step))


def _copy(graph: Graph) -> Graph:
    return Graph(graph.module.clone(), graph.weights.copy(), graph.stage)


def bisect(
    found: Sequence[State],
    feeds: Mapping[str, Array],
    verdict: Verdict,
    ran: Callable[[State, str | None], None] = lambda state, wrong: None,
) -> Culprit | None:
    """Return the first pass after which the outputs are wrong; None if those of the last state are
    right.

    The outputs of the first state must be right. ``ran`` is called with each state that was run,
    and its verdict.
    """

    def judged(number: int) -> str | None:
        wrong = _judged(found[number], feeds, verdict)
        ran(found[number], wrong)
        return wrong

    good, bad = 0, len(found) - 1
    difference = judged(bad) if bad else None
    if difference is None:
        return None
    while bad - good > 1:
        middle = (good + bad) // 2
        wrong = judged(middle)
        if wrong is None:
            good = middle
        else:
            bad, difference = middle, wrong
    return Culprit(bad, found[good], found[bad], difference)


def _judged(state: State, feeds: Mapping[str, Array], verdict: Verdict) -> str | None:
    """Return the verdict on a state's outputs; a program that cannot run is bad."""
    try:
        return verdict(interpret(state.graph, feeds))
    except (TessellaError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"the program cannot be run: {type(error).__name__}: {error}"
