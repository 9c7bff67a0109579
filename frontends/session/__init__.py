"""The classes and functions of ONNX Runtime's Python package that programs commonly use, for
tessella's models.

    import tessella as ort
    session = ort.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    [y] = session.run(None, {"x": x})

Options without an effect in tessella are ignored, and a warning of the logger `tessella.session`
names them. Methods that tessella does not support raise OptionError. `InferenceSession.model` is
the tessella model.
"""

from __future__ import annotations

from tessella.frontends.session.binding import IOBinding
from tessella.frontends.session.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from tessella.frontends.session.process import (
    get_all_providers,
    get_available_providers,
    get_device,
    set_default_logger_severity,
    set_default_logger_verbosity,
)
from tessella.frontends.session.session import InferenceSession, ModelMetadata, NodeArg
from tessella.frontends.session.values import OrtValue

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]
