"""ONNX Runtime and its quantiser, which have no types."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def runtime() -> Any:
    """The package onnxruntime."""
    return import_module("onnxruntime")


def quantization() -> Any:
    """ONNX Runtime's quantiser."""
    return import_module("onnxruntime.quantization")
