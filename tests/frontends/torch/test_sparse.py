"""Sparse arrays of PyTorch and SciPy, which are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import tessella

ARRAYS: dict[str, Callable[[], Any]] = {
    "torch.sparse_coo": lambda: torch.eye(3).to_sparse(),
    "torch.sparse_coo, hybrid": lambda: torch.eye(3).to_sparse(1),
    "csr": lambda: sparse.csr_matrix(np.eye(3, dtype=np.float32)),
    "coo": lambda: sparse.coo_array(np.eye(3, dtype=np.float32)),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "ops": tessella.ops.relu,
    "jit": lambda x: tessella.jit(lambda y: y + 1)(x),
    "array": lambda x: tessella.array(x, place="host/f32"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("layout", ARRAYS)
def test_sparse_arrays_are_refused(layout: str, way: str) -> None:
    with pytest.raises(
        tessella.InputError, match=f"sparse arrays(?s:.*)layout {layout.split(',')[0]}"
    ):
        WAYS[way](ARRAYS[layout]())
