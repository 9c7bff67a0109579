"""Objects by their text: equal kernels are made once, whatever they are called, in any process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tessella.codegen import kernel_cache, objects, workers
from tessella.codegen.link import link
from tessella.codegen.lltypes import quote
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.symbols import PLACEHOLDER, linked_names, nameless
from tessella.runtime.image import Library
from tessella.support.errors import InternalError
from tessella.targets import get, native

pytestmark = pytest.mark.usefixtures("compiled_anew")

MACHINE = Machine.of(native())


def number(name: str, value: int) -> str:
    return (
        f"define i64 @{quote(name)}() {{\n  %x = call i64 @{quote(name + '.body')}()\n"
        "  ret i64 %x\n}\n"
        f"define internal i64 @{quote(name + '.body')}() alwaysinline {{\n  ret i64 {value}\n}}\n"
    )


def total(name: str, *others: str) -> str:
    calls = [f"  %x{i} = call i64 @{quote(other)}()" for i, other in enumerate(others)]
    declared = [f"declare i64 @{quote(other)}()" for other in set(others)]
    sums = [f"  %s{i + 1} = add i64 %s{i}, %x{i}" for i in range(len(others))]
    body = [*calls, "  %s0 = add i64 0, 0", *sums, f"  ret i64 %s{len(others)}"]
    return "\n".join([*declared, f"define i64 @{quote(name)}() {{", *body, "}", ""])


def call(texts: Mapping[str, str], name: str) -> int:
    made = objects.compile_modules(texts, native())
    library = Library(link(made.files, made.symbols))
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(library.address(name))())


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the machine code that LLVM compiles."""
    seen: list[str] = []

    def emit(text: str, machine: Machine) -> bytes:
        seen.append(text)
        return emit_object(text, machine)

    monkeypatch.setattr(objects, "emit_object", emit)
    monkeypatch.setattr(workers._SHARED, "_pool", workers.WorkerPool(0))
    return seen


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


# ** names **


def test_equal_modules_are_compiled_once(compiled: list[str]) -> None:
    texts = {"a_1": number("a_1", 20), "b_2": number("b_2", 20), "c_3": number("c_3", 2)}
    texts["sum"] = total("sum", "a_1", "b_2", "c_3")
    assert call(texts, "sum") == 42
    assert len(compiled) == 3


def test_a_name_that_begins_as_another_does(compiled: list[str]) -> None:
    names = ("k", "k1", "k10", "k.body2", "sum.1", 'a"b\\', "llvm", "x y")
    texts = {name: number(name, 2**i) for i, name in enumerate(names)}
    texts["s"] = total("s", *names)
    assert call(texts, "s") == 2 ** len(names) - 1


def test_intrinsics_and_other_text_stay() -> None:
    text = 'declare float @llvm.exp.f32(float)\n; "k" @k1\ndefine void @"k"() {\n  ret void\n}\n'
    new = nameless("k", text, linked_names(["k"]))
    assert new == text.replace('@"k"', f'@"{PLACEHOLDER}"')


def test_symbols_have_one_length() -> None:
    symbols = linked_names(f"k{i}" for i in range(300))
    assert {len(symbol) for symbol in symbols.values()} == {len(PLACEHOLDER)}
    assert len({*symbols.values(), PLACEHOLDER}) == 301


# ** on disk **


def test_the_next_process_finds_them(cache: Path, compiled: list[str]) -> None:
    assert call({"a": number("a", 1), "b": number("b", 2)}, "b") == 2
    assert len(compiled) == len(os.listdir(cache)) == 2
    assert call({"another": number("another", 2)}, "another") == 2
    assert len(compiled) == 2


def test_each_machine_and_level_has_its_own(cache: Path, compiled: list[str]) -> None:
    text = {"k": number("k", 1)}
    for target, level in ((get("sse"), 3), (get("avx2"), 3), (get("avx2"), 0)):
        objects.compile_modules(text, target, level=level)
    assert len(compiled) == 3


def test_another_version_makes_its_own(
    cache: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {"k": number("k", 1)}
    objects.compile_modules(text, native())
    monkeypatch.setattr(kernel_cache.llvm, "version", lambda: "llvmlite 99")
    kernel_cache._made_by.cache_clear()
    objects.compile_modules(text, native())
    kernel_cache._made_by.cache_clear()
    assert len(compiled) == 2


@pytest.mark.parametrize("size", [0, 5, 39, 40, 60, -1])
def test_a_damaged_entry_is_made_again(cache: Path, compiled: list[str], size: int) -> None:
    texts = {"k": number("k", 7)}
    call(texts, "k")
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    damaged = whole[:size] if size >= 0 else whole[:-8] + bytes(8)[: len(whole)] + b""
    file.write_bytes(damaged if damaged != whole else whole[:-8] + b"damaged!")
    assert call(texts, "k") == 7
    assert len(compiled) == 2
    assert file.read_bytes() == whole


def test_what_llvm_refuses_is_not_kept(cache: Path, compiled: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(InternalError, match="does not accept"):
            objects.compile_modules({"k": "nonsense"}, native())
    assert not cache.exists()


def test_none_is_kept_where_it_is_off(
    cache: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    for _ in range(2):
        call({"k": number("k", 1)}, "k")
    assert len(compiled) == 2
    assert not cache.exists()


# ** while others are written **


def test_modules_come_one_by_one_or_together(compiled: list[str]) -> None:
    with objects.Compilation(native()) as compilation:
        compilation.add("a", number("a", 40))
        compilation.add("same", number("same", 40))
        compilation.add_all({"b": number("b", 2), "sum": total("sum", "a", "b")})
        made = compilation.objects()
    library = Library(link(made.files, made.symbols))
    assert set(library.image.functions) == {"a", "same", "b", "sum"}
    assert library.address("a") == library.address("same")
    assert int(ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("sum"))()) == 42
    assert len(compiled) == len(set(compiled)) == 3
