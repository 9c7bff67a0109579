"""The class `Predictor`, which runs a model on rows, for workers of any engine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.loaded import load
from tessella.runtime.model import CallableModel
from tessella.support.errors import InputError

Array = npt.NDArray[Any]


class Predictor:
    """An artifact that is mapped once and called with batches of rows.

    `ray.data.Dataset.map_batches` takes this class. A batch is a dictionary of arrays, whose first
    dimensions are the rows. The columns with the names of inputs are replaced by the outputs. All
    processes of a machine share the mapped weights.

    Parameters
    ----------
    path : str or PathLike
        The artifact. Each machine must have it at this path.
    threads : int, optional
        The number of threads of a call. Use 1 if the engine starts a worker for each core.
    """

    def __init__(self, path: str | os.PathLike[str], threads: int = 1) -> None:
        self._model = load(path, threads=threads)

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Return the batch with the outputs in place of the inputs.

        Parameters
        ----------
        batch : dict of ndarray
            Columns by name.

        Returns
        -------
        dict of ndarray
            The other columns, and the outputs.
        """
        names = [info.name for info in self._model.inputs]
        if missing := [name for name in names if name not in batch]:
            raise InputError(
                f"the batch has no column {', '.join(missing)}",
                expected=", ".join(names),
                found=", ".join(batch),
            )
        outputs = run_rows(self._model, {name: _dense(name, batch[name]) for name in names})
        kept = {name: column for name, column in batch.items() if name not in names}
        return {**kept, **outputs}


def _dense(name: str, column: Array) -> Array:
    """Return a column whose elements are arrays as one array. Raises InputError."""
    if column.dtype != object or not len(column) or not isinstance(column[0], np.ndarray):
        return column
    try:
        return np.stack([*column])
    except ValueError as error:
        raise InputError(
            f"rows of the column {name!r} have unequal shapes", hint="pad them to one shape"
        ) from error


def run_rows(model: CallableModel, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs for rows by name.

    A model with a fixed number of rows is called several times; in the last call, the last row is
    repeated to fill missing rows. Raises TessellaError.
    """
    rows = len(next(iter(feeds.values())))
    size = _rows_of_a_call(model) or rows
    starts = range(0, rows, size) if rows else range(0)
    calls = [model.run(None, _part(feeds, start, size)) for start in starts]
    found: dict[str, Array] = {}
    for info, *arrays in zip(model.outputs, *calls, strict=True):
        if any(not array.ndim or len(array) != size for array in arrays):
            raise InputError(
                f"the first dimension of the output {info.name!r} is not that of the inputs",
                expected=f"{size} rows",
                found=", ".join(str(array.shape) for array in arrays[:3]),
            )
        found[info.name] = np.concatenate(arrays)[:rows]
    return found


def _rows_of_a_call(model: CallableModel) -> int | None:
    """Return the number of rows that a call must have; None if it is symbolic."""
    first = {info.shape[0] if info.shape else "no dimension" for info in model.inputs}
    sizes = [size for size in first if isinstance(size, int)]
    if len(first) > 1 or 0 in sizes or "no dimension" in first:
        raise InputError(
            "the model does not take rows",
            expected="inputs whose first dimensions are equal",
            found=", ".join(map(str, model.inputs)),
        )
    return sizes[0] if sizes else None


def _part(feeds: Mapping[str, Array], start: int, size: int) -> dict[str, Array]:
    parts = {name: array[start : start + size] for name, array in feeds.items()}
    return {name: _filled(part, size - len(part)) for name, part in parts.items()}


def _filled(part: Array, lacking: int) -> Array:
    return np.concatenate([part, *[part[-1:]] * lacking]) if lacking else part


def names_of(model: CallableModel) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the inputs and of the outputs."""
    return [info.name for info in model.inputs], [info.name for info in model.outputs]
