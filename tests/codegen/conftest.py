"""The targets that code is run for."""

from __future__ import annotations

import pytest

from tessella.targets import Target
from tests.codegen.harness import EMULATED, RUNNABLE


@pytest.fixture(params=RUNNABLE, ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    """Every target that this machine can run."""
    return request.param


@pytest.fixture(params=[*RUNNABLE, *EMULATED], ids=lambda target: target.name)
def any_target(request: pytest.FixtureRequest) -> Target:
    """Those, and the ones that an emulator can run."""
    return request.param
