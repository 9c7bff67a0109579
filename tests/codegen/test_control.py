"""Loops, conditions, affine maps, checks, and what the text of a kernel says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import AffineMap

from tessella.codegen.emit import emit
from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.dialects.rt import KernelOp, Share
from tessella.runtime.image import Library
from tessella.support.errors import InternalError, InvalidModelError
from tessella.targets import Target, get
from tests.codegen.harness import call, kernel_text, parse

LOOPS = """
rt.kernel @k(%n: memref<3xi64>, %o: memref<3xi64>) threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %one = arith.constant 1 : i64
  %a = memref.load %n[%0] : memref<3xi64>
  %b = memref.load %n[%1] : memref<3xi64>
  %c = memref.load %n[%2] : memref<3xi64>
  %from = arith.index_cast %a : i64 to index
  %to = arith.index_cast %b : i64 to index
  %by = arith.index_cast %c : i64 to index
  %zero = arith.constant 0 : i64
  %count, %sum, %swapped = scf.for %i = %from to %to step %by
      iter_args(%x = %zero, %y = %zero, %z = %one) -> (i64, i64, i64) {
    %p = arith.addi %x, %one : i64
    %q = arith.index_cast %i : index to i64
    %r = scf.for %j = %0 to %i step %1 iter_args(%s = %y) -> (i64) {
      %t = arith.addi %s, %q : i64
      scf.yield %t : i64
    }
    scf.yield %p, %r, %x : i64, i64, i64
  }
  memref.store %count, %o[%0] : memref<3xi64>
  memref.store %sum, %o[%1] : memref<3xi64>
  memref.store %swapped, %o[%2] : memref<3xi64>
  rt.return
}"""


def _looped(start: int, stop: int, step: int) -> list[int]:
    count, total, swapped = 0, 0, 1
    for i in range(start, stop, step):
        count, total, swapped = count + 1, total + i * max(i, 0), count
    return [count, total, swapped]


@pytest.mark.parametrize("bounds", [(0, 10, 1), (3, 20, 7), (5, 5, 1), (9, 2, 1), (-4, 3, 2)])
def test_nested_loops_carry_values(target: Target, bounds: tuple[int, int, int]) -> None:
    result = np.zeros(3, np.int64)
    call(LOOPS, target, np.array(bounds), result)
    assert result.tolist() == _looped(*bounds)


SHARES = """
rt.kernel @k(%f: memref<9xi64>, %s: memref<9xi64>) threads(%thread, %threads) {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %n = arith.constant {threads} : index
  scf.for %i = %0 to %n step %1 {{
    %first, %stop = rt.share {extent} by {grain} in {ranges} of %i, %n
    %a = arith.index_cast %first : index to i64
    %b = arith.index_cast %stop : index to i64
    memref.store %a, %f[%i] : memref<9xi64>
    memref.store %b, %s[%i] : memref<9xi64>
  }}
  rt.return
}}"""


@pytest.mark.parametrize("extent, grain", [(109, 2), (512, 48), (7, 7), (3, 8), (64, 1)])
@pytest.mark.parametrize("ranges", [1, 3])
@pytest.mark.parametrize("threads", [1, 2, 5, 9])
def test_shares_are_the_whole_and_their_largest_is_known(
    target: Target, extent: int, grain: int, ranges: int, threads: int
) -> None:
    """Nor does a part begin at the last grain of a range, if it has not the whole grain."""
    first, stop = np.zeros((2, 9), np.int64)
    share = Share(ranges * extent, grain, ranges)
    text = SHARES.format(extent=share.extent, grain=grain, ranges=ranges, threads=threads)
    call(text, target, first, stop)
    firsts, stops = first[:threads].tolist(), stop[:threads].tolist()
    assert [*firsts, share.extent] == [0, *stops]
    within = [first % extent for first in firsts]
    assert all(x % grain == 0 and (x == 0 or x + grain <= extent) for x in within)
    sizes = [b - a for a, b in zip(firsts, stops, strict=True)]
    assert max(sizes) == share.largest(threads)


CONDITIONS = """
rt.kernel @k(%c: memref<2xi1>, %o: memref<3xi32>) threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %a = arith.constant 10 : i32
  %b = arith.constant 20 : i32
  %first = memref.load %c[%0] : memref<2xi1>
  %second = memref.load %c[%1] : memref<2xi1>
  %r, %s = scf.if %first -> (i32, i32) {
    %t = scf.if %second -> (i32) {
      scf.yield %a : i32
    } else {
      scf.yield %b : i32
    }
    scf.yield %t, %b : i32, i32
  } else {
    scf.yield %b, %a : i32, i32
  }
  scf.if %second {
    memref.store %a, %o[%2] : memref<3xi32>
  }
  memref.store %r, %o[%0] : memref<3xi32>
  memref.store %s, %o[%1] : memref<3xi32>
  rt.return
}"""


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_conditions(target: Target, first: bool, second: bool) -> None:
    result = np.zeros(3, np.int32)
    call(CONDITIONS, target, np.array([first, second], np.uint8), result)
    expected = [(10 if second else 20) if first else 20, 20 if first else 10, 10 * second]
    assert result.tolist() == expected


MAPS = [
    "(d0, d1) -> (d0)",
    "(d0, d1) -> (42)",
    "(d0, d1) -> (d0 * 3 + d1 * -2 + 7)",
    "(d0, d1) -> ((d0 + d1 * 2) floordiv 8)",
    "(d0, d1) -> ((d0 - d1) floordiv 7)",
    "(d0, d1) -> (d0 mod 16 + d1 mod 5)",
    "(d0, d1) -> ((d0 + 3) ceildiv 6 - d1 ceildiv 4)",
    "(d0)[s0] -> (d0 * 2 + s0 floordiv 3)",
    "(d0, d1) -> (((d0 floordiv 3) * 5 + d1) mod 9)",
]


@pytest.mark.parametrize("text", MAPS)
def test_affine_maps(any_target: Target, text: str) -> None:
    pairs = list(itertools.product([0, 1, 2, 5, 7, 8, 63, -1, -2, -7, -8, -65, 1000003], repeat=2))
    at = "(%x)[%y]" if "[s0]" in text else "(%x, %y)"
    n = len(pairs)
    source = f"""
    rt.kernel @k(%a: memref<{n}xi64>, %b: memref<{n}xi64>, %o: memref<{n}xi64>)
        threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      %n = arith.constant {n} : index
      scf.for %i = %0 to %n step %1 {{
        %p = memref.load %a[%i] : memref<{n}xi64>
        %q = memref.load %b[%i] : memref<{n}xi64>
        %x = arith.index_cast %p : i64 to index
        %y = arith.index_cast %q : i64 to index
        %r = affine.apply affine_map<{text}>{at}
        %s = arith.index_cast %r : index to i64
        memref.store %s, %o[%i] : memref<{n}xi64>
      }}
      rt.return
    }}"""
    a, b, result = np.array(pairs).T[0].copy(), np.array(pairs).T[1].copy(), np.zeros(n, np.int64)
    call(source, any_target, a, b, result)
    map_ = _map(text)
    expected = [map_.eval([x, y][: map_.num_dims], [y][: map_.num_symbols])[0] for x, y in pairs]
    np.testing.assert_array_equal(result, expected)


def _map(text: str) -> AffineMap:
    module = parse(f'"test.op"() {{map = affine_map<{text}>}} : () -> ()')
    attribute = next(iter(module.ops)).attributes["map"]
    assert isinstance(attribute, AffineMapAttr)
    return attribute.data


CHECKS = """
rt.kernel @k(%c: memref<4xi1>) threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %4 = arith.constant 4 : index
  scf.for %i = %0 to %4 step %1 {
    %ok = memref.load %c[%i] : memref<4xi1>
    rt.check %ok, 6
    rt.check %ok, 8
  }
  %context = rt.context : memref<16xi64>
  %five = arith.constant 5 : i64
  memref.store %five, %context[%1] : memref<16xi64>
  rt.return
}"""


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("good", [[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 0, 0]])
def test_the_first_failed_check_is_kept(target: Target, good: list[int], status: int) -> None:
    before = CHECKS.replace("rt.check %ok, 6", f"rt.check %ok, {status + 6}")
    context = call(before, target, np.array(good, np.uint8))
    assert context[0] == (0 if all(good) else status + 7)
    assert context[1] == 5


def test_an_op_without_an_entry_is_named() -> None:
    source = """
    rt.kernel @k(%a: memref<4xf32>) threads(%thread, %threads) {
      %x = "test.op"() : () -> f32
      rt.return
    }"""
    with pytest.raises(InvalidModelError, match=r"no entry for test\.op"):
        kernel_text(source, get("avx2"))


@pytest.mark.parametrize(
    "type_", ["vector<2x2xf32>", "f128", "complex<f32>", "vector<[4]xf32>", "tensor<4xf32>"]
)
def test_a_type_that_llvm_does_not_have_is_named(type_: str) -> None:
    source = f"""
    rt.kernel @k(%a: memref<4xf32>) threads(%thread, %threads) {{
      %x = "rt.iota"() : () -> {type_}
      rt.return
    }}"""
    with pytest.raises(InternalError, match="has no LLVM type"):
        kernel_text(source, get("avx2"))


def test_dividing_by_no_positive_constant_is_refused() -> None:
    source = """
    rt.kernel @k(%a: memref<4xi64>) threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %x = affine.apply affine_map<(d0) -> (d0 floordiv -3)>(%0)
      rt.return
    }"""
    with pytest.raises(InternalError, match="positive constant"):
        kernel_text(source, get("avx2"))


def test_only_kernels_and_segments_are_emitted() -> None:
    module = parse("""
    rt.kernel @k(%a: memref<4xf32>) threads(%thread, %threads) { rt.return }
    func.func @main(%a: tensor<4xf32>) { func.return }
    """)
    assert set(emit(module, get("avx2"))) == {"k"}


@pytest.mark.parametrize("name", ["a.b/c:0", 'quo"te\\', "größe", "x y"])
def test_any_name_can_be_a_symbol(target: Target, name: str) -> None:
    module = parse("rt.kernel @k(%a: memref<4xf32>) threads(%thread, %threads) { rt.return }")
    function = next(iter(module.ops))
    assert isinstance(function, KernelOp)
    function.properties["sym_name"] = type(function.sym_name)(name)
    text = emit(module, target)[name]
    assert Library(link({name: optimize_and_emit(text, target)})).address(name)


def test_arguments_do_not_alias_and_vectors_are_wide() -> None:
    text = kernel_text(
        "rt.kernel @k(%a: memref<4xf32>) threads(%thread, %threads) { rt.return }", get("avx512")
    )
    assert "ptr noalias noundef %context, ptr noalias noundef %a0" in text
    assert '"prefer-vector-width"="512"' in text
    assert '"target-cpu"="x86-64-v4"' in text
