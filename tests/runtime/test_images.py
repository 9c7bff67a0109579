"""Decoding of images: channels, broken files, and Pillow missing."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.runtime.host.images import decode_image
from tessella.support.errors import ExecutionError
from tests.frontends.onnx.models import one_node


def encoded(pixels: Any) -> Any:
    """The bytes of a PNG file; without Pillow, the test is skipped."""
    images = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    images.fromarray(pixels).save(file, "png")
    return np.frombuffer(file.getvalue(), np.uint8)


PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)


def test_channels() -> None:
    rgb = decode_image(encoded(PIXELS), format="RGB", sizes=())
    bgr = decode_image(encoded(PIXELS), format="BGR", sizes=())
    gray = decode_image(encoded(PIXELS[:, :, 0]), format="Grayscale", sizes=())
    np.testing.assert_array_equal(rgb, PIXELS)
    np.testing.assert_array_equal(bgr, PIXELS[:, :, ::-1])
    np.testing.assert_array_equal(gray, PIXELS[:, :, :1])


@pytest.mark.parametrize("damage", [lambda x: x[:0], lambda x: x[: len(x) // 2], lambda x: x[::-1]])
def test_a_broken_file_has_no_pixels(damage: Any) -> None:
    found: Any = decode_image(damage(encoded(PIXELS)), format="Grayscale", sizes=())
    assert (found.shape, found.dtype) == ((0, 0, 1), np.uint8)


def test_sizes_of_a_model_follow_the_image() -> None:
    proto = one_node("ImageDecoder", {"x": encoded(PIXELS)}, opset=20)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    proto.graph.output[0].type.tensor_type.elem_type = 2
    compiled = tessella.compile(proto)
    for pixels in (PIXELS, PIXELS[:2]):
        [found] = compiled.run(None, {"x": encoded(pixels)})
        np.testing.assert_array_equal(found, pixels)


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ExecutionError, match=r"(?s)Pillow.*pip install"):
        decode_image(np.zeros(3, np.uint8), format="RGB", sizes=())
