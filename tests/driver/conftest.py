"""Fixtures of the driver's tests."""

from __future__ import annotations

from typing import Any

import pytest

from tessella.driver.build import compile_graph as module


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list with an entry for each compiled program."""
    seen: list[str] = []
    make = module.compile_graph

    def compile_graph(*args: Any) -> Any:
        seen.append("program")
        return make(*args)

    monkeypatch.setattr(module, "compile_graph", compile_graph)
    return seen
