"""Images in memory: apart from each other, never writable and executable, given back."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import threading
from pathlib import Path

import pytest

from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.runtime import image as images
from tessella.runtime.image import Function, Image, Library
from tessella.support.errors import InternalError, ResourceError
from tessella.targets import native


def _image(value: int) -> Image:
    text = f"define i64 @k() {{\n  ret i64 {value}\n}}\n"
    return link({"k": optimize_and_emit(text, native())})


def _call(library: Library) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("k"))()


def test_libraries_with_equal_functions_coexist() -> None:
    libraries = [Library(_image(n)) for n in range(5)]
    assert [_call(library) for library in libraries] == list(range(5))
    del libraries[1::2]
    gc.collect()
    assert [_call(library) for library in libraries] == [0, 2, 4]


def test_a_missing_function_is_named() -> None:
    with pytest.raises(InternalError, match="no function 'other'"):
        Library(_image(1)).address("other")


def test_code_is_not_writable() -> None:
    at = Library(_image(1)).address
    address, lines = at("k"), Path("/proc/self/maps").read_text().splitlines()
    found = [re.match(r"(\w+)-(\w+) (\S+)", line) for line in lines]
    rights = [m[3] for m in found if m and int(m[1], 16) <= address < int(m[2], 16)]
    assert rights == ["r-xp"]


def test_functions_of_the_system_are_those_that_are_listed() -> None:
    image = Image(bytes(64), {"k": Function(0, 1)}, {"system": 8})
    with pytest.raises(InternalError, match="system"):
        Library(image).address("k")


def test_a_system_that_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Strict:
        def mprotect(self, *arguments: object) -> int:
            return -1

    monkeypatch.setattr(images.ctypes, "CDLL", lambda *a, **k: Strict())
    with pytest.raises(ResourceError, match="executable"):
        Library(_image(1)).address("k")


def test_threads_that_come_at_once_find_one_place() -> None:
    for n in range(20):
        library, found = Library(_image(n)), set[int]()
        threads = [
            threading.Thread(target=lambda lib=library, to=found: to.add(lib.address("k")))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 1


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks /proc")
def test_dropped_libraries_give_their_memory_back() -> None:
    image = _image(3)

    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def make(count: int) -> None:
        for _ in range(count):
            assert _call(Library(image)) == 3

    make(50)
    before = resident()
    make(300)
    # the pages alone would be 300 times 4 KiB
    assert resident() - before < 600 * 1024
