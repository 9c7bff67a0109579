"""Files of models that are replaced while they are read: no program is kept under another's key."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.frontends import kept
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import InvalidModelError
from tests.driver.test_program_cache import ones, scaled, want, write_in_two_files

READ = "tessella.frontends.compile._read"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))


def put(path: Path, factor: float) -> None:
    """Another file takes the place of this one."""
    new = path.with_suffix(".new")
    new.write_bytes(scaled(factor).SerializeToString())
    os.replace(new, path)


def check(path: Path) -> None:
    """Each content has its own program."""
    for factor in (2, 3, 2):
        put(path, factor)
        np.testing.assert_array_equal(tessella.compile(path)(ones()), want(factor))


def replaced(path: Path, *, back: bool) -> Callable[..., OnnxSource]:
    """A reader of models that meets another file than is there before, and afterwards."""

    def read(model: Any, constants: Any, limits: Any) -> OnnxSource:
        put(path, 3)
        source = OnnxSource(model, constants=constants, **limits)
        if back:
            put(path, 2)
        return source

    return read


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("is_warm", [False, True])
def test_a_model_is_replaced_while_it_is_read(
    is_warm: bool, back: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    put(path, 2)
    if is_warm:
        tessella.compile(path)
    with monkeypatch.context() as patched:
        patched.setattr(READ, replaced(path, back=back))
        with pytest.raises(InvalidModelError, match="the model has changed"):
            tessella.compile(path).explain()
    check(path)


def test_external_data_is_replaced_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "m.onnx", tmp_path / "other" / "m.onnx"
    other.parent.mkdir()
    write_in_two_files(path, 2)
    write_in_two_files(other, 3)
    hashed = kept._digest_of

    def digest(data: Path) -> bytes:
        found = hashed(data)
        os.replace(other.with_suffix(".data"), data)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(kept, "_digest_of", digest)
        with pytest.raises(InvalidModelError, match="the external data has changed"):
            tessella.compile(path)
    np.testing.assert_array_equal(tessella.compile(path)(ones()), want(3))


def test_a_touched_file_is_the_same(tmp_path: Path, compiled: list[str]) -> None:
    path = tmp_path / "m.onnx"
    put(path, 2)
    tessella.compile(path)
    warm = tessella.compile(path)
    path.touch()
    assert warm.explain()
    assert len(compiled) == 1


def test_another_version_of_onnx_compiles_anew(
    tmp_path: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has other schemas and functions. What needs no onnx does not depend on it."""
    path = tmp_path / "m.onnx"
    put(path, 2)
    for version in ("1.0.0", "1.0.0", "2.0.0"):
        monkeypatch.setattr(kept, "version", lambda _, version=version: version)
        np.testing.assert_array_equal(tessella.compile(path)(ones()), want(2))
    assert len(compiled) == 2
