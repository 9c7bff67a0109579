"""Runs passes on a program: with timings, observers, and reproducers of crashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.verify import Verifier
from tessella.driver.build.compiling import ROOM, Progress, Timings
from tessella.driver.debug.crash import reproduced
from tessella.driver.debug.reproducer import MOST_BYTES
from tessella.runtime.weights import WeightStore
from tessella.support import deadline, memory
from tessella.support.collector import no_collection
from tessella.support.errors import InternalError
from tessella.support.knobs import KNOBS
from tessella.support.logs import debug


class PassObserver:
    """Observes the program around each pass, and must not change it. This base class does
    nothing."""

    def before(self, step: ModulePass, graph: Graph) -> None:
        """Observe the program before the pass ``step`` runs."""

    def after(self, step: ModulePass, graph: Graph) -> None:
        """Observe the program after the pass ``step`` has run."""


@dataclass(frozen=True)
class PassRunner:
    """Runs passes in a context."""

    ctx: CompileContext
    timings: Timings
    """Seconds of each pass by name, added up over runs."""
    progress: Progress
    """Called with the name of each pass before it runs."""
    observer: PassObserver
    given: Sequence[object] = ()
    """The caller's passes."""
    verifier: Verifier = field(default_factory=Verifier)

    def run(self, stage: str, steps: Sequence[ModulePass], module: ModuleOp) -> ModuleOp:
        """Run the passes that lead to a stage on a copy of a module, and return the result."""
        start = Graph(module, self._weights_before(stage))
        module = module.clone()
        for i, step in enumerate(steps):
            self.progress(step.name)
            memory.require(ROOM)
            deadline.check(f"the pass {step.name}")
            self.observer.before(step, Graph(module, self.ctx.weights, stage))
            replayed = partial(_replayed, start, steps[:i])
            with no_collection(), reproduced(step, self.given, replayed) as is_foreign:
                began = perf_counter()
                with self.timings.of(step.name):
                    step.apply(self.ctx, module)
                    if is_foreign:
                        module.verify()
                debug("passes", "%s took %.4f s", step.name, perf_counter() - began)
                if KNOBS.verify:
                    check(module, step.name, self.verifier.verify)
            self.observer.after(step, Graph(module, self.ctx.weights, stage))
        return module

    def _weights_before(self, stage: str) -> WeightStore:
        """Return a copy of the weights before a stage's passes, for the files that reproduce a
        crash.

        After constant folding, the copy is empty if the weights are large: the packed weights and
        another copy of the weights might not fit into memory together.
        """
        weights = self.ctx.weights
        is_held = stage == _FOLDS or weights.nbytes() <= MOST_BYTES
        return weights.copy() if is_held else WeightStore()


_FOLDS = "placed"
"""The stage whose passes evaluate ops on weights."""


def check(module: ModuleOp, after: str, verify: Callable[[ModuleOp], None]) -> None:
    """Raise InternalError if ``verify`` rejects a module. ``after`` names the pass that ran
    before."""
    try:
        verify(module)
    except VerifyException as error:
        raise InternalError(f"after {after}, the program does not verify: {error}") from error


def _replayed(start: Graph, steps: Sequence[ModulePass]) -> Graph:
    """Return a copy of a program, after running passes on it."""
    graph = Graph(start.module.clone(), start.weights.copy())
    ctx = CompileContext(graph.weights)
    for step in steps:
        step.apply(ctx, graph.module)
    return graph
