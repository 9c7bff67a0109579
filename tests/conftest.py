"""Settings of the whole test suite."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Generator

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from tests import budgets, environment, garbage, selection, shared_kernels  # isort: skip (the first settles what others read)
from tessella import kernels
from tessella.codegen import kernel_cache
from tessella.driver.model import compilation
from tessella.kernels import registry
from tessella.passes import tile_parallelize
from tessella.passes.tile import parallel
from tessella.support.knobs import KNOBS
from tessella.targets import machine

shared_kernels.share()

# Caches have the sizes of the table of targets, on whatever machine the tests run.
machine._CACHE_ROOT = environment.RUN

# Tests look into what compiles, so calls compile in this process; threads of pytest would count.
compilation.OPS = sys.maxsize

# Compiling takes its time; and the same source has the same outcome.
settings.register_profile("tessella", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("slow", settings.get_profile("tessella"), max_examples=50)
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


@pytest.fixture
def sums_in_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """`nn.cumsum` has its NumPy kernel alone. Programs that others have kept are not read."""
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    kernels.load()
    monkeypatch.setitem(registry._KERNELS, "nn.cumsum", [])


VERIFIED = (
    *("tests/test_filecheck.py", "tests/passes/test_"),
    *("tests/driver/test_crash.py", "tests/driver/test_models.py"),
)
"""Tests whose programs are verified after every pass. Elsewhere it takes as long as all else: one
test of eight does it, with ``--slow`` one of four, and the other programs are verified at the
end. ``tests/driver/test_models.py`` has every network."""


FIRST = "tests/driver/test_three_processes.py"
"""The tests that run first, as each takes minutes: last, they would keep one process busy when the
others have ended."""


@pytest.fixture(autouse=True)
def verified_in_part(request: pytest.FixtureRequest) -> Generator[None]:
    """Verify programs after every pass, also in processes that the test starts."""
    name: str = request.node.nodeid
    one_of = 4 if request.config.getoption("--slow") else 8
    is_chosen = name.startswith(VERIFIED) or zlib.crc32(name.encode()) % one_of == 0
    verify = KNOBS.verify and is_chosen
    with KNOBS.set(verify=verify), pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESSELLA_VERIFY", str(int(verify)))
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--slow``."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    """Tell ``tests/sampling.py`` and Hypothesis how much to run."""
    garbage.collect_seldom()
    if config.getoption("--slow"):
        os.environ["TESSELLA_SLOW_TESTS"] = "1"
        settings.load_profile("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--slow``, skip what is marked slow. Rotate parameters and take samples of sweeps,
    unless tests are chosen by name. Long tests run first."""
    slow = bool(config.getoption("--slow"))
    if not slow:
        for item in items:
            if item.get_closest_marker("slow") is not None:
                item.add_marker(pytest.mark.skip(reason="slow: give --slow to run it"))
    if not config.getoption("-k") and not any("::" in name for name in config.args):
        names = selection.left_out(items, slow=slow)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in names])
        items[:] = [item for item in items if item.nodeid not in names]
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


def pytest_collection_finish() -> None:
    """The collector of garbage leaves the tests themselves alone."""
    garbage.collect_seldom()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the folders whose tests took longer than their budget."""
    reports = [
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, ())
        if isinstance(report, pytest.TestReport)
    ]
    slow = bool(config.getoption("--slow"))
    for line in budgets.exceeded(((r.nodeid, r.duration) for r in reports), slow=slow):
        terminalreporter.write_line(line, yellow=True)
