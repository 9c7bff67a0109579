"""The NumPy reference semantics of every `nn` op: the fallback, and the oracle of the tests.

A kernel takes the operands as arrays (None for an optional one that is absent) and the op's
properties as keyword arguments, and returns an array or a tuple of arrays. ``@kernel`` registers it
under the op's name, `nn.conv`; further kernels of an op have a name after it, `nn.conv/blocked`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessella.runtime.host import (
    attention,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
)
from tessella.runtime.host.registry import KERNELS, Array, HostKernel, kernel
from tessella.support import plugins
from tessella.support.errors import InternalError

__all__ = ["KERNELS", "Array", "HostKernel", "kernel", "run"]

_FAMILIES = (
    attention,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
)


def run(name: str, arrays: Sequence[Array | None], settings: Mapping[str, Any]) -> list[Array]:
    """Run the NumPy kernel of a name, without warnings: IEEE's results are meant."""
    if name not in KERNELS:
        plugins.import_all(plugins.HOST)
    if name not in KERNELS:
        raise InternalError(f"no host kernel for {name}")
    with np.errstate(all="ignore"):
        results = KERNELS[name](*arrays, **settings)
    listed = results if isinstance(results, tuple) else (results,)
    return [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in listed]
