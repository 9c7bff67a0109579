"""`tessella check`: what is not supported, what NumPy runs, and what is left unchecked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tessella.tools.cli import main

Out = pytest.CaptureFixture[str]


def test_check_lists_all_that_is_not_supported(models: Path, capsys: Out) -> None:
    path = str(models / "unsupported.onnx")
    assert main(["check", path]) == 1
    output = capsys.readouterr().out
    assert output.startswith("2 unsupported things:\n")
    assert "'first'" in output
    assert "'second'" in output
    assert main(["check", path, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert not result["supported"]
    assert [issue["node"] for issue in result["issues"]] == ["first", "second"]
    assert main(["run", path]) == 2
    assert "tessella check" in capsys.readouterr().err


def test_check_of_a_model_that_is_supported(model: str, capsys: Out) -> None:
    assert main(["check", model]) == 0
    assert re.fullmatch(r"supported; \d+ ops, all native\n", capsys.readouterr().out)
    assert main(["check", model, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result.pop("ops") > 1
    assert result.pop("coverage")["in_numpy"] == []
    assert result == {"supported": True, "issues": [], "not_checked": "", "reference": []}
    main(["compile", model, "--to", "tile"])
    assert main(["check", "model.tile"]) == 0
    Path("model.weights").unlink()
    assert main(["check", "model.tile"]) == 2


@pytest.mark.parametrize("rows", ["4", "n"])
def test_check_of_shapes_that_do_not_fit(rows: str, capsys: Out, tmp_path: Path) -> None:
    a, b = (helper.make_tensor_value_info(n, 1, [s, 4]) for n, s in (("a", 4), ("b", rows)))
    if rows == "4":
        b.type.tensor_type.shape.dim[0].dim_value = 5
    node = helper.make_node("MatMul", ["a", "b"], ["y"], name="product")
    y = helper.make_tensor_value_info("y", 1, None)
    proto = helper.make_model(
        helper.make_graph([node], "g", [a, b], [y]), opset_imports=[helper.make_opsetid("", 21)]
    )
    path = tmp_path / "x.onnx"
    onnx.save(proto, path)
    if rows == "n":
        assert main(["check", str(path)]) == 0
        assert "'b' has symbolic dimensions" in capsys.readouterr().out
        assert main(["check", str(path), "--shape", "b=4x4"]) == 0
        assert capsys.readouterr().out == "supported; 1 op, all native\n"
    assert main(["check", str(path), *(["--shape", "b=5x4"] if rows == "n" else [])]) == 2
    error = capsys.readouterr().err
    for part in ("node 'product' (MatMul)", "4x4", "5x4"):
        assert part in error


def test_check_lists_what_numpy_runs(capsys: Out, tmp_path: Path) -> None:
    """The list is that of a compilation, in the words of its errors."""
    shapes = [("x", [4]), ("z", [4]), ("y", [4]), ("e", [22])]
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], name="first"),
        helper.make_node("Pad", ["z", "p"], ["e"], name="wide", mode="reflect"),
    ]
    values = [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape) for x, shape in shapes]
    borders = numpy_helper.from_array(np.array([9, 9]), "p")
    graph = helper.make_graph(nodes, "g", values[:2], values[2:], [borders])
    path = str(tmp_path / "x.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["check", path]) == 0
    head, _, counted, _, row = capsys.readouterr().out.splitlines()
    assert head.startswith("supported; 1 of 2 ops runs in NumPy (reference kernels), ")
    assert head.endswith("% of the estimated time:")
    assert re.fullmatch(r"  nn.pad +1 +[\d.]+ us +\d+%", counted)
    assert row.startswith("  nn.pad (node 'wide'): pad at ")
    assert "longer than the operand" in row
    assert main(["check", path, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["supported"], result["ops"]) == (True, 2)
    [entry] = result["reference"]
    [share] = result["coverage"]["in_numpy"]
    assert (share["op"], share["count"]) == ("nn.pad", 1)
    assert 0 < share["seconds"] <= result["coverage"]["seconds"]
    assert (entry["op"], entry["node"]) == ("nn.pad", "wide")
    ran = {op["node"] for op in json.loads(_explained(path, capsys))["ops"] if op["fallback"]}
    assert ran == {"wide"}
    for command in ("check", "compile"):
        assert main([command, path, "--fallback", "error"]) == (1 if command == "check" else 2)
        out, err = capsys.readouterr()
        assert "nn.pad (node 'wide')" in out + err
    assert main(["check", path, "--places", "host"]) == 0
    assert "2 of 2 ops run in NumPy" in capsys.readouterr().out


def _explained(path: str, capsys: Out) -> str:
    assert main(["explain", path, "--json"]) == 0
    return capsys.readouterr().out


def test_check_of_a_model_that_is_cut(capsys: Out, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], name="first", keepdims=0),
        helper.make_node("Cast", ["sum"], ["size"], name="size", to=TensorProto.INT64),
        helper.make_node("SplitToSequence", ["x", "size"], ["parts"], name="parted"),
        helper.make_node("SequenceLength", ["parts"], ["y"], name="counted"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph(nodes, "g", [x], [y])
    path = str(tmp_path / "x.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["check", path]) == 0
    first, _, step, second = capsys.readouterr().out.splitlines()
    assert first.startswith("supported; 1 of 3 ops runs in NumPy (reference kernels)")
    assert step.split() == ["SplitToSequence", "1", "unknown"]
    assert second.startswith("not checked: kernels after SplitToSequence parted")


def test_check_of_an_artifact_takes_no_shapes(model: str, capsys: Out) -> None:
    assert main(["compile", model, "-o", "m.tsl"]) == 0
    assert main(["check", "m.tsl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"whole": True}
    assert main(["check", "m.tsl", "--shape", "x=1x2"]) == 2
    assert main(["check", "m.tsl", "--target", "neon"]) == 2


def test_check_of_no_model(capsys: Out, tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"nonsense")
    assert main(["check", str(path)]) == 2
    assert "error: " in capsys.readouterr().err
