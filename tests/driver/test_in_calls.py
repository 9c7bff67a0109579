"""Log records of compilations: all of them at INFO, and those that delay a call as warnings."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tessella
from tessella.driver.model.model import MAX_EXECUTABLES
from tessella.frontends.trace.jitted import USUAL
from tessella.support.errors import InputError
from tessella.tools.cli import main
from tests.native import normal
from tests.tools.networks import classifier, open_batch

Log = pytest.LogCaptureFixture


def rows(count: int) -> np.ndarray:
    return np.ones((count, 4), np.float32)


def warnings(log: Log) -> list[str]:
    return [r.getMessage() for r in log.records if r.levelno == logging.WARNING]


def test_a_model_is_compiled_for_each_new_shape(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "tessella")
    model = tessella.compile(open_batch(), dims="fixed")
    for count in (1, 1):
        model(rows(count))
    [record] = [r for r in caplog.records if r.name == "tessella.compile"]
    warning = record.getMessage()
    assert record.levelno == logging.WARNING
    assert warning.startswith("a model was compiled inside a call, which took 0.")
    assert "its inputs have new shapes: x [1, 4]. " in warning
    assert "one for these" in warning
    assert "tessella.compile(.., prepare=True)" in warning
    for count in (2, 3, 4):
        model(rows(count))
    later = caplog.records[1:]
    assert [record.levelno for record in later] == 3 * [logging.INFO]
    assert "inside a call, in 0." in later[-1].getMessage()
    assert "inputs have new shapes: x [4, 4]" in later[-1].getMessage()


def test_the_range_of_a_program_is_told(caplog: Log) -> None:
    model = tessella.compile(open_batch(), dims={})
    model(rows(20))
    [warning] = warnings(caplog)
    assert "new shapes: x [20, 4]; the new program serves N from 16. " in warning


def test_one_warning_for_a_model_with_subprograms(caplog: Log) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
g (float start, float limit) => (float[n] y) {
    most = Constant<value = int64 {9223372036854775807}>()
    go = Constant<value = bool {1}>()
    last, y = Loop(most, go, start) <body = body (int64 i, bool c, float at)
        => (bool c2, next, row) {
        row = Identity(at)
        next = Add(at, at)
        c2 = Less(next, limit)
    }>
}""")
    start = np.array(1, np.float32)
    caplog.set_level(logging.INFO, "tessella")
    model = tessella.compile(proto)
    for count in (1, 3, 5):
        model(start, np.array(count, np.float32))
    [warning] = warnings(caplog)
    assert "a part of a model was compiled inside a call" in warning
    caplog.clear()
    model = tessella.compile(proto, prepare=True)
    caplog.clear()
    for count in (1, 3, 5):
        model(start, np.array(count, np.float32))
    assert not caplog.records


def test_a_new_size_opens_a_dimension(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "tessella")
    model = tessella.compile(open_batch())
    for count in (4, 5, 6, 4, 15):
        assert model(rows(count)).shape == (count, 3)
    messages = [r.getMessage() for r in caplog.records if r.name == "tessella.compile"]
    assert len(messages) == 2
    assert "x [4, 4]. " in messages[0]
    assert messages[1].endswith("x [5, 4]; the new program serves N from 2 to 15")


def test_all_sizes_are_prepared(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "tessella")
    model = tessella.compile(open_batch())
    model.prepare()
    assert len(caplog.records) == 4
    for count in (0, 1, 2, 20):
        assert model(rows(count)).shape == (count, 3)
    assert len(caplog.records) == 4
    with pytest.raises(InputError, match="each set of sizes has a program"):
        tessella.compile(open_batch(), dims="fixed").prepare()


def divided() -> onnx.ModelProto:
    """A slice whose end is in the middle of a range of sizes."""
    return onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
g (float[n, 4] x) => (float[k, 4] y) {
    start = Constant<value = int64[1] {0}>()
    end = Constant<value = int64[1] {100}>()
    y = Slice(x, start, end)
}""")


def unequal() -> onnx.ModelProto:
    """Two names of one dimension: nothing says that they are equal."""
    return onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
g (float[a, 4] x, float[b, 4] z) => (float[c, 4] y) { y = Add(x, z) }""")


@pytest.mark.parametrize("proto", [open_batch(), divided()])
def test_compiled_ahead(proto: onnx.ModelProto, compiled: list[str], caplog: Log) -> None:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    model = tessella.compile(proto, prepare=True)
    made = len(compiled)
    assert made >= 4
    for count in (0, 1, 2, 15, 16, 100, 101, 1000):
        x = normal(count, 4)
        wanted: Any = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-6)
    assert len(compiled) == made
    assert not warnings(caplog)


def test_a_session_is_compiled_ahead(compiled: list[str], caplog: Log) -> None:
    session = tessella.InferenceSession(open_batch().SerializeToString(), prepare=True)
    made = len(compiled)
    for count in (0, 1, 2, 40):
        session.run(None, {"x": rows(count)})
    assert (made, len(compiled)) == (4, 4)
    assert not warnings(caplog)


def test_sizes_that_only_a_call_can_compile_are_named(compiled: list[str], caplog: Log) -> None:
    model = tessella.compile(unequal(), prepare=True)
    [warning] = warnings(caplog)
    assert "calls may still have to compile: a from 2 to 15, as " in warning
    made = len(compiled)
    np.testing.assert_array_equal(model(rows(2), rows(2)), 2 * rows(2))
    assert len(compiled) == made
    model(rows(3), rows(3))
    assert len(compiled) == made + 1


def test_artifacts_whose_ranges_are_divided(tmp_path: Path, capsys: Any) -> None:
    onnx.save(divided(), tmp_path / "m.onnx")
    onnx.save(unequal(), tmp_path / "u.onnx")
    argv = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tsl")]
    assert main([*argv, "--dim", "n=0..1000"]) == 0
    model = tessella.load(tmp_path / "m.tsl")
    for count in (0, 1, 2, 99, 100, 101, 1000):
        x = normal(count, 4)
        np.testing.assert_array_equal(model(x), x[:100])
    argv = ["compile", str(tmp_path / "u.onnx"), "-o", str(tmp_path / "u.tsl")]
    assert main([*argv, "--dim", "a=1..30", "--dim", "b=1..8"]) == 2
    assert "cannot stay open in programs" in capsys.readouterr().err


def test_shapes_that_take_turns(caplog: Log) -> None:
    model = tessella.compile(open_batch(), dims="fixed")
    for count in range(1, MAX_EXECUTABLES + 2):
        model.prepare({"x": (count, 4)})
    assert not warnings(caplog)
    model(rows(1))
    [warning] = warnings(caplog)
    assert "more than 8 sets of shapes take turns" in warning


def test_a_model_is_prepared(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "tessella")
    model = tessella.compile(open_batch())
    for count in (1, 2, 3):
        model.prepare({"x": (count, 4)})
    assert len(caplog.records) == 3
    assert "a model was compiled for x [3, 4], in 0." in caplog.records[-1].getMessage()
    for count in (3, 2, 1):
        assert model(rows(count)).shape == (count, 3)
    assert len(caplog.records) == 3
    fixed = tessella.compile(classifier())
    fixed.prepare({})


@pytest.mark.parametrize(
    "shapes, message",
    [
        ({}, "an input is missing: x"),
        ({"q": (1, 4)}, "an input is missing: x.*; an input is unknown: 'q'"),
        ({"x": (1, 5)}, r"does not fit the input 'x'(.|\n)*found: \(1, 5\)"),
        ({"x": (1, 4, 1)}, "does not fit the input 'x'"),
        ({"x": (-1, 4)}, "does not fit the input 'x'"),
        ({"x": ("n", 4)}, "does not fit the input 'x'"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tessella.compile(open_batch()).prepare(shapes)


def test_a_function_has_a_few_programs(caplog: Log) -> None:
    @tessella.jit(dims="fixed")
    def twice(x: np.ndarray) -> np.ndarray:
        return x + x

    for count in range(1, USUAL + 1):
        twice(rows(count))
    assert not warnings(caplog)
    for count in (90, 91):
        twice(rows(count))
    [warning] = warnings(caplog)
    assert "twice was compiled inside a call" in warning
    assert "it was called with x: float32 [90, 4]" in warning
    assert "pad arrays to a few shapes" in warning


def test_static_values_are_told(caplog: Log) -> None:
    caplog.set_level(logging.INFO, "tessella")

    @tessella.jit(static_argnames="n")
    def times(x: np.ndarray, n: int) -> np.ndarray:
        return x * n

    times(rows(2), 3)
    assert "called with x: float32 [2, 4], n=3" in caplog.records[-1].getMessage()


def test_passes_and_modules_are_for_who_debugs(caplog: Log) -> None:
    caplog.set_level(logging.DEBUG, "tessella")
    tessella.compile(classifier())
    names = {record.name for record in caplog.records}
    assert {"tessella.compile", "tessella.passes", "tessella.llvm"} <= names
    messages = [record.getMessage() for record in caplog.records]
    assert any(m.startswith("pick-kernels took 0.") for m in messages)
    assert any(m.startswith("code 1/") for m in messages)


SILENT = """
import sys, numpy as np, tessella
model = tessella.compile(sys.argv[1], dims="fixed")
model.prepare({"x": (1, 4)})
print("silent so far", file=sys.stderr, flush=True)
model(np.ones((2, 4), np.float32))
model(np.ones((3, 4), np.float32))
"""


def test_without_a_handler_only_warnings_show(tmp_path: Path) -> None:
    onnx.save(open_batch(), tmp_path / "open.onnx")
    command = [sys.executable, "-c", SILENT, str(tmp_path / "open.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    assert first == "silent so far"
    assert second.startswith("a model was compiled inside a call")


@pytest.mark.usefixtures("compiled_anew")
def test_timings() -> None:
    model = tessella.compile(classifier())
    timings = model.timings
    expected = {"import", "pick-kernels", "plan-weights", "emit", "llvm", "llvm work", "link"}
    assert expected <= set(timings)
    assert all(seconds >= 0 for seconds in timings.values())
    assert timings["llvm work"] > 0
