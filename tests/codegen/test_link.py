"""Linking: one image of several objects, on this machine and on an emulated one."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from tessella.codegen.link import LINE, link, patched
from tessella.codegen.llvm import optimize_and_emit
from tessella.runtime.image import SYSTEM, Library
from tessella.support.errors import InternalError
from tessella.targets import Target, native
from tessella.targets.family import Family
from tessella.targets.table import FAMILIES, TARGETS, get
from tests.codegen import aarch64
from tests.codegen.harness import EMULATED, RUNNABLE

TARGET_NAMES = sorted(TARGETS)
HERE = [target.name for target in (*RUNNABLE, *EMULATED)]
TWICE = """
declare i64 @k()
define i64 @twice() {
  %x = call i64 @k()
  %y = add i64 %x, %x
  ret i64 %y
}
"""
MOVES = """
define void @k(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  call void @llvm.memset.p0.i64(ptr %from, i8 1, i64 %n, i1 false)
  ret void
}
"""
CHOICE = (
    "define i64 @k(i64 %x) {\n  switch i64 %x, label %other ["
    + " ".join(f"i64 {i}, label %l{i}" for i in range(8))
    + "]\n"
    + "".join(f"l{i}:\n  %r{i} = mul i64 %x, {i * i * 77 + 3}\n  br label %end\n" for i in range(8))
    + "other:\n  br label %end\nend:\n  %r = phi i64 [ 9, %other ], "
    + ", ".join(f"[ %r{i}, %l{i} ]" for i in range(8))
    + "\n  ret i64 %r\n}\n"
)
"""A jump through a table, which is among the constants."""
VECTOR = """
define void @k(ptr %p) {
  %x = load <16 x float>, ptr %p, align 4
  %c = fadd <16 x float> %x, <float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0,
    float 7.0, float 8.0, float 9.0, float 10.0, float 11.0, float 12.0, float 13.0, float 14.0,
    float 15.0, float 16.0>
  store <16 x float> %c, ptr %p, align 4
  ret void
}
"""


def _constant(value: int, target: Target | None = None) -> bytes:
    text = f"define i64 @k() {{\n  ret i64 {value}\n}}\n"
    return optimize_and_emit(text, target or native())


def _call(library: Library, symbol: str = "k", *arguments: int) -> int:
    kinds = [ctypes.c_int64] * (1 + len(arguments))
    return ctypes.CFUNCTYPE(*kinds)(library.address(symbol))(*arguments)


def _emulated(objects: dict[str, bytes], name: str, *arguments: int) -> int:
    """Return the result of a function that runs on emulated AArch64 cores."""
    machine = aarch64.Machine(link(objects), seed=0)
    machine.call(machine.functions[name], *arguments)
    return machine.returned


def test_objects_call_each_other_whatever_their_order() -> None:
    one, two = _constant(21), optimize_and_emit(TWICE, native())
    assert _call(Library(link({"twice": two, "k": one})), "twice") == 42
    assert _call(Library(link({"k": one, "twice": two})), "twice") == 42


def test_objects_of_another_architecture() -> None:
    neon = get("neon")
    objects = {"twice": optimize_and_emit(TWICE, neon), "k": _constant(21, neon)}
    assert _emulated(objects, "twice") == 42


def test_equal_objects_are_there_once() -> None:
    """They have other names, and each is found under its own."""
    body = "define i64 @tessella.function.00000000() {\n  ret i64 5\n}\n"
    data = optimize_and_emit(body, native())
    image = link({"a": data, "b": data}, {"a": "one", "b": "two"}, {"b": ["node"]})
    assert image.functions["a"].offset == image.functions["b"].offset
    assert image.functions["b"].nodes == ["node"]
    assert _call(Library(image), "b") == 5


def test_functions_begin_with_cache_lines() -> None:
    objects = {"k": _constant(1), "twice": optimize_and_emit(TWICE, native())}
    assert [f.offset % LINE for f in link(objects).functions.values()] == [0, 0]


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_a_missing_symbol_is_named(target: str) -> None:
    with pytest.raises(InternalError, match=re.escape("the objects call 'k'")):
        link({"twice": optimize_and_emit(TWICE, get(target))})


@pytest.mark.parametrize("target", TARGET_NAMES)
@pytest.mark.parametrize("kind", ["global i64 3", "global [9 x i64] zeroinitializer"])
def test_variables_are_refused(target: str, kind: str) -> None:
    """An image is the same for all who run it."""
    text = (
        f"@v = internal {kind}\ndefine void @k(i64 %x) {{\n  store i64 %x, ptr @v\n  ret void\n}}"
    )
    text += "\ndefine i64 @l() {\n  %x = load volatile i64, ptr @v\n  ret i64 %x\n}\n"
    with pytest.raises(InternalError, match="no section such as"):
        link({"k": optimize_and_emit(text, get(target))})


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_absolute_addresses_are_refused(target: str) -> None:
    text = (
        "@v = constant ptr @k\ndefine ptr @k() {\n  %x = load volatile ptr, ptr @v\n  ret ptr %x\n}"
    )
    with pytest.raises(InternalError, match=r"relocation|no section such as"):
        link({"k": optimize_and_emit(text, get(target))})


def test_what_llvm_calls_is_found_in_the_process() -> None:
    image = link({"k": optimize_and_emit(MOVES, native())})
    assert set(image.imports) == {"memcpy", "memset"}
    source, destination = np.full(100000, 5, np.uint8), np.zeros(100000, np.uint8)
    _call(Library(image), "k", destination.ctypes.data, source.ctypes.data, 100000)
    assert (destination == 5).all()
    assert (source == 1).all()


def test_what_llvm_calls_on_aarch64() -> None:
    source, destination = np.full(1000, 5, np.uint8), np.zeros(1000, np.uint8)
    objects = {"k": optimize_and_emit(MOVES, get("neon"))}
    _emulated(objects, "k", destination.ctypes.data, source.ctypes.data, 1000)
    assert (destination == 5).all()
    assert (source == 1).all()


@pytest.mark.parametrize("target", HERE)
def test_jumps_through_tables(target: str) -> None:
    objects = {"k": optimize_and_emit(CHOICE, get(target))}
    for x in range(-1, 9):
        want = x * (x * x * 77 + 3) if 0 <= x < 8 else 9
        got = (
            _emulated(objects, "k", x)
            if target == "neon"
            else _call(Library(link(objects)), "k", x)
        )
        assert got == want, x


@pytest.mark.parametrize("target", HERE)
def test_constants(target: str) -> None:
    x = np.zeros(16, np.float32)
    objects = {"k": optimize_and_emit(VECTOR, get(target))}
    if target == "neon":
        _emulated(objects, "k", x.ctypes.data)
    else:
        _call(Library(link(objects)), "k", x.ctypes.data)
    np.testing.assert_array_equal(x, np.arange(1, 17, dtype=np.float32))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_what_is_too_far_is_refused(family: Family) -> None:
    for kind in family.patches.keys() & {2, 4, 261, 275, 282, 283}:
        assert patched(family, kind, 0, 0, 1 << 20)
        with pytest.raises(InternalError, match="too large"):
            patched(family, kind, 0, 0, 1 << 40)
    with pytest.raises(InternalError, match="kind 1"):
        patched(family, 1, 0, 0, 0)


def test_the_system_is_asked_for_no_more_than_it_may_be() -> None:
    """The list of functions that artifacts can name is short, and in one place."""
    assert set(SYSTEM) == {"memcpy", "memmove", "memset"}
