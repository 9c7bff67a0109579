"""The ONNX frontend: from a model to programs of the `nn` stage.

It needs the package ``onnx``; importing this package does not.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tessella.support.errors import OptionError

if TYPE_CHECKING:
    from tessella.frontends.onnx.importer import OnnxSource
    from tessella.frontends.onnx.load import load_model
    from tessella.frontends.onnx.unsupported import check

__all__ = ["OnnxSource", "check", "load_model"]

_MODULES = {"OnnxSource": "importer", "check": "unsupported", "load_model": "load"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("onnx") is None:
        raise OptionError(
            "reading ONNX models needs the package onnx", hint="pip install tessella[onnx]"
        )
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
