"""Shapes that a model computes are known at import; what cannot be known is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tessella.dialects.graph import main_function
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import ResourceError, ShapeError
from tests.frontends.onnx.models import Array, model, one_node, run, value

node = helper.make_node
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def int64(*values: int) -> Array:
    return np.array(values, np.int64)


def test_shape_subgraph() -> None:
    """Exporters write ``x.view(x.size(0), -1)`` this way."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Concat", ["n1", "rest"], ["new"], axis=0),
        node("Reshape", ["x", "new"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axes": int64(0), "rest": int64(-1)}
    proto = model(nodes, [value("x", ["n", 3, 4])], [value("y", ["n", 12])], weights=weights)
    np.testing.assert_array_equal(run(proto, {"x": X})[0], X.reshape(2, 12))
    graph = OnnxSource(proto).graph({"x": (5, 3, 4)})
    names = [op.name for op in main_function(graph.module).body.block.ops]
    assert names == ["nn.reshape", "func.return"]
    assert len(graph.weights) == 0


def test_computed_sizes_and_bounds() -> None:
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Mul", ["shape", "factors"], ["sizes"]),
        node("Resize", ["x", "", "", "sizes"], ["big"], mode="nearest"),
        node("Size", ["x"], ["size"]),
        node("Cast", ["size"], ["limit"], to=1),
        node("Clip", ["big", "", "limit"], ["y"]),
    ]
    weights = {"factors": int64(1, 2, 1)}
    proto = model(nodes, [value("x", [2, 3, 4])], [value("y", [2, 6, 4])], weights=weights)
    np.testing.assert_array_equal(run(proto, {"x": X})[0], X.repeat(2, 1).clip(None, 24))


@pytest.mark.parametrize(
    "op, constants, attributes",
    [
        ("Reshape", {"shape": int64(6, 4)}, {}),
        ("Expand", {"shape": int64(5, 1, 1, 1)}, {}),
        ("Tile", {"repeats": int64(1, 2, 1)}, {}),
        ("Slice", {"starts": int64(0), "ends": int64(2)}, {}),
        ("Pad", {"pads": int64(0, 0, 0, 1, 1, 1)}, {}),
        ("Unsqueeze", {"axes": int64(0)}, {}),
        ("ReduceSum", {"axes": int64(0)}, {}),
        ("TopK", {"k": int64(2)}, {"outputs": 2}),
        ("Split", {"split": int64(1, 3)}, {"outputs": 2, "axis": 2}),
        ("CumSum", {"axis": np.array(1)}, {}),
    ],
)
def test_what_has_to_be_known(op: str, constants: dict[str, Array], attributes: Any) -> None:
    feeds = {"x": X, **constants}
    known = one_node(op, feeds, opset=18, constants=list(constants), **attributes)
    run(known, {"x": X})
    unknown = one_node(op, feeds, opset=18, **attributes)
    with pytest.raises(ShapeError, match="has to be known when the model is imported") as caught:
        OnnxSource(unknown).graph({name: array.shape for name, array in feeds.items()})
    text = str(caught.value)
    assert f"node '{op}_0' ({op})" in text
    assert repr(next(iter(constants))) in text
    assert "values=" in text


@pytest.mark.parametrize(
    "shape, allowzero",
    [((5, 5), 0), ((-1, 5), 0), ((-1, -1), 0), ((-2, 12), 0), ((2, 3, 4, 0), 0), ((0, -1), 1)],
)
def test_reshapes_that_do_not_fit(shape: tuple[int, ...], allowzero: int) -> None:
    feeds = {"x": X, "shape": int64(*shape)}
    proto = one_node("Reshape", feeds, opset=14, constants=["shape"], allowzero=allowzero)
    with pytest.raises(ShapeError, match="Reshape_0"):
        OnnxSource(proto).graph({"x": X.shape})


SLICES = [
    slice(None, None, -1),
    slice(-100, 100),
    slice(100, -100, -1),
    slice(2, 0, -1),
    slice(2, -(2**63), -1),
    slice(0, 2**63 - 1, 2),
    slice(-1, -100, -2),
    slice(3, 1),
    slice(-3, -1),
]


@pytest.mark.parametrize("part", SLICES, ids=str)
def test_slices_as_numpy_has_them(part: slice) -> None:
    step = part.step or 1
    start = part.start if part.start is not None else 2**62 if step < 0 else 0
    stop = part.stop if part.stop is not None else -(2**62) if step < 0 else 2**62
    feeds = {"x": X, "s": int64(start), "e": int64(stop), "a": int64(-1), "t": int64(step)}
    proto = one_node("Slice", feeds, opset=13, constants=["s", "e", "a", "t"])
    # -100 as the end of a backward slice means "before the first", as in NumPy
    np.testing.assert_array_equal(run(proto, {"x": X})[0], X[:, :, part], strict=True)


def test_constants_that_are_too_large_to_compute() -> None:
    feeds = {"start": np.array(0), "limit": np.array(2**40), "delta": np.array(1)}
    proto = one_node("Range", feeds, opset=11, constants=list(feeds))
    with pytest.raises(ResourceError, match="Range_0"):
        OnnxSource(proto).graph({})
    feeds = {"x": int64(1), "depth": np.array(2**40), "values": int64(0, 1)}
    proto = one_node("OneHot", feeds, opset=11, constants=["depth", "values"])
    with pytest.raises(ResourceError, match="OneHot_0"):
        OnnxSource(proto).graph({"x": (1,)})


def test_range() -> None:
    for start, limit, delta in ((0, 5, 2), (5, 0, -2), (3, 3, 1), (0, 5, -1), (-7, 2, 3)):
        feeds = {"a": np.array(start), "b": np.array(limit), "c": np.array(delta)}
        proto = one_node("Range", feeds, opset=11, constants=list(feeds))
        np.testing.assert_array_equal(run(proto, {})[0], np.arange(start, limit, delta))
