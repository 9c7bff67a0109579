"""Tensors as arrays and back, in the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.frontends.emitter import Array, DType
from tessella.frontends.torch.library import library
from tessella.runtime.elements import DTYPES, dtype_named, element_of, tagged
from tessella.runtime.tensors import as_numpy
from tessella.support.errors import ShapeError

_BF16 = DTYPES["bf16"]


def dtype_of(dtype: Any) -> DType:
    """Return NumPy's dtype for one of PyTorch's. Raises ShapeError for one that we do not have."""
    name = str(dtype).removeprefix("torch.")
    try:
        found = dtype_named(name)
    except TypeError:
        found = None
    element = None if found is None else element_of(found)
    if found is None or element is None or not (element.is_native or element.is_complex):
        raise ShapeError("an element type that is not supported", found=name)
    return found


def array_of(tensor: Any) -> Array:
    """Return a tensor in the CPU's memory as an array; rows that are not contiguous are copied."""
    plain = tensor.contiguous() if not tensor.is_contiguous() else tensor
    found = as_numpy(plain.detach())
    return found if isinstance(found, np.ndarray) else found.numpy(force=True)


def tensor_of(array: Array) -> Any:
    """Return an array as a tensor."""
    torch, array = library(), tagged(array)
    if array.dtype == _BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    found = torch.from_numpy(array)
    # NumPy has other strides than PyTorch for arrays without elements
    return found if array.size else found.new_empty(array.shape)
