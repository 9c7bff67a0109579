// RUN: TESSELLA_ROUNDTRIP

// CHECK:       tile.kernel @conv(%D: tensor<1x64x56x56xf32, #nhwc>, %K: tensor<64x64x3x3xf32> {tile.constant}, %B: tensor<64xf32>) -> (tensor<1x64x56x56xf32, #nhwc>) {
// CHECK-NEXT:    %O = tile.contract + [n: 1, co: 64, y: 56, x: 56 | ci: 64, i: 3, j: 3] (%D[n, ci, y + i - 1, x + j - 1], %K[co, ci, i, j]) post (%B[co]) -> [n, co, y, x] parts 64 schedule #tile.schedule<[co, n, y, x] reduce [i, j, ci] vector co 16 by 2 rows x 14> {
// CHECK-NEXT:    ^bb0(%d: f32, %k: f32):
// CHECK-NEXT:      %p = arith.mulf %d, %k : f32
// CHECK-NEXT:      tile.yield %p : f32
// CHECK-NEXT:    }, {
// CHECK-NEXT:    ^bb0(%s: f32, %b: f32):
// CHECK-NEXT:      %q = arith.addf %s, %b : f32
// CHECK-NEXT:      tile.yield %q : f32
// CHECK-NEXT:    } : tensor<1x64x56x56xf32, #nhwc>
// CHECK-NEXT:    tile.return %O : tensor<1x64x56x56xf32, #nhwc>
// CHECK-NEXT:  }
tile.kernel @conv(%D: tensor<1x64x56x56xf32, #place.at<x86, f32, nhwc>>, %K: tensor<64x64x3x3xf32> {tile.constant}, %B: tensor<64xf32>) -> (tensor<1x64x56x56xf32, #place.at<x86, f32, nhwc>>) {
  %O = tile.contract + [n: 1, co: 64, y: 56, x: 56 | ci: 64, i: 3, j: 3] (%D[n, ci, y + i - 1, x + j - 1], %K[co, ci, i, j]) post (%B[co]) -> [n, co, y, x] parts 64 schedule #tile.schedule<[co, n, y, x] reduce [i, j, ci] vector co 16 by 2 rows x 14> {
  ^bb0(%d: f32, %k: f32):
    %p = arith.mulf %d, %k : f32
    tile.yield %p : f32
  }, {
  ^bb0(%s: f32, %b: f32):
    %q = arith.addf %s, %b : f32
    tile.yield %q : f32
  } : tensor<1x64x56x56xf32, #place.at<x86, f32, nhwc>>
  tile.return %O : tensor<1x64x56x56xf32, #place.at<x86, f32, nhwc>>
}

// -----

// CHECK:       tile.kernel @pad_and_gather
// CHECK:         %0 = tile.contract = [a: 4, b: 5] (%x[a - 1, -2*b + 9]) -> [a, b] default 1.500000e+00 : f32 {
// CHECK:         %e = tile.empty : tensor<8x5xf32>
// CHECK:         %1 = tile.contract = [a: 4, b: 5] (%0[a, b], %t[a]) init %e -> [a + 4, b] {
// CHECK-NEXT:    ^bb0(%u: f32, %i: i64):
// CHECK-NEXT:      %at = arith.index_cast %i : i64 to index
// CHECK-NEXT:      %n = tile.index "b"
// CHECK-NEXT:      %w = tile.extract %x[%at, %n] : tensor<3x10xf32> -> f32
// CHECK:         tile.return %1 : tensor<8x5xf32>
tile.kernel @pad_and_gather(%x: tensor<3x10xf32>, %t: tensor<4xi64>) -> (tensor<8x5xf32>) {
  %0 = tile.contract = [a: 4, b: 5] (%x[a - 1, 9 - 2*b]) -> [a, b] default 1.5 : f32 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4x5xf32>
  %e = tile.empty : tensor<8x5xf32>
  %1 = tile.contract = [a: 4, b: 5] (%0[a, b], %t[a]) init %e -> [a + 4, b] {
  ^bb0(%u: f32, %i: i64):
    %at = arith.index_cast %i : i64 to index
    %n = tile.index "b"
    %w = tile.extract %x[%at, %n] : tensor<3x10xf32> -> f32
    %sum = arith.addf %u, %w : f32
    tile.yield %sum : f32
  } : tensor<8x5xf32>
  tile.return %1 : tensor<8x5xf32>
}

// -----

// Constraints beside those of the accesses.

// CHECK:       %0 = tile.contract + [x: 5 | i: 3] (%x[x + i]) -> [x] where [x + i - 2 < 5] {
// CHECK:       %1 = tile.contract > [x: 5 | i: 3] (%x[x + i]) post () init %0 -> [x] where [2*i - x < 4, x < 1] schedule #tile.schedule<[x] reduce [i]> attributes {mark} {
// CHECK:       %2 = tile.contract = [x: 5] (%x[x]) -> [x] where [4*x - 3 < 9] default 1.500000e+00 : f32 {
%x = "test.op"() : () -> tensor<7xf32>
%0 = tile.contract + [x: 5 | i: 3] (%x[x + i]) -> [x] where [x + i - 2 < 5] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<5xf32>
%1 = tile.contract > [x: 5 | i: 3] (%x[x + i]) post () init %0 -> [x] where [2*i - x < 4, x < 1] schedule #tile.schedule<[x] reduce [i]> attributes {mark} {
^bb0(%v: f32):
  tile.yield %v : f32
}, {
^bb0(%s: f32):
  tile.yield %s : f32
} : tensor<5xf32>
%2 = tile.contract = [x: 5] (%x[x]) -> [x] where [x + 3*x - 3 < 9] default 1.5 : f32 {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<5xf32>

// -----

// Merged indices: loops run over these, accesses name their digits. Merged ones are merged as a whole.

// CHECK:       %0 = tile.contract + [c: 4, y_x(y: 7, x: 9) | i_j_k(i: 2, j: 3, k: 5)] (%x[c, y, x, i, j, k]) -> [c, y, x] {
%x = "test.op"() : () -> tensor<4x7x9x2x3x5xf32>
%0 = tile.contract + [c: 4, y_x(y: 7, x: 9) | i_j_k(i: 2, j_k(j: 3, k: 5))] (%x[c, y, x, i, j, k]) -> [c, y, x] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<4x7x9xf32>

// -----

// The parts of a schedule. What is as it is without being written is not written.

// CHECK:       "test.op"() {a = #tile.schedule<[] reduce []>} : () -> ()
// CHECK-NEXT:  "test.op"() {a = #tile.schedule<[y, x] reduce [i, j] vector x 8 by 2 rows y 6 unroll 9 blocks [y 96, x 64]>} : () -> ()
// CHECK-NEXT:  "test.op"() {a = #tile.schedule<[x] reduce [i] unroll 4>} : () -> ()
// CHECK-NEXT:  "test.op"() {a = #tile.schedule<[x] reduce [i] rows x 3>} : () -> ()
// CHECK-NEXT:  "test.op"() {a = #tile.schedule<[x] reduce [i] rows x 8 ends [6, 4, 2] unroll 2>} : () -> ()
// CHECK-NEXT:  "test.op"() {a = #tile.schedule<[x] reduce [] vector x 8 by 1 blocks [x 16]>} : () -> ()
// CHECK-NEXT:  "test.op"() {a = #tile.schedule<[x] reduce [i] vector x 16 by 1 unroll 4 dot i vpdpbusd partial i 8>} : () -> ()
"test.op"() {a = #tile.schedule<[] reduce []>} : () -> ()
"test.op"() {a = #tile.schedule<[y, x] reduce [i, j] vector x 8 by 2 rows y 6 unroll 9 blocks [y 96, x 64]>} : () -> ()
"test.op"() {a = #tile.schedule<[x] reduce [i] unroll 4 blocks []>} : () -> ()
"test.op"() {a = #tile.schedule<[x] reduce [i] rows x 3 unroll 1>} : () -> ()
"test.op"() {a = #tile.schedule<[x] reduce [i] rows x 8 ends [6, 4, 2] unroll 2>} : () -> ()
"test.op"() {a = #tile.schedule<[x] reduce [] vector x 8 by 1 blocks [x 16]>} : () -> ()
"test.op"() {a = #tile.schedule<[x] reduce [i] vector x 16 by 1 unroll 4 dot i vpdpbusd partial i 8>} : () -> ()

// -----

// Calls and views. What is known of an argument is written after it.

// CHECK:       tile.kernel @k(%x: tensor<2x3xf32> {tile.constant, tile.packed = #packed}) -> (tensor<2x3xf32>) attributes {code = 7 : i64, nodes = ["n"]} {
// CHECK:       tile.segment @segment_0(%a: tensor<3xf32>) -> (tensor<6xf32>, tensor<3xf32>) {
// CHECK-NEXT:    %w = nn.weight @w : tensor<6xf32>
// CHECK-NEXT:    %v = tile.view %w : tensor<6xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %y = tile.call @k(%v) : tensor<2x3xf32>
// CHECK-NEXT:    %z = tile.view %y : tensor<2x3xf32> -> tensor<6xf32>
// CHECK-NEXT:    tile.return %z, %a : tensor<6xf32>, tensor<3xf32>
tile.kernel @k(%x: tensor<2x3xf32> {tile.constant, tile.packed = #place.at<x86, f32, packed<[1, 0]>>}) -> (tensor<2x3xf32>) attributes {code = 7 : i64, nodes = ["n"]} {
  %e = tile.empty : tensor<2x3xf32>
  tile.return %e : tensor<2x3xf32>
}
tile.segment @segment_0(%a: tensor<3xf32>) -> (tensor<6xf32>, tensor<3xf32>) {
  %w = nn.weight @w : tensor<6xf32>
  %v = tile.view %w : tensor<6xf32> -> tensor<2x3xf32>
  %y = tile.call @k(%v) : tensor<2x3xf32>
  %z = tile.view %y : tensor<2x3xf32> -> tensor<6xf32>
  tile.return %z, %a : tensor<6xf32>, tensor<3xf32>
}

// -----

// An indexed write: the body yields the values of the scattered indices, with or without reduced ones.

// CHECK:       %y = tile.contract + [j: 8 | i: 5 | r: 3] (%i[i], %u[i, j]) init %e -> [r, j] checked schedule #tile.schedule<[i, j] reduce [] vector j 8 by 1 parallel r 1> {
// CHECK:         tile.yield %u_1 at %at : f32
// CHECK:       %z = tile.contract = [j: 8 |  | r: 3] (%u[1, j]) init %y -> [r, j] {
tile.kernel @write(%i: tensor<5xi64>, %u: tensor<5x8xf32>) -> (tensor<3x8xf32>) {
  %e = tile.empty : tensor<3x8xf32>
  %y = tile.contract + [j: 8 | i: 5 | r: 3] (%i[i], %u[i, j]) init %e -> [r, j] checked schedule #tile.schedule<[i, j] reduce [] vector j 8 by 1 parallel r 1> {
  ^bb0(%row: i64, %u_1: f32):
    %at = arith.index_cast %row : i64 to index
    tile.yield %u_1 at %at : f32
  } : tensor<3x8xf32>
  %z = tile.contract = [j: 8 | | r: 3] (%u[1, j]) init %y -> [r, j] {
  ^bb0(%v: f32):
    %at = tile.index "j"
    tile.yield %v at %at : f32
  } : tensor<3x8xf32>
  tile.return %z : tensor<3x8xf32>
}

// -----

// CHECK:       tile.kernel @selection
// CHECK-NEXT:    %v, %p = tile.sort first 5 descending [r: 64 | i: 1000] (%x[i, r]) -> [r, i] schedule #tile.sorting<radix lanes 8 digit 11 parallel 2> {
// CHECK-NEXT:    ^bb0(%e: f32):
// CHECK-NEXT:      tile.yield %e : f32
// CHECK-NEXT:    } : (tensor<1000x64xf32>) -> (tensor<64x5xf32>, tensor<64x5xi64>)
tile.kernel @selection(%x: tensor<1000x64xf32>) -> (tensor<64x5xf32>, tensor<64x5xi64>) {
  %v, %p = tile.sort first 5 descending [r: 64 | i: 1000] (%x[i, r]) -> [r, i] schedule #tile.sorting<radix lanes 8 digit 11 parallel 2> {
  ^bb0(%e: f32):
    tile.yield %e : f32
  } : (tensor<1000x64xf32>) -> (tensor<64x5xf32>, tensor<64x5xi64>)
  tile.return %v, %p : tensor<64x5xf32>, tensor<64x5xi64>
}

// -----

// CHECK:       tile.kernel @suppression
// CHECK-NEXT:    %p, %n = tile.suppress first 5 [r: 64 | i: 1000] (%x[r, i]) items (%x[r, i]) limit (%m[r]) schedule #tile.sweep<lanes 8 parallel 2> {
// CHECK-NEXT:    ^bb0(%e: f32):
// CHECK-NEXT:      tile.yield %e : f32
// CHECK-NEXT:    } rules_out {
// CHECK-NEXT:    ^bb0(%a: f32, %b: f32):
// CHECK-NEXT:      %c = arith.cmpf oeq, %a, %b : f32
// CHECK-NEXT:      tile.yield %c : i1
// CHECK-NEXT:    } : tensor<64x5xi64>, tensor<64xi64>
// CHECK-NEXT:    %j, %k = tile.join %p, %n : tensor<320x2xi64>, tensor<i64>
tile.kernel @suppression(%x: tensor<64x1000xf32>, %m: tensor<64xi64>) -> (tensor<320x2xi64>, tensor<i64>) {
  %p, %n = tile.suppress first 5 [r: 64 | i: 1000] (%x[r, i]) items (%x[r, i]) limit (%m[r]) schedule #tile.sweep<lanes 8 parallel 2> {
  ^bb0(%e: f32):
    tile.yield %e : f32
  } rules_out {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf oeq, %a, %b : f32
    tile.yield %c : i1
  } : tensor<64x5xi64>, tensor<64xi64>
  %j, %k = tile.join %p, %n : tensor<320x2xi64>, tensor<i64>
  tile.return %j, %k : tensor<320x2xi64>, tensor<i64>
}
