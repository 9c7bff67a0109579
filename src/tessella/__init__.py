"""tessella: a compiler for CPU tensor programs.

    model = tessella.compile("resnet50.onnx")
    y = model(x)

    @tessella.jit
    def step(x, w, b):
        return tessella.softmax(x @ w + b, axis=-1)

The names below are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessella.driver.model import Model as Model
    from tessella.frontends.compile import compile as compile
    from tessella.support.errors import TessellaError as TessellaError

__version__ = "0.1.0"

_NAMES = {
    "compile": "tessella.frontends.compile",
    "Model": "tessella.driver.model",
    "TessellaError": "tessella.support.errors",
}

__all__ = ["Model", "TessellaError", "__version__", "compile"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'tessella' has no attribute {name!r}")
    value = getattr(import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
