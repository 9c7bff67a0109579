"""`tessella reduce`: models get smaller as long as a command fails on them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tessella.frontends.compile import compile as compile_model
from tessella.tools import reduce
from tessella.tools.cli import main
from tests.models import load_fixture, run_onnxruntime
from tests.plugins import forget
from tests.sampling import sample
from tests.tools.breaker import SOURCE
from tests.tools.networks import network

Out = pytest.CaptureFixture[str]

OPS = "grep -aoE 'Conv|Relu|Flatten|MatMul|LayerNormalization|Softmax'"
"""Prints the ops of the network, without the second that importing onnx takes."""


@pytest.fixture
def model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder."""
    for name in ("model", "open"):
        shutil.copy(models / f"{name}.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    return "model.onnx"


def has(op: str) -> str:
    """A command that fails on models with this op."""
    return f"! grep -aq {op}"


def reduced(model: onnx.ModelProto, test: Callable[[onnx.ModelProto], bool]) -> onnx.ModelProto:
    """The smallest model; every candidate is valid, and ONNX Runtime runs the last."""

    def checked(candidate: onnx.ModelProto) -> bool:
        onnx.checker.check_model(candidate, full_check=True)
        return test(candidate)

    smallest = reduce.Reducer(model, checked).run()
    rng = np.random.default_rng(0)
    feeds = {
        value.name: np.asarray(
            rng.integers(0, 2, [d.dim_value for d in value.type.tensor_type.shape.dim]),
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
        )
        for value in smallest.graph.input
    }
    run_onnxruntime(smallest, feeds)
    return smallest


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.slow
@pytest.mark.parametrize("op", sample(["LayerNormalization", "Softmax", "Erf", "Where"], 0))
def test_one_op_of_a_network(op: str) -> None:
    runs = 0

    def test(candidate: onnx.ModelProto) -> bool:
        nonlocal runs
        runs += 1
        return op in ops(candidate)

    smallest = reduced(load_fixture("encoder_opset18"), test)
    assert ops(smallest) == [op]
    assert smallest.ByteSize() < 2000
    assert all(
        dim.dim_value <= 2 or op == "LayerNormalization"
        for value in smallest.graph.input
        for dim in value.type.tensor_type.shape.dim
    )
    assert runs < 250


def test_two_ops_of_which_one_is_made_from_the_other() -> None:
    """Values between the two ops are removed as far as a value of the same type can replace
    them."""

    def test(candidate: onnx.ModelProto) -> bool:
        graph = reduce.OnnxGraph(candidate)
        softmax = [node.makes[0] for node in graph.nodes if node.op == "Softmax"]
        return any("Add" in {graph.node_of(v).op for v in graph.upstream(s)} for s in softmax)

    assert ops(reduced(load_fixture("encoder_opset18"), test)) == ["Add", "Softmax"]


def test_outputs_and_inputs_go() -> None:
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"y{i}"]) for i in range(9)]
    names = {f"{c}{i}" for i in range(9) for c in "xy"}
    every = {name: [3, 4] for name in sorted(names)}
    model = network(
        nodes,
        {n: s for n, s in every.items() if n[0] == "x"},
        {n: s for n, s in every.items() if n[0] == "y"},
        {},
    )
    smallest = reduced(model, lambda m: "y7" in {v.name for v in m.graph.output})
    assert [v.name for v in smallest.graph.input] == ["x7"]
    assert [v.name for v in smallest.graph.output] == ["y7"]


def test_subgraphs_keep_what_they_read() -> None:
    value = helper.make_tensor_value_info
    then = helper.make_graph(
        [helper.make_node("Neg", ["b"], ["t"])], "then", [], [value("t", TensorProto.FLOAT, [4])]
    )
    other = helper.make_graph(
        [helper.make_node("Abs", ["b"], ["e"])], "else", [], [value("e", TensorProto.FLOAT, [4])]
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("If", ["flag"], ["d"], then_branch=then, else_branch=other),
    ]
    model = network(nodes, {"x": [4]}, {"d": [4]}, {})
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    smallest = reduced(model, lambda m: "If" in ops(m))
    assert ops(smallest) == ["If"]
    assert [v.name for v in smallest.graph.input] == ["b"]


def test_nothing_can_be_left_out() -> None:
    model = network([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, {"y": [1]}, {})
    assert reduced(model, lambda m: False).graph.node == model.graph.node


# ** the command **


def test_the_command(model: str, capsys: Out) -> None:
    assert main(["reduce", model, "--check", has("Relu")]) == 0
    output = capsys.readouterr()
    assert "to   1 node, 1 input, 1 output" in output.out
    assert "wrote model.reduced.onnx" in output.out
    assert "after 2 runs" in output.err
    assert ops(onnx.load("model.reduced.onnx")) == ["Relu"]
    compile_model("model.reduced.onnx")
    assert sorted(p.name for p in Path().iterdir()) == [
        *("model.onnx", "model.reduced.onnx", "open.onnx")
    ]


def test_json_and_a_path_that_needs_quoting(model: str, capsys: Out) -> None:
    command = f"{has('Relu')} {{}} 2>&1"
    assert main(["reduce", model, "--check", command, "-o", "a b.onnx", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["output"], found["after"]["nodes"]) == ("a b.onnx", 1)
    assert not found["time_over"]


def test_the_same_failure(model: str) -> None:
    """A command that fails otherwise on what is small does not count."""
    command = f"exit $((1 + ($({OPS} {{}} | wc -l) < 4)))"
    assert main(["reduce", model, "--check", command]) == 0
    assert len(ops(onnx.load("model.reduced.onnx"))) == 4


def test_match(model: str, capsys: Out) -> None:
    command = f"{OPS} {{}}; exit 1"
    assert main(["reduce", model, "--check", command, "--match", "MatMul"]) == 0
    assert ops(onnx.load("model.reduced.onnx")) == ["MatMul"]
    assert main(["reduce", model, "--check", command, "--match", "Einsum"]) == 2
    assert "or its output does not match" in capsys.readouterr().err


def test_the_command_has_to_fail(model: str, capsys: Out) -> None:
    assert main(["reduce", model, "--check", "true"]) == 2
    assert "the command does not fail on the model as it is" in capsys.readouterr().err
    assert main(["reduce", model, "--check", "sleep 9 && true", "--timeout", "0.2"]) == 2
    assert not Path("model.reduced.onnx").exists()


def test_time_is_over(model: str, capsys: Out) -> None:
    assert main(["reduce", model, "--check", has("Relu"), "--budget", "0"]) == 1
    assert "nothing can be left out\nthe time was over" in capsys.readouterr().out


def test_shapes_of_inputs(model: str) -> None:
    command = f"{has('MatMul')} {{}} && exit 0; exit 3"
    assert main(["reduce", "open.onnx", "--check", command, "--shape", "x=6x4"]) == 0
    [value] = [v for v in onnx.load("open.reduced.onnx").graph.input if v.name == "x"]
    assert value.type.tensor_type.shape.dim[0].dim_value == 1


@pytest.mark.slow
@pytest.mark.usefixtures("model")
def test_with_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of a plugin's pass, in other processes too."""
    info = tmp_path / "plug" / "breaker-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: breaker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tessella.passes]\nbreak-it = breaker:BreakIt\n")
    lines = (line.removeprefix("    ") for line in SOURCE.splitlines())
    (info.parent / "breaker.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(info.parent))
    forget()
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Relu", ["n"], ["y"])]
    onnx.save(network(nodes, {"x": [2]}, {"y": [2]}, {}), "two.onnx")
    command = f"{sys.executable} -m tessella.tools.cli diff {{}} --against numpy"
    assert main(["reduce", "two.onnx", "--check", command]) == 0
    assert ops(onnx.load("two.reduced.onnx")) == ["Relu"]


def test_refusals(model: str, capsys: Out) -> None:
    assert main(["reduce", model]) == 2
    assert "--check" in capsys.readouterr().err
    assert main(["reduce", model, "--check", has("Relu"), "-o", "nowhere/x.onnx"]) == 2
    assert "cannot write" in capsys.readouterr().err
    main(["compile", model, "--to", "nn"])
    assert main(["reduce", "model.nn", "--check", "false"]) == 2
    assert "only ONNX models are reduced" in capsys.readouterr().err
    assert main(["reduce", model, "--check", "false", "--match", "["]) == 2
    assert "'[' is not a regular expression" in capsys.readouterr().err
    assert main(["reduce", model, "--check", "no-such-command {}"]) == 2
    assert "the command cannot be run" in capsys.readouterr().err
    assert main(["reduce", model, "--check", "false", "--budget", "-1"]) == 2
    assert "expected a number from 0 on" in capsys.readouterr().err
