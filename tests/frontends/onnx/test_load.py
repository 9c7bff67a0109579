"""Files that are no model, or a broken one, are refused with a sentence that says where."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.frontends.onnx import OnnxSource, check, load_model
from tessella.frontends.onnx.validate import check_format
from tessella.support.errors import InvalidModelError, TessellaError
from tests.frontends.onnx.models import model, value


def relu(x: str = "x", y: str = "y", name: str = "") -> onnx.NodeProto:
    return helper.make_node("Relu", [x], [y], name=name)


def valid() -> onnx.ModelProto:
    return model([relu()], [value("x", [2, 3])], [value("y", [2, 3])])


def refused(proto: onnx.ModelProto | bytes | str | Path, *texts: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        load_model(proto)
    assert not [text for text in texts if text not in str(caught.value)], str(caught.value)


def test_path_bytes_and_proto_load(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(valid(), path)
    for origin in (path, str(path), path.read_bytes(), valid()):
        assert load_model(origin) == valid()


@pytest.mark.parametrize(
    "data",
    [b"", b"hello, this is no model", b"\x89PNG\r\n\x1a\n", b"PK\x03\x04" + bytes(60), bytes(100)],
)
def test_other_files(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    refused(path, "model.onnx")
    refused(data)


def test_every_truncation() -> None:
    data = valid().SerializeToString()
    for size in range(len(data)):
        try:
            check(data[:size])
        except InvalidModelError:
            continue
        # the end of the file holds the op set, without which it is version 1
        assert size > len(data) - 10


def test_random_bytes_and_mutations() -> None:
    rng = random.Random(0)
    data = valid().SerializeToString()
    for _ in range(500):
        mutated = bytearray(data)
        for _ in range(rng.choice([1, 2, 8])):
            mutated[rng.randrange(len(data))] = rng.randrange(256)
        for attempt in (bytes(mutated), rng.randbytes(rng.randrange(200))):
            try:
                source = OnnxSource(attempt, max_bytes=1 << 20)
                shapes = {
                    info.name: tuple(d if isinstance(d, int) else 2 for d in info.shape)
                    for info in source.inputs
                }
                source.graph(shapes)
            except TessellaError:
                pass


def test_no_file(tmp_path: Path) -> None:
    refused(tmp_path / "absent.onnx", "absent.onnx", "No such file")
    refused(tmp_path, "plain file")
    refused(Path("/dev/zero"), "plain file")


def test_cycle() -> None:
    nodes = [relu("b", "a", "first"), relu("a", "b", "second"), relu("a", "y")]
    refused(model(nodes, [value("x", [1])], [value("y", [1])]), "cycle", "'first'")


def test_use_before_definition() -> None:
    nodes = [relu("a", "y", "late"), relu("x", "a", "early")]
    refused(model(nodes, [value("x", [1])], [value("y", [1])]), "'late'", "before", "'early'")


def test_undefined_input_and_output() -> None:
    refused(model([relu("z")], [value("x", [1])], [value("y", [1])]), "'z'", "Relu_0")
    refused(model([relu()], [value("x", [1])], [value("other", [1])]), "'other'")


def test_duplicate_names() -> None:
    nodes = [relu("x", "y", "one"), relu("x", "y", "two")]
    refused(model(nodes, [value("x", [1])], [value("y", [1])]), "defined twice", "'two'")
    twice = [value("x", [1]), value("x", [1])]
    refused(model([relu()], twice, [value("y", [1])]), "two inputs", "'x'")
    proto = model([relu("w")], [], [value("y", [1])], weights={"w": np.zeros(1, np.float32)})
    proto.graph.initializer.append(proto.graph.initializer[0])
    refused(proto, "two initializers", "'w'")


def test_negative_dimensions() -> None:
    refused(model([relu()], [value("x", [2, -1])], [value("y", [2, 1])]), "negative", "'x'")
    proto = model([relu("w")], [], [value("y", [1])], weights={"w": np.zeros(1, np.float32)})
    proto.graph.initializer[0].dims[0] = -1
    refused(proto, "negative", "'w'")


@pytest.mark.parametrize("dims", [[3], [1 << 40], [1 << 62, 1 << 62], [0]])
def test_missing_initializer_data(dims: list[int]) -> None:
    for raw in (True, False):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims)
        if raw:
            tensor.raw_data = bytes(8)
        else:
            tensor.float_data.extend([1.0, 2.0])
        proto = model([relu("w")], [], [value("y", [1])])
        proto.graph.initializer.append(tensor)
        refused(proto, "does not fit", "'w'")


def test_op_set_of_unknown_domain() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], domain="com.example")
    refused(model([node], [value("x", [1])], [value("y", [1])]), "com.example")


def test_unknown_attribute_and_deprecated_op() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], colour="red")
    refused(model([node], [value("x", [1])], [value("y", [1])]), "colour")
    node = helper.make_node("Upsample", ["x", "s"], ["y"])
    inputs = [value("x", [1]), value("s", [1])]
    refused(model([node], inputs, [value("y", [1])]), "deprecated")


def test_text_that_is_not_utf8() -> None:
    data = valid().SerializeToString().replace(b"Relu", b"Re\xffu")
    refused(data, "UTF-8")


def test_newer_ir_version_warns() -> None:
    proto = valid()
    proto.ir_version = onnx.IR_VERSION + 1
    with pytest.warns(UserWarning, match="newer"):
        assert [info.name for info in OnnxSource(proto).inputs] == ["x"]
    proto.ir_version = 0
    refused(proto, "ir_version")


def test_initializers_that_are_inputs_too() -> None:
    weights = {"w": np.ones(3, np.float32)}
    node = helper.make_node("Add", ["x", "w"], ["y"])
    inputs = [value("x", [3]), value("w", [3])]
    proto = model([node], inputs, [value("y", [3])], weights=weights, opset=7)
    proto.ir_version = 3
    assert [info.name for info in OnnxSource(proto).inputs] == ["x"]


def test_too_large_a_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with open(path, "wb") as file:
        file.truncate(1 << 32)
    refused(path, "too large", "external data")


def _constant(count: int, *, dims: list[int] | None = None, output: str = "c") -> onnx.ModelProto:
    """A model that adds a Constant of so many elements."""
    data = np.arange(count, dtype=np.float32).tobytes()
    tensor = TensorProto(name="c", data_type=1, dims=dims or [count], raw_data=data)
    nodes = [
        helper.make_node("Constant", [], [output], value=tensor),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    return model(nodes, [value("x", [count])], [value("y", [count])])


def test_large_constants_are_not_copied_to_be_checked() -> None:
    assert check_format(_constant(1 << 18)).ByteSize() < 1000
    x = np.ones(1 << 18, np.float32)
    (y,) = tessella.compile(_constant(1 << 18)).run(None, {"x": x})
    np.testing.assert_array_equal(y, x + np.arange(1 << 18))


def test_large_constants_that_are_broken_are_refused() -> None:
    refused(_constant(1 << 14, dims=[1 << 15]), "data does not fit", "'value'")
    refused(_constant(1 << 14, output="x"), "defined twice", "'x'")
