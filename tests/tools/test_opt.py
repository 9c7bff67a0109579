"""`tessella-opt`, called in this process; `tests/filecheck/tools` has what it prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from xdsl.ir import Attribute

from tessella.driver.stages.located import LocatedError
from tessella.runtime.weights import WeightStore
from tessella.tools.expectations import read_expectations
from tessella.tools.opt import main

FINE = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %a : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
"""
WRONG = FINE.replace(": tensor<4xf32>\n  func", ": tensor<5xf32>\n  func")

Out = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.mlir"
    path.write_text(FINE)
    return path


def test_exit_codes_are_those_of_mlir_opt(file: Path, capsys: Out) -> None:
    assert main([str(file)]) == 0
    assert main([str(file), "--no-such-option"]) == 1
    assert main([str(file), "-t", "no-such-target"]) == 1
    assert main([str(file), "-p", "no-such-pass"]) == 1
    assert main([str(file), "-p", "cse{"]) == 1
    assert main([str(file.with_name("nobody.mlir"))]) == 1
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0
    file.write_text(WRONG)
    capsys.readouterr()
    assert main([str(file)]) == 1
    assert f"{file}:2: error: nn.relu" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tessella-opt --list-passes", "tessella targets"])
def test_a_closed_pipe_is_no_error(command: str) -> None:
    name, *arguments = command.split()
    module = {"tessella": "tessella.tools.cli", "tessella-opt": "tessella.tools.opt"}[name]
    run = f"import sys; from {module} import main; sys.exit(main({arguments}))"
    process = subprocess.Popen(
        [sys.executable, "-c", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate()
    assert (process.returncode, error) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is a device of Linux")
def test_a_full_disk_is_an_error_without_a_traceback() -> None:
    run = "import sys; from tessella.tools.opt import main; sys.exit(main(['--list-passes']))"
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([sys.executable, "-c", run], stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 1
    assert ended.stderr == b"error: the system refuses: No space left on device\n"


def test_verification_can_be_left_out(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # xDSL switches it off in the whole process: this puts it back
    monkeypatch.setattr(Attribute, "__post_init__", Attribute.__post_init__)
    file.write_text(WRONG)
    assert main([str(file), "--disable-verify"]) == 0


def test_output_goes_to_a_file_only_if_all_went_well(file: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.mlir"
    assert main([str(file), "-o", str(output)]) == 0
    assert "nn.relu" in output.read_text()
    output.unlink()
    file.write_text(WRONG)
    assert main([str(file), "-o", str(output)]) == 1
    assert not output.exists()


@pytest.mark.parametrize(
    "text, message",
    [
        ("\x01", "x.mlir:1: error: "),
        (FINE + '"' + 60 * "a", "x.mlir:5: error: a string is not closed"),
        (FINE + '"a\\q"', "x.mlir:5: error: a string is not closed"),
        (FINE + '// "a', ""),
    ],
)
def test_text_that_is_no_ir(file: Path, text: str, message: str, capsys: Out) -> None:
    file.write_text(text)
    assert main([str(file)]) == (1 if message else 0)
    assert message in capsys.readouterr().err


def test_a_chunk_of_comments_is_an_empty_module(file: Path, capsys: Out) -> None:
    file.write_text(f"// RUN: nothing\n\n// -----\n{FINE}")
    assert main([str(file), "--split-input-file"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("builtin.module {\n}\n")
    assert "// -----\nbuiltin.module {\n  func.func @f" in output


def test_the_file_of_a_stage_is_read(file: Path, capsys: Out) -> None:
    stage = file.with_suffix(".nn")
    file.rename(stage)
    assert main([str(stage)]) == 0
    assert "nn.relu" in capsys.readouterr().out


PACKED = """
tile.kernel @k(%x: tensor<2x3xf32> {tile.packed = #place.at<x86, f32, packed<[1, 0]>>})
    -> (tensor<2xf32>) {
  %y = tile.empty : tensor<2xf32>
  tile.return %y : tensor<2xf32>
}
tile.segment @segment_0() -> (tensor<2xf32>) {
  %w = nn.weight @w : tensor<2x3xf32>
  %y = tile.call @k(%w) : tensor<2xf32>
  tile.return %y : tensor<2xf32>
}
"""


def test_passes_meet_the_weights_beside_the_input(file: Path, capsys: Out) -> None:
    """The pass gives the packed weight another name where the store holds the usual one."""
    file.write_text(PACKED)
    run = [str(file), "-p", "pack-operands"]
    assert main(run) == 0  # without weights, too
    assert "nn.weight @w.packed :" in capsys.readouterr().out
    weights = WeightStore()
    weights.add("w", np.zeros((2, 3), np.float32))
    weights.add("w.packed", np.zeros(6, np.float32))
    weights.save(file.with_suffix(".weights"))
    assert main(run) == 0
    assert "nn.weight @w.packed_1 :" in capsys.readouterr().out
    file.with_suffix(".weights").write_bytes(b"broken")
    assert main(run) == 1
    assert "cannot read the weights" in capsys.readouterr().err


def test_an_error_of_a_pass_names_it(file: Path, capsys: Out) -> None:
    file.write_text("func.func @f() {\n  func.return\n}")
    assert main([str(file), "-p", "outline-segments"]) == 1
    assert f"{file}: error: outline-segments: " in capsys.readouterr().err
    file.write_text(f"{file.read_text()}// expected-error@unknown {{{{no function @main}}}}")
    assert main([str(file), "-p", "outline-segments", "--verify-diagnostics"]) == 0


def test_verify_diagnostics_decides_on_the_exit_code(file: Path, capsys: Out) -> None:
    check = [str(file), "--verify-diagnostics"]
    assert main(check) == 0
    file.write_text(WRONG)
    assert main(check) == 1
    file.write_text(WRONG.replace("%0 =", "// expected-error@+1 {{5xf32}}\n  %0 =", 1))
    assert main(check) == 0
    file.write_text(FINE.replace("%0 =", "// expected-error@+1 {{5xf32}}\n  %0 =", 1))
    capsys.readouterr()
    assert main(check) == 1
    assert f'{file}:2: error: expected error "5xf32" was not' in capsys.readouterr().err


# ** expectations **

PLACES = """a // expected-error {{here}}
b
// expected-error@+2 {{two below}} expected-error@-1 {{one above}}
// expected-error@below {{below}}
// expected-error@above {{above}}
c
// expected-error@unknown {{anywhere}}"""


def test_the_lines_that_comments_mean() -> None:
    expectations = read_expectations(PLACES, 11)
    found = [(e.line, e.text, e.comment_line) for e in expectations.expected]
    assert found == [
        (11, "here", 11),
        (15, "two below", 13),
        (12, "one above", 13),
        (16, "below", 14),
        (12, "above", 15),
        (None, "anywhere", 17),
    ]
    assert not expectations.complaints


def test_each_comment_stands_for_one_error() -> None:
    expectations = read_expectations("// expected-error {{wrong}}", 1)
    problem = LocatedError(1, "all\n  wrong")
    assert expectations.compare([problem]) == []
    assert [p.message for p in expectations.compare([])] == [
        'expected error "wrong" was not produced'
    ]
    (extra,) = expectations.compare([problem, problem])
    assert extra.message.startswith("unexpected error")
    assert len(expectations.compare([LocatedError(2, "wrong")])) == 2


@pytest.mark.parametrize(
    "comment",
    [
        "// expected-error no braces",
        "// expected-error@ {{no line}}",
        "// expected-error@+1 {{not closed}",
        "// expected-warning {{there are no warnings}}",
        "// expected-error {{one}} expected-error two",
    ],
)
def test_comments_that_cannot_be_read_are_errors(comment: str) -> None:
    expectations = read_expectations(comment, 1)
    assert any("cannot read" in problem.message for problem in expectations.compare([]))
