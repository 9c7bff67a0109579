"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.frontends.emitter import Value, product
from tessella.frontends.trace.dispatch import FUNCTIONS, UFUNCS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import common
from tessella.frontends.trace.traced import Trace, Traced
from tessella.frontends.trace.ufuncs import apply
from tessella.support.errors import ShapeError


@function
def matmul(trace: Trace, x: npt.ArrayLike, y: npt.ArrayLike) -> Value:
    """Multiply matrices (the last two dimensions) or vectors; leading dimensions broadcast."""
    return product(*common(trace, x, y))


@function
def _dot(trace: Trace, a: npt.ArrayLike, b: npt.ArrayLike) -> Value:
    # here the type of a number counts like that of an array
    x, y = common(trace, *(v if isinstance(v, Traced) else np.asarray(v) for v in (a, b)))
    if not x.rank or not y.rank:
        return apply(trace, np.multiply, x, y).value
    if y.rank > 2:
        raise ShapeError(
            "np.dot takes a matrix on its right", found=f"{y.rank} dimensions", hint="use a @ b"
        )
    return product(x, y)


def _matmul(x: Any, y: Any) -> Any:
    return matmul(x, y)


UFUNCS[np.matmul] = _matmul
FUNCTIONS[np.dot] = _dot
