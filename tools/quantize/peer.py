"""Untyped access to ONNX Runtime and its quantiser."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def runtime() -> Any:
    """Return the package onnxruntime."""
    return import_module("onnxruntime")


def quantization() -> Any:
    """Return ONNX Runtime's quantiser."""
    return import_module("onnxruntime.quantization")
