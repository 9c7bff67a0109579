"""Settings of the whole test suite."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Generator, Mapping, Sequence, Set

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests import environment, shared_kernels  # isort: skip (the first settles what others read)
from tessella.codegen import kernel_cache
from tessella.passes import tile_parallelize
from tessella.passes.tile import parallel
from tessella.support.knobs import KNOBS
from tessella.targets import machine

kernel_cache.FOLDER = shared_kernels.SHARED

# Caches have the sizes of the table of targets, on whatever machine the tests run.
machine._CACHE_ROOT = environment.RUN

# Compiling takes its time; and the same source has the same outcome.
settings.register_profile("tessella", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("slow", settings.get_profile("tessella"), max_examples=100)
settings.load_profile("tessella")

# Hypothesis also draws constants out of the modules that are loaded, unless their folder is named
# "tests": what is drawn would depend on which tests ran before, and on the folder of the checkout.
providers._get_local_constants = Constants


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM compiles what this test has, whether another test had it before or not."""
    monkeypatch.setattr(kernel_cache, "FOLDER", shared_kernels.OWN)


@pytest.fixture
def divide_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are divided however small they are. Programs that others have kept are not read."""
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    monkeypatch.setattr(parallel, "WORTH", 0)
    monkeypatch.setattr(tile_parallelize, "WAKES", 0)


VERIFIED = ("tests/test_filecheck.py", "tests/passes/test_", "tests/driver/test_crash.py")
"""Tests whose programs are verified after every pass. Elsewhere it takes as long as all else:
without ``--slow``, one test of eight does it, and the other programs are verified at the end."""

TARGETS = ("target", "any_target")
"""Parameters of tests."""


@pytest.fixture(autouse=True)
def verified_in_part(request: pytest.FixtureRequest) -> Generator[None]:
    """Whether the program is verified after every pass."""
    name: str = request.node.nodeid
    is_left_out = not name.startswith(VERIFIED) and zlib.crc32(name.encode()) % 8 != 0
    with KNOBS.set(verify=KNOBS.verify and (request.config.getoption("--slow") or not is_left_out)):
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--slow``."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    """Tell ``tests/sampling.py`` and Hypothesis how much to run."""
    if config.getoption("--slow"):
        os.environ["TESSELLA_SLOW_TESTS"] = "1"
        settings.load_profile("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--slow``, skip what is marked slow, run each case on one target only, and take a
    sample of each sweep unless tests are chosen by name."""
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="slow: give --slow to run it"))
    _leave_out(config, items, _other_targets(items))
    is_chosen = config.getoption("-k") or any("::" in name for name in config.args)
    if not is_chosen:
        _leave_out(config, items, _rest_of_sweeps(items))


def pytest_collection_finish() -> None:
    """The collector of garbage leaves the tests themselves alone."""
    gc.freeze()


def _leave_out(config: pytest.Config, items: list[pytest.Item], names: Set[str]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in names])
    items[:] = [item for item in items if item.nodeid not in names]


def _rest_of_sweeps(items: Sequence[pytest.Item]) -> set[str]:
    """The cases of tests marked ``sweep`` that are not in the sample: a quarter of them, but four
    at least."""
    sweeps: dict[str, list[str]] = {}
    for item in items:
        if item.get_closest_marker("sweep") is not None:
            sweeps.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    return {name for cases in sweeps.values() for name in _drawn(cases)[max(len(cases) // 4, 4) :]}


def _drawn(names: Sequence[str]) -> Sequence[str]:
    """The names in an order that has nothing to do with them, and is always the same."""
    return sorted(names, key=lambda name: zlib.crc32(name.encode()))


def _other_targets(items: Sequence[pytest.Item]) -> set[str]:
    """The tests of a case on all targets but one, where a function has several cases."""
    cases: dict[tuple[str, *tuple[int, ...]], list[str]] = {}
    for item in items:
        spec = getattr(item, "callspec", None)
        params: Mapping[str, object] = {} if spec is None else spec.params
        others = tuple(id(value) for name, value in params.items() if name not in TARGETS)
        if 0 < len(others) < len(params):
            cases.setdefault((item.nodeid.partition("[")[0], *others), []).append(item.nodeid)
    return {
        name
        for names in cases.values()
        for name in names
        if name != names[zlib.crc32(names[0].encode()) % len(names)]
    }
