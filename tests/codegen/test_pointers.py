"""The pointers that accesses share: what they read and write, and what the text says."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.codegen.emit import emit
from tessella.targets import Target, get
from tests.codegen.harness import call, parse

NESTED = """
rt.kernel @k(%n: memref<4xi64>, %x: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 2 : index
  %3 = arith.constant 3 : index
  %8 = arith.constant 8 : index
  %a = memref.load %n[%0] : memref<4xi64>
  %b = memref.load %n[%1] : memref<4xi64>
  %c = memref.load %n[%2] : memref<4xi64>
  %d = memref.load %n[%3] : memref<4xi64>
  %first = arith.index_cast %a : i64 to index
  %last = arith.index_cast %b : i64 to index
  %base = arith.index_cast %c : i64 to index
  %chosen = arith.index_cast %d : i64 to index
  scf.for %i = %first to %last step %1 {
    %row = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1)>(%i, %base)
    %swapped = affine.apply affine_map<(d0) -> (d0 mod 3)>(%i)
    %takes = arith.cmpi eq, %i, %chosen : index
    scf.for %j = %0 to %8 step %2 {
      %here = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%row, %j)
      %next = affine.apply affine_map<(d0) -> (d0 + 1)>(%here)
      %mirror = affine.apply affine_map<(d0, d1) -> (d0 * -8 - d1 + 63)>(%i, %j)
      %p = memref.load %x[%here] : memref<64xf32>
      %q = memref.load %x[%next] : memref<64xf32>
      %r = memref.load %x[%mirror] : memref<64xf32>
      %s = memref.load %x[%swapped] : memref<64xf32>
      %t = arith.addf %p, %s : f32
      memref.store %t, %y[%here] : memref<64xf32>
      scf.if %takes {
        memref.store %r, %y[%next] : memref<64xf32>
      } else {
        memref.store %q, %y[%next] : memref<64xf32>
      }
    }
  }
  rt.return
}"""


@pytest.mark.parametrize("numbers", [(0, 7, 0, 3), (1, 8, 0, 1), (-1, 5, 16, 0), (3, 3, 0, 0)])
def test_addresses_in_nested_loops(target: Target, numbers: tuple[int, int, int, int]) -> None:
    first, last, base, chosen = numbers
    x = np.arange(64, dtype=np.float32) ** 2
    expected = np.zeros_like(x)
    for i in range(first, last):
        for j in range(0, 8, 2):
            here = 8 * i + base + j
            expected[here] = x[here] + x[i % 3]
            # where i is -1, the mirrored element is outside, and nothing of it is kept
            expected[here + 1] = x[63 - 8 * i - j] if i == chosen else x[here + 1]
    padded = np.concatenate([x, np.zeros(16, np.float32)])
    y = np.zeros_like(x)
    call(NESTED, target, np.array(numbers), padded, y)
    np.testing.assert_array_equal(y, expected)


def test_accesses_at_constant_distances_share_a_pointer() -> None:
    (text,) = emit(parse(NESTED), get("avx2")).values()
    pointers = [line for line in text.splitlines() if " = phi ptr " in line]
    # of x and of y at (i, j), and of x mirrored, in the outer loop; in the inner one, j indexes the
    # first two, and the third steps down
    assert len(pointers) == 4


AFTER = """
rt.kernel @k(%x: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %8 = arith.constant 8 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %0 to %8 step %1 {
    %sum = scf.for %j = %0 to %8 step %1 iter_args(%s = %zero) -> (f32) {
      %here = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%i, %j)
      %p = memref.load %x[%here] : memref<64xf32>
      %t = arith.addf %s, %p : f32
      scf.yield %t : f32
    }
    %q = memref.load %x[%i] : memref<64xf32>
    %r = arith.subf %sum, %q : f32
    memref.store %r, %y[%i] : memref<64xf32>
  }
  rt.return
}"""


def test_a_pointer_that_an_inner_loop_reads_first_is_there_after_it(target: Target) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    call(AFTER, target, x, y)
    np.testing.assert_array_equal(y[:8], [x[i + 1 : i + 8].sum() for i in range(8)])
