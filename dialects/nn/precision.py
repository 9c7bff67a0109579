"""Numbers in another precision than that of their dtype."""

from __future__ import annotations

from tessella.dialects.nn.core import Array
from tessella.runtime.elements import DTYPES, converted


def rounded(array: Array, precision: str) -> Array:
    """The values that an array has in a precision, as its own dtype."""
    return converted(converted(array, DTYPES[precision]), array.dtype)
