// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// Points of the innermost reduction loop that run in one step: the loop says so, and code
// generation joins the steps. The loop around it has more points than that.

// CHECK-LABEL: rt.kernel @unroll
// CHECK:         scf.for %j =
// CHECK:           scf.for %i =
// CHECK:           } {rt.unroll = 4 : i64}
// CHECK-NOT:     rt.unroll
// CHECK:         rt.return
tile.kernel @unroll(%a: tensor<8x10x6xf32>) -> (tensor<8xf32>) {
  %r = tile.contract + [x: 8 | i: 10, j: 5] (%a[x, i, j]) -> [x] schedule #tile.schedule<[x] reduce [j, i] unroll 4> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// A whole window: both loops.

// CHECK-LABEL: rt.kernel @window
// CHECK:         scf.for %i =
// CHECK:           scf.for %j =
// CHECK:             vector.fma
// CHECK:           } {rt.unroll = 3 : i64}
// CHECK:         } {rt.unroll = 3 : i64}
// CHECK:         rt.return
tile.kernel @window(%a: tensor<10x18xf32>, %k: tensor<3x3xf32>) -> (tensor<8x16xf32>) {
  %r = tile.contract + [y: 8, x: 16 | i: 3, j: 3] (%a[y + i, x + j], %k[i, j]) -> [y, x] schedule #tile.schedule<[y, x] reduce [i, j] vector x 8 by 2 unroll 9> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<8x16xf32>
  tile.return %r : tensor<8x16xf32>
}

// -----

// No step has more points than there are.

// CHECK-LABEL: rt.kernel @short
// CHECK:         } {rt.unroll = 3 : i64}
// CHECK:         rt.return
tile.kernel @short(%a: tensor<8x3xf32>) -> (tensor<8xf32>) {
  %r = tile.contract + [x: 8 | i: 3] (%a[x, i]) -> [x] schedule #tile.schedule<[x] reduce [i] unroll 16> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// A loop whose bounds are computed runs point by point.

// CHECK-LABEL: rt.kernel @bounded
// CHECK:         scf.for %i =
// CHECK-NOT:     rt.unroll
// CHECK:         rt.return
tile.kernel @bounded(%a: tensor<8xf32>) -> (tensor<8xf32>) {
  %r = tile.contract + [x: 8 | i: 3] (%a[x + i - 1]) -> [x] schedule #tile.schedule<[x] reduce [i] unroll 3> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// Blocks of rows run outside of all other loops. The last block is shorter, and what is left of it
// for tiles too.

// CHECK-LABEL: rt.kernel @blocks
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[C8:.*]] = arith.constant 8 : index
// CHECK:         scf.for %[[BLOCK:.*]] = %[[C0]] to %[[C8]] step %[[C4]] {
// CHECK-NEXT:      scf.for %n = %[[C0]] to %[[C8]] step %[[C4]] {
// CHECK-NEXT:        scf.for %[[IN:.*]] = %[[C0]] to %[[C4]] step %[[C2]] {
// CHECK-NEXT:          %[[M:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[BLOCK]], %[[IN]])
// CHECK-NEXT:          affine.apply affine_map<(d0) -> ((d0 * 3))> (%[[M]])
// CHECK-NEXT:          affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 8)))> (%n, %[[M]])
// CHECK:               scf.for %k =
// CHECK-COUNT-2:         vector.fma
// CHECK:               }
// CHECK-COUNT-2:       vector.store
// CHECK-NEXT:        }
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.for %{{.*}} = %[[C0]] to %[[C8]] step %[[C4]] {
// CHECK:           scf.for %{{.*}} = {{.*}} iter_args
// CHECK-COUNT-2:     vector.fma
// CHECK:           }
// CHECK-COUNT-2:   vector.store
// CHECK:           scf.for %{{.*}} = {{.*}} iter_args
// CHECK-COUNT-1:     vector.fma
// CHECK:           }
// CHECK-COUNT-1:   vector.store
// CHECK-NEXT:    }
// CHECK-NEXT:    rt.return
tile.kernel @blocks(%a: tensor<11x3xf32>, %b: tensor<3x8xf32>) -> (tensor<11x8xf32>) {
  %r = tile.contract + [m: 11, n: 8 | k: 3] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 4 by 1 rows m 2 blocks [m 4]> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<11x8xf32>
  tile.return %r : tensor<11x8xf32>
}

// -----

// Blocks of two indices, the first one outside. A block that holds all is no loop.

// CHECK-LABEL: rt.kernel @nested
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK:         scf.for %m = %{{.*}} to %{{.*}} step %[[C4]] {
// CHECK-NEXT:      scf.for %n = %{{.*}} to %{{.*}} step %[[C2]] {
// CHECK-NEXT:        scf.for %{{.*}} = %{{.*}} to %[[C2]]
// CHECK:             scf.for %{{.*}} = %{{.*}} to %[[C4]]
// CHECK:               scf.for %k =
// CHECK:         rt.return
// CHECK-LABEL: rt.kernel @whole
// CHECK-COUNT-3: scf.for
// CHECK-NOT:     scf.for
// CHECK:         rt.return
tile.kernel @nested(%a: tensor<8x3xf32>, %b: tensor<3x8xf32>) -> (tensor<8x8xf32>) {
  %r = tile.contract + [m: 8, n: 8 | k: 3] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] blocks [m 4, n 2]> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<8x8xf32>
  tile.return %r : tensor<8x8xf32>
}
tile.kernel @whole(%a: tensor<8x3xf32>, %b: tensor<3x8xf32>) -> (tensor<8x8xf32>) {
  %r = tile.contract + [m: 8, n: 8 | k: 3] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] blocks [m 8]> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<8x8xf32>
  tile.return %r : tensor<8x8xf32>
}

// -----

// A product that is summed, or that a body adds to what is no product, is one operation with the sum;
// not the sum of two products, and not a product that something else reads. Rows of a map load what
// they share once.

// CHECK-LABEL: rt.kernel @products
// CHECK:         %[[D:.*]] = arith.subf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK-NEXT:    vector.fma %[[D]], %[[D]]
// CHECK:         scf.for
// CHECK-COUNT-3: vector.load
// CHECK-NOT:     vector.load
// CHECK:         vector.fma
// CHECK-NOT:     arith.mulf
// CHECK:         scf.for
// CHECK:         arith.mulf
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    arith.addf
// CHECK:         arith.mulf
// CHECK-NEXT:    arith.addf
// CHECK-NEXT:    arith.subf
// CHECK-NOT:     vector.fma
tile.kernel @products(%a: tensor<64xf32>, %b: tensor<64xf32>, %c: tensor<5x70xf32>) -> (tensor<f32>, tensor<4x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %r = tile.contract + [| i: 64] (%a[i], %b[i]) -> [] schedule #tile.schedule<[] reduce [i] vector i 8 by 1> {
  ^bb0(%x: f32, %y: f32):
    %d = arith.subf %x, %y : f32
    %p = arith.mulf %d, %d : f32
    tile.yield %p : f32
  } : tensor<f32>
  %s = tile.contract = [i: 4, j: 64] (%c[i, j], %c[i + 1, j]) -> [i, j] schedule #tile.schedule<[i, j] reduce [] vector j 8 by 1 rows i 2> {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %x : f32
    %q = arith.addf %p, %y : f32
    tile.yield %q : f32
  } : tensor<4x64xf32>
  %t = tile.contract = [i: 64] (%a[i], %b[i]) -> [i] schedule #tile.schedule<[i] reduce [] vector i 8 by 1> {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %x : f32
    %q = arith.mulf %y, %y : f32
    %z = arith.addf %p, %q : f32
    tile.yield %z : f32
  } : tensor<64xf32>
  %u = tile.contract = [i: 64] (%a[i], %b[i]) -> [i] schedule #tile.schedule<[i] reduce [] vector i 8 by 1> {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %x : f32
    %q = arith.addf %p, %y : f32
    %z = arith.subf %q, %p : f32
    tile.yield %z : f32
  } : tensor<64xf32>
  tile.return %r, %s, %t, %u : tensor<f32>, tensor<4x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// A stream is asked for line by line: of accesses to one tensor, the one that comes first to what
// is new.

// CHECK-LABEL: rt.kernel @stream
// CHECK:         %[[NEXT:.*]] = affine.apply affine_map<(d0) -> ((d0 + 1094))>
// CHECK-NEXT:    rt.prefetch %a[%[[NEXT]]] {level = 1 : i64} : memref<350xf32>
// CHECK-NOT:     rt.prefetch
// CHECK:         rt.return
tile.kernel @stream(%a: tensor<5x70xf32>) -> (tensor<4x64xf32>) {
  %s = tile.contract = [i: 4, j: 64] (%a[i, j], %a[i + 1, j]) -> [i, j] schedule #tile.schedule<[i, j] reduce [] vector j 16 by 1 prefetch> {
  ^bb0(%x: f32, %y: f32):
    %q = arith.addf %x, %y : f32
    tile.yield %q : f32
  } : tensor<4x64xf32>
  tile.return %s : tensor<4x64xf32>
}

// -----

// Two register tiles share a panel of four vectors: each asks for two lines of the next one.

// CHECK-LABEL: rt.kernel @panels
// CHECK:         affine.apply affine_map<(d0) -> ((((d0 floordiv 4) mod 2) * 2))>
// CHECK:         rt.prefetch %b
// CHECK:         rt.prefetch %b
// CHECK-NOT:     rt.prefetch
// CHECK:         rt.return
#panels = #place.at<x86, f32, packed<[1 floordiv 32, 0, 1 mod 32]>>
tile.kernel @panels(%a: tensor<8x16xf32>, %b: tensor<16x64xf32, #panels>) -> (tensor<8x64xf32>) {
  %s = tile.contract + [i: 8, j: 64 | k: 16] (%a[i, k], %b[k, j]) -> [i, j] schedule #tile.schedule<[j, i] reduce [k] vector j 8 by 4 rows i 4 prefetch> {
  ^bb0(%x: f32, %y: f32):
    %q = arith.mulf %x, %y : f32
    tile.yield %q : f32
  } : tensor<8x64xf32>
  tile.return %s : tensor<8x64xf32>
}
