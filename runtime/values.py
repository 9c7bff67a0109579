"""What passes between the steps of a program that is cut: arrays, and lists of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import dtype_name

Array = npt.NDArray[Any]

Value = Any
"""An array; a list of arrays, which is a sequence; or None, an optional without an element. Nothing
is written to once it is there."""


def kind_of(value: Value) -> str:
    """Its type in a signature."""
    if value is None:
        return "optional"
    return "sequence" if isinstance(value, list) else dtype_name(value.dtype)


def shape_of(value: Value) -> tuple[int, ...]:
    """Its shape; none of what is no array."""
    return value.shape if isinstance(value, np.ndarray) else ()
