"""`tessella diff`: faults that are put into passes and kernels on purpose, and the nodes found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tessella.codegen import emit
from tessella.dialects import nn
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.tools.cli import main
from tessella.tools.diff_report import describe
from tessella.tools.onnx_values import OnnxGraph
from tests.sampling import sample
from tests.tools.networks import network

Out = pytest.CaptureFixture[str]

every_oracle = pytest.mark.parametrize("against", ["onnxruntime", "reference", "numpy"])


@pytest.fixture
def model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder."""
    for name in ("model", "open"):
        shutil.copy(models / f"{name}.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    return "model.onnx"


def chain(length: int, broken: int) -> onnx.ModelProto:
    """Activations one after another, of which the pass `break-it` loses one; the sums between them
    let every fault through to the end."""
    nodes: list[onnx.NodeProto] = []
    last = "x"
    for i in range(length):
        nodes += [
            helper.make_node(
                "Relu", [last], [f"r{i}"], name="lost" if i == broken else f"spared{i}"
            ),
            helper.make_node("MatMul", [f"r{i}", "w"], [f"p{i}"], name=f"p{i}"),
            helper.make_node("Add", [f"p{i}", last], [f"s{i}"], name=f"s{i}"),
        ]
        last = f"s{i}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    return network(nodes, {"x": [4, 8]}, {"y": [4, 8]}, {"w": [8, 8]})


@every_oracle
def test_nothing_differs(against: str, model: str, capsys: Out) -> None:
    assert main(["diff", model, "--against", against]) == 0
    assert capsys.readouterr().out == f"the outputs are those of {against}\n"


@every_oracle
@pytest.mark.usefixtures("breaker")
def test_an_op_that_is_lost(against: str, model: str, capsys: Out) -> None:
    assert main(["diff", model, "--against", against]) == 1
    output = capsys.readouterr().out
    assert "  y: 10 of 10 elements differ" in output
    assert "the first node that differs is 'relu' (Relu)" in output
    assert "  computed c: float32 [1, 8, 8, 8] from -" in output
    assert "nothing: it was computed at compile time, or is only named" in output
    assert "looked at with more outputs than the model has" in output


@pytest.mark.slow
@pytest.mark.usefixtures("breaker")
@pytest.mark.parametrize("broken", sample([9, 0, 29]))
def test_a_node_among_many(broken: int, model: str, capsys: Out) -> None:
    onnx.save(chain(30, broken), "chain.onnx")
    assert main(["diff", "chain.onnx", "--json"]) == 1
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert (found["node"], found["op"], found["value"]) == ("lost", "Relu", f"r{broken}")
    assert output.err.count("values as outputs") <= 4


def test_a_kernel_with_a_wrong_answer(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    handlers = emit.KERNEL_HANDLERS
    monkeypatch.setitem(handlers, "math.exp", handlers["math.absf"])
    assert main(["diff", model, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["op"], found["value"], found["fused"]) == ("Softmax", "y", [])
    [kernel] = found["kernels"]
    assert (kernel["kernel"], kernel["op"]) == ("softmax", "nn.softmax")
    assert "differ" in found["difference"]
    assert [x["name"] for x in found["inputs"]] == ["n"]


@pytest.mark.slow
def test_a_kernel_that_is_wrong_only_as_one(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    run = FuseElementwisePass.apply

    def spoil(step: FuseElementwisePass, ctx: Context, op: ModuleOp) -> None:
        run(step, ctx, op)
        for inner in list(op.walk()):
            if isinstance(inner, nn.ReluOp) and isinstance(inner.parent_op(), nn.FusedOp):
                inner.res.replace_all_uses_with(inner.x)
                inner.detach()
                inner.erase()

    monkeypatch.setattr(FuseElementwisePass, "apply", spoil)
    assert main(["diff", model]) == 1
    output = capsys.readouterr().out
    assert "the first kernel that differs computes the nodes conv, relu" in output
    assert "each of them is right where its value is an output" in output
    assert "  input x: float32 [1, 3, 8, 8]" in output
    assert "  conv at x86" in output


def test_inputs_are_given_as_run_takes_them(model: str, capsys: Out) -> None:
    np.save("x.npy", np.full((5, 4), np.nan, np.float32))
    assert main(["diff", "open.onnx", "--input", "x=@x.npy"]) == 0
    assert main(["diff", "open.onnx"]) == 2
    assert "give its shape, such as --shape x=1x4" in capsys.readouterr().err
    assert main(["diff", "open.onnx", "--shape", "x=2x4", "--seed", "3"]) == 0


def test_tolerance(model: str) -> None:
    assert main(["diff", model, "--tolerance", "1e-12"]) == 1
    assert main(["diff", model, "--tolerance", "1e-3"]) == 0


def test_a_stage_has_no_nodes(model: str, capsys: Out) -> None:
    main(["compile", model, "--to", "placed"])
    assert main(["diff", "model.placed"]) == 2
    assert "hint: `tessella bisect`" in capsys.readouterr().err


def test_an_old_model(model: str) -> None:
    proto = onnx.load(model)
    proto.ir_version = 3
    proto.opset_import[0].version = 6
    del proto.graph.node[4:]
    proto.graph.output[0].name = "p"
    onnx.save(proto, "old.onnx")
    assert main(["diff", "old.onnx", "--against", "reference"]) == 0


def test_an_oracle_that_cannot_run_the_model(
    model: str, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise NotImplementedError("no such op")

    monkeypatch.setattr(OpRun, "run", fail)
    assert main(["diff", model, "--against", "reference"]) == 2
    assert "the reference implementation cannot run" in capsys.readouterr().err


def test_what_an_array_is() -> None:
    numbers = np.array([[1, np.nan], [-2, np.inf]], np.float32)
    assert describe(numbers) == {
        "dtype": "float32",
        "shape": [2, 2],
        "min": -2,
        "max": 1,
        "nan": 1,
        "infinite": 1,
        "first_not_finite": [0, 1],
    }
    assert describe(np.zeros((0, 3), np.int8)) == {"dtype": "int8", "shape": [0, 3]}
    assert describe(np.array([True])) == {"dtype": "bool", "shape": [1], "min": 1, "max": 1}


def test_values_upstream_of_a_value() -> None:
    value = helper.make_tensor_value_info
    then = helper.make_graph(
        [helper.make_node("Neg", ["b"], ["t"])], "then", [], [value("t", TensorProto.FLOAT, [4])]
    )
    other = helper.make_graph([], "else", [], [value("c", TensorProto.FLOAT, [4])])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Relu", ["x"], ["c"]),
        helper.make_node("If", ["flag"], ["d"], then_branch=then, else_branch=other),
    ]
    graph = OnnxGraph(network(nodes, {"x": [4]}, {"d": [4]}, {}))
    assert graph.upstream("d") == {"a", "b", "c"}
    assert graph.nearest("d", {"a", "c"}) == {"a", "c"}
    assert graph.nearest("d", {"a", "b"}) == {"b"}
    assert graph.ordered(["d", "a"]) == ["a", "d"]
    assert graph.node_of("d").name == "If_3"
