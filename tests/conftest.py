"""Settings of the whole test suite."""

from __future__ import annotations

import atexit
import os
import tempfile

import pytest
from hypothesis import settings

# The IR is verified after every pass, in the processes that tests start too.
os.environ.setdefault("TESSELLA_VERIFY", "1")

# What was measured on this machine, and stored, is no part of what is tested.
_CACHE = tempfile.TemporaryDirectory()
atexit.register(_CACHE.cleanup)
os.environ["XDG_CACHE_HOME"] = _CACHE.name

# Everything is compiled anew, except where a test says otherwise.
os.environ["TESSELLA_CACHE"] = "off"

# A pass that crashes on purpose leaves nothing behind.
os.environ["TESSELLA_CRASH_DIR"] = "off"

# Compiling takes its time; and the same source has the same outcome.
settings.register_profile("tessella", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("slow", settings.get_profile("tessella"), max_examples=100)
settings.load_profile("tessella")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--slow``."""
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")


def pytest_configure(config: pytest.Config) -> None:
    """Tell ``tests/sampling.py`` and Hypothesis how much to run."""
    if config.getoption("--slow"):
        os.environ["TESSELLA_SLOW_TESTS"] = "1"
        settings.load_profile("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--slow``, skip what is marked slow."""
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.skip(reason="slow: give --slow to run it"))
