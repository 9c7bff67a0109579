"""The work of passes grows with the length of a program, and no faster.

Work is counted in lines of Python that run, which is the same on every machine.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from xdsl.passes import ModulePass

from tessella.dialects.graph import Graph
from tessella.driver.build.build import lower
from tessella.driver.build.run_passes import PassObserver
from tessella.driver.options import make_options
from tessella.frontends.onnx import OnnxSource
from tessella.support.knobs import KNOBS

SHORT = 10
"""Blocks of the shorter program."""

FEW = 4_000
"""Lines of a pass that may be due to anything."""


def network(blocks: int) -> ModelProto:
    """Blocks of a product, a softmax, a transpose, a sum with an earlier value, and a concat of
    which half is left out."""
    nodes: list[NodeProto] = []
    rng, weights = np.random.default_rng(0), list[TensorProto]()
    last = ["x", "x", "x"]
    for i in range(blocks):
        values = rng.standard_normal((32, 32)).astype(np.float32)
        weights.append(numpy_helper.from_array(values, f"w{i}"))
        block: list[tuple[str, list[str], str, dict[str, Any]]] = [
            ("MatMul", [last[-1], f"w{i}"], f"p{i}", {}),
            ("Softmax", [f"p{i}"], f"s{i}", {"axis": i % 2}),
            ("Transpose", [f"s{i}"], f"t{i}", {"perm": [1, 0]}),
            ("Add", [f"t{i}", last[-2]], f"a{i}", {}),
            ("Concat", [f"a{i}", last[-3]], f"c{i}", {"axis": 0}),
            ("Slice", [f"c{i}", "begin", "end"], f"y{i}", {}),
        ]
        for op, inputs, output, attributes in block:
            nodes.append(helper.make_node(op, inputs, [output], **attributes))
        last.append(f"y{i}")
    for name, value in (("begin", [16]), ("end", [48])):
        weights.append(numpy_helper.from_array(np.array(value, np.int64), name))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 32])],
        [helper.make_tensor_value_info(last[-1], TensorProto.FLOAT, [32, 32])],
        weights,
    )
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def concat(count: int) -> ModelProto:
    """A concat of so many inputs, in one kernel."""
    rows = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [1 + i % 3, 32])
        for i in range(count)
    ]
    node = helper.make_node("Concat", [row.name for row in rows], ["y"], axis=0)
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])]
    graph = helper.make_graph([node], "g", rows, results)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


def maps(count: int) -> ModelProto:
    """A concat of the exponentials of so many inputs."""
    model = concat(count)
    [join] = model.graph.node
    first = [helper.make_node("Exp", [name], [f"e{name}"]) for name in join.input]
    join.input[:] = [node.output[0] for node in first]
    return helper.make_model(
        helper.make_graph([*first, join], "g", model.graph.input, model.graph.output),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 21)],
    )


class _Lines(PassObserver):
    """Counts the lines that run, by pass."""

    def __init__(self) -> None:
        self.done = Counter[str]()
        self._lines = 0

    def count(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._lines += event == "line"
        return self.count

    def close(self, name: str) -> None:
        """Count the lines since the last call for a pass."""
        self.done[name] += self._lines
        self._lines = 0

    def after(self, step: ModulePass, graph: Graph) -> None:
        self.close(step.name)


def lines_by_pass(model: ModelProto) -> Counter[str]:
    """The lines that run in each pass; in the import of the model before the first one."""
    counted = _Lines()
    before = sys.gettrace()
    sys.settrace(counted.count)
    try:
        source = OnnxSource(model)
        graph = source.graph({info.name: tuple(map(int, info.shape)) for info in source.inputs})
        counted.close("import")
        lower(graph, make_options(), observer=counted)
    finally:
        sys.settrace(before)
    return counted.done


@pytest.mark.parametrize(
    "make, size",
    [
        *((network, SHORT), (concat, 4 * SHORT)),
        *(
            pytest.param(make, size, marks=pytest.mark.slow)
            for make, size in ((network, 3 * SHORT), (concat, 10 * SHORT))
        ),
    ],
)
def test_twice_as_many_ops_take_twice_as_long(make: Callable[[int], ModelProto], size: int) -> None:
    with KNOBS.set(verify=False):
        lines_by_pass(make(2))  # what is done once in a process
        short, long = (lines_by_pass(make(count)) for count in (size, 2 * size))
    growth = {name: lines / short[name] for name, lines in long.items() if lines > FEW}
    assert {
        name: round(ratio, 2) for name, ratio in growth.items() if ratio > 2.1 + size / 1000
    } == {}


@pytest.mark.slow
def test_statements_that_write_one_tensor_in_turn_are_not_followed_again() -> None:
    """A kernel has as many maps as a group may have."""
    with KNOBS.set(verify=False):
        lines_by_pass(maps(2))
        short, long = (lines_by_pass(maps(count))["tile-fuse-maps"] for count in (75, 150))
    assert long < 2.2 * short
