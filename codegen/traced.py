"""Lines of LLVM IR, each with the op that it was written for."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from tessella.codegen.writer import Writer


class TracedLine(str):
    """A line, and the op that it was written for."""

    op: Operation


class TracingWriter(Writer):
    """A writer that records the op of each line: the innermost one, if ops are nested."""

    def run(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            start = len(self.lines)
            super().run([op])
            self.lines[start:] = [_traced(line, op) for line in self.lines[start:]]


def _traced(line: str, op: Operation) -> TracedLine:
    """Return a line with the op ``op``. A line that has an op already keeps it, as it was written
    for an op inside ``op``."""
    if isinstance(line, TracedLine):
        return line
    traced = TracedLine(line)
    traced.op = op
    return traced
