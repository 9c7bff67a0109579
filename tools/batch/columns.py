"""Conversion of columns of Arrow tables to arrays, and of arrays to columns."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tessella.runtime import texts
from tessella.runtime.elements import dtype_named
from tessella.runtime.model import CallableModel
from tessella.runtime.signature import ValueInfo, fits
from tessella.support.errors import InputError
from tessella.tools.batch.predictor import names_of, run_rows

Array = npt.NDArray[Any]


def predicted(model: CallableModel, batch: Any) -> Any:
    """Run a model on a record batch. Return the batch with the outputs in place of the inputs.
    Raises TessellaError."""
    feeds = {info.name: array_of(batch, info) for info in model.inputs}
    found = run_rows(model, feeds)
    names, _ = names_of(model)
    kept = {n: batch.column(n) for n in batch.schema.names if n not in names}
    outputs = {name: column_of(array) for name, array in found.items()}
    return pa.RecordBatch.from_pydict({**kept, **outputs})


def check_columns(model: CallableModel, columns: Mapping[str, object]) -> None:
    """Raise InputError if columns are missing, or have the names of outputs."""
    inputs, outputs = names_of(model)
    missing = [name for name in inputs if name not in columns]
    twice = [name for name in outputs if name in columns and name not in inputs]
    if missing or twice:
        raise InputError(
            f"there is no column {', '.join(missing)}"
            if missing
            else f"a column has the name of an output: {', '.join(twice)}",
            expected=f"the columns {', '.join(inputs)}, and others that are not outputs",
            found=", ".join(columns),
        )


def array_of(batch: Any, info: ValueInfo) -> Array:
    """Return the column of an input as an array. The column has numbers, strings, tensors, or lists
    of equal length. Raises InputError."""
    column = batch.column(info.name)
    if isinstance(column.type, pa.FixedShapeTensorType):
        if column.type.permutation not in (None, [*range(len(column.type.shape))]):
            raise InputError(f"the tensors of the column {info.name!r} have permuted dimensions")
        column = column.storage
    sizes = [len(column)]
    while True:
        if column.null_count:
            raise InputError(f"the column {info.name!r} has null values")
        if not _is_list(column.type):
            break
        sizes.append(_length(column, info.name))
        column = column.flatten()
    shape = _shape(tuple(sizes), info)
    return _elements(column, info).reshape(shape)


def column_of(array: Array) -> Any:
    """Return an array as a column of rows. Each dimension after the first becomes a level of lists.
    Raises InputError for complex numbers."""
    if array.dtype.kind == "c":
        raise InputError(
            "Parquet has no complex numbers",
            expected="an output of real numbers",
            found=array.dtype.name,
            hint="let the model return the real and the imaginary parts",
        )
    flat = array.reshape(-1)
    column = pa.array(flat.tolist(), pa.string()) if array.dtype == texts.STRING else pa.array(flat)
    for size in array.shape[:0:-1]:
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def _is_list(kind: Any) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _length(column: Any, name: str) -> int:
    """Return the length that all lists of a column have. Raises InputError if they differ."""
    if pa.types.is_fixed_size_list(column.type):
        return column.type.list_size
    lengths = np.unique(column.value_lengths().to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise InputError(
            f"lists of the column {name!r} have unequal lengths",
            found=f"{lengths[0]} to {lengths[-1]} elements",
            hint="pad them to one length",
        )
    return int(lengths[0]) if len(lengths) else 0


def _shape(found: tuple[int, ...], info: ValueInfo) -> tuple[int, ...]:
    """Return the shape of an input's array: the shape of the nested lists or, for flat lists, the
    shape in the model."""
    if len(found) == len(info.shape) and fits(found[1:], info.shape[1:]):
        return found
    known = [size for size in info.shape[1:] if isinstance(size, int)]
    if len(known) == len(info.shape) - 1 and prod(known) == prod(found[1:]):
        return (found[0], *known)
    raise InputError(
        f"the column {info.name!r} has the wrong shape",
        expected=f"[{', '.join(map(str, info.shape))}]",
        found=f"[{', '.join(map(str, found))}]",
    )


def _elements(column: Any, info: ValueInfo) -> Array:
    dtype = dtype_named(info.dtype)
    try:
        if dtype == texts.STRING:
            return texts.of_list(column.cast(pa.string()).to_pylist(), (len(column),))
        return column.cast(pa.from_numpy_dtype(dtype)).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(
            f"the column {info.name!r} cannot be {info.dtype}", found=str(error)[:200]
        ) from error
