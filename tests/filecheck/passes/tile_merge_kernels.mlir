// RUN: tessella-opt %s -p 'tile-merge-kernels{target=avx512}' --split-input-file | filecheck %s

// Both kernels go through %x. The second reads what the first makes, in another shape: a dimension of 1 more.

// CHECK-NOT:     tile.kernel @residuals_0
// CHECK-LABEL: tile.kernel @residuals_product_2(%x: tensor<40000x64xf32>, %w: tensor<64xf32>) -> (tensor<64xf32>)
// CHECK-SAME:    code = 2 : i64
// CHECK-NEXT:    %[[R:.*]] = tile.contract + [m: 40000 | k: 64] (%x[m, k], %w[k]) -> [m]
// CHECK:         tile.contract + [m: 64, n: 1 | k: 40000] (%x[k, m], %[[R]][k]) -> [m]
// CHECK-LABEL: tile.segment @gradient
// CHECK-NEXT:    tile.call @residuals_product_2(%x, %w) : tensor<64xf32>
// CHECK-NEXT:    tile.return
tile.kernel @residuals_0(%x: tensor<40000x64xf32>, %w: tensor<64xf32>) -> (tensor<40000xf32>) attributes {code = 0 : i64} {
  %r = tile.contract + [m: 40000 | k: 64] (%x[m, k], %w[k]) -> [m] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<40000xf32>
  tile.return %r : tensor<40000xf32>
}
tile.kernel @product_1(%x: tensor<40000x64xf32>, %r: tensor<40000x1xf32>) -> (tensor<64xf32>) attributes {code = 1 : i64} {
  %g = tile.contract + [m: 64, n: 1 | k: 40000] (%x[k, m], %r[k, n]) -> [m] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<64xf32>
  tile.return %g : tensor<64xf32>
}
tile.segment @gradient(%x: tensor<40000x64xf32>, %w: tensor<64xf32>) -> (tensor<64xf32>) {
  %r = tile.call @residuals_0(%x, %w) : tensor<40000xf32>
  %v = tile.view %r : tensor<40000xf32> -> tensor<40000x1xf32>
  %g = tile.call @product_1(%x, %v) : tensor<64xf32>
  tile.return %g : tensor<64xf32>
}

// -----

// Results that others read too are results still. What runs in between and does not need them stays before.

// CHECK-LABEL: tile.kernel @total_square_2(%x: tensor<1000000xf32>) -> (tensor<f32>, tensor<f32>)
// CHECK-LABEL: tile.segment @sums
// CHECK-NEXT:    %[[V:.*]] = tile.view %x
// CHECK-NEXT:    %[[S:.*]], %[[Q:.*]] = tile.call @total_square_2(%x) : tensor<f32>, tensor<f32>
// CHECK-NEXT:    tile.return %[[S]], %[[Q]], %[[V]]
tile.kernel @total_0(%x: tensor<1000000xf32>) -> (tensor<f32>) attributes {code = 0 : i64} {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @square_1(%x: tensor<1000000xf32>) -> (tensor<f32>) attributes {code = 1 : i64} {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    %b = arith.mulf %a, %a : f32
    tile.yield %b : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.segment @sums(%x: tensor<1000000xf32>) -> (tensor<f32>, tensor<f32>, tensor<1000x1000xf32>) {
  %s = tile.call @total_0(%x) : tensor<f32>
  %v = tile.view %x : tensor<1000000xf32> -> tensor<1000x1000xf32>
  %q = tile.call @square_1(%x) : tensor<f32>
  tile.return %s, %q, %v : tensor<f32>, tensor<f32>, tensor<1000x1000xf32>
}

// -----

// What is read in between, or needs the whole of what the first makes, stays apart.

// CHECK-LABEL: tile.segment @centred
// CHECK-NEXT:    tile.call @largest_0
// CHECK-NEXT:    tile.call @less_1
tile.kernel @largest_0(%x: tensor<1000000xf32>) -> (tensor<f32>) attributes {code = 0 : i64} {
  %s = tile.contract > [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @less_1(%x: tensor<1000000xf32>, %m: tensor<f32>) -> (tensor<f32>) attributes {code = 1 : i64} {
  %s = tile.contract + [ | i: 1000000] (%x[i], %m[]) -> [] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %a, %b : f32
    tile.yield %c : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.segment @centred(%x: tensor<1000000xf32>) -> (tensor<f32>) {
  %m = tile.call @largest_0(%x) : tensor<f32>
  %s = tile.call @less_1(%x, %m) : tensor<f32>
  tile.return %s : tensor<f32>
}

// -----

// Channels that both share would leave the filter no vectors: it takes longer than memory does.

// CHECK-LABEL: tile.segment @pooled
// CHECK:         tile.call @filter_0
// CHECK-NEXT:    tile.call @mean_1
tile.kernel @filter_0(%x: tensor<1x96x112x112xf32, #place.at<x86, f32, nhwc>>, %w: tensor<96x1x3x3xf32, #place.at<x86, f32, nchw>> {tile.constant}) -> (tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>) attributes {code = 0 : i64} {
  %y = tile.contract + [n: 1, g: 96, y: 56, x: 56 | i: 3, j: 3] (%x[n, g, 2*y + i - 1, 2*x + j - 1], %w[g, 0, i, j]) -> [n, g, y, x] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>
  tile.return %y : tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>
}
tile.kernel @mean_1(%x: tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>) -> (tensor<1x96x1x1xf32, #place.at<x86, f32, nhwc>>) attributes {code = 1 : i64} {
  %s = tile.contract + [n: 1, c: 96 | y: 56, x: 56] (%x[n, c, y, x]) -> [n, c, 0, 0] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1x96x1x1xf32, #place.at<x86, f32, nhwc>>
  tile.return %s : tensor<1x96x1x1xf32, #place.at<x86, f32, nhwc>>
}
tile.segment @pooled(%x: tensor<1x96x112x112xf32, #place.at<x86, f32, nhwc>>) -> (tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>, tensor<1x96x1x1xf32, #place.at<x86, f32, nhwc>>) {
  %w = nn.weight @w : tensor<96x1x3x3xf32, #place.at<x86, f32, nchw>>
  %y = tile.call @filter_0(%x, %w) : tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>
  %s = tile.call @mean_1(%y) : tensor<1x96x1x1xf32, #place.at<x86, f32, nhwc>>
  tile.return %y, %s : tensor<1x96x56x56xf32, #place.at<x86, f32, nhwc>>, tensor<1x96x1x1xf32, #place.at<x86, f32, nhwc>>
}

// -----

// What only moves elements joins a kernel that computes much with each: it is moved strip by strip, the result in the
// blocks of rows that the kernel writes.

// CHECK-LABEL: tile.kernel @transpose_squares_transpose_4
// CHECK-NEXT:    %[[T:.*]] = tile.contract = [c: 64, y: 512, x: 64] (%x[c, y, x]) -> [y, x, c]
// CHECK:         %[[S:.*]] = tile.contract + [b: 128, i: 4, x: 64, c: 64 | j: 64, k: 3] (%[[T]][4*b + i + k - 1, x, j], %w[j, c]) -> [4*b + i, x, c]
// CHECK:         tile.contract = [c: 64, y: 128, y_in: 4, x: 64] (%[[S]][4*y + y_in, x, c]) -> [c, 4*y + y_in, x]
// CHECK-LABEL: tile.segment @strips
// CHECK-NEXT:    tile.call @transpose_squares_transpose_4(%x, %w)
// CHECK-NEXT:    tile.return
tile.kernel @transpose_0(%x: tensor<64x512x64xf32>) -> (tensor<512x64x64xf32>) attributes {code = 0 : i64} {
  %t = tile.contract = [c: 64, y: 512, x: 64] (%x[c, y, x]) -> [y, x, c] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<512x64x64xf32>
  tile.return %t : tensor<512x64x64xf32>
}
tile.kernel @squares_1(%x: tensor<512x64x64xf32>, %w: tensor<64x64xf32>) -> (tensor<512x64x64xf32>) attributes {code = 1 : i64} {
  %s = tile.contract + [b: 128, i: 4, x: 64, c: 64 | j: 64, k: 3] (%x[4*b + i + k - 1, x, j], %w[j, c]) -> [4*b + i, x, c] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<512x64x64xf32>
  tile.return %s : tensor<512x64x64xf32>
}
tile.kernel @transpose_2(%x: tensor<512x64x64xf32>) -> (tensor<64x512x64xf32>) attributes {code = 2 : i64} {
  %t = tile.contract = [c: 64, y: 512, x: 64] (%x[y, x, c]) -> [c, y, x] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<64x512x64xf32>
  tile.return %t : tensor<64x512x64xf32>
}
tile.segment @strips(%x: tensor<64x512x64xf32>, %w: tensor<64x64xf32>) -> (tensor<64x512x64xf32>) {
  %t = tile.call @transpose_0(%x) : tensor<512x64x64xf32>
  %s = tile.call @squares_1(%t, %w) : tensor<512x64x64xf32>
  %r = tile.call @transpose_2(%s) : tensor<64x512x64xf32>
  tile.return %r : tensor<64x512x64xf32>
}

// -----

// A kernel that is tried and given up says nothing about the next one, which would have the same name.

// CHECK-LABEL: tile.kernel @first_second_4(%x: tensor<1000000xf32>) -> (tensor<f32>, tensor<f32>)
// CHECK-LABEL: tile.segment @apart
// CHECK-NEXT:    tile.call @first_0
// CHECK-NEXT:    tile.call @second_1
// CHECK-LABEL: tile.segment @together
// CHECK-NEXT:    tile.call @first_second_4
// CHECK-NEXT:    tile.return
tile.kernel @first_0(%x: tensor<1000000xf32>) -> (tensor<f32>) attributes {code = 0 : i64} {
  %s = tile.contract > [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @second_1(%x: tensor<1000000xf32>, %m: tensor<f32>) -> (tensor<f32>) attributes {code = 1 : i64} {
  %s = tile.contract + [ | i: 1000000] (%x[i], %m[]) -> [] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %a, %b : f32
    tile.yield %c : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @first_2(%x: tensor<1000000xf32>) -> (tensor<f32>) attributes {code = 2 : i64} {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @second_3(%x: tensor<1000000xf32>) -> (tensor<f32>) attributes {code = 3 : i64} {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    %b = arith.mulf %a, %a : f32
    tile.yield %b : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.segment @apart(%x: tensor<1000000xf32>) -> (tensor<f32>) {
  %m = tile.call @first_0(%x) : tensor<f32>
  %s = tile.call @second_1(%x, %m) : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.segment @together(%x: tensor<1000000xf32>) -> (tensor<f32>, tensor<f32>) {
  %s = tile.call @first_2(%x) : tensor<f32>
  %q = tile.call @second_3(%x) : tensor<f32>
  tile.return %s, %q : tensor<f32>, tensor<f32>
}

// -----

// A dimension of 1 that is read beyond: only one of three points counts, which no access without the dimension says.

// CHECK-LABEL: tile.segment @beyond
// CHECK-NEXT:    tile.call @residuals_0
// CHECK:         tile.call @product_1
tile.kernel @residuals_0(%x: tensor<40000x64xf32>, %w: tensor<64xf32>) -> (tensor<40000xf32>) attributes {code = 0 : i64} {
  %r = tile.contract + [m: 40000 | k: 64] (%x[m, k], %w[k]) -> [m] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<40000xf32>
  tile.return %r : tensor<40000xf32>
}
tile.kernel @product_1(%x: tensor<40000x64xf32>, %r: tensor<40000x1xf32>) -> (tensor<64xf32>) attributes {code = 1 : i64} {
  %g = tile.contract + [m: 64 | k: 40000, j: 3] (%x[k, m], %r[k, j - 1]) -> [m] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<64xf32>
  tile.return %g : tensor<64xf32>
}
tile.segment @beyond(%x: tensor<40000x64xf32>, %w: tensor<64xf32>) -> (tensor<64xf32>) {
  %r = tile.call @residuals_0(%x, %w) : tensor<40000xf32>
  %v = tile.view %r : tensor<40000xf32> -> tensor<40000x1xf32>
  %g = tile.call @product_1(%x, %v) : tensor<64xf32>
  tile.return %g : tensor<64xf32>
}

// -----

// The name is a new one.

// CHECK:         tile.kernel @total_square_1(%x: tensor<1000000xf32>) -> (tensor<f32>, tensor<f32>)
// CHECK:         tile.kernel @total_square_0(%x: tensor<4xf32>)
// CHECK-LABEL: tile.segment @named
// CHECK-NEXT:    tile.call @total_square_1(%x)
// CHECK-NEXT:    tile.call @total_square_0(%y)
tile.kernel @total(%x: tensor<1000000xf32>) -> (tensor<f32>) {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @square(%x: tensor<1000000xf32>) -> (tensor<f32>) {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    %b = arith.mulf %a, %a : f32
    tile.yield %b : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.kernel @total_square_0(%x: tensor<4xf32>) -> (tensor<f32>) {
  %s = tile.contract + [ | i: 4] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}
tile.segment @named(%x: tensor<1000000xf32>, %y: tensor<4xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %s = tile.call @total(%x) : tensor<f32>
  %q = tile.call @square(%x) : tensor<f32>
  %t = tile.call @total_square_0(%y) : tensor<f32>
  tile.return %s, %q, %t : tensor<f32>, tensor<f32>, tensor<f32>
}
