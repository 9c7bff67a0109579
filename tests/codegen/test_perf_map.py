"""The map that tells `perf` what generated code is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tessella
from tessella.codegen import perf_map
from tessella.codegen.llvm import Machine, emit_object
from tessella.support.knobs import KNOBS
from tessella.targets import native

SOURCE = """
define i64 @one(i64 %x) {
  ret i64 %x
}
define void @two(ptr %p) {
  store i64 1, ptr %p
  ret void
}
"""


def test_sizes_are_those_that_binutils_reads(tmp_path: Path) -> None:
    image = emit_object(SOURCE, Machine.of(native(), 3))
    sizes = perf_map.function_sizes(image)
    assert sizes.keys() == {"one", "two"}
    (tmp_path / "x.o").write_bytes(image)
    try:
        listed = subprocess.run(
            ["nm", "-S", str(tmp_path / "x.o")], capture_output=True, text=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("there is no nm")
    found = re.findall(r"^\w+ (\w+) T (\w+)$", listed, re.MULTILINE)
    assert sizes == {name: int(size, 16) for size, name in found}


def test_what_is_no_object_has_no_functions() -> None:
    assert perf_map.function_sizes(b"MZ") == {}


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
