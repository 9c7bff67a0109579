"""Segments: calls of kernels, weights, the arena, copies."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tessella.codegen.emit import emit
from tessella.codegen.emit_segment import weight_offsets
from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.support.errors import InternalError
from tessella.targets import Target, get
from tests.codegen.harness import Array, parse

SOURCE = """
func.func @add(%a: memref<100xf32>, %b: memref<100xf32>, %c: memref<100xf32>)
    attributes {rt.kernel} {
  %0 = arith.constant 0 : index
  %n = arith.constant 100 : index
  %1 = arith.constant 1 : index
  scf.for %i = %0 to %n step %1 {
    %x = memref.load %a[%i] : memref<100xf32>
    %y = memref.load %b[%i] : memref<100xf32>
    %z = arith.addf %x, %y : f32
    memref.store %z, %c[%i] : memref<100xf32>
  }
  %context = rt.context : memref<16xi64>
  %seven = arith.constant 7 : i64
  memref.store %seven, %context[%1] : memref<16xi64>
  func.return
}
func.func @"seg ment"(%a: memref<100xf32>, %b: memref<100xf32>, %o: memref<100xf32>,
                      %p: memref<100xf32>) attributes {rt.segment, rt.inputs = 2 : i64} {
  %v = rt.weight @"first.w" : memref<100xf32>
  %w = rt.weight @second : memref<100xf32>
  %t = rt.arena 128 : memref<100xf32>
  func.call @add(%a, %w, %t) : (memref<100xf32>, memref<100xf32>, memref<100xf32>) -> ()
  func.call @add(%t, %v, %o) : (memref<100xf32>, memref<100xf32>, memref<100xf32>) -> ()
  "memref.copy"(%b, %p) : (memref<100xf32>, memref<100xf32>) -> ()
  func.return
}
"""


def _aligned(count: int) -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    raw = np.zeros(count + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count]


def _pointers(*arrays: Array) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def test_a_segment_runs_its_kernels(target: Target) -> None:
    module = parse(SOURCE)
    offsets = weight_offsets(module)
    assert offsets == {"first.w": 0, "second": 448}
    texts = emit(module, target)
    library = link({name: optimize_and_emit(text, target) for name, text in texts.items()})
    rng = np.random.default_rng(0)
    a, b, v, w = (rng.normal(size=100).astype(np.float32) for _ in range(4))
    weights, arena, context = _aligned(256), _aligned(256), np.zeros(16, np.int64)
    weights[:100], weights[112:212] = v, w
    o, p = np.zeros(100, np.float32), np.zeros(100, np.float32)
    pointer, i64 = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(None, *[pointer] * 5, i64, i64)(library.address("seg ment"))
    data = (array.ctypes.data for array in (weights, arena))
    run(context.ctypes.data, _pointers(a, b), _pointers(o, p), *data, 0, 1)
    np.testing.assert_array_equal(o, a + w + v)
    np.testing.assert_array_equal(p, b)
    np.testing.assert_array_equal(arena[32:132], a + w)
    assert context[1] == 7


def test_offsets_of_weights_can_be_given() -> None:
    text = emit(parse(SOURCE), get("avx2"), {"first.w": 4096, "second": 64})["seg ment"]
    assert "ptr %weights, i64 4096" in text
    with pytest.raises(InternalError, match=r"weight 'first\.w'"):
        emit(parse(SOURCE), get("avx2"), {"second": 0})


@pytest.mark.parametrize(
    "broken,message",
    [
        (SOURCE.replace("rt.segment, rt.inputs = 2 : i64", "rt.segment"), r"rt\.inputs"),
        (SOURCE.replace('"memref.copy"(%b, %p)', '"memref.copy"(%b, %q)'), "different sizes"),
    ],
)
def test_broken_segments_are_refused(broken: str, message: str) -> None:
    broken = broken.replace(
        "func.call @add(%a, %w, %t)",
        "%q = rt.arena 64 : memref<8xf32>\n  func.call @add(%a, %w, %t)",
    ).replace("%q) : (memref<100xf32>, memref<100xf32>)", "%q) : (memref<100xf32>, memref<8xf32>)")
    with pytest.raises(InternalError, match=message):
        emit(parse(broken), get("avx2"))
