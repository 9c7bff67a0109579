"""Arguments of ``tessella.compile`` beside the options of the pipeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tessella
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import save_stage
from tessella.frontends.compile import open_source
from tessella.support.errors import InputError, OptionError, ResourceError, ShapeError
from tests.frontends.onnx.models import model, one_node, value

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def reshaping() -> onnx.ModelProto:
    """A shape that is the value of an input."""
    inputs = [value("x", [2, 3]), value("shape", [1], np.int64)]
    return model([helper.make_node("Reshape", ["x", "shape"], ["y"])], inputs, [value("y", ["n"])])


def test_constants_fix_the_values_of_inputs() -> None:
    compiled = tessella.compile(reshaping(), values={"shape": [-1]})
    assert [info.name for info in compiled.get_inputs()] == ["x"]
    np.testing.assert_array_equal(compiled(X), X.reshape(-1))


def test_a_shape_that_is_not_known_tells_of_constants() -> None:
    with pytest.raises(ShapeError) as caught:
        tessella.compile(reshaping()).prepare({})
    assert "tessella.compile(..., values={'shape': ...})" in str(caught.value)


def test_constants_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="'z'"):
        tessella.compile(reshaping(), values={"z": [1]})
    with pytest.raises(InputError, match="float64"):
        tessella.compile(reshaping(), values={"shape": [6.0]})
    with pytest.raises(ShapeError, match="'shape'"):
        tessella.compile(reshaping(), values={"shape": [2, 3]})


def test_max_bytes() -> None:
    proto = one_node("Relu", {"x": X}, opset=14)
    with pytest.raises(ResourceError, match="max_bytes"):
        tessella.compile(proto, max_bytes=X.nbytes - 1)
    np.testing.assert_array_equal(tessella.compile(proto, max_bytes=X.nbytes)(X), X)


def test_a_stage_file_has_its_constants(tmp_path: Path) -> None:
    source = open_source(reshaping(), values={"shape": [6]})
    lowered = lower(source.graph({"x": (2, 3)}), make_options(), stop="placed")
    path = tmp_path / "m.placed"
    save_stage(path, lowered.stages["placed"], lowered.weights)
    np.testing.assert_array_equal(tessella.compile(path)(X), X.reshape(-1))
    with pytest.raises(OptionError, match="for ONNX models"):
        tessella.compile(path, values={"shape": [6]})
    with pytest.raises(OptionError, match="for ONNX models"):
        tessella.compile(path, max_bytes=1 << 20)
