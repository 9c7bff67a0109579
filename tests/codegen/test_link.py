"""Linking: libraries of their own, missing symbols, memory that is given back."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path

import numpy as np
import pytest

from tessella.codegen.link import Library, link
from tessella.codegen.llvm import optimize_and_emit
from tessella.support.errors import InternalError
from tessella.targets import native


def _constant(value: int) -> bytes:
    return optimize_and_emit(f"define i64 @k() {{\n  ret i64 {value}\n}}\n", native())


def _call(library: Library, symbol: str = "k") -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(library.address(symbol))()


def test_libraries_with_equal_symbols_coexist() -> None:
    libraries = [link({"k": _constant(n)}) for n in range(5)]
    assert [_call(library) for library in libraries] == list(range(5))
    del libraries[1::2]
    gc.collect()
    assert [_call(library) for library in libraries] == [0, 2, 4]


def test_objects_call_each_other_whatever_their_order() -> None:
    caller = "declare i64 @k()\ndefine i64 @twice() {\n  %x = call i64 @k()\n"
    caller += "  %y = add i64 %x, %x\n  ret i64 %y\n}\n"
    one, two = _constant(21), optimize_and_emit(caller, native())
    assert _call(link({"twice": two, "k": one}), "twice") == 42
    assert _call(link({"k": one, "twice": two}), "twice") == 42


def test_a_missing_symbol_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    caller = "declare i64 @nowhere()\n"
    caller += "define i64 @k() {\n  %x = call i64 @nowhere()\n  ret i64 %x\n}\n"
    image = optimize_and_emit(caller, native())
    with pytest.raises(InternalError, match="cannot link"):
        link({"k": image})
    assert "nowhere" in capfd.readouterr().err
    with pytest.raises(InternalError, match="no function 'other'"):
        link({"k": _constant(1)}).address("other")


def test_what_llvm_calls_is_found_in_the_process() -> None:
    text = """
    define void @k(ptr %to, ptr %from) {
      call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 100000, i1 false)
      call void @llvm.memset.p0.i64(ptr %from, i8 1, i64 100000, i1 false)
      ret void
    }"""
    library = link({"k": optimize_and_emit(text, native())})
    source, destination = np.full(100000, 5, np.uint8), np.zeros(100000, np.uint8)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("k"))
    run(destination.ctypes.data, source.ctypes.data)
    assert (destination == 5).all()
    assert (source == 1).all()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks /proc")
def test_dropped_libraries_give_their_memory_back() -> None:
    image = _constant(3)

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def make(count: int) -> None:
        for _ in range(count):
            assert _call(link({"k": image})) == 3

    make(50)
    before = resident()
    make(300)
    # Code pages alone would be 300 times 4 KiB and more.
    assert resident() - before < 600 * 1024
