// RUN: tessella-opt %s -p 'tile-split-indices{target=avx2}' --split-input-file | filecheck %s

// Channels in blocks of 16: what remains of the output's is a statement of its own, which writes
// into what the first one wrote; the reduced ones run over whole blocks, and `where` says which
// count. The weight gets the digits of both.

// CHECK-LABEL: tile.kernel @conv
// CHECK-SAME:    %w: tensor<36x20x3x3xf32{{.*}}> {tile.constant, tile.packed = #packed}
// CHECK-NEXT:    %0 = tile.empty : tensor<1x36x5x5xf32, #nchw16c>
// CHECK-NEXT:    %1 = tile.contract + [n: 1, o_16: 2, o_1: 16, y: 5, x: 5 | i: 3, j: 3, c_16: 2, c_1: 16] (%x[n, 16*c_16 + c_1, y + i - 1, x + j - 1], %w[16*o_16 + o_1, 16*c_16 + c_1, i, j]) init %0 -> [n, 16*o_16 + o_1, y, x] where [16*c_16 + c_1 < 20] {
// CHECK:         %r = tile.contract + [n: 1, o_1: 4, y: 5, x: 5 | i: 3, j: 3, c_16: 2, c_1: 16] (%x[n, 16*c_16 + c_1, y + i - 1, x + j - 1], %w[o_1 + 32, 16*c_16 + c_1, i, j]) init %1 -> [n, o_1 + 32, y, x] where [16*c_16 + c_1 < 20] {
#blocked = #place.at<x86, f32, nchw16c>
tile.kernel @conv(%x: tensor<1x20x5x5xf32, #blocked>, %w: tensor<36x20x3x3xf32> {tile.constant}) -> (tensor<1x36x5x5xf32, #blocked>) {
  %r = tile.contract + [n: 1, o: 36, y: 5, x: 5 | i: 3, j: 3, c: 20] (%x[n, c, y + i - 1, x + j - 1], %w[o, c, i, j]) -> [n, o, y, x] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<1x36x5x5xf32, #blocked>
  tile.return %r : tensor<1x36x5x5xf32, #blocked>
}

// -----

// Four elements of a sum together, as dot products of bytes want them.

// CHECK-LABEL: tile.kernel @dots
// CHECK-NEXT:    %r = tile.contract + [m: 8, n: 32 | k_4: 6, k_1: 4] (%a[m, 4*k_4 + k_1], %b[4*k_4 + k_1, n]) -> [m, n] {
#dots = #place.at<x86, f32, packed<[0 floordiv 4, 1, 0 mod 4]>>
tile.kernel @dots(%a: tensor<8x24xf32>, %b: tensor<24x32xf32, #dots> {tile.constant}) -> (tensor<8x32xf32>) {
  %r = tile.contract + [m: 8, n: 32 | k: 24] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<8x32xf32>
  tile.return %r : tensor<8x32xf32>
}

// -----

// From one split to another, and back to whole dimensions, in three digits: 40 = 2 * 16 + 8.

// CHECK-LABEL: tile.kernel @relayout
// CHECK-NEXT:    %0 = tile.empty
// CHECK-NEXT:    %1 = tile.contract = [d0: 3, d1_16: 2, d1_4: 4, d1_1: 4] (%x[d0, 16*d1_16 + 4*d1_4 + d1_1]) init %0 -> [d0, 16*d1_16 + 4*d1_4 + d1_1] {
// CHECK:         %r = tile.contract = [d0: 3, d1_4: 2, d1_1: 4] (%x[d0, 4*d1_4 + d1_1 + 32]) init %1 -> [d0, 4*d1_4 + d1_1 + 32] {
#from = #place.at<x86, f32, packed<[1 floordiv 16, 0, 1 mod 16]>>
#to = #place.at<x86, f32, packed<[0, 1 floordiv 4 mod 4, 1 floordiv 16, 1 mod 4]>>
tile.kernel @relayout(%x: tensor<3x40xf32, #from>) -> (tensor<3x40xf32, #to>) {
  %r = tile.contract = [d0: 3, d1: 40] (%x[d0, d1]) -> [d0, d1] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<3x40xf32, #to>
  tile.return %r : tensor<3x40xf32, #to>
}

// -----

// The value of an index that is split is computed from its digits.

// CHECK-LABEL: tile.kernel @number
// CHECK:         tile.contract = [c_16: 2, c_1: 16] () -> [16*c_16 + c_1] {
// CHECK:         tile.index "c_16"
// CHECK:         arith.muli
// CHECK:         tile.index "c_1"
#blocks = #place.at<x86, i64, packed<[0 floordiv 16, 0 mod 16]>>
tile.kernel @number() -> (tensor<32xi64, #blocks>) {
  %r = tile.contract = [c: 32] () -> [c] {
    %c = tile.index "c"
    %v = arith.index_cast %c : index to i64
    tile.yield %v : i64
  } : tensor<32xi64, #blocks>
  tile.return %r : tensor<32xi64, #blocks>
}
