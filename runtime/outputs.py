"""Arrays that callers provide for outputs: their checks, and how results are written to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import dtype_name, dtype_named, tagged
from tessella.runtime.signature import ValueInfo, fits
from tessella.runtime.values import arrays_in, as_public
from tessella.support.errors import InputError

Array = npt.NDArray[Any]


class Given(NamedTuple):
    """An array that the caller provides for an output."""

    info: ValueInfo
    array: Array
    """The caller's array."""
    memory: Array
    """A view of ``array`` with the dtype that tessella uses for its element type."""

    def check(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        """Raise InputError unless the array has this shape and dtype."""
        if (self.memory.shape, self.memory.dtype) != (tuple(shape), dtype):
            raise InputError(
                f"the array for the output {self.info.name!r} does not fit",
                expected=f"{dtype_name(dtype)} {tuple(shape)}",
                found=f"{dtype_name(self.memory.dtype)} {self.memory.shape}",
            )


def checked(
    infos: Sequence[ValueInfo], out: Sequence[Array | None], inputs: Sequence[Array]
) -> list[Given | None]:
    """Return the caller's arrays for outputs, with None for an output to allocate. Raises
    InputError for arrays that no result can be written to.

    Symbolic sizes can only be checked later: see `put`.
    """
    if isinstance(out, np.ndarray) or len(out) != len(infos):
        raise InputError(
            "'out' must have an array, or None, for each output",
            expected=f"a list of {len(infos)}: {', '.join(info.name for info in infos)}",
            found="an array" if isinstance(out, np.ndarray) else f"{len(out)} arrays",
        )
    given = [
        None if array is None else _given(info, array)
        for info, array in zip(infos, out, strict=True)
    ]
    taken = [*arrays_in(inputs)]
    for each in given:
        if each is not None:
            _check_apart(each, taken)
            taken.append(each.memory)
    return given


def put(result: Array, given: Given | None) -> Array:
    """Return the caller's array, with the result copied into it unless native code has written it
    there; without an array, return the result as callers get it. Raises InputError if the array
    does not fit the result."""
    if given is None:
        return as_public(result)
    if result is not given.memory:
        given.check(result.shape, result.dtype)
        np.copyto(given.memory, result)
    return given.array


def _given(info: ValueInfo, array: object) -> Given:
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"'out' has no array for the output {info.name!r}",
            expected="an array of NumPy, or None",
            found=type(array).__name__,
        )
    if not info.is_tensor:
        raise InputError(
            f"the output {info.name!r} is not an array",
            expected="None, which has it made",
            found=f"an array for the {info.dtype}",
        )
    given = Given(info, array, tagged(array))
    has_type = not info.is_known or given.memory.dtype == dtype_named(info.dtype)
    if not has_type or not fits(array.shape, info.shape):
        raise InputError(
            f"the array for the output {info.name!r} does not fit",
            expected=str(info),
            found=f"{dtype_name(given.memory.dtype)}[{', '.join(map(str, array.shape))}]",
        )
    if not array.flags.carray:
        raise InputError(
            f"the array for the output {info.name!r} cannot be written to by native code",
            expected="a C-contiguous, aligned array that is not read-only",
        )
    return given


def _check_apart(given: Given, taken: Iterable[Array]) -> None:
    if any(np.may_share_memory(given.memory, other) for other in taken):
        raise InputError(
            f"the array for the output {given.info.name!r} shares memory with an input, or with "
            "that for another output",
            hint="outputs are written while inputs are still read",
        )
