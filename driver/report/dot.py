"""The graph of a program as text for graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from tessella.driver.report.collect import ProgramGraph
from tessella.driver.report.data import StepData
from tessella.runtime.explain_types import duration
from tessella.support.dot import quoted

_STYLES = {
    "numpy": 'style="filled,rounded" fillcolor="#c8372d" fontcolor="white"',
    "conversion": 'style="filled,rounded" fillcolor="#ece4f5"',
    "input": 'style="rounded" height=0.3',
    "output": 'style="rounded" height=0.3',
}
_STYLE = 'style="filled,rounded" fillcolor="#f1f5fa"'


def dot_lines(graph: ProgramGraph) -> Iterator[str]:
    """Yield the lines of a program's graph in the language of graphviz: a node for each step, and
    an edge for each value."""
    yield "digraph program {"
    yield '  node [shape=box fontname="sans-serif" fontsize=11]'
    yield '  edge [fontname="sans-serif" fontsize=9 color="#8792a0"]'
    for step in graph.steps:
        label = quoted("\n".join(_lines(step, graph)))
        yield f"  s{step.id} [label={label} {_STYLES.get(step.kind, _STYLE)}]"
    for edge in graph.edges:
        yield f"  s{edge.source} -> s{edge.target} [label={quoted(edge.type)}]"
    yield "}"


def _lines(step: StepData, graph: ProgramGraph) -> Iterator[str]:
    """Yield the lines in the box of a step: its ops, its first node, and its estimated time."""
    ops = [graph.ops[i] for i in step.ops]
    yield " + ".join(op.op.removeprefix("nn.") for op in ops) or step.label
    if ops:
        yield ops[0].node
    costs = [op.estimate for op in ops if op.estimate is not None]
    if costs:
        yield duration(sum(costs))
