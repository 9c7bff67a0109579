"""Tensors of PyTorch with elements that NumPy lacks."""

from __future__ import annotations

import sys
from typing import Any

from tessella.runtime.elements import DTYPES, dtype_named, element_of


def as_numpy(value: Any) -> Any:
    """Return a tensor with elements that NumPy lacks, such as bf16, as an array in the same memory.
    Any other value is returned unchanged. So is a tensor that needs a gradient."""
    name = str(getattr(value, "dtype", ""))
    if not name.startswith("torch.") or value.requires_grad:
        return value
    try:
        element = element_of(dtype_named(name.removeprefix("torch.")))
    except TypeError:  # neither NumPy nor tessella has these elements
        return value
    if element is None or not element.is_tagged:
        return value
    torch = sys.modules["torch"]
    bits = torch.int16 if element.bits > 8 else torch.uint8
    return value.view(bits).numpy().view(DTYPES[element.name])
