"""Examples from the pages of ONNX Runtime's Python API, run with its package and with tessella.

https://onnxruntime.ai/docs/api/python/api_summary.html and the examples that it links to.
"""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, get_ident
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.datasets import get_example

import tessella
from tessella.support.errors import ExecutionError, InputError, OptionError, TessellaError
from tests.native import normal

CPU = ["CPUExecutionProvider"]
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
W = np.array([1, 10, 100], np.float32)


def model(*, denotation: str = "", is_input: bool = True) -> bytes:
    """``y = x w``, where the weight is an initializer that callers may give too; ``z = -y``."""
    x, w, y, z = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in {"x": ["n", 3], "w": [3], "y": ["n", 3], "z": ["n", 3]}.items()
    )
    x.type.tensor_type.shape.dim[0].denotation = denotation
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    inputs = [x, w] if is_input else [x]
    graph = helper.make_graph(nodes, "g", inputs, [y, z], [numpy_helper.from_array(W, "w")])
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


@pytest.fixture(params=[onnxruntime, tessella], ids=["onnxruntime", "tessella"])
def ort(request: pytest.FixtureRequest) -> Any:
    """The package."""
    return request.param


@pytest.fixture
def session(ort: Any) -> Any:
    return ort.InferenceSession(model(), providers=CPU)


def test_load_and_predict(ort: Any) -> None:
    session = ort.InferenceSession(get_example("sigmoid.onnx"), providers=CPU)
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.shape, x.type) == ("x", [3, 4, 5], "tensor(float)")
    assert (y.name, y.shape, y.type) == ("y", [3, 4, 5], "tensor(float)")
    assert str(x) == "NodeArg(name='x', type='tensor(float)', shape=[3, 4, 5])"
    data = normal(3, 4, 5)
    (result,) = session.run([y.name], {x.name: data})
    np.testing.assert_allclose(result, 1 / (1 + np.exp(-data)), rtol=1e-5)


def test_profiling(ort: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ort.SessionOptions()
    options.enable_profiling = True
    session = ort.InferenceSession(get_example("mul_1.onnx"), options, providers=CPU)
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    for _ in range(2):
        session.run(None, {"X": x})
    assert session.get_profiling_start_time_ns() > 1e18
    file = session.end_profiling()
    assert file.startswith("onnxruntime_profile__")
    events = json.loads(Path(file).read_text())
    for event in events:
        assert event.keys() >= {"cat", "pid", "tid", "ts", "dur", "ph", "name", "args"}
        assert event["ph"] == "X"
        assert event["dur"] >= 0
    names = [event["name"] for event in events]
    assert names.count("model_run") == 2
    assert "session_initialization" in names
    nodes = [event for event in events if event["cat"] == "Node"]
    assert len(nodes) >= 2
    assert all(event["name"].endswith("_kernel_time") for event in nodes)
    assert all(event["args"]["provider"] == CPU[0] for event in nodes)
    runs = [event for event in events if event["name"] == "model_run"]
    # each kernel is inside a run
    slack = 2
    for node in nodes:
        begins, ends = node["ts"], node["ts"] + node["dur"]
        assert any(r["ts"] - slack <= begins and ends <= r["ts"] + r["dur"] + slack for r in runs)


def test_a_profile_that_was_not_asked_for(session: Any) -> None:
    assert session.end_profiling() == ""


def test_ort_value(ort: Any, session: Any) -> None:
    x = X.copy()
    value = ort.OrtValue.ortvalue_from_numpy(x)
    assert value.device_name() == "cpu"
    assert value.shape() == [2, 3]
    assert value.data_type() == "tensor(float)"
    assert value.element_type() == TensorProto.FLOAT
    assert value.tensor_size_in_bytes() == 24
    assert value.data_ptr() == x.ctypes.data
    assert value.is_tensor()
    assert value.has_value()
    assert not value.is_sparse_tensor()
    assert not value.is_tensor_sequence()
    np.testing.assert_array_equal(value.numpy(), x)
    np.testing.assert_array_equal(session.run(["y"], {"x": value})[0], x * W)
    np.testing.assert_array_equal(np.asarray(value), x)
    np.testing.assert_array_equal(np.from_dlpack(value), x)
    assert value.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(ort.OrtValue.from_dlpack(x).numpy(), x)
    value.update_inplace(x + 1)
    np.testing.assert_array_equal(x, X + 1)
    with pytest.raises((RuntimeError, InputError)):
        value.update_inplace(np.zeros((3, 3), np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "uint8", "bool"])
def test_types_of_ort_values(dtype: str) -> None:
    found = [
        (value.data_type(), value.element_type(), value.shape())
        for ort in (onnxruntime, tessella)
        for value in [ort.OrtValue.ortvalue_from_shape_and_type([2, 0], np.dtype(dtype).type)]
    ]
    assert found[0] == found[1]


def test_an_ort_value_of_an_element_that_numpy_lacks(ort: Any) -> None:
    bits = np.array([0x3F80, 0x4000], np.uint16)
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, TensorProto.BFLOAT16)
    assert (value.data_type(), value.element_type()) == ("tensor(bfloat16)", TensorProto.BFLOAT16)
    if ort is tessella:
        own = tessella.OrtValue.ortvalue_from_numpy(np.array([1, 2], ml_dtypes.bfloat16))
        np.testing.assert_array_equal(own.numpy(), value.numpy())


def test_binding_of_an_input_and_an_output(session: Any) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], X * W)
    (value,) = binding.get_outputs()
    np.testing.assert_array_equal(value.numpy(), X * W)


def test_binding_of_addresses(session: Any) -> None:
    x, y = X.copy(), np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, TensorProto.FLOAT, y.shape, y.ctypes.data)
    for _ in range(2):
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, x * W)
        x += 1  # each run reads the memory anew


def test_binding_of_values(ort: Any, session: Any) -> None:
    x = ort.OrtValue.ortvalue_from_numpy(X)
    y = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x)
    binding.bind_ortvalue_output("y", y)
    binding.bind_output("z")
    binding.synchronize_inputs()
    session.run_with_iobinding(binding, ort.RunOptions())
    binding.synchronize_outputs()
    np.testing.assert_array_equal(y.numpy(), X * W)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu(), [X * W, -X * W])
    assert [value.shape() for value in binding.get_outputs()] == [[2, 3], [2, 3]]
    binding.clear_binding_outputs()
    with pytest.raises((RuntimeError, InputError)):
        session.run_with_iobinding(binding)


def test_bindings_that_do_not_fit(ort: Any, session: Any) -> None:
    with pytest.raises((RuntimeError, InputError)):
        session.io_binding().bind_cpu_input("q", X)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    with pytest.raises((ValueError, InputError)):
        ort.InferenceSession(model(), providers=CPU).run_with_iobinding(binding)
    with pytest.raises((ValueError, OptionError)):
        binding.bind_output("y", "cpu", 0, None, None, X.ctypes.data)


def test_runs_on_values(ort: Any, session: Any) -> None:
    (y,) = session.run_with_ort_values(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    np.testing.assert_array_equal(y.numpy(), X * W)


def test_run_async(ort: Any) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model(), options, providers=CPU)
    done, told = Event(), list[Any]()

    def callback(results: Any, user_data: Any, error: str) -> None:
        told.append((results, user_data, error, get_ident()))
        done.set()

    session.run_async(["z"], {"x": X}, callback, "data")
    assert done.wait(60)
    ((results, data, error, thread),) = told
    np.testing.assert_array_equal(results, [-X * W])
    assert (data, error, thread == get_ident()) == ("data", "", False)
    done.clear()
    session.run_async(None, {"x": X[:, :2]}, callback, 3)
    assert done.wait(60)
    results, data, error, _ = told[1]
    assert (list(results), data) == ([], 3)
    assert error


def test_run_options(ort: Any, session: Any) -> None:
    options = ort.RunOptions()
    options.log_severity_level = 1
    options.log_verbosity_level = 0
    options.logid = "run"
    options.only_execute_path_to_fetches = True
    options.add_run_config_entry("key", "value")
    assert options.get_run_config_entry("key") == "value"
    with pytest.raises((RuntimeError, OptionError)):
        options.get_run_config_entry("other")
    np.testing.assert_array_equal(session.run(["y"], {"x": X}, options), [X * W])
    options.terminate = True
    with pytest.raises(Exception, match="terminate") as caught:
        session.run(["y"], {"x": X}, options)
    assert ort is onnxruntime or isinstance(caught.value, ExecutionError)
    options.terminate = False
    np.testing.assert_array_equal(session.run(["y"], {"x": X}, options), [X * W])


def test_defaults_of_run_options() -> None:
    ours, theirs = tessella.RunOptions(), onnxruntime.RunOptions()
    for name in vars(ours).keys() - {"entries"}:
        assert getattr(ours, name) == getattr(theirs, name), name


def test_sizes_of_dimensions(ort: Any) -> None:
    for add in (
        "add_free_dimension_override_by_name",
        "add_free_dimension_override_by_denotation",
    ):
        options = ort.SessionOptions()
        getattr(options, add)("n" if add.endswith("name") else "DATA_BATCH", 2)
        session = ort.InferenceSession(model(denotation="DATA_BATCH"), options, providers=CPU)
        assert [each.shape for each in session.get_inputs()] == [[2, 3]]
        assert [each.shape for each in session.get_outputs()] == [[2, 3], [2, 3]]
        np.testing.assert_array_equal(session.run(["y"], {"x": X}), [X * W])


def test_open_dimensions(session: Any) -> None:
    assert [each.shape for each in session.get_inputs()] == [["n", 3]]


def test_initializers_that_a_run_overrides(session: Any) -> None:
    (w,) = session.get_overridable_initializers()
    assert (w.name, w.shape, w.type) == ("w", [3], "tensor(float)")
    np.testing.assert_array_equal(session.run(["y"], {"x": X}), [X * W])
    np.testing.assert_array_equal(session.run(["y"], {"x": X, "w": 2 * W}), [X * 2 * W])
    np.testing.assert_array_equal(session.run(["y"], {"x": X}), [X * W])


@pytest.mark.parametrize("is_input", [True, False])
def test_initializers_that_options_replace(ort: Any, is_input: bool) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(2 * W)
    options = ort.SessionOptions()
    options.add_initializer("w", value)
    session = ort.InferenceSession(model(is_input=is_input), options, providers=CPU)
    np.testing.assert_array_equal(session.run(["y"], {"x": X}), [X * 2 * W])
    assert len(session.get_overridable_initializers()) == is_input


def test_external_initializers(ort: Any, tmp_path: Path) -> None:
    proto = onnx.load_from_string(model(is_input=False))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    value = ort.OrtValue.ortvalue_from_numpy(5 * W)
    options = ort.SessionOptions()
    options.add_external_initializers(["w"], [value])
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), options, providers=CPU)
    np.testing.assert_array_equal(session.run(["y"], {"x": X}), [X * 5 * W])


def test_about_the_session(ort: Any, session: Any) -> None:
    session.disable_fallback()
    session.enable_fallback()
    session.set_providers(CPU)
    assert session.get_providers() == CPU
    assert session.get_provider_options() == {CPU[0]: {}}
    assert session.get_session_options().intra_op_num_threads == 0
    assert session.get_modelmeta().graph_name == "g"
    assert ort.get_device() == "CPU"
    assert CPU[0] in ort.get_available_providers()
    assert CPU[0] in ort.get_all_providers()
    options = ort.SessionOptions()
    assert not options.has_providers()
    options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
    with pytest.raises((RuntimeError, OptionError)):
        options.get_session_config_entry("none")


# ** what has no meaning here **


def refusals() -> dict[str, Any]:
    session, options = tessella.InferenceSession(model()), tessella.SessionOptions()
    value = tessella.OrtValue.ortvalue_from_numpy(X)
    binding = session.io_binding()
    return {
        "custom ops": lambda: options.register_custom_ops_library("x.so"),
        "devices": lambda: options.add_provider_for_devices([], {}),
        "adapters": lambda: tessella.RunOptions().add_active_adapter("x"),
        "assignment": session.get_provider_graph_assignment_info,
        "sparse": value.as_sparse_tensor,
        "another device": lambda: tessella.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
        "a value there": lambda: tessella.OrtValue.ortvalue_from_shape_and_type([2], float, "cuda"),
        "an output there": lambda: binding.bind_output("y", "cuda"),
        "an input there": lambda: binding.bind_input("x", "cuda", 0, float, [1], 0),
        "an element": lambda: tessella.OrtValue.ortvalue_from_numpy(np.ones(1, np.longdouble)),
        "a type": lambda: tessella.OrtValue.ortvalue_from_shape_and_type([2], 99),
        "bits": lambda: tessella.OrtValue.ortvalue_from_numpy_with_onnx_type(X, 16),
        "no tensor": lambda: tessella.OrtValue([X]).numpy(),
        "severity": lambda: tessella.set_default_logger_severity(7),
        "values": lambda: options.add_external_initializers(["w"], []),
        "an output": lambda: binding.bind_output("q"),
    }


def test_what_has_no_meaning_is_an_error() -> None:
    for name, call in refusals().items():
        with pytest.raises(TessellaError):
            raise AssertionError(f"{name}: {call()}")


def with_options(**values: Any) -> tessella.SessionOptions:
    options = tessella.SessionOptions()
    for name, value in values.items():
        setattr(options, name, value)
    return options


@pytest.mark.parametrize(
    "options, message",
    [
        ({"initializers": {"v": tessella.OrtValue(W)}}, "no initializer 'v'\n  expected: one of w"),
        ({"initializers": {"w": tessella.OrtValue(W[:2])}}, r"float32 \[3\]\n  found: float32"),
        ({"sizes_by_denotation": {"DATA_CHANNEL": 3}}, "denotations .*\n  expected: DATA_BATCH"),
    ],
)
def test_options_that_the_model_does_not_have(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        tessella.InferenceSession(model(denotation="DATA_BATCH"), with_options(**options))


def test_what_an_artifact_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "m.tsl"
    compiled = tessella.compile(model())
    compiled(X)
    compiled.save(path)
    session = tessella.InferenceSession(path)
    assert session.get_overridable_initializers() == []
    np.testing.assert_array_equal(session.run(["y"], {"x": X}), [X * W])
    for options in (
        with_options(initializers={"w": tessella.OrtValue(W)}),
        with_options(sizes_by_denotation={"DATA_BATCH": 2}),
    ):
        with pytest.raises(OptionError, match="artifact"):
            tessella.InferenceSession(path, options)


def test_the_level_of_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "tessella"):
        tessella.set_default_logger_severity(3)
        tessella.InferenceSession(model(), providers=["CUDAExecutionProvider"])
        assert not caplog.records
        tessella.set_default_logger_severity(2)
        tessella.set_default_logger_verbosity(1)
        tessella.InferenceSession(model(), providers=["CUDAExecutionProvider"])
        assert "CUDAExecutionProvider" in caplog.text


@pytest.mark.parametrize("name, code", [("bfloat16", 16), ("float8_e5m2", 19), ("int4", 22)])
def test_values_of_numbers_that_numpy_lacks(name: str, code: int) -> None:
    x = np.array([1, 2]).astype(getattr(ml_dtypes, name))
    value = tessella.OrtValue.ortvalue_from_numpy(x)
    assert (value.element_type(), value.data_type()) == (code, f"tensor({name.replace('_', '')})")
    value.update_inplace(x[::-1])
    assert value.numpy().dtype == x.dtype
    assert x.tolist() == [2, 1]


def test_values_of_strings() -> None:
    value = tessella.OrtValue.ortvalue_from_numpy(np.array(["a", "bc"], object))
    assert (value.element_type(), value.data_type()) == (8, "tensor(string)")
    value.update_inplace(np.array(["d", "e"]))
    assert value.numpy().tolist() == ["d", "e"]
