// RUN: tessella-opt %s -p tile-merge-indices --split-input-file | filecheck %s

// A 1x1 convolution: rows and columns are one index, and indices of one value go. What a reduction
// runs over is not merged with what it does not.

// CHECK-LABEL: tile.kernel @conv
// CHECK-NEXT:    %r = tile.contract + [o: 64, y_x(y: 7, x: 9) | c: 32] (%x[0, c, y, x], %w[o, c]) -> [0, o, y, x] {
tile.kernel @conv(%x: tensor<1x32x7x9xf32>, %w: tensor<64x32xf32> {tile.constant}) -> (tensor<1x64x7x9xf32>) {
  %r = tile.contract + [n: 1, o: 64, y: 7, x: 9 | c: 32] (%x[n, c, y, x], %w[o, c]) -> [n, o, y, x] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<1x64x7x9xf32>
  tile.return %r : tensor<1x64x7x9xf32>
}

// -----

// All indices of a map are one, reduced ones too; a merged index merges further.

// CHECK-LABEL: tile.kernel @whole
// CHECK-NEXT:    %r = tile.contract = [c_y_x(c: 4, y: 7, x: 9)] (%x[c, y, x]) -> [c, y, x] {
// CHECK:         %s = tile.contract + [| c_y_x(c: 4, y: 7, x: 9)] (%r[c, y, x]) -> [] {
tile.kernel @whole(%x: tensor<4x7x9xf32>) -> (tensor<f32>) {
  %r = tile.contract = [c: 4, y_x(y: 7, x: 9)] (%x[c, y, x]) -> [c, y, x] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4x7x9xf32>
  %s = tile.contract + [| x: 9, y: 7, c: 4] (%r[c, y, x]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}

// -----

// Layouts decide: in rows of channels, images merge and channels stay apart from them.

// CHECK-LABEL: tile.kernel @relayout
// CHECK-NEXT:    %r = tile.contract = [c: 4, y_x(y: 7, x: 9)] (%x[0, c, y, x]) -> [0, c, y, x] {
#nhwc = #place.at<x86, f32, nhwc>
tile.kernel @relayout(%x: tensor<1x4x7x9xf32, #nhwc>) -> (tensor<1x4x7x9xf32>) {
  %r = tile.contract = [n: 1, c: 4, y: 7, x: 9] (%x[n, c, y, x]) -> [n, c, y, x] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1x4x7x9xf32>
  tile.return %r : tensor<1x4x7x9xf32>
}

// -----

// Near misses: an index that a constraint or a body reads, a part of a tensor, and an operand that
// has one element for all columns.

// CHECK-LABEL: tile.kernel @apart
// CHECK-NEXT:    %r = tile.contract = [y: 7, x: 9] (%x[y, x - 1]) -> [y, x] default 0.000000e+00 : f32 {
// CHECK:         %s = tile.contract = [y: 7, x: 9] (%r[y, x]) -> [y, x] {
// CHECK:         %t = tile.contract = [y: 7, x: 8] (%s[y, x]) -> [y, x] {
// CHECK:         %u = tile.contract = [y: 7, x: 9] (%r[y, x], %s[y, 0]) -> [y, x] {
tile.kernel @apart(%x: tensor<7x9xf32>) -> (tensor<7x8xf32>, tensor<7x9xf32>) {
  %r = tile.contract = [y: 7, x: 9] (%x[y, x - 1]) -> [y, x] default 0.000000e+00 : f32 {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<7x9xf32>
  %s = tile.contract = [y: 7, x: 9] (%r[y, x]) -> [y, x] {
  ^bb0(%a: f32):
    %i = tile.index "x"
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    tile.yield %k : f32
  } : tensor<7x9xf32>
  %t = tile.contract = [y: 7, x: 8] (%s[y, x]) -> [y, x] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<7x8xf32>
  %u = tile.contract = [y: 7, x: 9] (%r[y, x], %s[y, 0]) -> [y, x] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : tensor<7x9xf32>
  tile.return %t, %u : tensor<7x8xf32>, tensor<7x9xf32>
}

// -----

// What a step of shared loops has decides: its 4 rows are one in memory. A step of one row has
// nothing to merge with.

// CHECK-LABEL: tile.kernel @steps
// CHECK-NEXT:    %r = tile.contract = [i_j(i: 64, j: 16)] (%x[i, j]) -> [i, j] at [i] {
#four = #tile.nest<[64 by 4]>
tile.kernel @steps(%x: tensor<64x16xf32>) -> (tensor<64x16xf32>) attributes {nest = #four} {
  %r = tile.contract = [i: 64, j: 16] (%x[i, j]) -> [i, j] at [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<64x16xf32>
  tile.return %r : tensor<64x16xf32>
}

// CHECK-LABEL: tile.kernel @rows
// CHECK-NEXT:    %r = tile.contract = [i: 64, j: 16] (%x[i, j]) -> [i, j] at [i] {
#one = #tile.nest<[64 by 1]>
tile.kernel @rows(%x: tensor<64x16xf32>) -> (tensor<64x16xf32>) attributes {nest = #one} {
  %r = tile.contract = [i: 64, j: 16] (%x[i, j]) -> [i, j] at [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<64x16xf32>
  tile.return %r : tensor<64x16xf32>
}
