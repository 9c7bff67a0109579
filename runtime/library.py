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
    """Return the first existing function among names of a shared library, with its ``ctypes``
    signature.

    Calls release the GIL. Neither the types nor the arguments are checked: a wrong size is
    undefined behaviour. Raises LibraryError if the library cannot be loaded or has none of the
    names.
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
        "the library lacks the function",
        where=str(library),
        expected=" or ".join(names),
        hint="list its functions with `nm -D`",
    )


def row_major(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the array in row-major memory for a C function; a copy if its strides differ.

    Raises LibraryError for elements of another type.
    """
    if array.dtype != dtype:
        raise LibraryError(
            "an array has other elements than the function reads",
            expected=np.dtype(dtype).name,
            found=array.dtype.name,
        )
    return np.require(array, None, ["C", "A"])
