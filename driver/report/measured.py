"""The measured times of a program's steps, and the facts about a run as a whole."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tessella.driver.report.data import CallData, SpanData, StepData
from tessella.runtime.profile import Profile, ProfileRow

MOST_SPANS = 10_000
"""The most activities of threads that a report has; loops may have many more."""

Key = tuple[str, tuple[str, ...]]
"""A kernel and the nodes that its call computes."""


class Rows:
    """The rows of a profile in program order. Each step takes the rows of its own calls."""

    def __init__(self, profile: Profile) -> None:
        self._rows: dict[Key, deque[ProfileRow]] = defaultdict(deque)
        for row in profile.rows:
            if row.kind != "barrier":
                self._rows[row.kernel, row.nodes].append(row)

    def taken(self, step: StepData) -> StepData:
        """Return a step with its calls. A kernel may be called in several pieces, `k`, `k.1`."""
        if not step.kernel:
            return step
        nodes = tuple(dict.fromkeys(step.nodes))
        names = [
            name for name, known in self._rows if known == nodes and is_piece(name, step.kernel)
        ]
        found = [self._rows[name, nodes] for name in sorted(names, key=lambda n: (len(n), n))]
        return replace(step, calls=[_call(rows.popleft()) for rows in found if rows])

    def left(self, first: int) -> Iterator[StepData]:
        """Yield steps for the rows that no step took, one each: copies, and what runs after a graph
        break. Their numbers start at ``first``."""
        rows = (row for rows in self._rows.values() for row in rows)
        for number, row in enumerate(rows, first):
            kind = {"numpy": "numpy", "copy": "conversion"}.get(row.kind, "kernel")
            label = ", ".join(row.nodes) or row.kernel or row.kind
            calls = [_call(row)]
            nodes, where = list(row.nodes), row.where
            yield StepData(number, kind, label, row.kernel, nodes, where, "", (), (), calls, {})


def is_piece(name: str, kernel: str) -> bool:
    """Return whether a kernel on buffers is ``kernel`` or a piece of it, such as `k.1`."""
    base, _, number = name.partition(".")
    return name == kernel or (base == kernel and number.isdigit())


def _call(row: ProfileRow) -> CallData:
    work = row.operations, row.bytes, row.roof, row.estimate
    return CallData(row.kernel, row.calls, row.seconds, list(row.busy), *work)


def spans_of(profile: Profile) -> Sequence[SpanData]:
    """Return what each thread did in the run nearest to the median; the longest activities only, if
    there are more than ``MOST_SPANS``."""
    longest = sorted(profile.spans, key=lambda each: each.start - each.end)[:MOST_SPANS]
    return [
        SpanData(each.name, each.kind, list(each.nodes), each.thread, each.start, each.end)
        for each in sorted(longest, key=lambda each: (each.start, each.thread))
    ]
