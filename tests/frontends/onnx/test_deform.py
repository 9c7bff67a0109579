"""Deformable convolutions, against ONNX Runtime and the reference of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.support.errors import ShapeError
from tests.frontends.onnx.models import Array, one_node
from tests.models import run_onnxruntime as runtime
from tests.native import normal

SETTINGS: list[dict[str, Any]] = [
    {},
    {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 1, 0, 2], "dilations": [1, 2]},
    {"offset_group": 4},
    {"group": 4},
    {"group": 2, "offset_group": 1, "pads": [2, 0, 2, 0]},
]


def operands(
    kernel: tuple[int, int], settings: dict[str, Any], extra: int, far: float = 1.5
) -> dict[str, Array]:
    """Those of two images of 4 channels of 7x6, of 4 filters; a bias and a mask if ``extra``."""
    strides, dilations = (settings.get(name, [1, 1]) for name in ("strides", "dilations"))
    pads, parts = settings.get("pads", [0] * 4), settings.get("offset_group", 1)
    spatial = [
        (size + pads[d] + pads[d + 2] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        for d, size in enumerate((7, 6))
    ]
    taps = kernel[0] * kernel[1]
    found = {
        "x": normal(2, 4, 7, 6),
        "w": normal(4, 4 // settings.get("group", 1), *kernel),
        "offset": far * normal(2, parts * taps * 2, *spatial),
    }
    others = {"b": normal(4), "mask": np.abs(normal(2, parts * taps, *spatial))}
    return found | dict(list(others.items())[:extra])


def compiled(proto: onnx.ModelProto, feeds: dict[str, Array]) -> Array:
    return tessella.compile(proto, fallback="error").run(None, feeds)[0]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kernel", [(3, 2), (1, 1), (2, 3)])
@pytest.mark.parametrize("extra", [0, 1, 2])
def test_windows_by_groups(kernel: tuple[int, int], settings: dict[str, Any], extra: int) -> None:
    feeds = operands(kernel, settings, extra)
    proto = one_node("DeformConv", feeds, opset=19, **settings)
    wanted = runtime(proto, feeds)[0]
    np.testing.assert_allclose(compiled(proto, feeds), wanted, rtol=1e-5, atol=1e-5)


def test_offsets_far_outside() -> None:
    feeds = operands((3, 3), {}, 2, far=6.0)
    proto = one_node("DeformConv", feeds, opset=22)
    wanted = runtime(one_node("DeformConv", feeds, opset=19), feeds)[0]
    np.testing.assert_allclose(compiled(proto, feeds), wanted, rtol=1e-5, atol=1e-5)


def test_offsets_that_are_not_finite() -> None:
    feeds = operands((2, 2), {}, 2)
    for i, special in enumerate((np.inf, -np.inf, np.nan, 1e30)):
        feeds["offset"].reshape(-1)[i :: 17 + i] = special
    proto = one_node("DeformConv", feeds, opset=19)
    wanted = runtime(proto, feeds)[0]
    np.testing.assert_allclose(compiled(proto, feeds), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_of_any_size(dtype: type[np.floating[Any]]) -> None:
    settings: dict[str, Any] = {
        "group": 2,
        "offset_group": 2,
        "strides": [2, 1],
        "pads": [1, 0, 0, 2],
    }
    taken = operands((2, 3), settings, 2)
    feeds: dict[str, Array] = {name: array.astype(dtype) for name, array in taken.items()}
    proto = one_node("DeformConv", feeds, opset=19, **settings)
    batched = ("x", "offset", "mask")
    for value in proto.graph.input:
        if value.name in batched:
            value.type.tensor_type.shape.dim[0].dim_param = "n"
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto.graph.output[0].type.tensor_type.elem_type = element
    model = tessella.compile(proto, fallback="error")
    for n in (1, 2, 3, 5):
        images = {name: np.resize(feeds[name], (n, *feeds[name].shape[1:])) for name in batched}
        images["mask"] *= np.arange(1, n + 1, dtype=dtype).reshape(-1, 1, 1, 1)
        [wanted], [found] = runtime(proto, feeds | images), model.run(None, feeds | images)
        epsilon = 100 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(found, wanted, rtol=epsilon, atol=epsilon)
    assert model.explain().sizes == ["n: open, from 2 to 15"]


def test_no_offset_is_a_convolution() -> None:
    feeds = operands((3, 3), {"pads": [1, 1, 1, 1]}, 1)
    feeds["offset"] *= 0
    proto = one_node("DeformConv", feeds, opset=19, pads=[1, 1, 1, 1])
    rest = {name: feeds[name] for name in ("x", "w", "b")}
    wanted = runtime(one_node("Conv", rest, opset=19, pads=[1, 1, 1, 1]), rest)[0]
    np.testing.assert_allclose(compiled(proto, feeds), wanted, rtol=1e-5, atol=1e-5)


def test_half_precision() -> None:
    feeds = {name: array.astype(np.float16) for name, array in operands((3, 2), {}, 2).items()}
    proto = one_node("DeformConv", feeds, opset=19)
    wanted = ReferenceEvaluator(proto).run(None, feeds)
    assert isinstance(wanted, list)
    found = compiled(proto, feeds)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, wanted[0], rtol=2e-2, atol=2e-2)


def test_double_precision() -> None:
    """Of an image that grows evenly, what is read between elements is known."""
    singles = operands((1, 1), {}, 0)
    feeds: dict[str, Array] = {name: a.astype(np.float64) for name, a in singles.items()}
    offset = np.abs(feeds["offset"]) % 1 * 0.9
    places = np.minimum(np.indices((7, 6)) + offset, [[[6]], [[5]]])
    feeds["offset"] = places - np.indices((7, 6))
    rising = np.indices((7, 6)).transpose(1, 2, 0) @ [3.7, -1.3]
    feeds["x"] = np.broadcast_to(rising, (2, 4, 7, 6)).copy()
    sampled = 3.7 * places[:, 0] - 1.3 * places[:, 1]
    wanted = feeds["w"].sum(1) * sampled[:, None]
    found = compiled(one_node("DeformConv", feeds, opset=19), feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_all_corners_are_read_in_one_statement() -> None:
    feeds = operands((3, 3), {}, 0)
    text = tessella.compile(one_node("DeformConv", feeds, opset=19)).as_text("tile")
    sampling = [part for part in text.split("tile.contract") if "tile.extract" in part]
    assert [part.count("tile.extract") for part in sampling] == [4]
    assert [part.count("arith.mulf") for part in sampling] == [4]  # one weight for each corner


@pytest.mark.parametrize(
    "name, shape, message",
    [
        ("offset", (2, 18, 5, 3), "the offset does not fit"),
        ("mask", (2, 8, 5, 4), "the mask does not fit"),
        ("w", (4, 3, 3, 3), "do not divide into groups"),
    ],
)
def test_operands_that_do_not_fit(name: str, shape: tuple[int, ...], message: str) -> None:
    feeds = operands((3, 3), {}, 2) | {name: normal(*shape)}
    with pytest.raises(ShapeError, match=message):
        tessella.compile(one_node("DeformConv", feeds, opset=19))
