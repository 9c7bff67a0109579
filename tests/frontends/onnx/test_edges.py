"""Edge cases of the operators' definitions that exporters write, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.support.errors import ExecutionError, InvalidModelError, ShapeError, UnsupportedError
from tests.frontends.onnx.models import Array, model, one_node, value
from tests.models import run_onnxruntime as runtime
from tests.native import normal
from tests.sampling import sample

node = helper.make_node
NAN, INF = np.nan, np.inf
MODES = ["linear", "nearest", "cubic"]
"""Of GridSample."""


def compiled(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    return tessella.compile(proto).run(None, dict(feeds))


def positions(most: float, *shape: int) -> Array:
    """float32, from -most to most."""
    return np.random.default_rng(shape).uniform(-most, most, shape).astype(np.float32)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize(
    "size, settings",
    [
        (2, {"kernel_shape": [3, 3], "strides": [2, 2]}),
        (2, {"kernel_shape": [5, 5], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        (3, {"kernel_shape": [3, 3], "strides": [4, 4], "dilations": [2, 2]}),
        (1, {"kernel_shape": [2, 3], "strides": [2, 3]}),
    ],
)
def test_a_window_larger_than_the_padded_input(
    op: str, size: int, settings: dict[str, Any]
) -> None:
    x = {"x": normal(1, 3, size, size)}
    proto = one_node(op, x, opset=20, ceil_mode=1, **settings)
    np.testing.assert_allclose(compiled(proto, x)[0], runtime(proto, x)[0], rtol=1e-6)


@pytest.mark.parametrize("count_include_pad", [0, 1])
def test_what_counts_in_a_window_over_the_end(count_include_pad: int) -> None:
    x = {"x": normal(1, 3, 2, 2)}
    for kernel, pads in ((3, 0), (5, 1)):
        proto = one_node(
            "AveragePool", x, opset=20, ceil_mode=1, kernel_shape=[kernel] * 2, strides=[2, 2],
            pads=[pads] * 4, count_include_pad=count_include_pad,
        )  # fmt: skip
        np.testing.assert_allclose(compiled(proto, x)[0], runtime(proto, x)[0], rtol=1e-6)


def test_a_window_for_which_there_is_no_position() -> None:
    x = {"x": normal(1, 3, 2, 2)}
    for strides in ([1, 1], [2, 2]):
        proto = one_node("MaxPool", x, opset=20, ceil_mode=1, kernel_shape=[9, 9], strides=strides)
        with pytest.raises(ShapeError, match="larger than the padded input"):
            compiled(proto, x)


@pytest.mark.parametrize(
    "shape, wanted",
    [
        ((0, 3, 4), [0, -1]),
        ((0, 3, 4), [-1, 12]),
        ((0, 3, 4), [0, -1, 2]),
        ((0, 3, 4), [0, 0, -1]),
        ((0, 3, 4), [0, 2, -1]),
        ((2, 0, 4), [2, -1, 4]),
    ],
)
def test_an_empty_batch_is_reshaped_as_a_batch_of_one(
    shape: tuple[int, ...], wanted: list[int]
) -> None:
    """ONNX Runtime tells for a batch of one what the other dimensions are."""
    weights = {"shape": np.array(wanted, np.int64)}
    symbolic = [size or "n" for size in shape]
    proto = model(
        [node("Reshape", ["x", "shape"], ["y"])],
        [value("x", symbolic)],
        [value("y", None)],
        weights=weights,
    )
    one = np.zeros([size or 1 for size in shape], np.float32)
    (expected,) = runtime(proto, {"x": one})
    (found,) = compiled(proto, {"x": np.zeros(shape, np.float32)})
    batch = next(d for d, size in enumerate(expected.shape) if size == 1)
    assert found.shape == tuple(0 if d == batch else n for d, n in enumerate(expected.shape))


def test_what_an_empty_reshape_cannot_mean() -> None:
    x = {"x": np.zeros((0, 3), np.float32), "shape": np.array([0, -1], np.int64)}
    proto = one_node("Reshape", x, opset=21, constants=["shape"], allowzero=1)
    with pytest.raises(ShapeError, match="-1 cannot be known"):
        compiled(proto, {"x": x["x"]})


def untyped(proto: onnx.ModelProto) -> onnx.ModelProto:
    for output in proto.graph.output:
        output.ClearField("type")
    return proto


def test_outputs_without_a_type() -> None:
    x = {"x": normal(2, 3)}
    nodes = [
        node("ArgMax", ["x"], ["i"], axis=1),
        node("Relu", ["x"], ["y"]),
        node("Greater", ["x", "y"], ["z"]),
    ]
    for shape in ([2, 3], ["n", 3]):
        outputs = [value(name, None) for name in "iyz"]
        proto = untyped(model(nodes, [value("x", shape)], outputs))
        compiled_model = tessella.compile(proto)
        assert [info.dtype for info in compiled_model.outputs] == ["int64", "float32", "bool"]
        assert not proto.graph.output[0].HasField("type")
        for found, expected in zip(compiled_model.run(None, x), runtime(proto, x), strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, 2**64 - 1, -(2**53) - 1])
def test_padding_with_an_integer_that_float64_lacks(dtype: type, number: int) -> None:
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        pytest.skip("no value of this type")
    feeds = {
        "x": np.arange(4).reshape(2, 2).astype(dtype),
        "pads": np.array([1, 0, 2, -1]),
        "value": np.array(number, dtype),
    }
    proto = untyped(one_node("Pad", feeds, opset=21, constants=["pads", "value"]))
    x = {"x": feeds["x"]}
    np.testing.assert_array_equal(compiled(proto, x)[0], runtime(proto, x)[0], strict=True)


def reference(proto: onnx.ModelProto, x: Array) -> Array:
    (result,) = ReferenceEvaluator(proto).run(None, {"x": x})
    return np.asarray(result)


RESIZED = [
    {"mode": "cubic"},
    {"mode": "cubic", "exclude_outside": 1},
    {"mode": "cubic", "antialias": 1},
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "exclude_outside": 1},
]


@pytest.mark.parametrize("settings", RESIZED)
def test_one_element_whose_window_goes_beyond_both_ends(settings: dict[str, Any]) -> None:
    feeds = {"x": normal(1, 1, 3, 9), "roi": np.zeros(0, np.float32)}
    feeds |= {"scales": np.zeros(0, np.float32), "sizes": np.array([1, 1, 1, 1])}
    proto = one_node("Resize", feeds, opset=18, constants=["roi", "scales", "sizes"], **settings)
    (found,) = compiled(proto, {"x": feeds["x"]})
    np.testing.assert_allclose(found, reference(proto, feeds["x"]), rtol=1e-4, atol=1e-6)


def test_nearest_elements_that_exclude_those_outside_are_refused() -> None:
    feeds = {"x": normal(1, 1, 3, 9), "roi": np.zeros(0, np.float32)}
    feeds |= {"scales": np.zeros(0, np.float32), "sizes": np.array([1, 1, 6, 4])}
    proto = one_node(
        "Resize",
        feeds,
        opset=18,
        constants=["roi", "scales", "sizes"],
        mode="nearest",
        exclude_outside=1,
    )
    with pytest.raises(UnsupportedError, match="exclude_outside is not supported"):
        compiled(proto, {"x": feeds["x"]})


@pytest.mark.sweep
@pytest.mark.parametrize("settings", RESIZED)
@pytest.mark.parametrize("size", [9, 14, 20, 31])
def test_what_is_not_finite_stays_in_its_window(settings: dict[str, Any], size: int) -> None:
    """The result of finite elements is ONNX's where no element of the window is another."""
    x = normal(1, 1, 20, 20)
    feeds = {"x": x, "roi": np.zeros(0, np.float32), "scales": np.zeros(0, np.float32)}
    feeds["sizes"] = np.array([1, 1, size, size])
    proto = one_node("Resize", feeds, opset=18, constants=["roi", "scales", "sizes"], **settings)
    expected = reference(proto, x)
    changed = x.copy()
    changed[..., 4, 15], changed[..., 17, 2] = INF, NAN
    other = np.where(np.isfinite(changed), x, np.float32(100))
    touched = reference(proto, other)
    (found,) = compiled(proto, {"x": changed})
    same = np.equal(touched, expected)
    assert same.mean() > 0.3
    np.testing.assert_allclose(found[same], expected[same], rtol=1e-4, atol=1e-5)
    assert not np.isfinite(found[abs(touched - expected) > 1e-2]).any()


@pytest.mark.parametrize(
    "blocks, settings",
    [(9, {}), (16, {"pads": [1, 0, 0, 1]}), (25, {"pads": [2] * 4, "dilations": [2, 2]})],
)
def test_columns_that_are_not_finite_stay_in_their_elements(
    blocks: int, settings: dict[str, Any]
) -> None:
    x = normal(2, 2 * 3 * 3, blocks)
    x[0, 4, 5], x[1, 7, 2], x[1, 0, 3] = NAN, INF, 1e30
    feeds = {"x": x, "image": np.array([5, 5]), "block": np.array([3, 3])}
    proto = one_node("Col2Im", feeds, opset=18, constants=["image", "block"], **settings)
    found, wanted = compiled(proto, {"x": x})[0], runtime(proto, {"x": x})[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "block, blocks, settings",
    [
        ([2, 3], 4 * 3, {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
        ([3, 3], 2 * 2, {"strides": [4, 4]}),
        ([3, 2], 4 * 4, {"strides": [2, 2], "dilations": [1, 2], "pads": [1, 1, 1, 1]}),
    ],
)
def test_columns_by_steps(block: list[int], blocks: int, settings: dict[str, Any]) -> None:
    """Columns of windows that overlap, of windows that leave gaps, and of dilated windows."""
    x = normal(2, 3 * block[0] * block[1], blocks)
    feeds = {"x": x, "image": np.array([7, 8]), "block": np.array(block)}
    proto = one_node("Col2Im", feeds, opset=18, constants=["image", "block"], **settings)
    found, wanted = compiled(proto, {"x": x})[0], runtime(proto, {"x": x})[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


TYPES = list(product([("float32", "float64"), ("float16", "float32")], MODES))


@pytest.mark.parametrize("types, mode", sample(TYPES))
def test_a_grid_of_another_type(types: tuple[str, str], mode: str) -> None:
    x = normal(2, 3, 5, 4).astype(types[0])
    feeds = {"x": x, "grid": positions(1.2, 2, 3, 6, 2).astype(types[1])}
    (y,) = compiled(one_node("GridSample", feeds, opset=20, mode=mode), feeds)
    singles = {name: array.astype(np.float32) for name, array in feeds.items()}
    want = runtime(one_node("GridSample", singles, opset=20, mode=mode), singles)[0]
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y, want.astype(x.dtype), rtol=2e-3, atol=2e-3)


def test_the_largest_of_no_elements() -> None:
    x = {"x": np.zeros((5, 0, 3), np.float32)}
    for axis in range(3):
        proto = one_node("Hardmax", x, opset=13, axis=axis)
        np.testing.assert_array_equal(compiled(proto, x)[0], runtime(proto, x)[0])


@pytest.mark.parametrize("scale", [np.array(2, np.float32), np.array(3, np.int32)])
def test_integers_are_quantized(scale: Array) -> None:
    opset = 18 if scale.dtype == np.float32 else 19
    feeds = {"x": np.arange(-4, 20, dtype=np.int32), "scale": scale, "zero": np.array(1, np.uint8)}
    proto = one_node("QuantizeLinear", feeds, opset=opset, constants=["scale", "zero"])
    wanted = np.clip(np.rint(feeds["x"] / scale) + 1, 0, 255)
    np.testing.assert_array_equal(compiled(proto, {"x": feeds["x"]})[0], wanted)


PADDINGS = list(product(MODES, ["zeros", "border", "reflection"], [0, 1]))


@pytest.mark.sweep
@pytest.mark.parametrize("mode, padding, aligned", sample(PADDINGS))
def test_positions_far_outside(mode: str, padding: str, aligned: int) -> None:
    x = normal(2, 3, 5, 4)
    feeds = {"x": x, "grid": positions(2.5, 2, 6, 7, 2)}
    settings: dict[str, Any] = {"padding_mode": padding, "align_corners": aligned}
    proto = one_node("GridSample", feeds, opset=20, mode=mode, **settings)
    found, wanted = compiled(proto, feeds)[0], runtime(proto, feeds)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("size", [(1, 1, 3, 4), (2, 3, 4, 5), (1, 2, 2, 3, 4), (2, 1, 3, 2, 2)])
def test_grids_of_one_image_and_of_several(size: tuple[int, ...], aligned: int) -> None:
    """The body that ONNX gives squeezes a batch of one away."""
    rank = len(size) - 2
    theta = normal(size[0], rank, rank + 1)
    feeds = {"theta": theta, "size": np.array(size)}
    proto = one_node("AffineGrid", feeds, opset=20, constants=["size"], align_corners=aligned)
    found, wanted = (
        compiled(proto, {"theta": theta})[0],
        runtime(proto, {"theta": theta})[0],
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_erf_of_integers() -> None:
    x = {"x": np.arange(-3, 9, dtype=np.int16)}
    proto = one_node("Erf", x, opset=13)
    np.testing.assert_array_equal(compiled(proto, x)[0], reference(proto, x["x"]))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_booleans_are_scattered(reduction: str) -> None:
    feeds = {"x": np.array([True, False, True, False]), "i": np.array([[0], [1], [2], [1]])}
    feeds["u"] = np.array([False, True, False, True])
    proto = one_node("ScatterND", feeds, opset=18, reduction=reduction)
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    np.testing.assert_array_equal(compiled(proto, feeds)[0], np.asarray(wanted))


@pytest.mark.parametrize("count", [0, 7])
def test_a_region_of_a_wrong_length(count: int) -> None:
    x, scales = np.zeros((1, 1, 4, 4), np.float32), np.array([1, 1, 2, 2], np.float32)
    feeds = {"x": x, "roi": np.zeros(count, np.float32), "scales": scales}
    settings: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    proto = one_node("Resize", feeds, opset=18, constants=["roi", "scales"], **settings)
    with pytest.raises(ShapeError, match="roi has a start and an end for each axis"):
        tessella.compile(proto).run(None, {"x": x})


@pytest.mark.parametrize("stash_type", [1, 11])
def test_an_attribute_that_no_converter_reads_is_refused(stash_type: int) -> None:
    """Unless it has its default value."""
    x = {"x": normal(2, 3), "scale": normal(3)}
    proto = one_node("LayerNormalization", x, opset=17, stash_type=stash_type)
    if stash_type == 1:
        compiled(proto, x)
        return
    with pytest.raises(UnsupportedError, match="stash_type"):
        compiled(proto, x)


@pytest.mark.parametrize(
    "shape, settings",
    [
        ((2, 3, 9, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ((1, 2, 9, 7), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "dilations": [2, 1]}),
        ((1, 2, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((2, 2, 5, 6), {"kernel_shape": [2, 2], "storage_order": 1}),
        ((2, 1, 11), {"kernel_shape": [3], "strides": [2], "auto_pad": "SAME_UPPER"}),
        ((1, 2, 5, 4, 6), {"kernel_shape": [2, 1, 3], "pads": [1, 0, 1, 0, 0, 1]}),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_places_of_the_largest_elements(
    shape: tuple[int, ...], settings: dict[str, Any], dtype: type[np.generic]
) -> None:
    """The position of the first of equal maxima is returned."""
    x = (normal(*shape) * 2 + 8).round().astype(dtype)
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **settings)
    outputs = [value("y", None, dtype), value("i", None, np.int64)]
    proto = model([node], [value("x", list(shape), dtype)], outputs, opset=12)
    for found, expected in zip(compiled(proto, {"x": x}), runtime(proto, {"x": x}), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


def test_infinite_elements_lie_outside_of_the_padding() -> None:
    x = np.full((1, 1, 3, 4), -np.inf, np.float32)
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 3], pads=[1] * 4)
    outputs = [value("y", None), value("i", None, np.int64)]
    _, places = compiled(model([node], [value("x", list(x.shape))], outputs), {"x": x})
    np.testing.assert_array_equal(places[0, 0, 0], [0, 0, 1, 2])


BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7]]], np.float32)


def _suppression(most: Any, overlap: Any, *constants: str) -> onnx.ModelProto:
    feeds = _numbers_of_suppression(most, overlap)
    made = one_node("NonMaxSuppression", feeds, opset=11, constants=constants)
    made.graph.output[0].CopyFrom(value("y0", None, np.int64))
    return made


def _numbers_of_suppression(most: Any, overlap: Any) -> dict[str, Array]:
    numbers = {"most": np.asarray(most, np.int64), "overlap": np.asarray(overlap, np.float32)}
    return {"boxes": BOXES, "scores": SCORES, **numbers}


@pytest.mark.parametrize("most, overlap", [([], [0.5]), ([2, 1], [0.5]), ([2], []), ([[2]], 0.5)])
def test_numbers_of_a_suppression_have_one_element(most: Any, overlap: Any) -> None:
    with pytest.raises(ShapeError, match="is not a single number"):
        compiled(_suppression(most, overlap), _numbers_of_suppression(most, overlap))


@pytest.mark.parametrize("overlap", [1.5, -0.5, NAN])
def test_a_threshold_of_overlaps_is_from_0_to_1(overlap: float) -> None:
    with pytest.raises(InvalidModelError, match="iou_threshold is out of range"):
        tessella.compile(_suppression([2], [overlap], "overlap"))
    model = tessella.compile(_suppression([2], [overlap]))
    with pytest.raises(ExecutionError, match="out of range"):
        model.run(None, _numbers_of_suppression([2], [overlap]))
    for fine in (0.0, 0.5, 1.0):
        feeds = _numbers_of_suppression([2], [fine])
        wanted = runtime(_suppression([2], [fine]), feeds)[0]
        np.testing.assert_array_equal(model.run(None, feeds)[0], wanted)


@pytest.mark.parametrize("height, width", [(0, 1), (1, 0), (0, 0)])
@pytest.mark.parametrize("samples", [0, 2])
def test_regions_without_elements(height: int, width: int, samples: int) -> None:
    feeds = {
        "x": normal(1, 2, 4, 4),
        "rois": np.array([[0, 0, 2, 2], [1, 1, 3, 3]], np.float32),
        "batches": np.zeros(2, np.int64),
    }
    sizes: dict[str, Any] = {
        "output_height": height,
        "output_width": width,
        "sampling_ratio": samples,
    }
    result = compiled(one_node("RoiAlign", feeds, opset=16, **sizes), feeds)[0]
    assert (result.shape, result.dtype) == ((2, 2, height, width), np.float32)


@pytest.mark.parametrize("length", [-1, 5])
def test_lengths_of_sequences_that_there_are_not(length: int) -> None:
    x = {"x": normal(4, 3), "lengths": np.array([0, 4, 2])}
    model = tessella.compile(one_node("ReverseSequence", x, opset=10))
    np.testing.assert_array_equal(
        model.run(None, x)[0], runtime(one_node("ReverseSequence", x, opset=10), x)[0]
    )
    with pytest.raises(ExecutionError, match="out of range"):
        model.run(None, {**x, "lengths": np.array([1, length, 2])})


def test_lengths_for_another_batch() -> None:
    x = {"x": normal(4, 3), "lengths": np.array([1, 2])}
    with pytest.raises(ShapeError, match="sequence_lens has another shape than the batch"):
        compiled(one_node("ReverseSequence", x, opset=10), x)
