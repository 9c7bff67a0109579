"""LLVM IR whose lines know the ops that they were written for."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from tessella.codegen.writer import Writer


class TracedLine(str):
    """A line, and the op that it was written for."""

    op: Operation


class TracingWriter(Writer):
    """A writer of traced lines. A line of nested ops belongs to the innermost one."""

    def run(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            start = len(self.lines)
            super().run([op])
            self.lines[start:] = [_traced(line, op) for line in self.lines[start:]]


def _traced(line: str, op: Operation) -> TracedLine:
    """Return a line as one of ``op``, unless it already is one of an op inside."""
    if isinstance(line, TracedLine):
        return line
    traced = TracedLine(line)
    traced.op = op
    return traced
