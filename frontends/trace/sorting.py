"""NumPy's sorting functions. All kinds of sort are stable."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Array, Value
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import as_axis
from tessella.frontends.trace.traced import Trace
from tessella.frontends.trace.ufuncs import BOOL
from tessella.support.errors import OptionError

KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _sorted(name: str, result: int) -> Callable[..., Array]:
    """Return NumPy's function ``name`` for traced arrays. ``result`` is 0 for the sorted elements,
    1 for their positions."""

    def body(
        trace: Trace,
        x: npt.ArrayLike,
        axis: SupportsIndex | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
    ) -> Value:
        value = trace.lift(x)
        if kind not in KINDS or (kind is not None and stable is not None):
            raise OptionError(
                f"np.{name} takes a kind of sort, or whether it is stable",
                expected=", ".join(KINDS[1:]),
                found=f"kind={kind!r}, stable={stable!r}",
            )
        if axis is None:
            value, axis = value.flat(), 0
        along = as_axis(axis, value.rank)
        count = value.shape[along]
        keys = value.cast(np.uint8) if value.dtype == BOOL else value
        made = value.emitter.emit(nn.TopkOp, keys, k=count, axis=along, largest=False)[result]
        return made if result else made.cast(value.dtype)

    body.__name__ = body.__qualname__ = name
    return function(body)


sort, argsort = _sorted("sort", 0), _sorted("argsort", 1)
FUNCTIONS.update({np.sort: sort, np.argsort: argsort})
