"""What tests of the driver share."""

from __future__ import annotations

from typing import Any

import pytest

from tessella.driver import compile_graph as module


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each program that is compiled."""
    seen: list[str] = []
    make = module.compile_graph

    def compile_graph(*args: Any) -> Any:
        seen.append("program")
        return make(*args)

    monkeypatch.setattr(module, "compile_graph", compile_graph)
    return seen
