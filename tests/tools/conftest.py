"""Models on disk."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import onnx
import pytest

from tests.tools.breaker import installed
from tests.tools.networks import classifier, open_batch, unsupported

MODELS = {"model": classifier, "open": open_batch, "unsupported": unsupported}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``model.onnx``, ``open.onnx`` and ``unsupported.onnx``; not to be changed."""
    folder = tmp_path_factory.mktemp("models")
    for name, make in MODELS.items():
        onnx.save(make(), folder / f"{name}.onnx")
    return folder


@pytest.fixture
def model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model in the current folder, which is a new one."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(models / "model.onnx", tmp_path)
    return "model.onnx"


@pytest.fixture
def breaker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A plugin's pass that loses activations."""
    with installed(tmp_path, monkeypatch):
        yield
