// RUN: tessella-opt %s -p 'tile-parallelize{target=avx512}' --split-input-file | filecheck %s

// A product with many rows divides these, so many at a time that the next kernel, which goes through
// rows one by one, can divide them alike. Together they take a little longer than waking a thread.

// CHECK-LABEL: tile.kernel @product
// CHECK:         rows m 8 unroll 4 parallel m 8>
// CHECK-LABEL: tile.kernel @scale
// CHECK:         vector n 16 by 4 parallel m 8>
// CHECK-LABEL: tile.segment @segment_0
// CHECK-SAME:    attributes {brief}
tile.kernel @product(%x: tensor<512x256xf32>, %w: tensor<256x64xf32>) -> (tensor<512x64xf32>) {
  %y = tile.contract + [m: 512, n: 64 | k: 256] (%x[m, k], %w[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 2 rows m 8 unroll 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<512x64xf32>
  tile.return %y : tensor<512x64xf32>
}
tile.kernel @scale(%x: tensor<512x64xf32>, %s: tensor<512xf32>) -> (tensor<512x64xf32>) {
  %y = tile.contract = [m: 512, n: 64] (%x[m, n], %s[m]) -> [m, n] schedule #tile.schedule<[m, n] reduce [] vector n 16 by 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<512x64xf32>
  tile.return %y : tensor<512x64xf32>
}
tile.segment @segment_0(%x: tensor<512x256xf32>, %w: tensor<256x64xf32>, %s: tensor<512xf32>) -> (tensor<512x64xf32>) {
  %a = tile.call @product(%x, %w) : tensor<512x64xf32>
  %y = tile.call @scale(%a, %s) : tensor<512x64xf32>
  tile.return %y : tensor<512x64xf32>
}

// -----

// Fewer pieces may keep threads waiting for longer than a barrier would: of 216 rows by 24, one of two
// threads gets 120.

// CHECK-LABEL: tile.kernel @eights
// CHECK:         parallel m 8>
// CHECK-LABEL: tile.kernel @twelves
// CHECK:         parallel m 12>
tile.kernel @eights(%x: tensor<216x2560xf32>, %w: tensor<2560x32xf32>) -> (tensor<216x32xf32>) {
  %y = tile.contract + [m: 216, n: 32 | k: 2560] (%x[m, k], %w[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 2 rows m 8 unroll 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<216x32xf32>
  tile.return %y : tensor<216x32xf32>
}
tile.kernel @twelves(%x: tensor<216x32xf32>, %w: tensor<32x32xf32>) -> (tensor<216x32xf32>) {
  %y = tile.contract + [m: 216, n: 32 | k: 32] (%x[m, k], %w[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 2 rows m 12 unroll 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<216x32xf32>
  tile.return %y : tensor<216x32xf32>
}
tile.segment @segment_0(%x: tensor<216x2560xf32>, %w: tensor<2560x32xf32>, %v: tensor<32x32xf32>) -> (tensor<216x32xf32>) {
  %a = tile.call @eights(%x, %w) : tensor<216x32xf32>
  %y = tile.call @twelves(%a, %v) : tensor<216x32xf32>
  tile.return %y : tensor<216x32xf32>
}

// -----

// One row has only columns to divide. They are given away by whole tiles.

// CHECK-LABEL: tile.kernel @vector
// CHECK:         parallel n 64>
// CHECK-LABEL: tile.segment @segment_0
// CHECK-NOT:     brief
tile.kernel @vector(%x: tensor<4096xf32>, %w: tensor<4096x4096xf32>) -> (tensor<4096xf32>) {
  %y = tile.contract + [n: 4096 | k: 4096] (%x[k], %w[k, n]) -> [n] schedule #tile.schedule<[n] reduce [k] vector n 16 by 4 unroll 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<4096xf32>
  tile.return %y : tensor<4096xf32>
}
tile.segment @segment_0(%x: tensor<4096xf32>, %w: tensor<4096x4096xf32>) -> (tensor<4096xf32>) {
  %y = tile.call @vector(%x, %w) : tensor<4096xf32>
  tile.return %y : tensor<4096xf32>
}

// -----

// Of a kernel's statements, the next one goes through the rows of the product. So these are divided, and no thread
// reads what another one has written; columns would do as well for the product alone.

// CHECK-LABEL: tile.kernel @rows_of_both
// CHECK:         rows m 8 unroll 4 parallel m 8>
// CHECK:         unroll 4 parallel m 16>
tile.kernel @rows_of_both(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> (tensor<512xf32>) {
  %y = tile.contract + [m: 512, n: 512 | k: 512] (%x[m, k], %w[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 1 rows m 8 unroll 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<512x512xf32>
  %s = tile.contract + [m: 512 | n: 512] (%y[m, n]) -> [m] schedule #tile.schedule<[m] reduce [n] vector n 16 by 4 unroll 4> {
  ^bb0(%c: f32):
    tile.yield %c : f32
  } : tensor<512xf32>
  tile.return %s : tensor<512xf32>
}
tile.segment @segment_0(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> (tensor<512xf32>) {
  %y = tile.call @rows_of_both(%x, %w) : tensor<512xf32>
  tile.return %y : tensor<512xf32>
}

// -----

// What is done before another thread would be awake stays with one thread.

// CHECK-LABEL: tile.kernel @small
// CHECK-NOT:     parallel
tile.kernel @small(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>) {
  %y = tile.contract = [m_n(m: 64, n: 64)] (%x[m, n]) -> [m, n] schedule #tile.schedule<[m_n] reduce [] vector m_n 16 by 4> {
  ^bb0(%a: f32):
    %p = arith.mulf %a, %a : f32
    tile.yield %p : f32
  } : tensor<64x64xf32>
  tile.return %y : tensor<64x64xf32>
}
tile.segment @segment_0(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>) {
  %y = tile.call @small(%x) : tensor<64x64xf32>
  tile.return %y : tensor<64x64xf32>
}

// -----

// Of shared loops the outermost is divided: each thread then has the intermediate tensors of its
// steps for itself.

// CHECK-LABEL: tile.kernel @centered
// CHECK-SAME:    #tile.nest<[4096 by 2 parallel 2]>
// CHECK-NOT:     parallel
tile.kernel @centered(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>) attributes {nest = #tile.nest<[4096 by 2]>} {
  %s = tile.contract + [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] in a step of i: 2 schedule #tile.schedule<[i] reduce [j] vector j 16 by 4> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4096xf32>
  %r = tile.contract = [p: 4096, q: 1024] (%x[p, q], %s[p]) -> [p, q] at [p] schedule #tile.schedule<[p, q] reduce [] vector q 16 by 4> {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<4096x1024xf32>
  tile.return %r : tensor<4096x1024xf32>
}
tile.segment @segment_0(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>) {
  %y = tile.call @centered(%x) : tensor<4096x1024xf32>
  tile.return %y : tensor<4096x1024xf32>
}

// -----

// All threads run the steps of a loop. A product that is small in one step is large in all of them.

// CHECK-LABEL: tile.kernel @step_product
// CHECK:         parallel n 64>
tile.kernel @step_product(%h: tensor<512xf32>, %w: tensor<512x512xf32>, %x: tensor<512xf32>) -> (tensor<512xf32>) {
  %y = tile.contract + [n: 512 | k: 512] (%h[k], %w[k, n]) -> [n] schedule #tile.schedule<[n] reduce [k] vector n 16 by 4 unroll 4> {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<512xf32>
  tile.return %y : tensor<512xf32>
}
tile.segment @step(%h: tensor<512xf32>, %x: tensor<512xf32>, %w: tensor<512x512xf32>) -> (tensor<512xf32>) {
  %k = tile.call @step_product(%h, %w, %x) : tensor<512xf32>
  tile.return %k : tensor<512xf32>
}
tile.segment @segment_0(%h: tensor<512xf32>, %xs: tensor<100x512xf32>, %w: tensor<512x512xf32>) -> (tensor<512xf32>) {
  %k = tile.scan @step(%h, %xs, %w) carried 1 scanned 1 backward [] : tensor<512xf32>
  tile.return %k : tensor<512xf32>
}

// -----

// Rows reach further and further, so that a thread with the last ones would have the most to do: heads
// are divided, and as they are few, with their rows.

// CHECK-LABEL: tile.kernel @triangles
// CHECK-SAME:    #tile.nest<[8 by 1 parallel 1, 512 by 8 parallel 8]>
tile.kernel @triangles(%a: tensor<8x512x512xf32>) -> (tensor<8x512xf32>) attributes {nest = #tile.nest<[8 by 1, 512 by 8]>} {
  %s = tile.contract = [h: 8, m: 512, n: 512] (%a[h, m, n]) -> [h, m, n] at [h, m] in a step of m: 1 x 8 x 512 schedule #tile.schedule<[m, n] reduce [] vector n 16 by 4> {
  ^bb0(%x: f32):
    %o = arith.constant 0 : i32
    %n = tile.index "n"
    %n32 = arith.index_cast %n : index to i32
    %m = tile.index "m"
    %m32 = arith.index_cast %m : index to i32
    %e = arith.addi %m32, %o : i32
    %c = arith.cmpi sle, %n32, %e : i32
    %f = arith.constant 0.0 : f32
    %y = arith.select %c, %x, %f : f32
    tile.yield %y : f32
  } : tensor<8x512x512xf32>
  %t = tile.contract + [g: 8, i: 512 | j: 512] (%s[g, i, j]) -> [g, i] at [g, i] schedule #tile.schedule<[i] reduce [j] vector j 16 by 8> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<8x512xf32>
  tile.return %t : tensor<8x512xf32>
}
tile.segment @segment_0(%x: tensor<8x512x512xf32>) -> (tensor<8x512xf32>) {
  %y = tile.call @triangles(%x) : tensor<8x512xf32>
  tile.return %y : tensor<8x512xf32>
}

// -----

// Only what can be divided counts: the loop of @sum has one row and one reduced index, and is long.

// CHECK-LABEL: tile.kernel @short
// CHECK-NOT:     parallel
tile.kernel @short(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>) {
  %y = tile.contract = [m_n(m: 64, n: 64)] (%x[m, n]) -> [m, n] schedule #tile.schedule<[m_n] reduce []> {
  ^bb0(%a: f32):
    %p = arith.mulf %a, %a : f32
    tile.yield %p : f32
  } : tensor<64x64xf32>
  tile.return %y : tensor<64x64xf32>
}
tile.kernel @sum(%x: tensor<1000000xf32>) -> (tensor<1xf32>) {
  %y = tile.contract + [m: 1 | k: 1000000] (%x[k]) -> [m] schedule #tile.schedule<[] reduce [k]> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1xf32>
  tile.return %y : tensor<1xf32>
}
tile.segment @segment_0(%x: tensor<64x64xf32>, %z: tensor<1000000xf32>) -> (tensor<64x64xf32>, tensor<1xf32>) {
  %y = tile.call @short(%x) : tensor<64x64xf32>
  %s = tile.call @sum(%z) : tensor<1xf32>
  tile.return %y, %s : tensor<64x64xf32>, tensor<1xf32>
}

// -----

// What writes to one tensor counts as one: its first column is divided as well.

// CHECK-LABEL: tile.kernel @beside
// CHECK:         schedule #tile.schedule<[m] reduce [] parallel m 1>
// CHECK:         schedule #tile.schedule<[m, d] reduce [] vector d 16 by 4 parallel m 1>
tile.kernel @beside(%x: tensor<2048xf32>, %y: tensor<2048x2047xf32>) -> (tensor<2048x2048xf32>) {
  %e = tile.empty : tensor<2048x2048xf32>
  %a = tile.contract = [m: 2048] (%x[m]) init %e -> [m, 0] schedule #tile.schedule<[m] reduce []> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<2048x2048xf32>
  %b = tile.contract = [m: 2048, d: 2047] (%y[m, d]) init %a -> [m, d + 1] schedule #tile.schedule<[m, d] reduce [] vector d 16 by 4> {
  ^bb0(%v: f32):
    %w = math.absf %v : f32
    tile.yield %w : f32
  } : tensor<2048x2048xf32>
  tile.return %b : tensor<2048x2048xf32>
}
tile.segment @segment_0(%x: tensor<2048xf32>, %y: tensor<2048x2047xf32>) -> (tensor<2048x2048xf32>) {
  %r = tile.call @beside(%x, %y) : tensor<2048x2048xf32>
  tile.return %r : tensor<2048x2048xf32>
}
