"""Kernels for machines that are not this one run in an emulator."""

from __future__ import annotations

import pytest

from tests.emulated import emulate
from tests.native import EMULATED


@pytest.fixture(autouse=True)
def emulation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulate the code that a test compiles for its ``target`` if this machine cannot run it."""
    spec = getattr(request.node, "callspec", None)
    if spec is not None and spec.params.get("target") in EMULATED:
        emulate(monkeypatch)
        monkeypatch.setenv("TESSELLA_THREADS", "1")
