"""`tessella`, called in this process: what the commands print, write and return."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella import targets
from tessella.driver.stages import IR_STAGES, STAGES
from tessella.runtime import host
from tessella.support.errors import TessellaError
from tessella.support.knobs import KNOBS
from tessella.targets import database
from tessella.tools import cli, opt
from tessella.tools.cli import COMMANDS, main
from tessella.tools.commands.arrays import difference
from tests.generators.artifact_damage import unpacked

Out = pytest.CaptureFixture[str]


@pytest.fixture
def model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder, which is a new one."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(models / "model.onnx", tmp_path)
    return "model.onnx"


# ** artifacts, and what they do not take **


def test_an_artifact_is_compiled_already(model: str, capsys: Out) -> None:
    assert main(["compile", model, "-o", "m.tsl"]) == 0
    given = [
        *(["--target", "sse"], ["--places", "host"], ["--pick", "grade"], ["--fallback", "error"]),
        *(["--winograd", "off"], ["--max-weight-growth", "1"], ["--database", "x"]),
    ]
    for options in (*given, ["--interpret", "nn"], ["--time-passes"]):
        assert main(["run", "m.tsl", *options]) == 2, options
        error = capsys.readouterr().err
        assert "an artifact is compiled already" in error
        assert f"found: {options[0]}" in error
    for command in ("explain", "bench"):
        for options in given:
            assert main([command, "m.tsl", *options]) == 2, (command, options)
    assert main(["run", "m.tsl", "--threads", "1"]) == 0


@pytest.mark.parametrize(
    "options", [["-o", "out.foo"], ["-o", "out"], ["-o", "out.nn", "--to", "tile"]]
)
def test_an_extension_that_does_not_say_what_to_write(
    options: list[str], model: str, capsys: Out
) -> None:
    assert main(["compile", model, *options]) == 2
    assert "extension" in capsys.readouterr().err
    assert not Path(options[1]).exists()


def test_the_extension_names_the_stage(model: str) -> None:
    assert main(["compile", model, "-o", "out.placed"]) == 0
    assert main(["run", "out.placed"]) == 0
    assert main(["compile", model, "-o", "out.s", "--to", "asm"]) == 0
    assert ".text" in Path("out.s").read_text()


@pytest.mark.parametrize("text", ["n=\u00b2", "n=1..\u0663", "n=1_0", "n= 1"])
def test_bounds_that_are_no_numbers(text: str, model: str, capsys: Out) -> None:
    assert main(["compile", model, "-o", "m.tsl", "--dim", text]) == 2
    assert "cannot read --dim" in capsys.readouterr().err


# ** the tool itself **


def test_help_lists_the_commands(capsys: Out) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"    {name} " in output for name in COMMANDS)
    for name in COMMANDS:
        assert main([name, "--help"]) == 0


def test_version_names_what_it_stands_on(capsys: Out) -> None:
    assert main(["--version"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"tessella {tessella.__version__}, xdsl 0.")


@pytest.mark.parametrize("argv", [[], ["nothing"], ["run"], ["run", "m", "--no-such-option"]])
def test_a_wrong_command_line_is_2(argv: list[str], capsys: Out) -> None:
    assert main(argv) == 2
    assert "usage: tessella" in capsys.readouterr().err


def test_an_error_says_what_where_and_what_to_do(capsys: Out) -> None:
    assert main(["run", "nobody.onnx"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "error: cannot read the model: No such file or directory\n  where: nobody.onnx\n"
    )
    assert not captured.out


def test_the_traceback_is_shown_on_demand(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KNOBS, "full_traceback", True)
    assert main(["run", "nobody.onnx"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_bug_is_called_one(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(targets, "native", broken)
    assert main(["targets"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: tessella has a bug: KeyError: 'x'\n")
    assert "TESSELLA_FULL_TRACEBACK=1" in error


def test_memory_that_runs_out_is_no_bug(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(targets, "native", full)
    assert main(["targets"]) == 2
    assert capsys.readouterr().err == "error: there is not enough memory\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", stop)
    assert main([]) == 130


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "tessella", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"tessella {tessella.__version__}")


# ** run **


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
    again = ["--threads", "1", "--rtol", "0", "--atol", "0", "--expected", "y=@y.npy"]
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
    assert main(["run", model, "--expected", "y=@y.npy", "--atol", "1"]) == 0


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
        (["--target", "nothing"], "there is no target 'nothing'"),
        (["--threads", "0"], "cannot run on so many threads"),
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
@pytest.mark.parametrize("name, code", [("bfloat16", 16), ("float16", 10), ("uint8", 2)])
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
    assert capsys.readouterr().out.startswith(f"y: {name} [3, 5] min ")
    assert main([*arguments, "--expected", f"y=@{file}"]) == 0
    assert "y: as expected" in capsys.readouterr().out
    assert main([*arguments, "--interpret", "tile", "--expected", f"y=@{file}"]) == 0


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
    ],
)
def test_difference(found: Any, expected: Any, differs: bool) -> None:
    assert (difference(found, expected, 1e-4, 1e-5) is not None) == differs


# ** check **


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
    """As the model would be run, and in the words of the error where that is refused."""
    types = [("x", TensorProto.FLOAT), ("z", TensorProto.DOUBLE)]
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], name="first"),
        helper.make_node("Erf", ["z"], ["e"], name="wide"),
    ]
    ins = [helper.make_tensor_value_info(name, type, [4]) for name, type in types]
    outs = [
        helper.make_tensor_value_info(name, type, [4])
        for name, (_, type) in zip("ye", types, strict=True)
    ]
    graph = helper.make_graph(nodes, "g", ins, outs)
    path = str(tmp_path / "x.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["check", path]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head == "supported; 1 of 2 ops run in NumPy (reference kernels):"
    assert row.startswith("  nn.erf (node 'wide'): erf at ")
    assert "not f64" in row
    assert main(["check", path, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["supported"], result["ops"]) == (True, 2)
    [entry] = result["reference"]
    assert (entry["op"], entry["node"]) == ("nn.erf", "wide")
    ran = {op["node"] for op in json.loads(_explained(path, capsys))["ops"] if op["fallback"]}
    assert ran == {"wide"}
    for command in ("check", "compile"):
        assert main([command, path, "--fallback", "error"]) == (1 if command == "check" else 2)
        out, err = capsys.readouterr()
        assert "nn.erf (node 'wide')" in out + err
    assert main(["check", path, "--places", "host"]) == 0
    assert "2 of 2 ops run in NumPy" in capsys.readouterr().out


def _explained(path: str, capsys: Out) -> str:
    assert main(["explain", path, "--json"]) == 0
    return capsys.readouterr().out


def test_check_of_a_model_that_is_cut(capsys: Out, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="first"),
        helper.make_node("NonZero", ["r"], ["y"], name="found"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph(nodes, "g", [x], [y])
    path = str(tmp_path / "x.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert main(["check", path]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "supported; 1 op, all native"
    assert second.startswith("not checked: kernels after NonZero found")


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


# ** explain **


def test_explain(model: str, capsys: Out) -> None:
    assert main(["explain", model]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[:6] == ["op", "node", "kernel", "place", "storage", "arithmetic"]
    assert any(row.startswith("nn.conv") for row in rows)
    assert "kernels picked by cost, exact" in rows[-1]
    assert main(["explain", model, "--json", "--places", "host"]) == 0
    ops = json.loads(capsys.readouterr().out)["ops"]
    assert {op["kernel"] for op in ops} == {"host"}


def test_explain_another_machine(model: str, capsys: Out) -> None:
    assert main(["explain", model, "--target", "aarch64"]) == 0
    assert "arm/f32" in capsys.readouterr().out


def test_compile_to_an_artifact(model: str, capsys: Out) -> None:
    """For this machine and another one. It runs, is whole, and says so until it is damaged."""
    assert main(["run", model, "--output", "y=@y.npy"]) == 0
    assert main(["compile", model, "-o", "m.tsl", "--target", "native,sse,neon"]) == 0
    assert capsys.readouterr().out.endswith("wrote m.tsl\n")
    assert main(["run", "m.tsl", "--expected", "y=@y.npy"]) == 0
    assert main(["check", "m.tsl"]) == 0
    data = bytearray(Path("m.tsl").read_bytes())
    manifest, blobs = unpacked(bytes(data))
    _, _, offset = manifest["weights"][0]
    data[len(data) - len(blobs) + offset] ^= 255
    Path("m.tsl").write_bytes(data)
    assert main(["check", "m.tsl"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_compile_for_c(model: str, capsys: Out) -> None:
    assert main(["compile", model, "--emit", "c", "-o", "net.o", "--target", "neon"]) == 0
    assert capsys.readouterr().out.endswith("wrote net.o and net.h\n")
    assert "int net_run(const float *x, float *y, void *workspace)" in Path("net.h").read_text()
    assert Path("net.o").read_bytes()[:4] == b"\x7fELF"


def test_weights_for_c_in_a_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", model, "--emit", "c", "-o", "net.o", "--weights", "file"]) == 0
    assert capsys.readouterr().out == "wrote net.o and net.h and net.weights\n"
    size = Path("net.weights").stat().st_size
    assert f"#define NET_WEIGHTS_BYTES {size}\n" in Path("net.h").read_text(encoding="utf-8")


def test_an_artifact_for_several_shapes(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(models / "open.onnx")
    assert main(["compile", path, "-o", "m.tsl"]) == 2
    assert "--shape" in capsys.readouterr().err
    assert main(["compile", path, "-o", "m.tsl", "--shape", "x=2x4", "--shape", "x=3x4"]) == 0
    for rows in (2, 3):
        assert main(["run", "m.tsl", "--shape", f"x={rows}x4"]) == 0
    assert main(["run", "m.tsl", "--shape", "x=5x4"]) == 2
    assert "x [2, 4] or x [3, 4]" in capsys.readouterr().err


@pytest.mark.parametrize("stage", IR_STAGES)
def test_explain_a_stage(model: str, stage: str, capsys: Out) -> None:
    main(["compile", model, "--to", stage])
    capsys.readouterr()
    assert main(["explain", f"model.{stage}", "--json"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    assert "conv" in {op["node"] for op in explanation["ops"]}
    assert ("note" in explanation) == (stage in ("tile", "loops"))


def test_explain_wants_shapes(models: Path) -> None:
    path = str(models / "open.onnx")
    assert main(["explain", path]) == 2
    assert main(["explain", path, "--shape", "x=2x4"]) == 0


# ** compile **


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("target", ["native", "avx2", "aarch64"])
def test_compile_to_standard_output(model: str, stage: str, target: str, capsys: Out) -> None:
    assert main(["compile", model, "--to", stage, "--target", target, "-o", "-"]) == 0
    output = capsys.readouterr().out
    start = {"llvm": "target datalayout", "asm": "# "}.get(stage, "builtin.module {")
    assert re.sub(r"^(#\w+ = .*\n)*", "", output).startswith(start)
    if target == "aarch64" and stage == "asm":
        assert "fmla" in output
    assert sorted(path.name for path in Path().iterdir()) == [model]


def test_compile_takes_the_name_from_model_and_stage(model: str, capsys: Out) -> None:
    assert main(["compile", model]) == 0
    assert capsys.readouterr().out == "wrote model.tile and model.weights\n"
    assert main(["compile", "model.tile", "--to", "asm"]) == 0
    assert capsys.readouterr().out == "wrote model.asm\n"
    assert sorted(path.name for path in Path().iterdir()) == [
        *("model.asm", model, "model.tile", "model.weights"),
    ]


@pytest.mark.parametrize("stage", IR_STAGES)
def test_what_compile_wrote_runs(model: str, stage: str) -> None:
    main(["run", model, "--output", "y=@y.npy"])
    assert main(["compile", model, "--to", stage, "-o", f"q.{stage}"]) == 0
    exactly = ["--rtol", "0", "--atol", "0"]
    assert main(["run", f"q.{stage}", "--expected", "y=@y.npy", *exactly]) == 0


def test_compile_from_stage_to_stage(model: str, capsys: Out) -> None:
    for before, stage in zip(("onnx", *IR_STAGES), IR_STAGES, strict=False):
        assert main(["compile", f"model.{before}", "--to", stage]) == 0
        direct = ["compile", model, "--to", stage, "-o", "-"]
        capsys.readouterr()
        assert main(direct) == 0
        assert capsys.readouterr().out == Path(f"model.{stage}").read_text()


@pytest.mark.parametrize("places", ["x86/f32/nhwc,x86/f32,host", "host"])
def test_passes_that_compile_prints_lead_to_its_stage(model: str, places: str, capsys: Out) -> None:
    """Also where a program has no kernel, so that most passes find nothing."""
    options = ["--places", places, "--target", "avx2", "--database", 'no "such" \\ file']
    database.write(options[-1], database.Database())
    main(["compile", model, "--to", "nn"])
    capsys.readouterr()
    assert main(["compile", model, "--to", "loops", *options, "--print-pipeline"]) == 0
    passes = capsys.readouterr().out.strip()
    assert main(["compile", model, "--to", "loops", *options, "-o", "-"]) == 0
    compiled = capsys.readouterr().out
    assert opt.main(["model.nn", "-p", passes]) == 0
    assert capsys.readouterr().out.split() == compiled.split()  # whose lines are wrapped
    assert main(["compile", "model.nn", "--to", "nn", "--print-pipeline"]) == 0
    assert capsys.readouterr().out == "\n"


def test_compile_prints_the_ir_around_passes(model: str, capsys: Out) -> None:
    around = ["--print-ir-before=pick-kernels", "--print-ir-after=pick-kernels,tile-schedule"]
    assert main(["compile", model, *around]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[4:6] for line in lines if "IR Dump" in line] == [
        ["Before", "PickKernelsPass"],
        ["After", "PickKernelsPass"],
        *2 * [["After", "TileSchedulePass"]],
    ]
    assert main(["compile", model, "--to", "placed", "--print-ir-after", "tile-schedule"]) == 2
    assert "--print-ir-after: no pass 'tile-schedule' runs" in capsys.readouterr().err


def test_compile_refuses(model: str, capsys: Out) -> None:
    main(["compile", model, "--to", "tile"])
    capsys.readouterr()
    assert main(["compile", "model.tile", "--to", "nn"]) == 2
    assert "past the stage 'nn'" in capsys.readouterr().err
    assert main(["compile", "model.tile", "--to", "nn", "--print-pipeline"]) == 2
    assert "past the stage 'nn'" in capsys.readouterr().err
    assert main(["compile", "model.tile", "--to", "tile"]) == 2
    assert "overwrite the model" in capsys.readouterr().err
    assert main(["compile", model, "-o", "no folder/x.tile"]) == 2
    assert main(["compile", model, "--to", "llvm", "-o", "no folder/x.llvm"]) == 2
    assert main(["compile", model, "--to", "nothing"]) == 2


# ** targets **


def test_targets(capsys: Out) -> None:
    assert main(["targets"]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"native: {targets.native().name} ")
    assert "neon" in output
    assert main(["targets", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["native"]["name"] in table["targets"]


def test_main_returns_errors_it_does_not_raise_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise TessellaError("no")

    monkeypatch.setattr(cli, "_run", fail)
    assert main([]) == 2


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


@pytest.mark.parametrize("interpreted", [[], ["--interpret", "nn"]])
def test_an_input_that_is_fed_is_known(reshaping: str, interpreted: list[str], capsys: Out) -> None:
    np.save("shape.npy", np.array([3, -1]))
    assert main(["run", reshaping, "--input", "shape=@shape.npy", *interpreted]) == 0
    assert "[3, 2]" in capsys.readouterr().out
