// RUN: not tessella-opt %s 2>&1 | filecheck %s

// Indices are separated by commas.

// CHECK: error: Expected ']'
// CHECK-NEXT: tile.contract = [i: 8 j: 8]

%x = "test.op"() : () -> tensor<8x8xf32>
%0 = tile.contract = [i: 8 j: 8] (%x[i, j]) -> [i, j] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<8x8xf32>
