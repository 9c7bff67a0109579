"""tessella: a compiler for CPU tensor programs.

    model = tessella.compile("resnet50.onnx")
    y = model(x)

    @tessella.jit
    def step(x, w, b):
        return tessella.softmax(x @ w + b, axis=-1)

    rows = tessella.tile("function (A[M, N]) -> (S) { S[m : M] = +(A[m, n]); }")

The names below are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from errno import ENOMEM
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessella.driver.model.model import Model as Model
    from tessella.driver.options import Options as Options
    from tessella.frontends.compile import compile as compile
    from tessella.frontends.eager import PlacedArray as PlacedArray
    from tessella.frontends.eager import array as array
    from tessella.frontends.eager import ops as ops
    from tessella.frontends.session import ExecutionMode as ExecutionMode
    from tessella.frontends.session import ExecutionOrder as ExecutionOrder
    from tessella.frontends.session import GraphOptimizationLevel as GraphOptimizationLevel
    from tessella.frontends.session import InferenceSession as InferenceSession
    from tessella.frontends.session import IOBinding as IOBinding
    from tessella.frontends.session import ModelMetadata as ModelMetadata
    from tessella.frontends.session import NodeArg as NodeArg
    from tessella.frontends.session import OrtValue as OrtValue
    from tessella.frontends.session import RunOptions as RunOptions
    from tessella.frontends.session import SessionOptions as SessionOptions
    from tessella.frontends.session import get_all_providers as get_all_providers
    from tessella.frontends.session import get_available_providers as get_available_providers
    from tessella.frontends.session import get_device as get_device
    from tessella.frontends.session import (
        set_default_logger_severity as set_default_logger_severity,
    )
    from tessella.frontends.session import (
        set_default_logger_verbosity as set_default_logger_verbosity,
    )
    from tessella.frontends.tile import TileProgram as TileProgram
    from tessella.frontends.tile import tile as tile
    from tessella.frontends.trace import *  # noqa: F403 (its names are those of _TRACED)
    from tessella.frontends.trace import Jitted as Jitted
    from tessella.frontends.trace import Lowered as Lowered
    from tessella.frontends.trace import Spec as Spec
    from tessella.frontends.trace import jit as jit
    from tessella.passes.pick.price import CandidateFacts as CandidateFacts
    from tessella.runtime.loaded import load as load
    from tessella.support.errors import CompileTimeoutError as CompileTimeoutError
    from tessella.support.errors import ExecutionError as ExecutionError
    from tessella.support.errors import InputError as InputError
    from tessella.support.errors import InternalError as InternalError
    from tessella.support.errors import InvalidModelError as InvalidModelError
    from tessella.support.errors import LibraryError as LibraryError
    from tessella.support.errors import OptionError as OptionError
    from tessella.support.errors import PluginError as PluginError
    from tessella.support.errors import ResourceError as ResourceError
    from tessella.support.errors import ShapeError as ShapeError
    from tessella.support.errors import TessellaError as TessellaError
    from tessella.support.errors import TileError as TileError
    from tessella.support.errors import UnboundedIndexError as UnboundedIndexError
    from tessella.support.errors import UnknownAttributeError as UnknownAttributeError
    from tessella.support.errors import UnknownValueError as UnknownValueError
    from tessella.support.errors import Unsupported as Unsupported
    from tessella.support.errors import UnsupportedError as UnsupportedError
    from tessella.tools.quantize import quantize as quantize

__version__ = "0.1.0"

_TRACED = """
    Jitted Lowered Spec abs arange argsort astype avg_pool2d broadcast_to clip concatenate
    conv2d cos erf exp expand_dims full gelu jit layer_norm log log_softmax matmul max
    max_pool2d maximum mean min minimum ones prod put_along_axis relu reshape segment_max
    segment_mean segment_min segment_prod segment_sum sigmoid silu sin softmax sort sqrt squeeze
    stack sum take tanh transpose where zeros
""".split()

_SESSION = """
    ExecutionMode ExecutionOrder GraphOptimizationLevel IOBinding InferenceSession ModelMetadata
    NodeArg OrtValue RunOptions SessionOptions get_all_providers
    get_available_providers get_device set_default_logger_severity set_default_logger_verbosity
""".split()

_ERRORS = """
    CompileTimeoutError ExecutionError InputError InternalError InvalidModelError LibraryError
    OptionError PluginError ResourceError ShapeError TessellaError TileError UnboundedIndexError
    UnknownAttributeError UnknownValueError Unsupported UnsupportedError
""".split()

_NAMES = {
    "compile": "tessella.frontends.compile",
    "load": "tessella.runtime.loaded",
    "Model": "tessella.driver.model.model",
    "Options": "tessella.driver.options",
    "CandidateFacts": "tessella.passes.pick.price",
    "array": "tessella.frontends.eager",
    "ops": "tessella.frontends.eager",
    "PlacedArray": "tessella.frontends.eager",
    "quantize": "tessella.tools.quantize",
    "TileProgram": "tessella.frontends.tile",
    "tile": "tessella.frontends.tile",
    **dict.fromkeys(_SESSION, "tessella.frontends.session"),
    **dict.fromkeys(_ERRORS, "tessella.support.errors"),
    **dict.fromkeys(_TRACED, "tessella.frontends.trace"),
}

# `from tessella import *` leaves Python's own abs, max, min and sum as they are
__all__ = [
    "CandidateFacts",
    "CompileTimeoutError",
    "ExecutionError",
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InputError",
    "InternalError",
    "InvalidModelError",
    "Jitted",
    "LibraryError",
    "Lowered",
    "Model",
    "ModelMetadata",
    "NodeArg",
    "OptionError",
    "Options",
    "OrtValue",
    "PlacedArray",
    "PluginError",
    "ResourceError",
    "RunOptions",
    "SessionOptions",
    "ShapeError",
    "Spec",
    "TessellaError",
    "TileError",
    "TileProgram",
    "UnboundedIndexError",
    "UnknownAttributeError",
    "UnknownValueError",
    "Unsupported",
    "UnsupportedError",
    "__version__",
    "array",
    "compile",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "jit",
    "load",
    "ops",
    "quantize",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "tile",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'tessella' has no attribute {name!r}")
    value = getattr(_loaded(_NAMES[name]), name)
    globals()[name] = value
    return value


def _loaded(module: str) -> ModuleType:
    try:
        return import_module(module)
    except (MemoryError, SystemError, OSError, ImportError) as error:
        if not _lacks_memory(error):
            raise
        from tessella.support.errors import ResourceError

        raise ResourceError(f"there is not enough memory to load {module}") from error


def _lacks_memory(error: Exception) -> bool:
    """Return whether memory ran out. The interpreter, the system and the dynamic loader raise
    different errors for it."""
    match error:
        case OSError():
            return error.errno == ENOMEM
        case ImportError():
            return "failed to map segment" in str(error)
        case _:
            return True


def __dir__() -> list[str]:
    return sorted([*_NAMES, "__version__"])
