"""`tessella run`: inputs, outputs and what they should be, at any stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tessella
from tessella import targets
from tessella.runtime import host
from tessella.tools.cli import main
from tessella.tools.commands.arrays import difference

Out = pytest.CaptureFixture[str]


def test_run_sums_up_and_writes_outputs(model: str, capsys: Out) -> None:
    assert main(["run", model, "--output", "y=@y.npy"]) == 0
    assert capsys.readouterr().out.startswith("y: float32 [1, 10] min ")
    y = np.load("y.npy")
    assert y.shape == (1, 10)
    np.testing.assert_allclose(y.sum(), 1, rtol=1e-5)
    assert main(["run", model, "--expected", "y=@y.npy"]) == 0
    assert "y: as expected" in capsys.readouterr().out


def test_run_takes_inputs_from_files_and_seeds(model: str) -> None:
    x = np.random.default_rng(7).standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.save("x.npy", x)
    assert main(["run", model, "--input", "x=@x.npy", "--output", "y=@y.npy"]) == 0
    np.testing.assert_array_equal(np.load("y.npy"), tessella.compile(model)(x))
    outputs: list[bytes] = []
    for arguments in (["--seed", "1"], ["--seed", "1"], ["--seed", "2"], ["--input", "x=zeros"]):
        assert main(["run", model, "--output", "y=@z.npy", *arguments]) == 0
        outputs.append(np.load("z.npy").tobytes())
    assert outputs[0] == outputs[1]
    assert len(set(outputs)) == 3


def test_run_on_threads(model: str, capsys: Out) -> None:
    assert main(["run", model, "--threads", "3", "--output", "y=@y.npy"]) == 0
    again = ["--threads", "1", "--tolerance", "0", "--expected", "y=@y.npy"]
    assert main(["run", model, *again]) == 0
    assert "as expected" in capsys.readouterr().out


def test_run_says_where_an_output_differs(model: str, capsys: Out) -> None:
    main(["run", model, "--output", "y=@y.npy"])
    y = np.load("y.npy")
    y[0, 3] += 0.5
    np.save("y.npy", y)
    capsys.readouterr()
    assert main(["run", model, "--expected", "y=@y.npy"]) == 1
    output = capsys.readouterr().out
    assert "1 of 10 elements differ" in output
    assert "largest absolute difference 0.5 at [0, 3]" in output
    assert main(["run", model, "--expected", "y=@y.npy", "--tolerance", "1"]) == 0


def test_run_wants_shapes_for_open_dimensions(models: Path, capsys: Out) -> None:
    path = str(models / "open.onnx")
    assert main(["run", path]) == 2
    assert "hint: give its shape, such as --shape x=1x4" in capsys.readouterr().err
    assert main(["run", path, "--shape", "x=5x4"]) == 0
    assert "y: float32 [5, 3]" in capsys.readouterr().out


@pytest.mark.parametrize("places", ["host", "x86/f32/nhwc,x86/f32,x86,host"])
def test_run_at_places(model: str, places: str, capsys: Out) -> None:
    if not places.startswith(("host", targets.native().arch)):
        pytest.skip("places of another machine")
    main(["run", model, "--output", "y=@y.npy"])
    assert main(["run", model, "--places", places, "--expected", "y=@y.npy"]) == 0
    assert "as expected" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--input", "x"], "cannot read --input 'x'"),
        (["--input", "q=zeros"], "the model has no 'q'"),
        (["--input", "x=maybe"], "no way to make 'maybe'"),
        (["--input", "x=@nobody.npy"], "cannot read an array"),
        (["--output", "y=here"], "expected: --output y=@FILE.npy"),
        (["--output", "q=@q.npy"], "expected: one of y"),
        (["--expected", "y=@model.onnx"], "cannot read an array"),
        (["--shape", "x=axb"], "cannot read the shape 'axb'"),
        (["--shape", "x=1x3x8x9"], "wrong shape"),
        (["--places", "nowhere"], "nowhere"),
        (["--target", "nothing"], "unknown target 'nothing'"),
        (["--threads", "0"], "cannot run on this number of threads"),
    ],
)
def test_run_refuses(model: str, arguments: list[str], message: str, capsys: Out) -> None:
    assert main(["run", model, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_run_does_not_run_code_for_another_machine(model: str, capsys: Out) -> None:
    other = "neon" if targets.native().arch == "x86" else "avx2"
    assert main(["run", model, "--target", other]) == 2
    assert "cannot run code for" in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.parametrize(
    "name, code", [("bfloat16", 16), ("float16", 10), ("uint8", 2), ("complex64", 14)]
)
@pytest.mark.parametrize("kind", ["randn", "zeros", "ones"])
def test_run_on_every_element(name: str, code: int, kind: str, tmp_path: Path, capsys: Out) -> None:
    """An output is written, and compared with what was written."""
    values = [onnx.helper.make_tensor_value_info(n, code, (3, 5)) for n in "xy"]
    node = onnx.helper.make_node("Add", ["x", "x"], ["y"])
    graph = onnx.helper.make_graph([node], "sum", values[:1], values[1:])
    opset = onnx.helper.make_opsetid("", 17)
    path, file = tmp_path / "m.onnx", tmp_path / "y.npy"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    arguments = ["run", str(path), "--input", f"x={kind}"]
    assert main([*arguments, "--output", f"y=@{file}"]) == 0
    told = "absolute min" if name == "complex64" else "min"
    assert capsys.readouterr().out.startswith(f"y: {name} [3, 5] {told} ")
    assert main([*arguments, "--expected", f"y=@{file}"]) == 0
    assert "y: as expected" in capsys.readouterr().out
    assert main([*arguments, "--interpret", "tile", "--expected", f"y=@{file}"]) == 0


@pytest.mark.parametrize("name, code", [("float8_e8m0fnu", 24), ("int4", 22), ("string", 8)])
def test_run_on_elements_that_only_move(name: str, code: int, tmp_path: Path, capsys: Out) -> None:
    values = [onnx.helper.make_tensor_value_info(n, code, (3, 5)) for n in "xy"]
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    graph = onnx.helper.make_graph([node], "same", values[:1], values[1:])
    opset = onnx.helper.make_opsetid("", 25)
    path, file = tmp_path / "m.onnx", tmp_path / "y.npy"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    assert main(["run", str(path), "--output", f"y=@{file}"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"y: {name} [3, 5] ")
    assert "not finite" not in shown
    assert main(["run", str(path), "--expected", f"y=@{file}", "--input", f"x=@{file}"]) == 0
    assert main(["run", str(path), "--expected", f"y=@{file}", "--input", "x=ones"]) == 1
    assert "of 15 elements differ" in capsys.readouterr().out


# ** differences **


def array(*values: Any, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


@pytest.mark.parametrize(
    "found, expected, differs",
    [
        (array(1.0), array(1.00001), False),
        (array(1.0), array(1.1), True),
        (array(np.nan, np.inf), array(np.nan, np.inf), False),
        (array(np.nan), array(1.0), True),
        (array(np.inf), array(-np.inf), True),
        (array(1.0), array(1.0, 1.0), True),
        (array(1.0), array(1.0, dtype="float64"), True),
        (array(), array(), False),
        (array(True, dtype="bool"), array(False, dtype="bool"), True),
        (array(2**53, dtype="int64"), array(2**53 + 1, dtype="int64"), True),
        (array(3, dtype="int8"), array(3, dtype="int8"), False),
        (array(1 + 2j, dtype="complex64"), array(1 + 2.00001j, dtype="complex64"), False),
        (array(1 + 2j, dtype="complex64"), array(1 - 2j, dtype="complex64"), True),
        (array(1 + 2j, dtype="complex64"), array(1 + 2j, dtype="complex128"), True),
    ],
)
def test_difference(found: Any, expected: Any, differs: bool) -> None:
    assert (difference(found, expected, 1e-4, 1e-5) is not None) == differs


def test_the_difference_of_complex_numbers() -> None:
    told = difference(array(3 + 4j, 1, dtype="complex64"), array(0, 1, dtype="complex64"), 0.1, 0.1)
    assert told is not None
    assert "1 of 2 elements differ" in told
    assert "largest absolute difference 5 at [0]: found (3+4j), expected 0j" in told


# ** stages **


@pytest.mark.parametrize("stage", ["nn", "placed", "tile"])
def test_run_interprets_a_stage(model: str, stage: str, capsys: Out) -> None:
    main(["run", model, "--output", "y=@y.npy"])
    assert main(["run", model, "--interpret", stage, "--expected", "y=@y.npy"]) == 0
    assert "as expected" in capsys.readouterr().out


def test_run_interprets_with_kernels_of_its_own_meaning(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """A NumPy kernel that is wrong shows at `nn`, where it runs, and not at `tile`."""
    main(["run", model, "--output", "y=@y.npy"])
    monkeypatch.setitem(host.KERNELS, "nn.softmax", lambda x, *, axis: np.zeros_like(x))
    assert main(["run", model, "--interpret", "nn", "--expected", "y=@y.npy"]) == 1
    assert main(["run", model, "--interpret", "tile", "--expected", "y=@y.npy"]) == 0


def test_run_does_not_go_back(model: str, capsys: Out) -> None:
    main(["compile", model, "--to", "tile"])
    assert main(["run", "model.tile", "--interpret", "tile"]) == 0
    assert main(["run", "model.tile", "--interpret", "nn"]) == 2
    assert "past the stage 'nn' already" in capsys.readouterr().err


# ** values on which shapes depend **


@pytest.fixture
def reshaping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model that reshapes 2x3 numbers to an input's value."""
    monkeypatch.chdir(tmp_path)
    types = [("x", onnx.TensorProto.FLOAT, [2, 3]), ("shape", onnx.TensorProto.INT64, [2])]
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        "reshaping",
        [helper.make_tensor_value_info(*each) for each in types],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b"])],
    )
    onnx.save(helper.make_model(graph, ir_version=10), "m.onnx")
    return "m.onnx"


def test_the_value_of_an_input(reshaping: str, capsys: Out) -> None:
    assert main(["check", reshaping]) == 0
    unchecked = "not checked: shapes and kernels, which depend on the values of 'shape'"
    assert unchecked in capsys.readouterr().out
    assert main(["check", reshaping, "--value", "shape=3,2"]) == 0
    assert capsys.readouterr().out == "supported; 1 op, all native\n"
    assert main(["compile", reshaping, "--to", "nn", "-o", "-"]) == 2
    assert "--value shape=" in capsys.readouterr().err
    np.save("shape.npy", np.array([3, -1]))
    for given in ("3,2", "@shape.npy"):
        assert main(["compile", reshaping, "--to", "nn", "--value", f"shape={given}"]) == 0
        y = tessella.compile("m.nn")(np.arange(6, dtype=np.float32).reshape(2, 3))
        np.testing.assert_array_equal(y, np.arange(6).reshape(3, 2))
    assert main(["explain", reshaping, "--value", "shape=6,1"]) == 0
    assert main(["explain", reshaping, "--value", "shape=6,q"]) == 2
    assert "cannot read --value shape=6,q" in capsys.readouterr().err


def test_a_value_beside_dimensions_that_stay_open(reshaping: str, capsys: Out) -> None:
    proto = onnx.load(reshaping)
    for info, name in zip(proto.graph.input, ("n", "k"), strict=True):
        info.type.tensor_type.shape.dim[0].dim_param = name
    onnx.save(proto, reshaping)
    argv = ["compile", reshaping, "-o", "m.tsl", "--dim", "n=1..9", "--value", "shape=3,-1"]
    assert main([*argv, "--dim", "k=3"]) == 2
    assert "the model has no open dimension 'k'" in capsys.readouterr().err
    assert main(argv) == 0
    shipped = tessella.load("m.tsl")
    for rows in (1, 2, 9):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(shipped(x), x.reshape(3, -1))
    same = tessella.compile(reshaping, values={"shape": np.array([3, -1])})
    assert [i.name for i in shipped.inputs] == [i.name for i in same.inputs] == ["x"]


@pytest.mark.parametrize("interpreted", [[], ["--interpret", "nn"]])
def test_an_input_that_is_fed_is_known(reshaping: str, interpreted: list[str], capsys: Out) -> None:
    np.save("shape.npy", np.array([3, -1]))
    assert main(["run", reshaping, "--input", "shape=@shape.npy", *interpreted]) == 0
    assert "[3, 2]" in capsys.readouterr().out
