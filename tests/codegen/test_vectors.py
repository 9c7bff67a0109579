"""Broadcasts, masks, reductions, loads and stores of vectors, and what masked lanes never touch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable

import numpy as np
import pytest

from tessella.support.errors import InternalError
from tessella.targets import Target
from tests.codegen.harness import DTYPES, Array, call, kernel_text

Reduce = Callable[[Array], object]

REDUCTIONS: dict[str, tuple[str, Reduce]] = {
    "add": ("f i", np.sum),
    "mul": ("f i", np.prod),
    "maximumf": ("f", np.max),
    "minimumf": ("f", np.min),
    "maxnumf": ("f", np.fmax.reduce),
    "minnumf": ("f", np.fmin.reduce),
    "minsi": ("i", np.min),
    "maxsi": ("i", np.max),
    "minui": ("u", np.min),
    "maxui": ("u", np.max),
    "and": ("i", np.bitwise_and.reduce),
    "or": ("i", np.bitwise_or.reduce),
    "xor": ("i", np.bitwise_xor.reduce),
}
"""By `vector.kind`: floats, signed or unsigned integers, and NumPy's reduction of them."""


def _reduce(target: Target, kind: str, x: Array, element: str, start: Array | None) -> Array:
    lanes = x.shape[1]
    accumulator = ", %s" if start is not None else ""
    source = f"""
    rt.kernel @k(%a: memref<{x.size}x{element}>, %b: memref<1x{element}>,
                 %o: memref<{len(x)}x{element}>) threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      %n = arith.constant {len(x)} : index
      %s = memref.load %b[%0] : memref<1x{element}>
      scf.for %i = %0 to %n step %1 {{
        %at = affine.apply affine_map<(d0) -> (d0 * {lanes})>(%i)
        %v = vector.load %a[%at] : memref<{x.size}x{element}>, vector<{lanes}x{element}>
        %r = vector.reduction <{kind}>, %v{accumulator} : vector<{lanes}x{element}> into {element}
        memref.store %r, %o[%i] : memref<{len(x)}x{element}>
      }}
      rt.return
    }}"""
    result = np.zeros(len(x), x.dtype)
    call(source, target, x, np.zeros(1, x.dtype) if start is None else start, result)
    return result


@pytest.mark.sweep
@pytest.mark.parametrize("started", [False, True], ids=["alone", "from a start"])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(target: Target, kind: str, started: bool) -> None:
    sorts, oracle = REDUCTIONS[kind]
    rng = np.random.default_rng(2)
    for sort in sorts.split():
        for bits, lanes in ((32, 1), (32, 6), (32, 16), (64, 8)):
            dtype = np.dtype(f"{sort}{bits // 8}")
            x = rng.integers(-3 if sort != "u" else 0, 9, (40, lanes)).astype(dtype)
            start = np.array([2], dtype) if started else None
            element = f"{'f' if sort == 'f' else 'i'}{bits}"
            result = _reduce(target, kind, x, element, start)
            rows = x if start is None else np.insert(x, 0, start, axis=1)
            with np.errstate(over="ignore"):
                expected = [oracle(row) for row in rows]
            np.testing.assert_array_equal(result, np.array(expected).astype(dtype), err_msg=element)


def test_extreme_reductions_and_nan(any_target: Target) -> None:
    x = np.array([[1, np.nan, 3, -2], [np.nan] * 4, [np.inf, 1, 2, 3], [4, 3, 2, 1]], np.float32)
    for kind in ("maximumf", "minimumf", "maxnumf", "minnumf"):
        with np.errstate(all="ignore"):
            expected = [REDUCTIONS[kind][1](row) for row in x]
        np.testing.assert_array_equal(_reduce(any_target, kind, x, "f32", None), expected)


def test_a_sum_is_no_chain(target: Target) -> None:
    source = """
    rt.kernel @k(%a: memref<16xf32>) threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %v = vector.load %a[%0] : memref<16xf32>, vector<16xf32>
      %r = vector.reduction <add>, %v : vector<16xf32> into f32
      memref.store %r, %a[%0] : memref<16xf32>
      rt.return
    }"""
    assert "call reassoc float @llvm.vector.reduce.fadd" in kernel_text(source, target)


@pytest.mark.parametrize("lanes", [2, 8, 16, 32, 64])
def test_create_mask(target: Target, lanes: int) -> None:
    source = f"""
    rt.kernel @k(%b: memref<1xi64>, %o: memref<{lanes}xi1>) threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %i = memref.load %b[%0] : memref<1xi64>
      %n = arith.index_cast %i : i64 to index
      %m = vector.create_mask %n : vector<{lanes}xi1>
      vector.store %m, %o[%0] : memref<{lanes}xi1>, vector<{lanes}xi1>
      rt.return
    }}"""
    for bound in (-(2**40), -1, 0, 1, lanes - 1, lanes, lanes + 1, 2**40):
        result = np.full(lanes, 7, np.uint8)
        call(source, target, np.array([bound]), result)
        np.testing.assert_array_equal(result, np.arange(lanes) < bound, err_msg=str(bound))


@pytest.mark.parametrize("element", ["f32", "f64", "i8", "i64", "i1"])
def test_broadcast(target: Target, element: str) -> None:
    source = f"""
    rt.kernel @k(%a: memref<3x{element}>, %o: memref<8x{element}>) threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %2 = arith.constant 2 : index
      %s = memref.load %a[%2] : memref<3x{element}>
      %v = vector.broadcast %s : {element} to vector<8x{element}>
      %w = vector.broadcast %v : vector<8x{element}> to vector<8x{element}>
      vector.store %w, %o[%0] : memref<8x{element}>, vector<8x{element}>
      rt.return
    }}"""
    result = np.zeros(8, DTYPES[element])
    call(source, target, np.array([0, 0, 1], DTYPES[element]), result)
    np.testing.assert_array_equal(result, np.ones(8))


def test_broadcast_to_more_lanes_is_refused(target: Target) -> None:
    source = """
    rt.kernel @k(%a: memref<8xf32>) threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %v = vector.load %a[%0] : memref<8xf32>, vector<4xf32>
      %w = vector.broadcast %v : vector<4xf32> to vector<8xf32>
      vector.store %w, %a[%0] : memref<8xf32>, vector<8xf32>
      rt.return
    }"""
    with pytest.raises(InternalError, match="more lanes"):
        kernel_text(source, target)


def test_iota(target: Target) -> None:
    source = """
    rt.kernel @k(%o: memref<8xi64>) threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %v = rt.iota : vector<8xindex>
      %w = "arith.index_cast"(%v) : (vector<8xindex>) -> vector<8xi64>
      vector.store %w, %o[%0] : memref<8xi64>, vector<8xi64>
      rt.return
    }"""
    result = np.zeros(8, np.int64)
    call(source, target, result)
    np.testing.assert_array_equal(result, np.arange(8))


def _masked_source(element: str, lanes: int) -> str:
    buffer, vector = f"memref<{4 * lanes}x{element}>", f"vector<{lanes}x{element}>"
    mask = f"vector<{lanes}xi1>"
    other = "true" if element == "i1" else "3.0" if element[0] == "f" else "3"
    return f"""
    rt.kernel @k(%n: memref<2xi64>, %a: {buffer}, %o: {buffer}, %p: {buffer})
        threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      %i = memref.load %n[%0] : memref<2xi64>
      %count = arith.index_cast %i : i64 to index
      %j = memref.load %n[%1] : memref<2xi64>
      %at = arith.index_cast %j : i64 to index
      %m = vector.create_mask %count : {mask}
      %other = arith.constant dense<{other}> : {vector}
      %v = vector.maskedload %a[%at], %m, %other : {buffer}, {mask}, {vector} into {vector}
      vector.store %v, %p[%0] : {buffer}, {vector}
      vector.maskedstore %o[%at], %m, %v : {buffer}, {mask}, {vector}
      rt.return
    }}"""


@pytest.mark.parametrize("element", ["f32", "f64", "i8", "i16", "i32", "i64", "i1"])
def test_masked_loads_and_stores(target: Target, element: str) -> None:
    lanes = min(16, target.lanes(int(element[1:])))
    dtype = np.dtype(DTYPES[element])
    x = (np.arange(1, 4 * lanes + 1) % (2 if element == "i1" else 100)).astype(dtype)
    source = _masked_source(element, lanes)
    for count, at in ((0, 0), (1, 2), (lanes - 1, 3), (lanes, 5), (-4, 1)):
        inside = np.arange(lanes) < count
        stored, loaded = np.full_like(x, 9), np.full_like(x, 9)
        call(source, target, np.array([count, at]), x, stored, loaded)
        taken = x[at : at + lanes]
        other = 1 if element == "i1" else 3
        np.testing.assert_array_equal(loaded[:lanes], np.where(inside, taken, other))
        expected = np.full_like(x, 9)
        expected[at : at + lanes][inside] = taken[inside]
        np.testing.assert_array_equal(stored, expected)


@pytest.mark.parametrize("element", ["f32", "i8", "i1"])
def test_masked_lanes_are_not_touched(target: Target, element: str) -> None:
    """The lanes that are off lie in a page that may be neither read nor written."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    if libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 0):
        pytest.skip("cannot protect a page")
    try:
        lanes = min(16, target.lanes(int(element[1:])))
        dtype = np.dtype(DTYPES[element])
        whole = np.ndarray(2 * page // dtype.itemsize, dtype, memory)
        border = page // dtype.itemsize
        # The buffers start so that the last lane that is on is the last element of the page.
        for count in (0, 1, lanes - 1):
            start = whole[border - count :]
            call(_masked_source(element, lanes), target, np.array([count, 0]), start, start, whole)
    finally:
        libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 3)


@pytest.mark.parametrize("element", ["f32", "f64", "i64"])
def test_buffers_need_no_more_alignment_than_an_element(target: Target, element: str) -> None:
    source = f"""
    rt.kernel @k(%a: memref<16x{element}>, %o: memref<16x{element}>) threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %v = vector.load %a[%0] : memref<16x{element}>, vector<16x{element}>
      vector.store %v, %o[%0] : memref<16x{element}>, vector<16x{element}>
      rt.return
    }}"""
    x = np.arange(40).astype(DTYPES[element])
    for offset in range(4):
        result = np.zeros(40, DTYPES[element])
        call(source, target, x[offset:], result[offset + 1 :])
        np.testing.assert_array_equal(result[offset + 1 :][:16], x[offset:][:16])
