"""Functions of shared libraries, for kernels that call them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import LibraryError

CFunction = Callable[..., Any]


def c_function(
    library: str | Path, names: Sequence[str], arguments: Sequence[Any], result: Any = None
) -> CFunction:
    """The function of a shared library that has one of the names, the first that there is, with
    the ``ctypes`` types of its arguments and result. A call of it releases the GIL.

    Nothing checks the types, nor what is passed: a wrong size is a wrong program. Raises
    LibraryError if the library cannot be loaded or has none of the names.
    """
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise LibraryError(
            "the library cannot be loaded",
            where=str(library),
            found=str(error),
            hint="give its path, or have the loader find it (LD_LIBRARY_PATH)",
        ) from error
    for name in names:
        if hasattr(loaded, name):
            function = getattr(loaded, name)
            function.argtypes, function.restype = list(arguments), result
            return function
    raise LibraryError(
        "the library has no such function",
        where=str(library),
        expected=" or ".join(names),
        hint="list its functions with `nm -D`",
    )


def row_major(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The array in memory that a function of C can read; a copy where it has other strides. Raises
    LibraryError for elements of another type."""
    if array.dtype != dtype:
        raise LibraryError(
            "an array has other elements than the function reads",
            expected=np.dtype(dtype).name,
            found=array.dtype.name,
        )
    return np.require(array, None, ["C", "A"])
