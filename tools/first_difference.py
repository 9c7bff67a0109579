"""The first value of a graph at which two implementations differ.

A value that becomes an output is no longer fused. The search therefore first examines values that
kernels write anyway, several in each run, and then the values inside the kernel at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tessella.dialects.nn.core import Array
from tessella.runtime.explanation import Explanation
from tessella.tools.onnx_values import Arrays, OnnxGraph, Oracle, Tessella

_AT_ONCE = 8
"""The most values that one run examines."""

Compare = Callable[[Array, Array], str | None]
"""A function that describes how an array differs from the expected one. It returns None if it does
not."""


@dataclass(frozen=True)
class Finding:
    """The result of the search."""

    outputs: Mapping[str, str]
    """How the outputs of the unchanged model differ, by name."""
    explanation: Explanation
    """The explanation of the unchanged model."""
    value: str = ""
    """The first value that differs."""
    difference: str | None = None
    """How the value differs if the value and the operands of its node are outputs; None if it does
    not differ then."""
    fused: tuple[str, ...] = ()
    """The nodes of the kernel that computes the value, if the value is wrong only while they are
    fused."""
    shown: tuple[str, ...] = ()
    """The values that were made outputs to examine the first value that differs."""
    found: Arrays = field(default_factory=dict[str, Array])
    expected: Arrays = field(default_factory=dict[str, Array])


class Search:
    """A search for the first difference between tessella and an oracle."""

    def __init__(
        self,
        graph: OnnxGraph,
        ours: Tessella,
        oracle: Oracle,
        compare: Compare,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.graph = graph
        self.ours = ours
        self.oracle = oracle
        self.compare = compare
        self.tell = tell
        self.written: set[str] = set()
        """The values that kernels write to memory; making them outputs does not change the
        kernels."""

    def run(self) -> Finding:
        """Search, and return the finding. It has no differences if the model's outputs agree."""
        graph = self.graph
        found, explanation = self.ours.run([])
        outputs = self._differences([o for o in graph.outputs if o in graph.maker], found)
        if not outputs:
            return Finding({}, explanation)
        self.written = set(graph.maker) - inside_kernels(explanation, graph)
        value = self._narrowed(graph.ordered(outputs)[0])
        inner = graph.reached(value, self.written) - self.written
        if not inner:
            return self._finding(outputs, explanation, value, graph.inputs_of(value))
        around = graph.nearest(value, self.written)
        wrong, _ = self._looked([*around, *inner, value])
        if wrong:
            first = graph.ordered(wrong)[0]
            return self._finding(outputs, explanation, first, graph.inputs_of(first))
        nodes = {graph.maker[name]: graph.node_of(name) for name in (*inner, value)}
        fused = tuple(nodes[i].name for i in sorted(nodes))
        return self._finding(outputs, explanation, value, sorted(around), fused)

    def _narrowed(self, value: str) -> str:
        """Return the first wrong value among ``value``, which is wrong, and the values upstream
        that kernels write.

        The nearest values upstream of the result that kernels write are right.
        """
        good: set[str] = set()
        while True:
            upstream = (self.graph.upstream(value) & self.written) - good
            known = {name for right in good for name in self.graph.upstream(right)}
            nearest = self.graph.nearest(value, self.written) - good
            todo = _spaced(self.graph.ordered(upstream - known)) or self.graph.ordered(nearest)
            if not todo:
                return value
            wrong, hidden = self._looked(todo)
            if hidden:
                self.written.discard(self._hiding(todo))
                continue
            good.update(name for name in todo if name not in wrong)
            value = self.graph.ordered(wrong)[0] if wrong else value

    def _hiding(self, values: Sequence[str]) -> str:
        """Return one of ``values`` that hides the difference: the model's outputs are right if the
        value is an output, too."""
        while len(values) > 1:
            half = values[: len(values) // 2]
            _, hidden = self._looked(half)
            values = half if hidden else values[len(half) :]
        return values[0]

    def _looked(self, values: Sequence[str]) -> tuple[Mapping[str, str], bool]:
        """Run the model with ``values`` as further outputs. Returns how those of ``values`` that
        are wrong differ, and whether nothing differs.

        If nothing differs, the model's own outputs agree, too.
        """
        found, _ = self.ours.run(values)
        own = [name for name in self.graph.outputs if name in self.graph.maker]
        every = self._differences([*dict.fromkeys([*values, *own])], found)
        wrong = {name: text for name, text in every.items() if name in values}
        self.tell(f"{len(values)} values as outputs: {', '.join(wrong) or 'none'} differ")
        return wrong, not every

    def _differences(self, values: Sequence[str], found: Arrays) -> Mapping[str, str]:
        expected = self.oracle.values(values)
        both = [name for name in values if name in found and name in expected]
        texts = ((name, self.compare(found[name], expected[name])) for name in both)
        return {name: text for name, text in texts if text is not None}

    def _finding(
        self,
        outputs: Mapping[str, str],
        explanation: Explanation,
        value: str,
        reads: Sequence[str],
        fused: tuple[str, ...] = (),
    ) -> Finding:
        """Return the finding about ``value``, after a run in which only ``value`` and the values
        that it ``reads`` are further outputs."""
        shown = [*reads, *([] if value in reads else [value])]
        found, _ = self.ours.run(shown)
        difference = self._differences([value], found).get(value)
        expected = self.oracle.values(shown)
        arrays = {name: found[name] for name in shown if name in found}
        return Finding(
            outputs, explanation, value, difference, fused, tuple(shown), arrays, expected
        )


def _spaced(values: Sequence[str]) -> list[str]:
    """Return at most ``_AT_ONCE`` of the values, evenly spaced."""
    if len(values) <= _AT_ONCE:
        return list(values)
    return [values[i * len(values) // _AT_ONCE] for i in range(_AT_ONCE)]


def inside_kernels(explanation: Explanation, graph: OnnxGraph) -> set[str]:
    """Return the values that no kernel writes: another node of the same kernel reads them from
    registers."""
    inner = {
        node
        for fusion in explanation.fusions
        for _, _, node in (name.partition("@") for name in fusion["consumed"])
        if node != fusion["node"]
    }
    return {value for value in graph.maker if graph.node_of(value).name in inner}
