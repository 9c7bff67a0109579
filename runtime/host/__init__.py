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
    drawing,
    elementwise,
    finding,
    grouped,
    images,
    indexing,
    linear,
    movement,
    ngrams,
    normalization,
    pooling,
    reduction,
    strings,
    trees,
)
from tessella.runtime.host.registry import KERNELS, OF_BITS, Array, HostKernel, kernel
from tessella.support import plugins
from tessella.support.errors import ExecutionError, InternalError

DType = np.dtype[Any]

__all__ = ["KERNELS", "Array", "HostKernel", "kernel", "run"]

_FAMILIES = (
    attention,
    detection,
    drawing,
    elementwise,
    finding,
    grouped,
    images,
    indexing,
    linear,
    movement,
    ngrams,
    normalization,
    pooling,
    reduction,
    strings,
    trees,
)


def run(
    name: str,
    arrays: Sequence[Array | None],
    settings: Mapping[str, Any],
    dtypes: Sequence[DType] | None = None,
) -> list[Array]:
    """Run a NumPy kernel by name, without warnings, as IEEE's special values are intended.

    The results are converted to ``dtypes``, if given: kernels compute in f32 for narrower floats,
    and in 8 bits for narrower integers.
    """
    if name not in KERNELS:
        plugins.import_all(plugins.HOST)
    if name not in KERNELS:
        raise InternalError(f"no host kernel for {name}")
    if name in OF_BITS:
        own = [x if x is None else tagged(x) for x in arrays]
        return _results(name, own, settings, dtypes)
    with np.errstate(all="ignore"):
        wide = [x if x is None else _read_only(widened(x)) for x in arrays]
        return _results(name, wide, settings, dtypes)


def _results(
    name: str,
    arrays: Sequence[Array | None],
    settings: Mapping[str, Any],
    dtypes: Sequence[DType] | None,
) -> list[Array]:
    """Call a NumPy kernel, and return its results as contiguous arrays of ``dtypes``."""
    found = KERNELS[name](*arrays, **settings)
    listed = found if isinstance(found, tuple) else (found,)
    if dtypes is None:
        return [*map(_stored, listed)]
    if len(listed) != len(dtypes):
        raise ExecutionError(
            f"the kernel {name!r} returns another number of results than its op has",
            expected=_shown(len(dtypes)),
            found=_shown(len(listed)),
        )
    return [*map(_stored, listed, dtypes)]


def _stored(x: Array, to: DType | None = None) -> Array:
    """Return a result of a kernel, which may be a number of NumPy, as a contiguous array, of the
    dtype ``to`` if given."""
    array = np.asarray(x)
    if to is not None and array.dtype != to:
        array = converted(array, to)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _read_only(array: Array) -> Array:
    """Return a view of an array for a kernel, which must not change the caller's elements."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _shown(count: int) -> str:
    return "an array" if count == 1 else f"a tuple of {count} arrays"
