"""The inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

Dimensions = tuple[int | str, ...]
"""A shape, whose dimensions may be symbols."""

HELD = ("sequence", "optional", "map")
"""The types of values that are not tensors. A ``sequence`` is a list of arrays or dictionaries; an
``optional`` is an array, a list or None; a ``map`` is a dictionary."""

UNKNOWN = "undefined"
"""The type of an undeclared output; it is known once the output is computed."""

_OF_SIZES = ("int64", "int32", "uint64", "uint32")

_TYPE_NAMES = {
    "float32": "float",
    "float64": "double",
    "float8_e8m0fnu": "float8e8m0",
    "float4_e2m1fn": "float4e2m1",
}


@dataclass(frozen=True)
class ValueInfo:
    """An input or output of a model: name, element type, and shape, whose dimensions may be
    symbols."""

    name: str
    dtype: str
    """NumPy's name of the dtype, such as ``float32``; or ``sequence``, ``optional``, and, for
    outputs, ``undefined``."""
    shape: Dimensions

    def __str__(self) -> str:
        if not self.is_tensor:
            return f"{self.name}: {self.dtype}"
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def is_tensor(self) -> bool:
        """True if the value is an array, not a ``sequence`` or ``optional``."""
        return self.dtype not in HELD

    @property
    def is_known(self) -> bool:
        """True if the type of the value is known."""
        return self.dtype != UNKNOWN

    @property
    def can_be_sizes(self) -> bool:
        """True if the value is a short array of integers of known shape, which may hold sizes."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        is_known = len(sizes) == len(self.shape) and 0 < prod(sizes) <= MOST_SIZES
        return is_known and self.dtype in _OF_SIZES

    @property
    def type(self) -> str:
        """The type in ONNX Runtime's spelling, such as ``tensor(float)``."""
        if not self.is_tensor:
            return self.dtype
        return f"tensor({_TYPE_NAMES.get(self.dtype, self.dtype.replace('_', ''))})"


MOST_SIZES = 8
"""The most elements of a value that may be a shape."""


def fits(shape: Sequence[object], wanted: Dimensions) -> bool:
    """Return whether a shape matches a declared shape. A symbol in ``wanted`` matches any size."""
    return len(shape) == len(wanted) and all(
        (isinstance(want, str) and isinstance(have, int) and have >= 0) or want == have
        for want, have in zip(wanted, shape, strict=True)
    )
