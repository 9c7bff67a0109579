"""Programs that are made for the values of inputs, as shapes depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tessella
from tessella.driver.model.model import MAX_EXECUTABLES
from tessella.driver.specialise.by_value import MAX_ELEMENTS
from tessella.frontends.onnx import importer
from tessella.support.errors import InputError, ResourceError, UnknownValueError
from tests.frontends.onnx.models import Array, model, one_node, value

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def by_onnxruntime(proto: onnx.ModelProto, feeds: dict[str, Array]) -> list[Any]:
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return list(session.run(None, feeds))


def reshaping(rows: int | str = 2) -> onnx.ModelProto:
    """A Reshape to what the input `sizes` says, and a last dimension of 2."""
    nodes = [
        helper.make_node("Concat", ["sizes", "two"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    inputs = [value("x", [rows, 3, 4]), value("sizes", ["n"], np.int64)]
    return model(nodes, inputs, [value("y", None)], weights={"two": ints(2)})


@pytest.mark.parametrize("rows", [2, "rows"])
def test_each_value_has_a_program(rows: int | str, compiled: list[str]) -> None:
    program = tessella.compile(reshaping(rows))
    assert [info.name for info in program.inputs] == ["x", "sizes"]
    for sizes in ([12], [3, 4], [3, -1], [12], [3, 4]):
        np.testing.assert_array_equal(program(X, ints(*sizes)), X.reshape(*sizes, 2), strict=True)
    assert len(compiled) == 3


@pytest.mark.parametrize(
    "op, known, attributes",
    [
        ("Expand", {"shape": ints(5, 1, 1, 1)}, {}),
        ("Slice", {"starts": ints(1), "ends": ints(-1), "axes": ints(2), "steps": ints(1)}, {}),
        ("Pad", {"pads": ints(0, 0, 1, 1, 1, 0)}, {}),
        ("Split", {"split": ints(1, 3)}, {"outputs": 2, "axis": 2}),
        ("CumSum", {"axis": np.array(1)}, {}),
        ("Trilu", {"k": np.array(-1)}, {}),
        ("ReduceSum", {"axes": ints(0, 2)}, {}),
    ],
)
def test_operands_that_have_to_be_known(op: str, known: dict[str, Array], attributes: Any) -> None:
    feeds = {"x": X, **known}
    proto = one_node(op, feeds, opset=18, **attributes)
    found = tessella.compile(proto).run(None, feeds)
    for y, expected in zip(found, by_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [2.0, 0.5])
def test_floating_point_values(scale: float) -> None:
    nodes = [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")]
    inputs = [value("x", [1, 1, 4, 4]), value("scales", [4])]
    proto = model(nodes, inputs, [value("y", None)])
    feeds = {
        "x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4),
        "scales": np.array([1, 1, scale, scale], np.float32),
    }
    (expected,) = by_onnxruntime(proto, feeds)
    np.testing.assert_allclose(tessella.compile(proto).run(None, feeds)[0], expected, rtol=1e-6)


def test_an_input_is_read_by_its_value_and_as_a_tensor() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        helper.make_node("Add", ["shape", "shape"], ["z"]),
    ]
    inputs = [value("x", [6]), value("shape", [2], np.int64)]
    proto = model(nodes, inputs, [value("y", None), value("z", [2], np.int64)])
    y, z = tessella.compile(proto)(X.reshape(-1)[:6], ints(3, 2))
    assert (y.shape, z.tolist()) == ((3, 2), [6, 4])


def test_a_model_is_imported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    imports: list[object] = []
    make_main = importer.make_main
    monkeypatch.setattr(importer, "make_main", lambda *a: imports.append(a) or make_main(*a))
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Slice", ["flat", "starts", "ends"], ["y"]),
        helper.make_node("Tile", ["x", "repeats"], ["z"]),
    ]
    feeds = {
        "x": X,
        "shape": ints(-1),
        "starts": ints(1),
        "ends": ints(3),
        "repeats": ints(1, 2, 1),
    }
    inputs = [value(name, list(a.shape), a.dtype) for name, a in feeds.items()]
    proto = model(nodes, inputs, [value("y", ["n"]), value("z", ["a", "b", "c"])])
    y, z = tessella.compile(proto).run(None, feeds)
    np.testing.assert_array_equal(y, X.reshape(-1)[1:3], strict=True)
    np.testing.assert_array_equal(z, np.tile(X, (1, 2, 1)), strict=True)
    assert len(imports) == 1


def test_the_number_of_programs_is_bounded(compiled: list[str]) -> None:
    proto = one_node(
        "Slice", {"x": X, "starts": ints(0), "ends": ints(1), "axes": ints(2)}, opset=18
    )
    program = tessella.compile(proto, places=["host"], dims="fixed")
    count = MAX_EXECUTABLES + 1
    for start in (*range(count), *range(count)):
        y = program(X, ints(-start), ints(99), ints(2))
        np.testing.assert_array_equal(y, X[:, :, -start:] if start else X[:, :, 0:], strict=True)
    assert len(compiled) == 2 * count


def test_values_ahead_of_calls(compiled: list[str]) -> None:
    program = tessella.compile(reshaping())
    with pytest.raises(UnknownValueError, match="'sizes'"):
        program.prepare({"sizes": [2]})
    with pytest.raises(InputError, match="unknown"):
        program.prepare({}, {"size": ints(3, 4)})
    with pytest.raises(InputError, match="float64"):
        program.prepare({}, {"sizes": [3.0, 4.0]})
    program.prepare({}, {"sizes": [3, 4]})
    assert compiled == ["program"]
    assert program(X, ints(3, 4)).shape == (3, 4, 2)
    assert compiled == ["program"]


def test_an_explanation_has_the_values() -> None:
    program = tessella.compile(reshaping())
    program(X, ints(3, 4))
    assert "made for sizes = [3, 4]: shapes depend on this" in str(program.explain())
    assert "shape [3, 4, 2]" in program.as_text("nn")


def test_a_value_that_does_not_fit_may_be_followed_by_one_that_does() -> None:
    program = tessella.compile(reshaping())
    with pytest.raises(tessella.TessellaError, match="Reshape"):
        program(X, ints(5))
    assert program(X, ints(12)).shape == (12, 2)


@pytest.mark.parametrize("size", [MAX_ELEMENTS + 1, "n"])
def test_an_input_that_is_too_large(size: int | str) -> None:
    inputs = [value("x", ["m"]), value("at", [size], np.int64)]
    proto = model([helper.make_node("Tile", ["x", "at"], ["y"])], inputs, [value("y", None)])
    with pytest.raises(ResourceError, match="input 'at'"):
        tessella.compile(proto)(X.reshape(-1), np.ones(MAX_ELEMENTS + 1, np.int64))


def test_kept_programs_are_known_by_value(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: list[str]
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    data = reshaping().SerializeToString()
    for sizes in ([12], [3, 4]):
        assert tessella.compile(data)(X, ints(*sizes)).shape == (*sizes, 2)
    assert len(compiled) == 2
    monkeypatch.setattr(importer, "open_model", None)
    for sizes in ([12], [3, 4]):
        assert tessella.compile(data)(X, ints(*sizes)).shape == (*sizes, 2)
    assert len(compiled) == 2
