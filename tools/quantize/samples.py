"""Calibration data: reading from files, and checks against a model's inputs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from tessella.dialects.graph import ValueInfo
from tessella.dialects.nn.core import Array
from tessella.runtime.signature import fits
from tessella.support.errors import InputError
from tessella.support.files import regular
from tessella.support.names import did_you_mean

Sample = Mapping[str, Array]
"""An array for each input of a model, by name."""


def checked(
    samples: Sequence[Mapping[str, npt.ArrayLike]], inputs: Sequence[ValueInfo]
) -> list[Sample]:
    """Return the samples as arrays. Raises InputError for one that does not fit the model's
    inputs."""
    if not samples:
        raise InputError("no calibration data", expected="at least one sample")
    return [_checked(sample, inputs, f"sample {i}") for i, sample in enumerate(samples)]


def _checked(
    sample: Mapping[str, npt.ArrayLike], inputs: Sequence[ValueInfo], where: str
) -> Sample:
    if not isinstance(sample, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            "calibration data is a sequence of samples",
            where=where,
            expected="a dictionary of arrays by the names of inputs",
            found=type(sample).__name__,
        )
    _check_names(list(sample), inputs, where)
    arrays = {info.name: np.asarray(sample[info.name]) for info in inputs}
    for info in inputs:
        _check_array(arrays[info.name], info, where)
    return arrays


def _check_names(names: Sequence[str], inputs: Sequence[ValueInfo], where: str) -> None:
    """Raise InputError unless ``names``, those of a sample's arrays, are the names of the
    inputs."""
    known = [info.name for info in inputs]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(
            f"the model has no input {', '.join(map(repr, unknown))}",
            where=where,
            expected=", ".join(known),
            hint=did_you_mean(unknown[0], known),
        )
    missing = [name for name in known if name not in names]
    if missing:
        raise InputError(
            f"calibration data lacks {', '.join(map(repr, missing))}",
            where=where,
            expected=", ".join(known),
            found=", ".join(names) or "nothing",
        )


def _check_array(array: Array, info: ValueInfo, where: str) -> None:
    if array.dtype != info.dtype or not fits(array.shape, info.shape):
        raise InputError(
            f"calibration data does not fit the input {info.name!r}",
            where=where,
            expected=f"{info.dtype}[{', '.join(map(str, info.shape))}]",
            found=f"{array.dtype.name}[{', '.join(map(str, array.shape))}]",
        )


def read_samples(path: str, inputs: Sequence[ValueInfo]) -> list[Sample]:
    """Read the samples in an .npz file: arrays by input name, [samples, *shape of the input].

    Raises InputError for a file that is damaged, holds objects, or does not fit the inputs.
    """
    stacked = _read(path)
    _check_names(list(stacked), inputs, path)
    for info in inputs:
        _check_stacked(stacked[info.name], info, path)
    counts = {name: len(array) for name, array in stacked.items()}
    if len(set(counts.values())) > 1:
        raise InputError(
            "the arrays have different numbers of samples",
            where=path,
            expected="the same first dimension in all arrays",
            found=", ".join(f"{name} {count}" for name, count in counts.items()),
        )
    count = next(iter(counts.values()), 0)
    return checked([{n: a[i] for n, a in stacked.items()} for i in range(count)], inputs)


def _check_stacked(array: Array, info: ValueInfo, path: str) -> None:
    if array.ndim != len(info.shape) + 1:
        raise InputError(
            f"the array {info.name!r} has {array.ndim} dimensions",
            where=path,
            expected=f"samples, then {', '.join(map(str, info.shape))}",
            found=f"[{', '.join(map(str, array.shape))}]",
            hint="x[:, None] makes samples of a batch of 1 out of rows",
        )


def _read(path: str) -> dict[str, Array]:
    """Return the arrays of an .npz file."""
    try:
        with regular(path).open("rb") as file:  # NumPy does not close a file that it opens itself.
            archive: object = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(
                    "this is not an archive of arrays", where=path, expected="an .npz file"
                )
            found: dict[str, object] = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        raise InputError(
            f"cannot read calibration data: {error}", where=path, expected="an .npz file"
        ) from error
    except NotImplementedError as error:  # from zipfile: an unsupported compression
        raise InputError(f"cannot read calibration data: {error}", where=path) from error
    for name, array in found.items():
        if not isinstance(array, np.ndarray):
            raise InputError(f"{name!r} is not an array", where=path, expected="arrays alone")
    return {name: np.asarray(array) for name, array in found.items()}
