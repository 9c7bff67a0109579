"""The table of NumPy kernels by name: an op's own has the op's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
HostKernel = Callable[..., Array | tuple[Array, ...]]

KERNELS: dict[str, HostKernel] = {}


def kernel(name: str) -> Callable[[HostKernel], HostKernel]:
    """Register the NumPy kernel of the op ``nn.<name>``; one of another dialect, and a further one
    of an op, by its full name."""

    def register(function: HostKernel) -> HostKernel:
        KERNELS[name if "." in name else f"nn.{name}"] = function
        return function

    return register
