// RUN: tessella-opt %s -p 'tile-share-loops{target=avx512}' --split-input-file | filecheck %s

// What one statement writes is read by the next while it is in cache: rows are a loop of both.

// CHECK-LABEL: tile.kernel @centered
// CHECK-SAME:    attributes {nest = #tile.nest<[4096 by [[STEP:[0-9]+]]] prefetch 64 ahead 2>}
// CHECK-NEXT:    tile.contract + [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] in a step of i: [[STEP]] {
// CHECK:         tile.contract = [p: 4096, q: 1024] (%x[p, q], %s[p]) -> [p, q] at [p] {
tile.kernel @centered(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>) {
  %s = tile.contract + [i: 4096 | j: 1024] (%x[i, j]) -> [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4096xf32>
  %r = tile.contract = [p: 4096, q: 1024] (%x[p, q], %s[p]) -> [p, q] {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<4096x1024xf32>
  tile.return %r : tensor<4096x1024xf32>
}

// -----

// What fits into a cache as a whole needs no steps.

// CHECK-LABEL: tile.kernel @small
// CHECK-NOT:     nest
tile.kernel @small(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>) {
  %s = tile.contract + [i: 4 | j: 8] (%x[i, j]) -> [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4xf32>
  %r = tile.contract = [p: 4, q: 8] (%x[p, q], %s[p]) -> [p, q] {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<4x8xf32>
  tile.return %r : tensor<4x8xf32>
}

// -----

// Nor does it where what statements hand on to each other fits: the weights of a recurrent layer are read once, by one
// statement alone.

// CHECK-LABEL: tile.kernel @gates
// CHECK-NOT:     nest
tile.kernel @gates(%h: tensor<1x1024xf32>, %z: tensor<1x1024xf32>, %w: tensor<1024x1024xf32>) -> (tensor<1x1024xf32>) {
  %k = tile.contract + [m: 1, n: 1024 | k: 1024] (%h[m, k], %w[k, n]) -> [m, n] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<1x1024xf32>
  %r = tile.contract = [p: 1, q: 1024] (%k[p, q], %z[p, q]) -> [p, q] {
  ^bb0(%c: f32, %d: f32):
    %e = arith.mulf %c, %d : f32
    tile.yield %e : f32
  } : tensor<1x1024xf32>
  tile.return %r : tensor<1x1024xf32>
}

// -----

// A statement that reads the rows as columns shares no loop.

// CHECK-LABEL: tile.kernel @turned
// CHECK-NOT:     nest
tile.kernel @turned(%x: tensor<1024x1024xf32>) -> (tensor<1024x1024xf32>) {
  %s = tile.contract + [i: 1024 | j: 1024] (%x[i, j]) -> [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1024xf32>
  %m = tile.contract = [i: 1024, j: 1024] (%x[i, j], %s[i]) -> [i, j] {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<1024x1024xf32>
  %r = tile.contract > [i: 1024 | j: 1024] (%m[j, i]) -> [i] {
  ^bb0(%e: f32):
    tile.yield %e : f32
  } : tensor<1024xf32>
  %y = tile.contract = [i: 1024, j: 1024] (%m[i, j], %r[i]) -> [i, j] {
  ^bb0(%f: f32, %g: f32):
    %h = arith.subf %f, %g : f32
    tile.yield %h : f32
  } : tensor<1024x1024xf32>
  tile.return %y : tensor<1024x1024xf32>
}

// -----

// Heads of attention share nothing: a step may have few of them, as each has all rows.

// CHECK-LABEL: tile.kernel @heads
// CHECK-SAME:    attributes {nest = #tile.nest<[12 by {{[1-3]}}] prefetch 64{{( ahead 2)?}}>} {
// CHECK-NEXT:    tile.contract + [b: 12, m: 128, n: 128 | k: 64] (%q[b, m, k], %k[b, n, k]) -> [b, m, n] at [b] in a step of b: {{[1-3]}} x 128 x 128 {
// CHECK:         tile.contract + [c: 12, i: 128, d: 64 | j: 128] (%s[c, i, j], %v[c, j, d]) -> [c, i, d] at [c] {
tile.kernel @heads(%q: tensor<12x128x64xf32>, %k: tensor<12x128x64xf32>, %v: tensor<12x128x64xf32>) -> (tensor<12x128x64xf32>) {
  %s = tile.contract + [b: 12, m: 128, n: 128 | k: 64] (%q[b, m, k], %k[b, n, k]) -> [b, m, n] {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  } : tensor<12x128x128xf32>
  %r = tile.contract + [c: 12, i: 128, d: 64 | j: 128] (%s[c, i, j], %v[c, j, d]) -> [c, i, d] {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  } : tensor<12x128x64xf32>
  tile.return %r : tensor<12x128x64xf32>
}

// -----

// Rows do share: where a step has few of them, what serves all of them is read too often.

// CHECK-LABEL: tile.kernel @rows
// CHECK-NOT:     nest
tile.kernel @rows(%q: tensor<256x8xf32>, %k: tensor<65536x8xf32>, %v: tensor<65536x8xf32>) -> (tensor<256x8xf32>) {
  %s = tile.contract + [m: 256, n: 65536 | k: 8] (%q[m, k], %k[n, k]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  } : tensor<256x65536xf32>
  %r = tile.contract + [i: 256, d: 8 | j: 65536] (%s[i, j], %v[j, d]) -> [i, d] {
  ^bb0(%x: f32, %y: f32):
    %z = arith.mulf %x, %y : f32
    tile.yield %z : f32
  } : tensor<256x8xf32>
  tile.return %r : tensor<256x8xf32>
}

// -----

// Columns: a step has whole cache lines of them, even if the first level of cache has no room for one.

// CHECK-LABEL: tile.kernel @columns
// CHECK-SAME:    attributes {nest = #tile.nest<[512 by 32] prefetch 64{{( ahead 2)?}}>} {
// CHECK-NEXT:    tile.contract + [j: 512 | i: 4096] (%x[i, j]) -> [j] at [j] in a step of j: 32 {
tile.kernel @columns(%x: tensor<4096x512xf32>) -> (tensor<4096x512xf32>) {
  %s = tile.contract + [j: 512 | i: 4096] (%x[i, j]) -> [j] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<512xf32>
  %r = tile.contract = [p: 4096, q: 512] (%x[p, q], %s[q]) -> [p, q] {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<4096x512xf32>
  tile.return %r : tensor<4096x512xf32>
}

// -----

// More of them where each row lies in a page of its own.

// CHECK-LABEL: tile.kernel @far_columns
// CHECK-SAME:    attributes {nest = #tile.nest<[1024 by 128] prefetch 64{{( ahead 2)?}}>} {
// CHECK-NEXT:    tile.contract + [j: 1024 | i: 4096] (%x[i, j]) -> [j] at [j] in a step of j: 128 {
tile.kernel @far_columns(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>) {
  %s = tile.contract + [j: 1024 | i: 4096] (%x[i, j]) -> [j] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1024xf32>
  %r = tile.contract = [p: 4096, q: 1024] (%x[p, q], %s[q]) -> [p, q] {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<4096x1024xf32>
  tile.return %r : tensor<4096x1024xf32>
}

// -----

// A sum over the loop is one of blocks, in steps of one, and one over the blocks after the loop. Its
// partial sums stay as short.

// CHECK-LABEL: tile.kernel @gradient
// CHECK-SAME:    attributes {nest = #tile.nest<[40000 by [[STEP:[0-9]+]]] prefetch 64 ahead 2>} {
// CHECK-NEXT:    %r = tile.contract + [m: 40000 | k: 64] (%x[m, k], %w[k]) -> [m] at [m] in a step of m: [[STEP]] {
// CHECK:         %[[PARTS:.*]] = tile.contract + [block: [[COUNT:[0-9]+]], m: 64 | k: [[STEP]]] (%x[[[STEP]]*block + k, m], %r[[[STEP]]*block + k]) -> [block, m] parts 4 at [block] {
// CHECK:         %g = tile.contract + [m: 64 | block: [[COUNT]]] (%[[PARTS]][block, m]) post () -> [m] {
// CHECK:         } : tensor<64xf32>
tile.kernel @gradient(%x: tensor<40000x64xf32>, %w: tensor<64xf32>) -> (tensor<64xf32>) {
  %r = tile.contract + [m: 40000 | k: 64] (%x[m, k], %w[k]) -> [m] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<40000xf32>
  %g = tile.contract + [m: 64 | k: 40000] (%x[k, m], %r[k]) post () -> [m] parts 4 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  }, {
  ^bb0(%s: f32):
    %n = arith.negf %s : f32
    tile.yield %n : f32
  } : tensor<64xf32>
  tile.return %g : tensor<64xf32>
}

// -----

// A long sum with few results is a sum of blocks, which threads can divide.

// CHECK-LABEL: tile.kernel @long
// CHECK-SAME:    attributes {nest = #tile.nest<[1000000 by 15625]>}
// CHECK-NEXT:    %0 = tile.contract + [block: 64 | i: 15625] (%x[15625*block + i]) -> [block] at [block] {
// CHECK:         tile.contract + [| block: 64] (%0[block]) -> [] {
tile.kernel @long(%x: tensor<1000000xf32>) -> (tensor<f32>) {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}

// -----

// A sum that reads its index stays as it is: in a block, the index would count from the block's begin.

// CHECK-LABEL: tile.kernel @counted
// CHECK-NOT:     nest
tile.kernel @counted(%x: tensor<1000000xf32>) -> (tensor<f32>) {
  %s = tile.contract + [ | i: 1000000] (%x[i]) -> [] {
  ^bb0(%a: f32):
    %i = tile.index "i"
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %w = arith.mulf %a, %f : f32
    tile.yield %w : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}

// -----

// One of a prime number of values stays as it is.

// CHECK-LABEL: tile.kernel @prime
// CHECK-NOT:     nest
tile.kernel @prime(%x: tensor<1000003xf32>) -> (tensor<f32>) {
  %s = tile.contract + [ | i: 1000003] (%x[i]) -> [] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<f32>
  tile.return %s : tensor<f32>
}

// -----

// Consecutive statements share a further loop where a step of the common one does not fit.

// CHECK-LABEL: tile.kernel @blocks
// CHECK-SAME:    attributes {nest = #tile.nest<[4096 by [[ROWS:[0-9]+]], 16 by 1]
// CHECK:         %s = tile.contract + [m: 4096, c: 16, n: 256 | k: 64] {{.*}} at [m, c] in a step of c: [[ROWS]] x 1 x 256 {
// CHECK:         %p = tile.contract + [m: 4096, c: 16, d: 64 | n: 256] {{.*}} at [m, c] in a step of m: [[ROWS]] x 16 x 64 {
// CHECK:         %r = tile.contract + [m: 4096, d: 64 | c: 16] (%p[m, c, d]) -> [m, d] at [m] {
tile.kernel @blocks(%q: tensor<4096x64xf32>, %k: tensor<16x256x64xf32>, %v: tensor<16x256x64xf32>) -> (tensor<4096x64xf32>) {
  %s = tile.contract + [m: 4096, c: 16, n: 256 | k: 64] (%q[m, k], %k[c, n, k]) -> [m, c, n] {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.mulf %a, %b : f32
    tile.yield %0 : f32
  } : tensor<4096x16x256xf32>
  %p = tile.contract + [m: 4096, c: 16, d: 64 | n: 256] (%s[m, c, n], %v[c, n, d]) -> [m, c, d] {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.mulf %a, %b : f32
    tile.yield %0 : f32
  } : tensor<4096x16x64xf32>
  %r = tile.contract + [m: 4096, d: 64 | c: 16] (%p[m, c, d]) -> [m, d] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4096x64xf32>
  tile.return %r : tensor<4096x64xf32>
}

// -----

// Three rows of a map are read for each row of sums: a step runs two rows more of the map, whose range
// is another. It has so many rows that few are computed twice.

// CHECK-LABEL: tile.kernel @neighbours
// CHECK-SAME:    attributes {nest = #tile.nest<[2046 by [[STEP:[0-9][0-9]]]] prefetch 64>}
// CHECK-NEXT:    tile.contract = [i: 2048, j: 2048] (%x[i, j]) -> [i, j] at [i: step by [[WINDOW:[0-9][0-9]]]] in a step of i: [[WINDOW]] x 2048 {
// CHECK:         tile.contract + [y: 2046, x: 2048 | w: 3, v: 3] (%t[y + w, x + v - 1]) -> [y, x] at [y] {
tile.kernel @neighbours(%x: tensor<2048x2048xf32>) -> (tensor<2046x2048xf32>) {
  %t = tile.contract = [i: 2048, j: 2048] (%x[i, j]) -> [i, j] {
  ^bb0(%a: f32):
    %e = math.exp %a : f32
    tile.yield %e : f32
  } : tensor<2048x2048xf32>
  %r = tile.contract + [y: 2046, x: 2048 | w: 3, v: 3] (%t[y + w, x + v - 1]) -> [y, x] {
  ^bb0(%c: f32):
    tile.yield %c : f32
  } : tensor<2046x2048xf32>
  tile.return %r : tensor<2046x2048xf32>
}

// -----

// A product of which rows would be computed twice takes longer than its result to be read again.

// CHECK-LABEL: tile.kernel @products
// CHECK-NOT:     nest
tile.kernel @products(%x: tensor<2048x2048xf32>, %w: tensor<2048x2048xf32>) -> (tensor<2046x2048xf32>) {
  %t = tile.contract + [i: 2048, j: 2048 | k: 2048] (%x[i, k], %w[k, j]) -> [i, j] {
  ^bb0(%a: f32, %b: f32):
    %e = arith.mulf %a, %b : f32
    tile.yield %e : f32
  } : tensor<2048x2048xf32>
  %r = tile.contract + [y: 2046, x: 2048 | w: 3, v: 3] (%t[y + w, x + v - 1]) -> [y, x] {
  ^bb0(%c: f32):
    tile.yield %c : f32
  } : tensor<2046x2048xf32>
  tile.return %r : tensor<2046x2048xf32>
}

// -----

// A loop over no rows has no steps.

// CHECK-LABEL: tile.kernel @no_rows
// CHECK-NOT:     #tile.nest<[0
// CHECK:         tile.return
tile.kernel @no_rows(%x: tensor<2048x2048xf32>) -> (tensor<0x2048xf32>) {
  %t = tile.contract = [i: 2048, j: 2048] (%x[i, j]) -> [i, j] {
  ^bb0(%a: f32):
    %e = math.exp %a : f32
    tile.yield %e : f32
  } : tensor<2048x2048xf32>
  %r = tile.contract + [y: 0, x: 2048 | w: 3, v: 3] (%t[y + w, x + v - 1]) -> [y, x] {
  ^bb0(%c: f32):
    tile.yield %c : f32
  } : tensor<0x2048xf32>
  tile.return %r : tensor<0x2048xf32>
}
