"""The linker's reading of object files, compared with binutils."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tessella.codegen import elf
from tessella.codegen.llvm import optimize_and_emit
from tessella.support.errors import InternalError
from tessella.targets import Target, native
from tessella.targets.table import TARGETS

SOURCE = """
declare void @three(ptr)
define internal void @hidden(ptr %p) noinline {
  store i64 1, ptr %p
  ret void
}
define i64 @one(i64 %x) {
  ret i64 %x
}
define void @two(ptr %p) {
  call void @hidden(ptr %p)
  call void @three(ptr %p)
  ret void
}
"""


def test_functions_are_those_that_binutils_lists(tmp_path: Path) -> None:
    data = optimize_and_emit(SOURCE, native())
    symbols = elf.read(data).symbols
    sizes = {s.name: s.size for s in symbols if s.is_exported and s.section}
    assert sizes.keys() == {"one", "two"}
    (tmp_path / "x.o").write_bytes(data)
    try:
        listed = subprocess.run(
            ["nm", "-S", str(tmp_path / "x.o")], capture_output=True, text=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("there is no nm")
    found = re.findall(r"^\w+ (\w+) T (\w+)$", listed, re.MULTILINE)
    assert sizes == {name: int(size, 16) for size, name in found}


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_call_is_a_relocation(target: Target) -> None:
    read = elf.read(optimize_and_emit(SOURCE, target))
    called = [read.symbols[r.symbol] for found in read.relocations.values() for r in found]
    assert ("three", 0) in [(symbol.name, symbol.section) for symbol in called]


def test_other_formats_are_refused() -> None:
    for data in (b"", b"MZ", b"\x7fELF\x01\x01" + bytes(100)):
        with pytest.raises(InternalError, match="ELF64"):
            elf.read(data)
