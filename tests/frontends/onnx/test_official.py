"""The official runner of ONNX takes the backend as it is: all of its tests pass, except those that
``frontends/onnx/official.py`` lists with a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import onnx
import pytest

from tessella.frontends.onnx import OnnxSource, backend
from tessella.frontends.onnx.backend import CompiledRep, TessellaBackend
from tessella.frontends.onnx.official import CASES, FAILING, VERSION
from tessella.runtime.model import CallableModel
from tests.frontends.onnx.models import Interpreted
from tests.frontends.onnx.suite import (
    NETWORKS,
    all_cases,
    op_of,
    opened,
    rounded_often,
    runner_tests,
    wrong,
)

SHARDS = 48


class InterpretedBackend(TessellaBackend):
    """The backend that imports models and interprets them, which takes less time."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> CompiledRep:
        del device, kwargs
        return CompiledRep(cast("CallableModel", Interpreted(OnnxSource(model))))


class OpenBackend(InterpretedBackend):
    """The same, with symbols for all sizes of inputs."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> CompiledRep:
        return super().prepare(opened(model), device, **kwargs)


BACKENDS = {"interpreted": InterpretedBackend, "open": OpenBackend}


@cache
def compiled_tests() -> Mapping[str, Callable[[], None]]:
    return runner_tests(backend)


@cache
def runner_of(name: str) -> Mapping[str, Callable[[], None]]:
    return runner_tests(BACKENDS[name], rounded_often)


def shard(names: Sequence[str], number: int) -> Sequence[str]:
    return sorted(names)[number::SHARDS]


@pytest.fixture(autouse=True)
def folder_of_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The runner writes the data of networks here."""
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    monkeypatch.delenv("ONNX_MODELS", raising=False)


@pytest.mark.filterwarnings("ignore")
def test_runner() -> None:
    """A part of the tests; `tests/driver/test_three_processes.py` runs all of them."""
    tests = compiled_tests()
    found = wrong(tests, shard([*tests.keys() - NETWORKS], 0))
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks(name: str) -> None:
    assert wrong(compiled_tests(), [name]) == []


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("number", range(SHARDS))
def test_runner_by_the_interpreter(number: int, name: str) -> None:
    tests = runner_of(name)
    found = wrong(tests, shard([*tests.keys() - NETWORKS], number))
    assert not found, "\n".join(found)


def test_list() -> None:
    """Each test on the list exists, and its op has the number of tests that the documentation
    tells."""
    ops = {case.name: op_of(case) for case in all_cases()}
    for op, sentences in FAILING.items():
        for names in sentences.values():
            assert [name for name in names.split() if ops.get(name) != op] == [], op
    if onnx.__version__ == VERSION:
        assert Counter(ops.values()) == CASES
