"""The changes of each pass of a compilation, and the time that it took."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessella.dialects.graph import Graph
from tessella.dialects.printing import to_text
from tessella.driver.build.run_passes import PassObserver
from tessella.driver.report.data import Pass
from tessella.support.ir_diff import ir_diff

MOST_OPS = 6000
"""The most ops of a program that is compared before and after a pass."""
MOST_LINES = 400
"""The most lines of a diff that a report has."""


class PassRecorder(PassObserver):
    """Records the passes of a compilation in order."""

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self._text: str | None = None
        self._began = 0.0

    def before(self, step: ModulePass, graph: Graph) -> None:
        self._text = _text(graph.module)
        self._began = perf_counter()

    def after(self, step: ModulePass, graph: Graph) -> None:
        seconds = perf_counter() - self._began
        before, after = self._text, _text(graph.module)
        known = before is not None and after is not None
        diff = [*ir_diff(before or "", after or "")] if known else []
        self.passes.append(
            Pass(
                name=step.name,
                stage=graph.stage,
                seconds=seconds,
                changed=before != after if known else None,
                added=_count(diff, "+"),
                removed=_count(diff, "-"),
                diff=diff[:MOST_LINES],
            )
        )


def _text(module: ModuleOp) -> str | None:
    """Return a program's text; None if the program is too long to be compared."""
    is_long = next(islice(module.walk(), MOST_OPS, None), None) is not None
    return None if is_long else to_text(module)


def _count(diff: Sequence[str], sign: str) -> int:
    return sum(line.startswith(sign) for line in diff)
