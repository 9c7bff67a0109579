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

import tessella.frontends.onnx.backend as compiled
from tessella.frontends.onnx import OnnxSource
from tessella.frontends.onnx.backend import CompiledRep, TessellaBackend
from tessella.frontends.onnx.official import CASES, FAILING, VERSION
from tessella.runtime.model import CallableModel
from tests.frontends.onnx.models import Interpreted
from tests.frontends.onnx.suite import all_cases, op_of, opened, rounded_often, runner_tests, wrong

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


BACKENDS = {"compiled": compiled, "interpreted": InterpretedBackend, "open": OpenBackend}


@cache
def runner_of(backend: str) -> Mapping[str, Callable[[], None]]:
    if backend == "compiled":
        return runner_tests(BACKENDS[backend])
    return runner_tests(BACKENDS[backend], rounded_often)


def shard(names: Sequence[str], number: int) -> Sequence[str]:
    return sorted(names)[number::SHARDS]


@pytest.fixture(autouse=True)
def folder_of_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The runner writes the data of networks here."""
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    monkeypatch.delenv("ONNX_MODELS", raising=False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "number", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, SHARDS))]
)
def test_runner(number: int) -> None:
    tests = runner_of("compiled")
    found = wrong(tests, shard([*tests], number))
    assert not found, "\n".join(found)


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["interpreted", "open"])
@pytest.mark.parametrize("number", range(SHARDS))
def test_runner_by_the_interpreter(number: int, backend: str) -> None:
    tests = runner_of(backend)
    networks = {case.name for case in all_cases() if case.kind == "real"}
    names = [name for name in tests if name not in networks]
    found = wrong(tests, shard(names, number))
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
