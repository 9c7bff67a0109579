"""Scores of classes as dictionaries, and dictionaries as inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.support.errors import ExecutionError, InputError, InvalidModelError, OptionError
from tests.models import run_onnxruntime

SCORES = np.array([[0.25, 0.5, 0.25], [1, 0, 0]], np.float32)


def zip_map(**keys: Any) -> onnx.ModelProto:
    """A model that adds 1 to scores and zips them."""
    nodes = [
        helper.make_node("Add", ["x", "one"], ["y"]),
        helper.make_node("ZipMap", ["y"], ["z"], domain="ai.onnx.ml", name="zip", **keys),
    ]
    element = TensorProto.INT64 if "classlabels_int64s" in keys else TensorProto.STRING
    value = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    row = helper.make_map_type_proto(element, value)
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_value_info("z", helper.make_sequence_type_proto(row))],
        [helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def of_map(op: str, key: int, value: int, result: int, **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", name="node", **attributes)
    element = helper.make_tensor_type_proto(value, [])
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_value_info("x", helper.make_map_type_proto(key, element))],
        [helper.make_tensor_value_info("y", result, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


KEYS = [{"classlabels_int64s": [7, 5, 9]}, {"classlabels_strings": ["a", "b", "c"]}]


@pytest.mark.parametrize("keys", KEYS, ids=["integers", "strings"])
def test_arrays_and_dictionaries(keys: dict[str, Any], tmp_path: Path) -> None:
    proto = zip_map(**keys)
    (array,) = tessella.compile(proto).run(None, {"x": SCORES})
    np.testing.assert_array_equal(array, SCORES + 1)
    model = tessella.compile(proto, maps="dictionaries")
    (found,) = model.run(None, {"x": SCORES})
    wanted = run_onnxruntime(proto, {"x": SCORES})[0]
    assert found == list(wanted)
    assert [[*row] for row in found] == [next(iter(keys.values()))] * 2
    model.save(tmp_path / "model.tsl")
    assert tessella.load(tmp_path / "model.tsl").run(None, {"x": SCORES})[0] == found


def test_a_session_returns_dictionaries() -> None:
    session = tessella.InferenceSession(zip_map(**KEYS[1]).SerializeToString())
    (found,) = session.run(None, {"x": SCORES})
    assert found[0] == {"a": 1.25, "b": 1.5, "c": 1.25}


def test_wrong_keys() -> None:
    with pytest.raises(InvalidModelError, match="two kinds"):
        tessella.compile(zip_map(), maps="dictionaries").run(None, {"x": SCORES})
    model = tessella.compile(zip_map(classlabels_int64s=[1]), maps="dictionaries")
    with pytest.raises(tessella.TessellaError, match="do not fit the keys"):
        model.run(None, {"x": SCORES})


def test_the_option_is_checked() -> None:
    with pytest.raises(OptionError, match=r"(?s)'maps'.*arrays or dictionaries"):
        tessella.compile(zip_map(**KEYS[0]), maps="lists")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "vocabulary, key, value, given",
    [
        ({"string_vocabulary": ["a", "b", "c"]}, TensorProto.STRING, TensorProto.FLOAT, {"c": 2.5}),
        ({"int64_vocabulary": [3, 1]}, TensorProto.INT64, TensorProto.FLOAT, {1: 2.0, 3: 4.0}),
    ],
)
def test_dictionaries_become_rows(
    vocabulary: dict[str, Any], key: int, value: int, given: Any
) -> None:
    proto = of_map("DictVectorizer", key, value, value, **vocabulary)
    (found,) = tessella.compile(proto).run(None, {"x": given})
    (wanted,) = run_onnxruntime(proto, {"x": given})
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_integers_of_dictionaries() -> None:
    types = TensorProto.STRING, TensorProto.INT64, TensorProto.INT64
    proto = of_map("DictVectorizer", *types, string_vocabulary=["a", "b"])
    given: Any = {"b": 5}
    (found,) = tessella.compile(proto).run(None, {"x": given})
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 5]]


def test_unknown_keys_and_other_values_are_refused() -> None:
    types = TensorProto.STRING, TensorProto.FLOAT, TensorProto.FLOAT
    model = tessella.compile(of_map("DictVectorizer", *types, string_vocabulary=["a"]))
    given: Any = {"b": 1.0}
    with pytest.raises(ExecutionError, match=r"(?s)unknown key.*'b'"):
        model.run(None, {"x": given})
    with pytest.raises(InputError, match="not a map"):
        model.run(None, {"x": 3})


@pytest.mark.parametrize("cast", ["TO_FLOAT", "TO_INT64"])
@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
def test_casts_of_maps(cast: str, form: str) -> None:
    result = TensorProto.FLOAT if cast == "TO_FLOAT" else TensorProto.INT64
    types = TensorProto.INT64, TensorProto.FLOAT, result
    proto = of_map("CastMap", *types, cast_to=cast, map_form=form, max_map=5)
    given: Any = {3: 1.5, 0: 2.0}
    (found,) = tessella.compile(proto).run(None, {"x": given})
    (wanted,) = run_onnxruntime(proto, {"x": given})
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
