"""Matrix products by the BLAS that NumPy ships: a function of a shared library as a kernel.

The wheels of NumPy contain OpenBLAS. It has its own threads; `OPENBLAS_NUM_THREADS` is their
number.
"""

from __future__ import annotations

from ctypes import c_float, c_int, c_int64, c_void_p
from pathlib import Path

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shape_of
from tessella.kernels.cost import bytes_of, moving
from tessella.kernels.elements import rows
from tessella.kernels.host_cost import CALL, START
from tessella.kernels.registry import called
from tessella.runtime.host import Array
from tessella.runtime.library import CFunction, c_function, row_major
from tessella.support.errors import LibraryError
from tessella.support.sizes import estimated
from tessella.targets import Target

ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112
"""The values of CBLAS's enumerations."""
PRODUCT_RATE = 0.85
"""The fraction of the peak that OpenBLAS's inner loop reaches on packed operands."""

NAMES = ("scipy_cblas_sgemm64_", "cblas_sgemm64_")
"""The names of the function with 64-bit integers. NumPy's wheels add a prefix, which separates this
copy of the library from others in the process."""
ARGUMENTS = [
    *(c_int,) * 3,  # order, transa, transb
    *(c_int64,) * 3,  # m, n, k
    *(c_float, c_void_p, c_int64, c_void_p, c_int64),  # alpha, a, lda, b, ldb
    *(c_float, c_void_p, c_int64),  # beta, c, ldc
]


def _find() -> CFunction | None:
    """Return the function from a library beside NumPy or in it; None if there is none."""
    package = Path(np.__file__).parent
    folders = (package.with_name("numpy.libs"), package / ".dylibs")
    for library in (path for folder in folders for path in sorted(folder.glob("*openblas*"))):
        try:
            return c_function(library, NAMES, ARGUMENTS)
        except LibraryError:
            continue
    return None


SGEMM = _find()


def _obstacle(op: nn.MatmulOp) -> str | None:
    """Return why the BLAS cannot compute a product, as a sentence; None if it can."""
    if SGEMM is None:
        return "this NumPy ships no OpenBLAS"
    matrices = all(len(shape_of(value)) == 2 for value in (op.a, op.b))
    return None if matrices else "it multiplies two matrices"


def sgemm_seconds(op: nn.MatmulOp, target: Target) -> float:
    """Return the seconds of a call on one thread: the call from Python, the copies of the operands
    into packed panels, and the multiply-adds.

    The BLAS packs both operands in each call. A generated kernel reads constants that were packed
    when the program was compiled, so it is usually cheaper if an operand is constant.
    """
    products = estimated(op.operations) / (PRODUCT_RATE * target.fma_ports * target.lanes(32))
    moved = moving(sum(map(bytes_of, op.operands)), bytes_of(op.results[0]), target)
    return moved + (START + CALL + products) / (target.ghz * 1e9)


@called(
    nn.MatmulOp,
    "acme-blas",
    elements=rows(["f32"]),
    applies=_obstacle,
    cost=sgemm_seconds,
    method="blas",
)
def product(a: Array, b: Array, *, transpose_b: bool) -> Array:
    """Return a[M, K] b[K, N]; with `transpose_b`, b is [N, K]."""
    if SGEMM is None:
        raise LibraryError(
            "this NumPy ships no OpenBLAS",
            where=str(Path(np.__file__).parent),
            expected="a library openblas in numpy.libs, as in NumPy's wheels",
            hint="pip install --force-reinstall numpy, or turn the kernel off: kernels='-blas'",
        )
    a, b = row_major(a, np.float32), row_major(b, np.float32)
    (m, k), n = a.shape, b.shape[0 if transpose_b else 1]
    result = np.empty((m, n), np.float32)
    order = (ROW_MAJOR, PLAIN, TRANSPOSED if transpose_b else PLAIN)
    left, right = (a.ctypes.data, k), (b.ctypes.data, b.shape[1])
    SGEMM(*order, m, n, k, 1.0, *left, *right, 0.0, result.ctypes.data, n)
    return result
