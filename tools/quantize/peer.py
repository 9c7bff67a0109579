"""ONNX Runtime and its quantiser, which the extra ``tessella[quantize]`` installs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tessella.support.errors import OptionError


def runtime() -> Any:
    """The package onnxruntime. Raises OptionError where it is missing."""
    return _imported("onnxruntime")


def quantization() -> Any:
    """ONNX Runtime's quantiser. Raises OptionError where it is missing."""
    return _imported("onnxruntime.quantization")


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise OptionError(
            f"quantising needs the package onnxruntime: {error}",
            hint="pip install 'tessella[quantize]'",
        ) from error
