"""Every op with native kernels, on each element that they read: against the NumPy kernels, and none
of them runs in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella import kernels, targets
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.explain.explain import explain
from tessella.driver.options import make_options
from tessella.kernels.elements import NATIVE
from tessella.kernels.registry import native_elements
from tessella.runtime.elements import tagged, widened
from tessella.runtime.explain_types import OpEntry
from tessella.support.elements import ELEMENTS
from tests.native import EMULATED, FixedSource, GraphBuilder
from tests.op_examples import COMPUTING, Example
from tests.sampling import SLOW

Array = npt.NDArray[Any]
ARCH = targets.native().arch


@dataclass
class Program:
    """A program of all examples of ops with a native kernel that reads an element. Each has its own
    inputs and output."""

    element: str
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    cases: list[tuple[Example, list[str]]] = field(init=False)

    def __post_init__(self) -> None:
        kernels.load()
        self.cases = []
        for name, example in COMPUTING.items():
            if example.takes(self.element) and self._has_kernel(example):
                arrays = enumerate(example.arrays(self.element))
                operands = {f"{name}.{i}": array for i, array in arrays}
                self.inputs |= operands
                self.cases.append((example, list(operands)))

    def _has_kernel(self, example: Example) -> bool:
        """Return whether native kernels of the op read the element of the first operand."""
        return example.operands[0].element_for(self.element) in (native_elements(example.op) or ())

    def graph(self) -> Graph:
        """The program as a graph."""
        g = GraphBuilder(**self.inputs)
        results = [g.op(x.op, [g.inputs[n] for n in ns], **x.settings) for x, ns in self.cases]
        return g.graph(*results)


def _tolerance(element: str) -> float:
    """Return the tolerance of a chain of rounded steps, relative to the largest value."""
    return 8 * ELEMENTS[element].epsilon if ELEMENTS[element].is_float else 0.0


def _explained(graph: Graph, **options: Any) -> list[OpEntry]:
    return explain(lower(graph, make_options(**options), stop="placed").stages).ops


@pytest.mark.sweep
@pytest.mark.parametrize("element", NATIVE)
def test_nothing_runs_in_numpy(element: str) -> None:
    ops = _explained(Program(element).graph())
    assert {op["op"] for op in ops if op["kernel"] == "host"} == set()


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["native", *EMULATED])
@pytest.mark.parametrize("element", NATIVE if SLOW else ("bf16", "i8"))
def test_the_results_are_those_of_numpy(element: str, target: str) -> None:
    program = Program(element)
    model = compile_source(FixedSource(program.graph), target=target)
    found = model.run(None, program.inputs)
    wanted = interpret(program.graph(), program.inputs)
    for (case, _), y, expected in zip(program.cases, found, wanted, strict=True):
        _check(case.op.name, y, expected, _tolerance(element))


def _check(name: str, found: Array, wanted: Array, tolerance: float) -> None:
    assert tagged(found).dtype == wanted.dtype, name
    x, y = widened(found), widened(wanted)
    if x.dtype.kind != "f":
        np.testing.assert_array_equal(x, y, name)
    else:
        largest = np.abs(y, where=np.isfinite(y), out=np.zeros_like(y)).max()
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * largest, err_msg=name)


@pytest.mark.parametrize("precision", ["f16", "bf16"])
def test_a_narrow_place_serves_all_ops(precision: str) -> None:
    """Also those whose results are booleans or indices, whatever their floats are stored in."""
    ops = _explained(Program("f32").graph(), places=[f"{ARCH}/{precision}"])
    assert [op["op"] for op in ops if op["kernel"] == "host" or op["fallback"]] == []
