"""The table of NumPy kernels by name. An op's own kernel has the op's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
HostKernel = Callable[..., Array | tuple[Array, ...]]

KERNELS: dict[str, HostKernel] = {}


def kernel(name: str) -> Callable[[HostKernel], HostKernel]:
    """Register the NumPy kernel of the op ``nn.<name>``.

    A name with a dot is registered as it is: the full name of an op of another dialect, for
    example.
    """

    def register(function: HostKernel) -> HostKernel:
        KERNELS[name if "." in name else f"nn.{name}"] = function
        return function

    return register
