"""External data is read from inside the model's folder, and from nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tessella.frontends.onnx import OnnxSource, load_model
from tessella.support.errors import InvalidModelError
from tests.frontends.onnx.models import model, value

DATA = np.arange(6, dtype=np.float32)


def save(folder: Path, **entries: str) -> Path:
    """A model beside its data, whose one tensor has these entries."""
    folder.mkdir(parents=True, exist_ok=True)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    add = helper.make_node("Add", ["x", "w"], ["y"])
    proto = model([add], [value("x", [6])], [value("y", [6])])
    proto.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def refused(path: Path, *texts: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        OnnxSource(path)
    assert not [text for text in texts if text not in str(caught.value)], str(caught.value)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with eight bytes and then the data, beside a secret."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights").write_bytes(bytes(8) + DATA.tobytes())
    (tmp_path / "secret").write_bytes(DATA.tobytes())
    return folder


@pytest.mark.parametrize("length", [{}, {"length": "24"}])
def test_data_in_the_folder(data: Path, length: dict[str, str]) -> None:
    path = save(data, location="weights", offset="8", **length)
    graph = OnnxSource(path).graph({"x": (6,)})
    np.testing.assert_array_equal(graph.weights["w"], DATA)
    proto = load_model(path)
    assert proto.graph.initializer[0].raw_data == DATA.tobytes()
    assert load_model(proto.SerializeToString()) == proto


def test_subfolder(data: Path) -> None:
    (data / "sub").mkdir()
    (data / "weights").rename(data / "sub" / "weights")
    path = save(data, location="sub/weights", offset="8")
    np.testing.assert_array_equal(OnnxSource(path).graph({"x": (6,)}).weights["w"], DATA)


@pytest.mark.parametrize(
    "location",
    ["../secret", "sub/../../secret", "/etc/passwd", "C:\\secret", "..\\secret", "\\\\host\\x", ""],
)
def test_names_that_leave_the_folder(data: Path, location: str) -> None:
    refused(save(data, location=location), "outside the model's folder", repr(location))


def test_links_that_leave_the_folder(data: Path) -> None:
    (data / "link").symlink_to(data.parent / "secret")
    refused(save(data, location="link"), "outside the model's folder")
    (data / "folder").symlink_to(data.parent)
    refused(save(data, location="folder/secret"), "outside the model's folder")
    (data / "loop").symlink_to(data / "loop")
    refused(save(data, location="loop"))


def test_links_of_a_download_cache(data: Path) -> None:
    """The model and its data are both links into one folder of blobs."""
    blobs, shown = data.parent / "blobs", data.parent / "shown"
    blobs.mkdir()
    shown.mkdir()
    save(data, location="weights", offset="8").rename(blobs / "a1")
    (data / "weights").rename(blobs / "b2")
    (shown / "model.onnx").symlink_to(blobs / "a1")
    (shown / "weights").symlink_to(blobs / "b2")
    graph = OnnxSource(shown / "model.onnx").graph({"x": (6,)})
    np.testing.assert_array_equal(graph.weights["w"], DATA)


@pytest.mark.parametrize(
    "entries, text",
    [
        ({"offset": "9"}, "over its file's end"),
        ({"offset": "99999999999999"}, "over its file's end"),
        ({"offset": "-1"}, "malformed offset"),
        ({"length": "-1"}, "malformed length"),
        ({"length": "4"}, "wrong length"),
        ({"length": "1_0"}, "malformed length"),
        ({"offset": "1" * 40}, "malformed offset"),
    ],
)
def test_sizes_and_offsets(data: Path, entries: dict[str, str], text: str) -> None:
    refused(save(data, location="weights", **entries), text, "'w'")


def test_absent_data(data: Path) -> None:
    refused(save(data, location="absent"), "cannot read external data", "'absent'")
    refused(save(data, location="."), "plain file")


def test_bytes_and_protos_have_no_folder(data: Path) -> None:
    path = save(data, location="weights", offset="8")
    for origin in (path.read_bytes(), onnx.load(path, load_external_data=False)):
        with pytest.raises(InvalidModelError, match="pass the model's path"):
            load_model(origin)


def test_data_that_changes_after_the_check(data: Path) -> None:
    source = OnnxSource(save(data, location="weights", offset="8"))
    (data / "weights").write_bytes(bytes(12))
    with pytest.raises(InvalidModelError, match="end"):
        source.graph({"x": (6,)})
    (data / "weights").unlink()
    (data / "weights").symlink_to(data.parent / "secret")
    with pytest.raises(InvalidModelError, match="outside"):
        source.graph({"x": (6,)})


def test_data_of_a_constant_node(data: Path) -> None:
    proto = onnx.load(save(data, location="weights", offset="8"), load_external_data=False)
    node = helper.make_node("Constant", [], ["w"], value=proto.graph.initializer[0])
    proto.graph.node.insert(0, node)
    del proto.graph.initializer[:]
    (data / "model.onnx").write_bytes(proto.SerializeToString())
    loaded = load_model(data / "model.onnx")
    assert loaded.graph.node[0].attribute[0].t.raw_data == DATA.tobytes()
