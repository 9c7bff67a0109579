"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.trace.dispatch import FUNCTIONS, UFUNCS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import common
from tessella.frontends.trace.traced import Trace, Traced
from tessella.frontends.trace.ufuncs import apply
from tessella.support.errors import ShapeError


@function
def matmul(trace: Trace, x: npt.ArrayLike, y: npt.ArrayLike) -> Traced:
    """The product of matrices (the last two dimensions) or vectors; the others are broadcast."""
    a, b = common(trace, x, y)
    if not a.ndim or not b.ndim:
        raise ShapeError("a matrix product takes no scalars", hint="multiply by them with *")
    left = a if a.ndim > 1 else trace.reshape(a, (1, *a.sizes))
    right = b if b.ndim > 1 else trace.reshape(b, (*b.sizes, 1))
    result = trace.emit(nn.MatmulOp, [left, right], transpose_b=False)
    shape = result.sizes
    if a.ndim == 1:
        shape = (*shape[:-2], shape[-1])
    if b.ndim == 1:
        shape = shape[:-1]
    return trace.reshape(result, shape)


@function
def _dot(trace: Trace, a: npt.ArrayLike, b: npt.ArrayLike) -> Traced:
    # the type of a number counts here as that of an array does
    x, y = common(trace, *(v if isinstance(v, Traced) else np.asarray(v) for v in (a, b)))
    if not x.ndim or not y.ndim:
        return apply(trace, np.multiply, x, y)
    if y.ndim > 2:
        raise ShapeError(
            "np.dot takes a matrix on its right", found=f"{y.ndim} dimensions", hint="use a @ b"
        )
    return trace.lift(matmul(x, y))


def _matmul(x: Any, y: Any) -> Any:
    return matmul(x, y)


UFUNCS[np.matmul] = _matmul
FUNCTIONS[np.dot] = _dot
