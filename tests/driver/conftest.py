"""What tests of the driver share."""

from __future__ import annotations

from typing import Any

import pytest

from tessella.driver import build


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each program that is compiled."""
    seen: list[str] = []
    make = build.compile_graph

    def compile_graph(*args: Any) -> Any:
        seen.append("program")
        return make(*args)

    monkeypatch.setattr(build, "compile_graph", compile_graph)
    return seen
