"""Quantising models to 8 bits, with a report of each op's error and speed: docs/quantize.md.

It needs the extra ``tessella[quantize]``; importing this package does not.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tessella.support.errors import OptionError

if TYPE_CHECKING:
    from tessella.tools.quantize.quantized import Quantized, quantize

__all__ = ["Quantized", "quantize"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    missing = [package for package in ("onnx", "onnxruntime") if find_spec(package) is None]
    if missing:
        raise OptionError(
            f"quantising needs {' and '.join(missing)}", hint="pip install 'tessella[quantize]'"
        )
    return getattr(import_module(f"{__name__}.quantized"), name)
