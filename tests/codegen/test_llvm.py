"""LLVM's side: errors with their line, data layouts, features, calls of nothing external."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tessella.codegen.link import link
from tessella.codegen.llvm import assembly, data_layout, optimize_and_emit, optimized_text, version
from tessella.support.errors import InternalError
from tessella.targets import Target, get
from tessella.targets.table import FAMILIES, TARGETS, family_of
from tests.codegen.elf import undefined_symbols
from tests.codegen.harness import Case, elementwise_source, kernel_text
from tests.hostile.limits import gigabytes

ALLOWED = {"memcpy", "memset", "memmove", "bzero"}
"""What LLVM may call of its own accord."""


def test_a_parse_error_shows_the_line() -> None:
    text = "define void @k() {\n  %x = add i32 1, 2\n  %y = fadd float %x, %x\n  ret void\n}\n"
    with pytest.raises(InternalError) as caught:
        optimize_and_emit(text, get("avx2"))
    assert ">    3   %y = fadd float %x, %x" in str(caught.value)
    assert "     2   %x = add i32 1, 2" in str(caught.value)


def test_without_memory_it_refuses_rather_than_aborts() -> None:
    emit_nothing = "define void @k() {\n  ret void\n}\n"
    with gigabytes(0.004), pytest.raises(MemoryError, match="does not give"):
        optimize_and_emit(emit_nothing, get("avx2"))
    assert optimize_and_emit(emit_nothing, get("avx2"))


def test_text_that_parses_but_is_wrong_is_refused() -> None:
    text = "define void @k() {\na:\n  br label %c\nb:\n  %x = add i32 1, 2\n  br label %c\nc:\n"
    text += "  %y = add i32 %x, 1\n  ret void\n}\n"
    with pytest.raises(InternalError, match="does not dominate"):
        optimize_and_emit(text, get("avx2"))


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_data_layouts_are_those_of_llvm(target: Target) -> None:
    family = family_of(target)
    for triple in {target.triple, *family.triples.values()}:
        assert family.data_layout == data_layout(replace(target, triple=triple))


@pytest.mark.parametrize("triple", [t for f in FAMILIES.values() for t in f.triples.values()])
def test_objects_are_of_one_format_on_all_systems(triple: str) -> None:
    target = replace(get("neon" if triple.startswith("a") else "avx2"), triple=triple)
    image = link({"k": optimize_and_emit(kernel_text(SUM, target), target)})
    assert set(image.functions) == {"k"}


def test_version_names_both() -> None:
    assert re.fullmatch(r"llvmlite [\d.]+\S* LLVM \d+\.\d+\.\d+", version())


SUM = """
rt.kernel @k(%a: memref<64xf32>, %b: memref<64xf32>, %o: memref<64xf32>)
    threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %16 = arith.constant 16 : index
  %64 = arith.constant 64 : index
  scf.for %i = %0 to %64 step %16 {
    %x = vector.load %a[%i] : memref<64xf32>, vector<16xf32>
    %y = vector.load %b[%i] : memref<64xf32>, vector<16xf32>
    %z = vector.fma %x, %y, %x : vector<16xf32>
    vector.store %z, %o[%i] : memref<64xf32>, vector<16xf32>
  }
  rt.return
}"""

EXPECTED = {
    "avx512": ("vfmadd", "zmm"),
    "avx2": ("vfmadd", "ymm"),
    "sse": ("mulps", "xmm"),
    "neon": ("fmla", "v0.4s"),
}
FORBIDDEN = {"avx2": "zmm", "sse": "ymm"}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_target_uses_its_own_vectors(name: str) -> None:
    target = get(name)
    text = assembly(kernel_text(SUM, target), target)
    assert all(word in text for word in EXPECTED[name]), text
    assert FORBIDDEN.get(name, "\0") not in text


def test_the_body_is_inlined_into_the_exported_function() -> None:
    text = optimized_text(kernel_text(SUM, get("avx512")), get("avx512"))
    assert text.count("define ") == 1
    assert "!noalias" in text


MATH = [
    *("absf ceil floor trunc round roundeven sqrt rsqrt exp exp2 expm1 log log2 log1p".split()),
    *("log10 tanh erf sin cos tan sinh cosh asin acos atan asinh acosh atanh powf".split()),
]


@pytest.mark.parametrize("lanes", [0, 3, 16])
@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_math_calls_nothing_external(target: Target, lanes: int) -> None:
    cases = {
        name: Case(f"math.{name}", ("x", "y") if name == "powf" else ("x",), "f32") for name in MATH
    }
    inputs = {"x": "f32", "y": "f32"}
    image = optimize_and_emit(
        kernel_text(elementwise_source(lanes, 48, inputs, cases), target), target
    )
    assert undefined_symbols(image) <= ALLOWED


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_casts_call_nothing_external(target: Target) -> None:
    inputs = {"b": "bf16", "f": "f32", "d": "f64", "l": "i64", "n": "i8"}
    pairs = {
        "truncf": [("d", "f32"), ("f", "bf16"), ("d", "bf16")],
        "extf": [("b", "f32"), ("f", "f64")],
        "sitofp": [("l", "f32"), ("l", "f64"), ("n", "f32")],
        "uitofp": [("l", "f32"), ("l", "f64"), ("n", "f64")],
        "fptosi": [("f", "i64"), ("d", "i8"), ("d", "i64")],
        "fptoui": [("f", "i64"), ("d", "i8"), ("d", "i64")],
    }
    cases = {
        f"{op}_{source}_{to}": Case(f"arith.{op}", (source,), to)
        for op, choices in pairs.items()
        for source, to in choices
    }
    for lanes in (0, 16):
        text = kernel_text(elementwise_source(lanes, 48, inputs, cases), target)
        assert undefined_symbols(optimize_and_emit(text, target)) <= ALLOWED
