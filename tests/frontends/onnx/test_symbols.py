"""Models with open dimensions: with numbers for its symbols, a program is the one for these."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from zlib import crc32

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import SymbolRefAttr

from tessella.dialects.bound import bound
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.constants import WeightOp, weight_array
from tessella.dialects.printing import to_text
from tessella.dialects.sizes import symbols_in
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.driver.stages.located import LocatedError, LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.frontends.onnx import OnnxSource
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import InputError
from tessella.support.knobs import KNOBS
from tessella.support.sizes import Symbol
from tests.models import OPEN_FIXTURES, load_fixture, random_inputs, run_onnxruntime

LOW, HIGH = 2, 64
SIZES = ({"batch": 2, "seq": 9, "past": 4}, {"batch": 3, "seq": 2, "past": 17})


@cache
def model_of(name: str) -> onnx.ModelProto:
    return load_fixture(name)


def symbolic(source: OnnxSource, low: int = LOW, high: int = HIGH) -> Graph:
    """The program with a symbol for each open dimension."""
    return source.graph(
        {
            info.name: tuple(
                Symbol(dim, low, high).size if isinstance(dim, str) else dim for dim in info.shape
            )
            for info in source.inputs
        }
    )


def numeric(source: OnnxSource, sizes: Mapping[str, int]) -> Graph:
    """The program for sizes of the open dimensions."""
    return source.graph(
        {
            info.name: tuple(sizes[dim] if isinstance(dim, str) else dim for dim in info.shape)
            for info in source.inputs
        }
    )


def folded(graph: Graph) -> str:
    """The text of a program without what constants determine."""
    context = stage_context(graph.weights)
    for _ in range(2):
        FoldConstantsPass().apply(context, graph.module)
        EliminateIdentitiesPass().apply(context, graph.module)
    for op in graph.module.walk():
        if isinstance(op, WeightOp):  # what folding makes is named by the node that it came from
            array = weight_array(op, graph.weights)
            op.symbol = SymbolRefAttr(f"w{crc32(array.tobytes())}")
    return to_text(graph.module)


def check_same(model: onnx.ModelProto, sizes: Mapping[str, int]) -> None:
    source = OnnxSource(model)
    graph = symbolic(source)
    names = {symbol.name for symbol in symbols_in(graph.module)}
    module = bound(graph.module, {name: sizes[name] for name in names})
    module.verify()
    assert folded(Graph(module, graph.weights)) == folded(numeric(source, sizes))


def read_back(graph: Graph) -> None:
    """The text of a program is read as the same program."""
    text = to_text(graph.module)
    module = LocatedParser(stage_context(graph.weights), text, "text").parse()
    assert not isinstance(module, LocatedError), module
    assert to_text(module) == text


def placed(graph: Graph) -> Graph:
    """The program at the stage `placed`, which verifies; after each pass, where tests do that."""
    context = stage_context(graph.weights)
    stage, passes = pipeline(make_options())[0]
    for each in passes:
        each.apply(context, graph.module)
        if KNOBS.verify or each is passes[-1]:
            graph.module.verify()
    return Graph(graph.module, graph.weights, stage)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", OPEN_FIXTURES)
def test_numbers_for_symbols(name: str, sizes: Mapping[str, int]) -> None:
    check_same(model_of(name), sizes)


@pytest.mark.sweep
@pytest.mark.parametrize("name", OPEN_FIXTURES)
def test_symbols_reach_the_stage_placed(name: str) -> None:
    graph = symbolic(OnnxSource(model_of(name)))
    read_back(graph)
    done = placed(graph)
    read_back(done)
    assert 'kernel = "host"' not in to_text(done.module)


@pytest.mark.parametrize("name", ["encoder_open", "encoder_open_opset14", "decoder"])
def test_results(name: str) -> None:
    """The program that is placed, on inputs of several sizes."""
    model = model_of(name)
    graph = placed(symbolic(OnnxSource(model)))
    for sizes in SIZES:
        feeds = random_inputs(model, sizes=sizes)
        found = interpret(graph, feeds)
        for result, expected in zip(found, run_onnxruntime(model, feeds), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


def test_sizes_out_of_range() -> None:
    model = model_of("encoder_open")
    graph = symbolic(OnnxSource(model))
    with pytest.raises(InputError, match="a size out of range: seq"):
        interpret(graph, random_inputs(model, sizes={"batch": 2, "seq": HIGH + 1}))


# ** single ops **


def model_with(
    *nodes: onnx.NodeProto, constants: Mapping[str, object] | None = None
) -> onnx.ModelProto:
    """A model of `x`, float32 [batch, seq, 8], to `y`."""
    given = {name: np.asarray(value) for name, value in (constants or {}).items()}
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "seq", 8])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(value, name) for name, value in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def shape_of_x() -> onnx.NodeProto:
    return helper.make_node("Shape", ["x"], ["shape"])


MODELS = {
    "trilu": model_with(
        shape_of_x(),
        helper.make_node("Gather", ["shape", "seq"], ["n"]),
        helper.make_node("Concat", ["n", "n"], ["square"], axis=0),
        helper.make_node("ConstantOfShape", ["square"], ["zeros"]),
        helper.make_node("Add", ["zeros", "one"], ["ones"]),
        helper.make_node("Trilu", ["ones", "k"], ["y"], upper=0),
        constants={"seq": np.array([1]), "one": np.float32(1), "k": np.array(1)},
    ),
    "range": model_with(
        shape_of_x(),
        helper.make_node("Gather", ["shape", "seq"], ["n"]),
        helper.make_node("Range", ["n", "zero", "step"], ["y"]),
        constants={"seq": np.array(1), "zero": np.array(0), "step": np.array(-2)},
    ),
    "tail": model_with(
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["y"]),
        constants={"start": np.array([-1]), "end": np.array([1 << 62]), "axis": np.array([1])},
    ),
    "backwards": model_with(
        helper.make_node("Slice", ["x", "start", "end", "axis", "step"], ["y"]),
        constants={
            "start": np.array([-1]),
            "end": np.array([-(1 << 62)]),
            "axis": np.array([1]),
            "step": np.array([-1]),
        },
    ),
    "expand": model_with(
        shape_of_x(),
        helper.make_node("Equal", ["shape", "eight"], ["is_eight"]),
        helper.make_node("Where", ["is_eight", "one", "shape"], ["wanted"]),
        helper.make_node("Expand", ["one", "wanted"], ["y"]),
        constants={"eight": np.array([-1, -1, 8]), "one": np.array([1])},
    ),
    "flatten": model_with(
        shape_of_x(),
        helper.make_node("ReduceProd", ["shape", "zero"], ["count"], keepdims=1),
        helper.make_node("Div", ["count", "four"], ["rows"]),
        helper.make_node("Concat", ["rows", "four"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["y"]),
        constants={"zero": np.array([0]), "four": np.array([4])},
    ),
    "scale": model_with(
        helper.make_node("Size", ["x"], ["count"]),
        helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["x", "number"], ["y"]),
    ),
    "mean": model_with(
        helper.make_node("ReduceMean", ["x", "axis"], ["y"]), constants={"axis": np.array([1])}
    ),
    "resize": model_with(
        helper.make_node("Unsqueeze", ["x", "one"], ["image"]),
        helper.make_node("Resize", ["image", "", "scales"], ["y"], mode="nearest"),
        constants={"one": np.array([1]), "scales": np.array([1, 1, 1, 2], np.float32)},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_ops(name: str) -> None:
    for sizes in ({"batch": 2, "seq": 2}, {"batch": 3, "seq": 7}):
        check_same(MODELS[name], sizes)
    graph = symbolic(OnnxSource(MODELS[name]))
    read_back(graph)
    graph = placed(graph)
    for shape in ((2, 2, 8), (5, 64, 8)):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        [found] = interpret(graph, {"x": x})
        [expected] = ReferenceEvaluator(MODELS[name]).run(None, {"x": x})
        np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5)


UNDECIDED = {
    "head": (
        model_with(
            helper.make_node("Slice", ["x", "start", "end", "axis"], ["y"]),
            constants={"start": np.array([0]), "end": np.array([5]), "axis": np.array([1])},
        ),
        {"seq"},
    ),
    "added to eight": (
        model_with(
            helper.make_node("Add", ["x", "bias"], ["y"]),
            constants={"bias": np.zeros((5, 1), np.float32)},
        ),
        {"seq"},
    ),
    "of a size that is a setting": (
        model_with(
            shape_of_x(),
            helper.make_node("Gather", ["shape", "one"], ["k"]),
            helper.make_node("Div", ["k", "two"], ["half"]),
            helper.make_node("CumSum", ["x", "half"], ["y"]),
            constants={"one": np.array([1]), "two": np.array([2])},
        ),
        {"seq"},
    ),
    "reshaped": (
        model_with(
            helper.make_node("Reshape", ["x", "wanted"], ["y"]),
            constants={"wanted": np.array([-1, 24])},
        ),
        {"batch", "seq"},
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_depends_on_numbers_says_so(name: str) -> None:
    model, names = UNDECIDED[name]
    with pytest.raises(UndecidedSizeError) as error:
        symbolic(OnnxSource(model))
    assert error.value.symbols == names
    assert any(f"{node.op_type}" in str(error.value) for node in model.graph.node)
