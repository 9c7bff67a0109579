"""The same tests draw the same cases, wherever and in whatever order they run."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[int]:
    """Return the values that a test draws."""
    seen: list[int] = []

    @settings(max_examples=200)
    @given(st.integers(0, 1 << 40))
    def draw(number: int) -> None:
        seen.append(number)

    draw()
    return seen


def test_loaded_modules_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    (tmp_path / "full_of_constants.py").write_text(f"X = {[*range(1000, 2000)]}")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_constants")
    assert drawn() == before
