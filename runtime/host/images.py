"""Decoding of images by the package Pillow."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.support.errors import ExecutionError
from tessella.support.foreign import is_of_handler

CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}
"""The number of channels of an image, by pixel format."""


@kernel("decode_image")
def decode_image(data: Array, *, format: str, sizes: object) -> Array:
    """Return the image [height, width, channels] in the bytes of a file; an image without pixels
    if they cannot be decoded. Raises ExecutionError if Pillow is missing."""
    try:
        # imported here, as no other model needs Pillow
        images: Any = import_module("PIL.Image")
    except ImportError as error:
        raise ExecutionError(
            "decoding images needs the package Pillow", hint="pip install tessella[images]"
        ) from error
    try:
        with images.open(io.BytesIO(data.tobytes())) as image:
            mode = "L" if format == "Grayscale" else "RGB"
            pixels: Array = np.array(image.convert(mode), np.uint8)
    except MemoryError:
        raise
    except Exception as error:
        # decoders raise exceptions of many types
        if is_of_handler(error):
            raise
        return np.zeros((0, 0, CHANNELS[format]), np.uint8)
    if format == "BGR":
        pixels = np.ascontiguousarray(pixels[:, :, ::-1])
    return pixels.reshape(*pixels.shape[:2], CHANNELS[format])
