"""Calibration data: files that anybody may have written, and what does not fit the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessella.runtime.signature import ValueInfo
from tessella.support.errors import InputError
from tessella.tools.quantize.samples import checked, read_samples

X = ValueInfo("x", "float32", ("batch", 4))
MASK = ValueInfo("mask", "int64", (4,))


def sample(**more: Any) -> dict[str, Any]:
    return {"x": np.ones((2, 4), np.float32), "mask": np.ones(4, np.int64), **more}


def test_samples_are_read_along_the_first_dimension(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    mask = np.ones((3, 4), np.int64)
    np.savez(tmp_path / "d.npz", x=x, mask=mask)
    found = read_samples(str(tmp_path / "d.npz"), [X, MASK])
    assert len(found) == 3
    np.testing.assert_array_equal(found[1]["x"], x[1])
    np.testing.assert_array_equal(found[2]["mask"], mask[2])


@pytest.mark.parametrize(
    "samples, message",
    [
        ([], "no calibration data"),
        ([np.ones(4)], "a sequence of samples"),
        ([sample(), {"x": np.ones((1, 4), np.float32)}], "lacks 'mask'"),
        ([sample(masc=np.ones(4))], "no input 'masc'"),
        ([sample(x=np.ones((2, 4)))], r"found: float64\[2, 4\]"),
        ([sample(x=np.ones((2, 5), np.float32))], r"expected: float32\[batch, 4\]"),
        ([sample(mask=np.ones((1, 4), np.int64))], "does not fit the input 'mask'"),
    ],
)
def test_what_does_not_fit(samples: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(samples, [X, MASK])


def test_an_error_names_the_sample_and_the_name_that_was_meant() -> None:
    with pytest.raises(InputError, match="sample 1") as caught:
        checked([sample(), sample(masc=np.ones(4))], [X, MASK])
    assert caught.value.hint == "did you mean 'mask'?"


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"x": np.ones((2, 4), np.float32), "mask": np.ones((2, 4), np.int64)}, "2 dimensions"),
        ({"x": np.ones((3, 2, 4), np.float32), "mask": np.ones((2, 4), np.int64)}, "x 3, mask 2"),
        (
            {"x": np.ones((0, 2, 4), np.float32), "mask": np.ones((0, 4), np.int64)},
            "no calibration",
        ),
        ({"x": np.ones((3, 2, 4), np.float32)}, "lacks 'mask'"),
    ],
)
def test_arrays_that_are_no_samples(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", allow_pickle=True, **arrays)
    with pytest.raises(InputError, match=message):
        read_samples(str(tmp_path / "d.npz"), [X, MASK])


class Malicious:
    """Would create a file if it was unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.path,)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    bad = np.array([Malicious(tmp_path / "owned")], object)
    np.savez(tmp_path / "d.npz", x=bad)
    with pytest.raises(InputError, match="cannot read calibration data"):
        read_samples(str(tmp_path / "d.npz"), [X])
    assert not (tmp_path / "owned").exists()


def test_damaged_files(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "d.npz", x=np.ones((3, 2, 4), np.float32))
    good = (tmp_path / "d.npz").read_bytes()
    rng = np.random.default_rng(0)
    broken = [b"", good[: len(good) // 2], b"PK" + bytes(100)]
    for _ in range(60):
        damaged = bytearray(good)
        damaged[rng.integers(len(good))] ^= 1 << int(rng.integers(8))
        broken.append(bytes(damaged))
    refused = 0
    for data in broken:
        (tmp_path / "b.npz").write_bytes(data)
        try:
            read_samples(str(tmp_path / "b.npz"), [X])
        except InputError:
            refused += 1
    assert refused >= 3


def test_other_files(tmp_path: Path) -> None:
    np.save(tmp_path / "d.npy", np.ones(3))
    with pytest.raises(InputError, match="not an archive"):
        read_samples(str(tmp_path / "d.npy"), [X])
    with pytest.raises(InputError, match="No such file"):
        read_samples(str(tmp_path / "nothing.npz"), [X])
