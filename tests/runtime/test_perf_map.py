"""The map that tells `perf` what generated code is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

import tessella
from tessella.support.knobs import KNOBS


def test_kernels_are_named_with_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    path.unlink(missing_ok=True)
    monkeypatch.setattr(KNOBS, "perf", True)
    try:
        step = tessella.jit(lambda x: np.tanh(x) * 2)
        step(np.ones(8, np.float32))
        lines = path.read_text().splitlines()
    finally:
        path.unlink(missing_ok=True)
    fields = [line.split(" ", 2) for line in lines]
    assert all(int(start, 16) and int(size, 16) for start, size, _ in fields)
    assert any("[test_perf_map.py:" in name for _, _, name in fields)


def test_assembly_names_the_nodes() -> None:
    step = tessella.jit(lambda x: np.tanh(x) * 2)
    text = step.lower(np.ones(8, np.float32)).as_text("asm")
    assert re.search(r"^# \w+ \[test_perf_map\.py:\d+\]$", text, re.MULTILINE)
