"""The classes of ONNX Runtime's package, beside its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import tessella
from tessella.driver.model.model import Model
from tessella.support.errors import InputError, OptionError
from tessella.targets import threads
from tests.driver.test_model import two_outputs
from tests.native import normal

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
IMAGE = normal(1, 1, 8, 8)
Log = pytest.LogCaptureFixture


def runs(module: Any, model: Path, **options: Any) -> tuple[Any, ...]:
    """Return what a program that was written for ONNX Runtime prints."""
    settings = module.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.graph_optimization_level = module.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.execution_mode = module.ExecutionMode.ORT_SEQUENTIAL
    assert "CPUExecutionProvider" in module.get_available_providers()
    session = module.InferenceSession(str(model), settings, ["CPUExecutionProvider"], **options)
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    meta = session.get_modelmeta()
    outputs = [
        *session.run(None, {x.name: IMAGE}),
        *session.run([], {x.name: IMAGE}),
        *session.run([y.name], {x.name: IMAGE}, None),
    ]
    seen = [(each.name, list(each.shape), each.type) for each in (x, y)]
    names = ("producer_name", "graph_name", "domain", "description", "graph_description")
    told = [getattr(meta, name) for name in names], dict(meta.custom_metadata_map)
    return outputs, (seen, told, session.get_providers(), session.get_provider_options())


def test_a_program_for_onnxruntime_runs(caplog: Log) -> None:
    outputs, facts = runs(tessella, DIGITS)
    expected, known = runs(onnxruntime, DIGITS)
    assert facts == known
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)
    assert not caplog.records


def test_metadata(tmp_path: Path) -> None:
    proto = two_outputs()
    onnx.helper.set_model_props(proto, {"labels": "a b"})
    proto.producer_name, proto.doc_string, proto.model_version = "pytest", "a product", 3
    onnx.save(proto, tmp_path / "m.onnx")
    for origin in (tmp_path / "m.onnx", proto.SerializeToString()):
        found = tessella.InferenceSession(origin).get_modelmeta()
        wanted = onnxruntime.InferenceSession(proto.SerializeToString()).get_modelmeta()
        for name in ("producer_name", "description", "version", "custom_metadata_map"):
            assert getattr(found, name) == getattr(wanted, name)


def test_defaults_are_those_of_onnxruntime() -> None:
    ours, theirs = tessella.SessionOptions(), onnxruntime.SessionOptions()
    own = {"sizes", "sizes_by_denotation", "initializers", "entries", "providers"}
    for name in vars(ours).keys() - own:
        known = getattr(theirs, name)
        assert getattr(ours, name) == (known if isinstance(known, str) else int(known)), name


def test_threads() -> None:
    options = tessella.SessionOptions()
    assert tessella.InferenceSession(DIGITS).model.threads == threads.default()
    options.intra_op_num_threads = 3
    session = tessella.InferenceSession(DIGITS, options)
    assert session.model.threads == 3
    assert session.get_session_options() is options


def test_what_is_ignored_is_told(caplog: Log) -> None:
    options = tessella.SessionOptions()
    options.inter_op_num_threads = 4
    options.optimized_model_filepath = "optimized.onnx"
    options.add_provider("OpenVINOExecutionProvider", {})
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    tessella.InferenceSession(
        DIGITS,
        options,
        ["CUDAExecutionProvider", ("CPUExecutionProvider", {"arena": 1})],
        enable_fallback=1,
    )
    (record,) = caplog.records
    text = record.getMessage()
    assert record.name == "tessella.session"
    for part in (
        "inter_op_num_threads (ops run one after the other",
        "optimized_model_filepath (`session.model.save`",
        "the provider OpenVINOExecutionProvider",
        "session.intra_op.allow_spinning (an entry",
        "the provider CUDAExecutionProvider",
        "options of providers",
        "enable_fallback",
    ):
        assert part in text


def test_options_of_onnxruntime_are_read(caplog: Log) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    assert tessella.InferenceSession(DIGITS, options).model.threads == 2
    assert not caplog.records
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    tessella.InferenceSession(DIGITS, options)
    assert "execution_mode" in caplog.text
    assert "graph_optimization_level (all is optimised)" in caplog.text


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="has no 'threads'"):
        tessella.SessionOptions().threads = 3


def test_sizes_of_dimensions() -> None:
    """A program is compiled for them, and for no other in a call."""
    options = tessella.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    session = tessella.InferenceSession(two_outputs("n").SerializeToString(), options)
    assert isinstance(session.model, Model)
    assert "<4x5xf32>" in session.model.as_text()
    (info,) = session.get_inputs()
    assert info.shape == [4, 5]
    assert all("n" not in each.shape for each in session.get_outputs())
    with pytest.raises(InputError, match=r"expected: \(4, 5\)\n  found: \(3, 5\)"):
        session.run(None, {info.name: np.zeros((3, 5), np.float32)})
    with pytest.raises(InputError, match="'n' is out of its bounds"):
        session.model.run(None, {info.name: np.zeros((3, 5), np.float32)})
    options.add_free_dimension_override_by_name("m", 4)
    with pytest.raises(OptionError, match=r"no open dimension 'm'\n  expected: some of 'n'"):
        tessella.InferenceSession(two_outputs("n").SerializeToString(), options)


def test_sizes_of_dimensions_of_an_artifact(tmp_path: Path) -> None:
    """It may have programs for others, which the session refuses."""
    path = tmp_path / "m.tsl"
    model = tessella.compile(two_outputs("n").SerializeToString(), dims={"n": (2, 9)})
    model(np.zeros((3, 5), np.float32))
    model.save(path)
    options = tessella.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    session = tessella.InferenceSession(path, options)
    (info,) = session.get_inputs()
    assert info.shape == [4, 5]
    x = np.ones((4, 5), np.float32)
    same = zip(session.run(None, {info.name: x}), model.run(None, {info.name: x}), strict=True)
    for found, wanted in same:
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InputError, match=r"expected: \(4, 5\)\n  found: \(3, 5\)"):
        session.run(None, {info.name: x[:3]})
    assert len(model(x[:3])) == len(tessella.InferenceSession(path).run(None, {info.name: x[:3]}))


def test_options_of_a_run_are_ignored_with_a_warning(caplog: Log) -> None:
    session = tessella.InferenceSession(DIGITS)
    for options in (None, onnxruntime.RunOptions(), tessella.RunOptions()):
        session.run(None, {"image": IMAGE}, options)
    assert not caplog.records
    for module in (onnxruntime, tessella):
        options = module.RunOptions()
        options.log_verbosity_level = 3
        session.run(None, {"image": IMAGE}, options)
    (record,) = caplog.records
    assert "log_verbosity_level (the level is that of the logger" in record.getMessage()


def test_a_session_of_what_is_no_file() -> None:
    origins: list[Any] = [None, 3, [b""], onnx.ModelProto()]
    for origin in origins:
        with pytest.raises(tessella.InvalidModelError, match="this is not a model"):
            tessella.InferenceSession(origin)


def test_wrong_inputs() -> None:
    with pytest.raises(InputError, match="missing: image"):
        tessella.InferenceSession(DIGITS).run(None, {})


def test_an_artifact_needs_numpy_alone(tmp_path: Path, caplog: Log) -> None:
    path = tmp_path / "m.tsl"
    tessella.compile(DIGITS).save(path)
    for origin in (path, path.read_bytes()):
        session = tessella.InferenceSession(origin)
        np.testing.assert_array_equal(
            session.run(None, {"image": IMAGE})[0], tessella.compile(DIGITS)(IMAGE)
        )
    assert session.get_modelmeta().graph_name == ""
    assert "no metadata" in caplog.text
    program = (
        "import sys, tessella\n"
        f"tessella.InferenceSession({str(path)!r}, tessella.SessionOptions())\n"
        "print(*{'xdsl', 'llvmlite', 'onnx'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


def _identity(type: int) -> bytes:
    ins, outs = (onnx.helper.make_tensor_value_info(n, type, ["n", 2]) for n in "xy")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [ins], [outs]
    )
    opset = onnx.helper.make_opsetid("", 17)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


FLOAT, HALF, INT8, INT64, BOOL = (
    getattr(onnx.TensorProto, name) for name in ("FLOAT", "FLOAT16", "INT8", "INT64", "BOOL")
)


@pytest.mark.parametrize(
    "type, feed",
    [
        *[(type, [[1, 2], [3, 4]]) for type in (FLOAT, HALF, INT8, INT64)],
        *[(type, [[True, False]]) for type in (FLOAT, INT8, BOOL)],
        *[(type, [[1.5, -2.25], [3, True]]) for type in (FLOAT, HALF)],
        (FLOAT, [np.ones(2), [1 << 40, 1e30]]),
        (BOOL, [[1, 0]]),
    ],
)
def test_lists_as_feeds(type: int, feed: Any) -> None:
    model = _identity(type)
    expected = np.asarray(onnxruntime.InferenceSession(model).run(None, {"x": feed})[0])
    (found,) = tessella.InferenceSession(model).run(None, {"x": feed})
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(tessella.compile(model)(feed), expected)


@pytest.mark.parametrize(
    "type, feed, hint",
    [
        (INT64, [[1.5, 2]], "pass np.asarray(x, 'int64')"),
        (INT8, [[300, 2]], "pass np.asarray(x, 'int8')"),
        (BOOL, [[2, 0]], "pass np.asarray(x, 'bool')"),
        (FLOAT, [["a", "b"]], "pass np.asarray(x, 'float32')"),
        (FLOAT, np.ones((1, 2)), "pass np.asarray(x, 'float32')"),
    ],
)
def test_feeds_that_another_type_would_change(type: int, feed: Any, hint: str) -> None:
    with pytest.raises(InputError, match="wrong element type") as caught:
        tessella.InferenceSession(_identity(type)).run(None, {"x": feed})
    assert caught.value.hint == hint
