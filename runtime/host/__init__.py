"""The NumPy reference semantics of every `nn` op: the fallback, and the oracle of the tests.

A kernel takes the operands as arrays (None for an absent optional one) and the op's properties as
keyword arguments, and returns an array or a tuple of arrays. ``@kernel`` registers it under the
op's name, `nn.conv`; further kernels of an op append a name, as in `nn.conv/blocked`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessella.runtime.elements import converted, tagged, widened
from tessella.runtime.host import (
    attention,
    detection,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    trees,
)
from tessella.runtime.host.registry import KERNELS, OF_BITS, Array, HostKernel, kernel
from tessella.support import plugins
from tessella.support.errors import ExecutionError, InternalError

__all__ = ["KERNELS", "Array", "HostKernel", "kernel", "run"]

_FAMILIES = (
    attention,
    detection,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    trees,
)


def run(
    name: str,
    arrays: Sequence[Array | None],
    settings: Mapping[str, Any],
    dtypes: Sequence[np.dtype[Any]] | None = None,
) -> list[Array]:
    """Run a NumPy kernel by name, without warnings, as IEEE's special values are intended.

    The results are converted to ``dtypes``, if given: kernels compute in f32 for narrower floats,
    and in 8 bits for narrower integers.
    """
    if name not in KERNELS:
        plugins.import_all(plugins.HOST)
    if name not in KERNELS:
        raise InternalError(f"no host kernel for {name}")
    taken = tagged if name in OF_BITS else widened
    with np.errstate(all="ignore"):
        given = (None if x is None else _read_only(taken(x)) for x in arrays)
        results = KERNELS[name](*given, **settings)
        listed = results if isinstance(results, tuple) else (results,)
        if dtypes is not None:
            if len(listed) != len(dtypes):
                raise ExecutionError(
                    f"the kernel {name!r} returns another number of results than its op has",
                    expected=_shown(len(dtypes)),
                    found=_shown(len(listed)),
                )
            listed = [converted(np.asarray(x), to) for x, to in zip(listed, dtypes, strict=True)]
    return [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in listed]


def _read_only(array: Array) -> Array:
    """Return a view of an array for a kernel, which must not change the caller's elements."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _shown(count: int) -> str:
    return "an array" if count == 1 else f"a tuple of {count} arrays"
