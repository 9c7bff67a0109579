"""Converters of ops of ONNX Runtime's own domain, ``com.microsoft``, by theme: what its graph
optimizer, its quantizer and its model builder write.

Each op becomes `nn` ops that fuse as ONNX's own spelling of the expression does.
"""

from __future__ import annotations

from tessella.frontends.onnx.ops.contributed import (
    attention,
    decoder,
    elementwise,
    linear,
    normalization,
    quantized,
    refused,
    rotary,
)

__all__ = [
    "attention",
    "decoder",
    "elementwise",
    "linear",
    "normalization",
    "quantized",
    "refused",
    "rotary",
]
