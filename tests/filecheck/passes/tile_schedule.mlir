// RUN: tessella-opt %s -p 'tile-schedule{target=avx2}' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'tile-schedule{target=avx512}' --split-input-file | filecheck %s --check-prefix=AVX512
// RUN: tessella-opt %s -p 'tile-schedule{target=neon}' --split-input-file | filecheck %s --check-prefix=NEON

// Lanes, and how many rows and vectors the registers hold, are the target's. The weight gets
// panels as wide as the tile.

// CHECK-LABEL: tile.kernel @matmul(%a: tensor<32x24xf32>, %b: tensor<24x40xf32> {tile.constant, tile.packed = #packed}) -> (tensor<32x40xf32>) {
// CHECK-NEXT:    %r = tile.contract + [m: 32, n: 40 | k: 24] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 8 by 3 rows m 4 prefetch> {

// AVX512-LABEL: tile.kernel @matmul(%a: tensor<32x24xf32>, %b: tensor<24x40xf32> {tile.constant, tile.packed = #packed})
// AVX512:         schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 3 rows m 8 unroll 4> {

// NEON-LABEL: tile.kernel @matmul(%a: tensor<32x24xf32>, %b: tensor<24x40xf32> {tile.constant, tile.packed = #packed})
// NEON:         schedule #tile.schedule<[n, m] reduce [k] vector n 4 by 2 rows m 11 unroll 4 prefetch> {
tile.kernel @matmul(%a: tensor<32x24xf32>, %b: tensor<24x40xf32> {tile.constant}) -> (tensor<32x40xf32>) {
  %r = tile.contract + [m: 32, n: 40 | k: 24] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<32x40xf32>
  tile.return %r : tensor<32x40xf32>
}

// -----

// Channels-last: lanes are output channels, rows are neighbours in the image. The panels' loop is
// the outermost. Inside a panel the weights lie in the order of the reduction's loops.

// CHECK:         #packed = #place.at<x86, f32, packed<[0 floordiv [[W:[0-9]+]], 2, 3, 1, 0 mod [[W]]]>>
// CHECK-LABEL: tile.kernel @conv
// CHECK-SAME:    %k: tensor<16x12x3x3xf32> {tile.constant, tile.packed = #packed}
// CHECK:         schedule #tile.schedule<[o, y, x] reduce [i, j, c] vector o 8 by {{[12]}} rows x {{[2-9]}} unroll {{[248]}}> {
#nhwc = #place.at<x86, f32, nhwc>
tile.kernel @conv(%d: tensor<1x12x9x9xf32, #nhwc>, %k: tensor<16x12x3x3xf32> {tile.constant}, %b: tensor<16xf32> {tile.constant}) -> (tensor<1x16x9x9xf32, #nhwc>) {
  %r = tile.contract + [n: 1, o: 16, y: 9, x: 9 | i: 3, j: 3, c: 12] (%d[n, c, y + i - 1, x + j - 1], %k[o, c, i, j]) post (%b[o]) -> [n, o, y, x] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  }, {
  ^bb0(%s: f32, %t: f32):
    %q = arith.addf %s, %t : f32
    tile.yield %q : f32
  } : tensor<1x16x9x9xf32, #nhwc>
  tile.return %r : tensor<1x16x9x9xf32, #nhwc>
}

// -----

// An operand that is no weight is packed where the lanes need it, and else left as it is.

// CHECK:       #packed = #place.at<x86, f32, packed<[0 floordiv [[V:[0-9]+]], 1, 0 mod [[V]]]>>
// CHECK-LABEL: tile.kernel @variable(%a: tensor<32x24xf32>, %b: tensor<40x24xf32> {tile.packed = #packed}, %c: tensor<24x40xf32>)
// CHECK:         (%a[m, k], %b[n, k]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 8
// CHECK:         (%a[m, k], %c[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 8
tile.kernel @variable(%a: tensor<32x24xf32>, %b: tensor<40x24xf32>, %c: tensor<24x40xf32>) -> (tensor<32x40xf32>, tensor<32x40xf32>) {
  %r = tile.contract + [m: 32, n: 40 | k: 24] (%a[m, k], %b[n, k]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<32x40xf32>
  %s = tile.contract + [m: 32, n: 40 | k: 24] (%a[m, k], %c[k, n]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<32x40xf32>
  tile.return %r, %s : tensor<32x40xf32>, tensor<32x40xf32>
}

// -----

// Where each row of a panel would lie in a page of its own, and enough tiles read it, a copy pays.

// CHECK:       #packed = #place.at<x86, f64, packed<[1 floordiv 8, 0, 1 mod 8]>>
// CHECK-LABEL: tile.kernel @copied(%a: tensor<512x512xf64>, %b: tensor<512x512xf64> {tile.packed = #packed})
// CHECK:         schedule #tile.schedule<[n, m] reduce [k] vector n 4 by 2 rows m 6 unroll 8 prefetch> {
tile.kernel @copied(%a: tensor<512x512xf64>, %b: tensor<512x512xf64>) -> (tensor<512x512xf64>) {
  %r = tile.contract + [m: 512, n: 512 | k: 512] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f64, %y: f64):
    %p = arith.mulf %x, %y : f64
    tile.yield %p : f64
  } : tensor<512x512xf64>
  tile.return %r : tensor<512x512xf64>
}

// -----

// Two rows of tiles read too little again.

// CHECK-LABEL: tile.kernel @in_place(%a: tensor<12x512xf64>, %b: tensor<512x512xf64>)
// CHECK:         schedule #tile.schedule<[n, m] reduce [k] vector n
tile.kernel @in_place(%a: tensor<12x512xf64>, %b: tensor<512x512xf64>) -> (tensor<12x512xf64>) {
  %r = tile.contract + [m: 12, n: 512 | k: 512] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f64, %y: f64):
    %p = arith.mulf %x, %y : f64
    tile.yield %p : f64
  } : tensor<12x512xf64>
  tile.return %r : tensor<12x512xf64>
}

// -----

// A copy reads eight rows side by side where each lies in another page, and else writes in order.

// CHECK-LABEL: tile.kernel @panels
// CHECK:         schedule #tile.schedule<[p, k, n] reduce [] vector n 4 by 2 blocks [k 8]> {
tile.kernel @panels(%b: tensor<512x64x8xf64>) -> (tensor<64x512x8xf64>) {
  %r = tile.contract = [p: 64, k: 512, n: 8] (%b[k, p, n]) -> [p, k, n] {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : tensor<64x512x8xf64>
  tile.return %r : tensor<64x512x8xf64>
}

// CHECK-LABEL: tile.kernel @near
// CHECK:         schedule #tile.schedule<[p, k, n] reduce [] vector n 4 by 2> {
tile.kernel @near(%b: tensor<512x8x8xf64>) -> (tensor<8x512x8xf64>) {
  %r = tile.contract = [p: 8, k: 512, n: 8] (%b[k, p, n]) -> [p, k, n] {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : tensor<8x512x8xf64>
  tile.return %r : tensor<8x512x8xf64>
}

// -----

// An operand that two statements read keeps its layout; here the reduced index runs over lanes.

// CHECK-LABEL: tile.kernel @two_readers(%a: tensor<32x24xf32>, %b: tensor<40x24xf32> {tile.constant}) ->
// CHECK:         -> [m, n] schedule #tile.schedule<[m, n] reduce [k] vector k 8 by 3> {
// CHECK:         -> [n] schedule #tile.schedule<[n] reduce [k] vector k 8 by 3> {
tile.kernel @two_readers(%a: tensor<32x24xf32>, %b: tensor<40x24xf32> {tile.constant}) -> (tensor<32x40xf32>, tensor<40xf32>) {
  %r = tile.contract + [m: 32, n: 40 | k: 24] (%a[m, k], %b[n, k]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<32x40xf32>
  %s = tile.contract + [n: 40 | k: 24] (%b[n, k]) -> [n] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<40xf32>
  tile.return %r, %s : tensor<32x40xf32>, tensor<40xf32>
}

// -----

// Maps: a merged index runs over the lanes as one does. Where an operand has no unit stride, squares
// are loaded along the rows.

// CHECK-LABEL: tile.kernel @maps(%a: tensor<5x7xf32>, %b: tensor<7xf32>, %c: tensor<7x5xf32> {tile.constant}) ->
// CHECK:         (%a[i, j]) -> [i, j] schedule #tile.schedule<[i_j] reduce [] vector i_j 8 by 4> {
// CHECK:         (%a[i, j], %b[j]) -> [i, j] schedule #tile.schedule<[i, j] reduce [] vector j 8 by 1> {
// CHECK:         (%c[j, i]) -> [i, j] schedule #tile.schedule<[i, j] reduce [] vector j 8 by 1 rows i 5> {
tile.kernel @maps(%a: tensor<5x7xf32>, %b: tensor<7xf32>, %c: tensor<7x5xf32> {tile.constant}) -> (tensor<5x7xf32>, tensor<5x7xf32>, tensor<5x7xf32>) {
  %r = tile.contract = [i_j(i: 5, j: 7)] (%a[i, j]) -> [i, j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<5x7xf32>
  %s = tile.contract = [i: 5, j: 7] (%a[i, j], %b[j]) -> [i, j] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<5x7xf32>
  %t = tile.contract = [i: 5, j: 7] (%c[j, i]) -> [i, j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<5x7xf32>
  tile.return %r, %s, %t : tensor<5x7xf32>, tensor<5x7xf32>, tensor<5x7xf32>
}

// -----

// Reductions: over rows the lanes share out the row, over columns they are columns; all elements
// are one row.

// CHECK-LABEL: tile.kernel @sums
// CHECK:         -> [i] schedule #tile.schedule<[i] reduce [j] vector j 8 by {{[1-5]}}> {
// CHECK:         -> [j] schedule #tile.schedule<[j] reduce [i] vector j 8 by {{[1-5]}} unroll {{[0-9]+}}> {
// CHECK:         -> [] schedule #tile.schedule<[] reduce [i_j] vector i_j 8 by {{[1-8]}}> {
tile.kernel @sums(%a: tensor<5x40xf32>) -> (tensor<5xf32>, tensor<40xf32>, tensor<f32>) {
  %r = tile.contract + [i: 5 | j: 40] (%a[i, j]) -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<5xf32>
  %s = tile.contract + [j: 40 | i: 5] (%a[i, j]) -> [j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<40xf32>
  %t = tile.contract + [| i_j(i: 5, j: 40)] (%a[i, j]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  tile.return %r, %s, %t : tensor<5xf32>, tensor<40xf32>, tensor<f32>
}

// -----

// Lanes are counted by 64 bits only where no element is smaller.

// CHECK-LABEL: tile.kernel @doubles
// CHECK:         schedule #tile.schedule<[i] reduce [] vector i 4 by 4> {
// CHECK:         schedule #tile.schedule<[i] reduce [] vector i 8 by 4> {
tile.kernel @doubles(%a: tensor<100xf64>, %b: tensor<100xf32>) -> (tensor<100xf64>, tensor<100xf64>) {
  %r = tile.contract = [i: 100] (%a[i]) -> [i] {
  ^bb0(%x: f64):
    tile.yield %x : f64
  } : tensor<100xf64>
  %s = tile.contract = [i: 100] (%b[i]) -> [i] {
  ^bb0(%x: f32):
    %y = arith.extf %x : f32 to f64
    tile.yield %y : f64
  } : tensor<100xf64>
  tile.return %r, %s : tensor<100xf64>, tensor<100xf64>
}

// -----

// Elements at computed coordinates are read as vectors where they lie side by side, and else lane by
// lane; rows share the places of their lanes.

// CHECK-LABEL: tile.kernel @gather
// CHECK:         (%i[a]) -> [a, b] schedule #tile.schedule<[a, b] reduce [] vector b 8 by 4> {
// CHECK:         (%j[b]) -> [a, b] schedule #tile.schedule<[a, b] reduce [] vector b 8 by 1 rows a 2> {
tile.kernel @gather(%d: tensor<10x40xf32>, %i: tensor<6xi64>, %j: tensor<40xi64>) -> (tensor<6x40xf32>, tensor<6x40xf32>) {
  %r = tile.contract = [a: 6, b: 40] (%i[a]) -> [a, b] {
  ^bb0(%x: i64):
    %at = arith.index_cast %x : i64 to index
    %n = tile.index "b"
    %e = tile.extract %d[%at, %n] : tensor<10x40xf32> -> f32
    tile.yield %e : f32
  } : tensor<6x40xf32>
  %s = tile.contract = [a: 6, b: 40] (%j[b]) -> [a, b] {
  ^bb0(%x: i64):
    %at = arith.index_cast %x : i64 to index
    %n = tile.index "a"
    %e = tile.extract %d[%n, %at] : tensor<10x40xf32> -> f32
    tile.yield %e : f32
  } : tensor<6x40xf32>
  tile.return %r, %s : tensor<6x40xf32>, tensor<6x40xf32>
}

// -----

// A statement keeps the schedule that it has.

// CHECK-LABEL: tile.kernel @kept
// CHECK:         schedule #tile.schedule<[i] reduce []> {
tile.kernel @kept(%a: tensor<100xf32>) -> (tensor<100xf32>) {
  %r = tile.contract = [i: 100] (%a[i]) -> [i] schedule #tile.schedule<[i] reduce []> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<100xf32>
  tile.return %r : tensor<100xf32>
}

// -----

// A map whose rows read the same vectors has rows: nine loads of three rows are five for each of four.
// Not one that reads each element once.

// CHECK-LABEL: tile.kernel @filter
// CHECK:         schedule #tile.schedule<[i, j] reduce [] vector j {{[0-9]+}} by 1 rows i 4> {
// CHECK:         schedule #tile.schedule<[i, j] reduce [] vector j {{[0-9]+}} by 4> {
tile.kernel @filter(%a: tensor<66x66xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %r = tile.contract = [i: 64, j: 64] (%a[i, j], %a[i, j + 1], %a[i, j + 2], %a[i + 1, j], %a[i + 1, j + 1], %a[i + 1, j + 2], %a[i + 2, j], %a[i + 2, j + 1], %a[i + 2, j + 2]) -> [i, j] {
  ^bb0(%x0: f32, %x1: f32, %x2: f32, %y0: f32, %y1: f32, %y2: f32, %z0: f32, %z1: f32, %z2: f32):
    %s1 = arith.addf %x0, %x1 : f32
    %s2 = arith.addf %s1, %x2 : f32
    %s3 = arith.addf %s2, %y0 : f32
    %s4 = arith.addf %s3, %y1 : f32
    %s5 = arith.addf %s4, %y2 : f32
    %s6 = arith.addf %s5, %z0 : f32
    %s7 = arith.addf %s6, %z1 : f32
    %s8 = arith.addf %s7, %z2 : f32
    tile.yield %s8 : f32
  } : tensor<64x64xf32>
  %s = tile.contract = [i: 64, j: 64] (%a[i + 1, j + 1]) -> [i, j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64x64xf32>
  tile.return %r, %s : tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// What no cache holds is asked for ahead, where each element is read once.

// CHECK-LABEL: tile.kernel @stream
// CHECK:         schedule #tile.schedule<[] reduce [i] vector i {{.*}} prefetch> {
// CHECK:         schedule #tile.schedule<[] reduce [i] vector i 8 by {{[0-9]+}}> {
tile.kernel @stream(%a: tensor<100000000xf32>, %b: tensor<1000xf32>) -> (tensor<f32>, tensor<f32>) {
  %r = tile.contract + [| i: 100000000] (%a[i]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  %s = tile.contract + [| i: 1000] (%b[i]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  tile.return %r, %s : tensor<f32>, tensor<f32>
}

// -----

// So is what steps of shared loops read that ask for nothing themselves, but not what lives within
// a step.

// CHECK-LABEL: tile.kernel @blocks
// CHECK:         tile.contract + [block: 64 | i: 1000000]
// CHECK-SAME:    prefetch> {
// CHECK-LABEL: tile.kernel @asking
// CHECK:         tile.contract + [block: 64 | i: 1000000]
// CHECK-NOT:     prefetch> {
// CHECK-LABEL: tile.kernel @within
// CHECK-NOT:     prefetch> {
tile.kernel @blocks(%a: tensor<64000000xf32>) -> (tensor<64xf32>)
    attributes {nest = #tile.nest<[64000000 by 1000000]>} {
  %r = tile.contract + [block: 64 | i: 1000000] (%a[1000000*block + i]) -> [block] at [block] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64xf32>
  tile.return %r : tensor<64xf32>
}

tile.kernel @asking(%a: tensor<64000000xf32>) -> (tensor<64xf32>)
    attributes {nest = #tile.nest<[64000000 by 1000000] prefetch 64>} {
  %r = tile.contract + [block: 64 | i: 1000000] (%a[1000000*block + i]) -> [block] at [block] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64xf32>
  tile.return %r : tensor<64xf32>
}

tile.kernel @within(%a: tensor<1000xf32>) -> (tensor<64000xf32>)
    attributes {nest = #tile.nest<[64000 by 1]>} {
  %s = tile.contract = [m: 64000, i: 1000] (%a[i]) -> [m, i] at [m] in a step of m: 1 x 1000 {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64000x1000xf32>
  %r = tile.contract + [m: 64000 | i: 1000] (%s[m, i]) -> [m] at [m] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64000xf32>
  tile.return %r : tensor<64000xf32>
}

// -----

// Three channels lie between the pixels that lanes are: as rows, they read an image once.

// CHECK-LABEL: tile.kernel @image
// CHECK:         schedule #tile.schedule<[c, y_x] reduce [] vector y_x 8 by 1 rows c 3> {
// AVX512-LABEL: tile.kernel @image
// AVX512:         schedule #tile.schedule<[c, y_x] reduce [] vector y_x 16 by 1 rows c 3> {
tile.kernel @image(%x: tensor<224x224x3xf32>) -> (tensor<3x224x224xf32>) {
  %r = tile.contract = [c: 3, y_x(y: 224, x: 224)] (%x[y, x, c]) -> [c, y, x] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<3x224x224xf32>
  tile.return %r : tensor<3x224x224xf32>
}
