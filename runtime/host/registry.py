"""The table of NumPy kernels by name. An op's own kernel has the op's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
HostKernel = Callable[..., Array | tuple[Array, ...]]

KERNELS: dict[str, HostKernel] = {}

OF_BITS: set[str] = set()
"""The names of the kernels that take the operands in the dtypes in which they are stored, and may
return views of them. All other kernels take read-only views; element types that NumPy does not
compute with are first converted to wider dtypes."""


def kernel(name: str, *, of_bits: bool = False) -> Callable[[HostKernel], HostKernel]:
    """Register the NumPy kernel of the op ``nn.<name>``.

    A name with a dot is registered as it is: the full name of an op of another dialect, for
    example. With ``of_bits``, the kernel takes the operands themselves, with elements as they are
    stored. It must not modify them, and it moves or compares elements without arithmetic on floats.
    """
    full = name if "." in name else f"nn.{name}"

    def register(function: HostKernel) -> HostKernel:
        KERNELS[full] = function
        (OF_BITS.add if of_bits else OF_BITS.discard)(full)
        return function

    return register
