"""Suppressed boxes and sampled regions against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import tessella
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.runtime.host import run
from tessella.support.errors import ExecutionError, ShapeError
from tests.frontends.onnx.models import one_node
from tests.native import EVERYWHERE, RUNNABLE, GraphBuilder, build

Array = npt.NDArray[Any]

# batches, classes, boxes, most
SHAPES = [(1, 1, 1, 1), (2, 3, 40, 7), (1, 2, 333, 333), (3, 1, 17, 100)]


def _drawn(batches: int, classes: int, count: int, seed: int) -> dict[str, Array]:
    """Boxes that overlap: some flipped, some without an area, infinite or with a NaN; scores with
    many equal ones, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 4, (batches, count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0, 2, low.shape)], -1).astype(np.float32)
    boxes[rng.random((batches, count)) < 0.3] = boxes[0, 0]
    flipped = rng.random((batches, count)) < 0.2
    boxes[flipped] = boxes[flipped][:, [2, 1, 0, 3]]
    boxes[rng.random((batches, count)) < 0.05, 2:] = 0
    for special in (np.nan, np.inf, -np.inf):
        boxes[rng.random((batches, count, 4)) < 0.01] = special
    scores = rng.integers(-3, 12, (batches, classes, count)).astype(np.float32) / 10
    for special in (np.nan, np.inf, -np.inf, -0.0):
        scores[rng.random(scores.shape) < 0.03] = special
    return {"boxes": boxes, "scores": scores}


def _theirs(feeds: Mapping[str, Array], centered: bool) -> Array:
    proto = one_node("NonMaxSuppression", feeds, opset=11, center_point_box=int(centered))
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, dict(feeds))[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("target", EVERYWHERE)
def test_boxes_that_are_kept(shape: tuple[int, int, int, int], centered: bool, target: str) -> None:
    *sizes, most = shape
    drawn = _drawn(*sizes, seed=most)

    def make() -> Graph:
        zero = np.zeros((), np.float32)
        g = GraphBuilder(**drawn, most=np.zeros((), np.int64), overlap=zero, least=zero)
        op = nn.NonMaxSuppressionOp.make(
            [*g.inputs.values()], room=min(most, sizes[-1]), centered=centered
        )
        g.block.add_op(op)
        return g.graph(op.selected, op.count)

    model = build(make, target)
    assert "tile.suppress" in model.as_text("tile")
    for limit, overlap, least in ((most, 0.4, 0.1), (most, 0.0, -0.5), (most // 2, 0.9, 0.3)):
        numbers = {
            "most": np.array(limit),
            "overlap": np.array(overlap, np.float32),
            "least": np.array(least, np.float32),
        }
        feeds = {**drawn, **numbers}
        selected, count = model.run(None, feeds)
        theirs = _theirs(feeds, centered)
        np.testing.assert_array_equal(selected[: int(count)], theirs)
        assert not selected[int(count) :].any()
        settings = {"room": min(most, sizes[-1]), "centered": centered}
        host = run("nn.non_max_suppression", [*feeds.values()], settings)
        np.testing.assert_array_equal(host[0], selected)
        assert host[1] == count


@pytest.mark.parametrize("least", [None, 0.1])
def test_statements_mean_what_is_native(least: float | None) -> None:
    drawn = _drawn(2, 2, 21, seed=1)
    numbers: dict[str, Array] = {"most": np.array(9), "overlap": np.array(0.3, np.float32)}
    if least is not None:
        numbers["least"] = np.array(least, np.float32)
    feeds = {**drawn, **numbers}

    def make() -> Graph:
        g = GraphBuilder(**feeds)
        op = nn.NonMaxSuppressionOp.make([*g.inputs.values()], room=12, centered=False)
        g.block.add_op(op)
        return g.graph(op.selected, op.count)

    lowered = lower(make(), make_options(), stop="tile")
    at_tile = interpret(Graph(lowered.stages["tile"], lowered.weights, "tile"), feeds)
    native = build(make, EVERYWHERE[0]).run(None, feeds)
    host = run("nn.non_max_suppression", [*feeds.values()], {"room": 12, "centered": False})
    for found in (at_tile, native):
        for array, expected in zip(found, host, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_any_number_of_threads_selects_the_same() -> None:
    drawn = _drawn(2, 40, 2000, seed=2)
    limits = {"most": np.array(50), "overlap": np.array(0.3, np.float32)}
    proto = one_node("NonMaxSuppression", {**drawn, **limits}, opset=11, constants=[*limits])
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    model = tessella.compile(proto, threads=3)
    (found,) = model.run(None, drawn)
    assert "parallel" in next(x for x in model.as_text("tile").split("\n") if "tile.sweep" in x)
    (alone,) = tessella.compile(proto, threads=1).run(None, drawn)
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_array_equal(np.unique(found[:, 0] * 40 + found[:, 1]), range(80))


def _regions(count: int, seed: int) -> dict[str, Array]:
    """Images, and regions of them: some beyond them, some empty, some with their ends exchanged."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-4, 15, (count, 2))
    rois = np.concatenate([low, low + rng.uniform(-3, 12, low.shape)], 1).astype(np.float32)
    rois[:3] = [[0, 0, 0, 0], [2, 3, 2, 3], [30, 30, 90, 60]]
    x = rng.standard_normal((3, 5, 13, 17)).astype(np.float32)
    return {"x": x, "rois": rois, "batches": rng.integers(0, 3, count)}


@pytest.mark.parametrize("samples", [0, 1, 3])
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("where", ["half_pixel", "output_half_pixel", None])
def test_regions(samples: int, mode: str, where: str | None) -> None:
    """ONNX Runtime warns of its mode `max`, which ONNX has taken over."""
    feeds = _regions(19, seed=samples)
    settings: dict[str, Any] = {
        "sampling_ratio": samples,
        "mode": mode,
        "spatial_scale": 0.5,
        "output_height": 3,
        "output_width": 4,
    }
    if where is not None:
        settings["coordinate_transformation_mode"] = where
    proto = one_node("RoiAlign", feeds, opset=16 if where else 10, **settings)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    (wanted,) = session.run(None, feeds)
    for target in RUNNABLE:
        model = tessella.compile(proto, target=target)
        np.testing.assert_allclose(model.run(None, feeds)[0], wanted, rtol=1e-5, atol=1e-5)
        assert not model.explain().coverage.in_numpy


def test_regions_that_are_too_large_or_no_numbers() -> None:
    feeds = _regions(4, seed=1)
    model = tessella.compile(one_node("RoiAlign", feeds, opset=16, output_height=2))
    large, nan = np.array(feeds["rois"]), np.array(feeds["rois"])
    large[1, 3], nan[1, 3] = 1e9, np.nan
    with pytest.raises(ExecutionError, match="RoiAlign_0"):
        model.run(None, {**feeds, "rois": large})
    assert not model.run(None, {**feeds, "rois": nan})[0][1].any()
    proto = one_node("RoiAlign", feeds, opset=16, output_height=2)
    with pytest.raises(ExecutionError, match="a region is too large"):
        tessella.compile(proto, places=("host",)).run(None, {**feeds, "rois": large})


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("threads", [1, 2])
def test_regions_of_many_points(mode: str, threads: int) -> None:
    """Each has its own number, and channels fill vectors."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 33, 40, 50)).astype(np.float32)
    low = rng.uniform(0, 20, (30, 2))
    rois = np.concatenate([low, low + rng.uniform(0, 29, low.shape)], 1).astype(np.float32)
    feeds = {"x": x, "rois": rois, "batches": rng.integers(0, 2, 30)}
    sizes: dict[str, Any] = {"output_height": 5, "output_width": 9}
    proto = one_node("RoiAlign", feeds, opset=16, mode=mode, **sizes)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    (found,) = tessella.compile(proto, threads=threads).run(None, feeds)
    np.testing.assert_allclose(found, session.run(None, feeds)[0], rtol=1e-5, atol=1e-5)


def test_the_greatest_of_a_region_is_nan_if_a_point_is() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 2, 2] = np.nan
    rois = np.array([[0, 0, 4, 4]], np.float32)
    feeds = {"x": x, "rois": rois, "batches": np.zeros(1, np.int64)}
    for samples in (0, 2):
        proto = one_node("RoiAlign", feeds, opset=16, mode="max", sampling_ratio=samples)
        assert np.isnan(tessella.compile(proto).run(None, feeds)[0]).all()


def test_a_region_of_no_image_is_refused() -> None:
    feeds = _regions(4, seed=1)
    for samples in (0, 2):
        proto = one_node("RoiAlign", feeds, opset=16, sampling_ratio=samples)
        model = tessella.compile(proto)
        with pytest.raises(ExecutionError, match="RoiAlign_0"):
            model.run(None, {**feeds, "batches": np.array([0, 1, 3, 2])})


HOST: dict[str, Any] = {"places": ("host",)}


def _pooled(feeds: dict[str, Array], scale: float, *sizes: int, opset: int = 16) -> onnx.ModelProto:
    """A MaxRoiPool over images and regions, which begin with the number of their image."""
    return one_node("MaxRoiPool", feeds, opset=opset, pooled_shape=sizes, spatial_scale=scale)


def _numbered(feeds: dict[str, Array]) -> dict[str, Array]:
    """The operands of a MaxRoiPool that correspond to the operands of a RoiAlign."""
    first = feeds["batches"][:, None].astype(np.float32)
    return {"x": feeds["x"], "rois": np.concatenate([first, feeds["rois"]], 1)}


@pytest.mark.parametrize("scale, sizes", [(0.5, (3, 4)), (1.0, (7, 2)), (3.0, (1, 1))])
def test_maxima_of_regions(scale: float, sizes: tuple[int, int]) -> None:
    feeds = _numbered(_regions(19, seed=4))
    feeds["rois"][3:5, 1:] = [[2.5, -0.5, 3.5, 2.5], [-40, -30, -20, -10]]
    proto = _pooled(feeds, scale, *sizes)
    session: Any = onnxruntime.InferenceSession(proto.SerializeToString())
    (wanted,) = session.run(None, feeds)
    newest = _pooled(feeds, scale, *sizes, opset=22)
    every: list[dict[str, Any]] = [HOST, *({"target": target} for target in RUNNABLE)]
    for options in every:
        model = tessella.compile(newest, **options)
        np.testing.assert_array_equal(model.run(None, feeds)[0], wanted)
        assert bool(model.explain().coverage.in_numpy) == (options is HOST)


def test_maxima_of_special_regions() -> None:
    """A region with infinite ends covers the pixels inside the image; a region with NaN covers
    none."""
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
    x[0, 0, 3] = -np.inf, -np.inf, np.nan, -1, 0, -0.0
    big = np.finfo(np.float32).max
    rois = [[0, -big, -big, big, big], [0, 1, 0, 2, np.inf], [0, np.nan, 0, 2, 2], [0, 0, 3, 1, 3]]
    feeds = {"x": x, "rois": np.array(rois, np.float32)}
    proto = _pooled(feeds, 1.0, 1, 1)
    results = [tessella.compile(proto, **kept).run(None, feeds)[0] for kept in ({}, HOST)]
    np.testing.assert_array_equal(results[0], results[1])
    assert np.isnan(results[0][:2]).all()
    assert results[0].ravel()[2:].tolist() == [0, -np.inf]
    for options in ({}, HOST):
        model = tessella.compile(proto, **options)
        feeds["rois"][3, 0] = 1
        with pytest.raises(ExecutionError, match="MaxRoiPool_0"):
            model.run(None, feeds)


def test_a_region_of_four_numbers_is_refused() -> None:
    feeds = {"x": np.zeros((1, 1, 4, 4), np.float32), "rois": np.zeros((2, 4), np.float32)}
    with pytest.raises(ShapeError, match="a region does not have 5 numbers"):
        tessella.compile(_pooled(feeds, 1.0, 1, 1))
