"""Products by the BLAS that NumPy carries: a function of a shared library as a kernel.

The BLAS runs on threads of its own; `OPENBLAS_NUM_THREADS` is how many.
"""

from __future__ import annotations

from ctypes import c_float, c_int, c_int64, c_void_p
from pathlib import Path

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shape_of
from tessella.kernels.elements import rows
from tessella.kernels.host_cost import host_seconds
from tessella.kernels.registry import called
from tessella.runtime.host import Array
from tessella.runtime.library import CFunction, c_function, row_major
from tessella.support.errors import LibraryError

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112
"""Of CBLAS's enumerations."""

NAMES = ("scipy_cblas_sgemm64_", "cblas_sgemm64_")
"""With 64-bit integers; wheels of NumPy have a prefix, to live beside other copies."""
ARGUMENTS = [
    *(c_int,) * 3,  # order, transa, transb
    *(c_int64,) * 3,  # m, n, k
    *(c_float, c_void_p, c_int64, c_void_p, c_int64),  # alpha, a, lda, b, ldb
    *(c_float, c_void_p, c_int64),  # beta, c, ldc
]


def _found() -> CFunction | None:
    """The function, in the libraries that are beside NumPy or in it."""
    package = Path(np.__file__).parent
    folders = (package.with_name("numpy.libs"), package / ".dylibs")
    for library in (path for folder in folders for path in sorted(folder.glob("*openblas*"))):
        try:
            return c_function(library, NAMES, ARGUMENTS)
        except LibraryError:
            continue
    return None


SGEMM = _found()


def _is_of_matrices(op: nn.MatmulOp) -> str | None:
    matrices = all(len(shape_of(value)) == 2 for value in (op.a, op.b))
    return None if matrices else "it multiplies two matrices"


@called(
    nn.MatmulOp, "acme-blas", elements=rows(["f32"]), applies=_is_of_matrices, cost=host_seconds
)
def product(a: Array, b: Array, *, transpose_b: bool) -> Array:
    """a[M, K] b[K, N]; with `transpose_b`, b is [N, K]. Where the BLAS is not found, by NumPy."""
    if SGEMM is None:
        return np.matmul(a, b.T if transpose_b else b)
    a, b = row_major(a, np.float32), row_major(b, np.float32)
    (m, k), n = a.shape, b.shape[0 if transpose_b else 1]
    result = np.empty((m, n), np.float32)
    order = (ROW_MAJOR, PLAIN, TRANSPOSED if transpose_b else PLAIN)
    left, right = (a.ctypes.data, k), (b.ctypes.data, b.shape[1])
    SGEMM(*order, m, n, k, 1.0, *left, *right, 0.0, result.ctypes.data, n)
    return result
