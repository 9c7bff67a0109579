"""What passes between the steps of a program that is cut: arrays, and lists of them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

Value = Any
"""An array; a list of arrays, which is a sequence; or None, an optional without an element. Nothing
is written to once it is there."""
