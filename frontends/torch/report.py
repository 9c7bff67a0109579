"""What the backend of torch.compile made of each graph, and warnings about what it left."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tessella.support.logs import warning

if TYPE_CHECKING:
    from tessella.driver.model.model import Model
    from tessella.frontends.torch.partition import Left
    from tessella.runtime.explanation import Explanation

MOST = 256
"""The number of graphs that are remembered."""


@dataclass
class GraphReport:
    """What became of a graph."""

    kind: str
    """`forward`, `backward`, or `inference`."""
    nodes: int
    """The number of its ops."""
    left: Collection[Left]
    """Those that PyTorch runs."""
    models: list[Sequence[Model]] = field(default_factory=list["Sequence[Model]"])
    """The models of each part of it."""

    def explain(self) -> list[Explanation]:
        """Explain the programs of the graph that ran so far."""
        return [model.explain() for models in self.models for model in models]

    def __str__(self) -> str:
        counts = Counter(each.name for each in self.left)
        names = ", ".join(f"{name} ({count})" for name, count in counts.most_common())
        programs = "1 program" if len(self.models) == 1 else f"{len(self.models)} programs"
        served = f"{self.nodes - len(self.left)} of {self.nodes} ops in {programs}"
        return f"{self.kind}: {served}" + (f"; PyTorch runs {names}" if names else "")


class Reports:
    """The graphs of this process, and the ops that a warning has named."""

    def __init__(self) -> None:
        self.graphs: deque[GraphReport] = deque(maxlen=MOST)
        self._told: set[str] = set()

    def add(self, report: GraphReport) -> None:
        """Add a graph. A warning names the ops that PyTorch runs, each op once."""
        self.graphs.append(report)
        new = {each.name: each for each in report.left if each.name not in self._told}
        self._told |= new.keys()
        if new:
            counts = Counter(each.name for each in report.left)
            told = [f"{n} ({counts[n]} times, as {each.reason})" for n, each in new.items()]
            warning("torch", "PyTorch runs ops of a graph itself: %s", "; ".join(told))

    def clear(self) -> None:
        """Forget all graphs and warnings."""
        self.graphs.clear()
        self._told.clear()


REPORTS = Reports()


def graphs() -> list[GraphReport]:
    """Return what became of the graphs that torch.compile has given to the backend, oldest
    first."""
    return [*REPORTS.graphs]
