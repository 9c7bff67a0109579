// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// The statement that computes most while it reads the argument asks for the second row after this
// one, and for where the result of this row will be. A row of results of other statements is all there is.

// CHECK-LABEL: rt.kernel @softmax(%x: memref<32768xf32>) outs(%r: memref<32768xf32>)
// CHECK-SAME:    scratch(%m: memref<1xf32>, %e: memref<64xf32>, %t: memref<1xf32>)
// CHECK:         scf.for %step = %{{.*}} to %{{.*}} step
// CHECK-NEXT:      %[[ROW:.*]] = affine.apply affine_map<(d0) -> ((d0 * 64))> (%step)
// CHECK-NOT:       rt.prefetch
// CHECK:           vector.reduction <maximumf>
// CHECK:           scf.for %j = 
// CHECK-NEXT:        %[[AT:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[ROW]], %j)
// CHECK-NEXT:        %[[NEXT:.*]] = affine.apply affine_map<(d0) -> ((d0 + 128))> (%[[AT]])
// CHECK-NEXT:        rt.prefetch %x[%[[NEXT]]] {level = 1 : i64}
// CHECK-NEXT:        rt.prefetch %r[%[[AT]]] {level = 1 : i64, write}
// CHECK:             math.exp
// CHECK-NOT:       rt.prefetch
// CHECK:         rt.return
tile.kernel @softmax(%x: tensor<512x64xf32>) -> (tensor<512x64xf32>) attributes {nest = #tile.nest<[512 by 1] prefetch 64 ahead 2>} {
  %m = tile.contract > [i: 512 | j: 64] (%x[i, j]) -> [i] at [i] in a step of i: 1 schedule #tile.schedule<[] reduce [j] vector j 16 by 4> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<512xf32>
  %e = tile.contract = [i: 512, j: 64] (%x[i, j], %m[i]) -> [i, j] at [i] in a step of i: 1 x 64 schedule #tile.schedule<[j] reduce [] vector j 16 by 1> {
  ^bb0(%a: f32, %b: f32):
    %s = arith.subf %a, %b : f32
    %y = math.exp %s : f32
    tile.yield %y : f32
  } : tensor<512x64xf32>
  %t = tile.contract + [i: 512 | j: 64] (%e[i, j]) -> [i] at [i] in a step of i: 1 schedule #tile.schedule<[] reduce [j] vector j 16 by 4> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<512xf32>
  %r = tile.contract = [i: 512, j: 64] (%e[i, j], %t[i]) -> [i, j] at [i] schedule #tile.schedule<[j] reduce [] vector j 16 by 1> {
  ^bb0(%a: f32, %b: f32):
    %y = arith.divf %a, %b : f32
    tile.yield %y : f32
  } : tensor<512x64xf32>
  tile.return %r : tensor<512x64xf32>
}

// -----

// Rows that no statement reads vector by vector are asked for when the step begins.

// CHECK-LABEL: rt.kernel @product
// CHECK:         scf.for %step
// CHECK:           scf.for
// CHECK:             rt.prefetch %x[%{{.*}}] {level = 2 : i64} : memref<2048xf32>
// CHECK-NEXT:      } {rt.unroll = 4 : i64}
// CHECK-NOT:       rt.prefetch
// CHECK:         rt.return
tile.kernel @product(%x: tensor<64x32xf32>, %w: tensor<32x16xf32>) -> (tensor<64x16xf32>) attributes {nest = #tile.nest<[64 by 8] prefetch 64>} {
  %p = tile.contract + [m: 64, n: 16 | k: 32] (%x[m, k], %w[k, n]) -> [m, n] at [m] in a step of m: 8 x 16 schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 1 rows m 8> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<64x16xf32>
  %r = tile.contract = [m_n(m: 64, n: 16)] (%p[m, n]) -> [m, n] at [m] schedule #tile.schedule<[m_n] reduce [] vector m_n 16 by 1> {
  ^bb0(%a: f32):
    %c = arith.negf %a : f32
    tile.yield %c : f32
  } : tensor<64x16xf32>
  tile.return %r : tensor<64x16xf32>
}

// -----

// A step writes and reads what lies before its last row: its loops end there, at a multiple of 128.

// CHECK-LABEL: rt.kernel @triangle
// CHECK:         scf.for %step
// CHECK-NEXT:      %[[END:.*]] = affine.apply affine_map<(d0) -> ((((d0 + 162) floordiv 128) * 128))> (%step)
// CHECK-NEXT:      %[[STOP:.*]] = arith.minsi %[[END]], %[[ALL:.*]] : index
// CHECK:           scf.for %n = %{{.*}} to %{{.*}} step
// CHECK:             vector.store %{{.*}}, %s
// CHECK:           scf.for %j
// CHECK:             vector.load %s
// CHECK:         rt.return
tile.kernel @triangle(%a: tensor<512x256xf32>) -> (tensor<512xf32>) attributes {nest = #tile.nest<[512 by 32]>} {
  %s = tile.contract = [m: 512, n: 256] (%a[m, n]) -> [m, n] at [m] in a step of m: 32 x 256 schedule #tile.schedule<[m, n] reduce [] vector n 16 by 4> {
  ^bb0(%x: f32):
    %o = arith.constant 3 : i32
    %n = tile.index "n"
    %n32 = arith.index_cast %n : index to i32
    %m = tile.index "m"
    %m32 = arith.index_cast %m : index to i32
    %e = arith.addi %m32, %o : i32
    %c = arith.cmpi sle, %n32, %e : i32
    %f = arith.constant 0.0 : f32
    %y = arith.select %c, %x, %f : f32
    tile.yield %y : f32
  } : tensor<512x256xf32>
  %t = tile.contract + [i: 512 | j: 256] (%s[i, j]) -> [i] at [i] schedule #tile.schedule<[i] reduce [j] vector j 16 by 8> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<512xf32>
  tile.return %t : tensor<512xf32>
}

// -----

// The last statement computes most, and writes the result: the one before it asks for where that will be.

// CHECK-LABEL: rt.kernel @centered
// CHECK:         scf.for %step
// CHECK:           scf.for %j =
// CHECK:             rt.prefetch %r[%{{.*}}] {level = 1 : i64, write}
// CHECK-NEXT:        vector.load %x
// CHECK:           scf.for %q =
// CHECK:             rt.prefetch %x[%{{.*}}] {level = 1 : i64}
// CHECK-NOT:         rt.prefetch
// CHECK:         rt.return
tile.kernel @centered(%x: tensor<512x256xf32>) -> (tensor<512x256xf32>) attributes {nest = #tile.nest<[512 by 1] prefetch 64>} {
  %s = tile.contract + [i: 512 | j: 256] (%x[i, j]) -> [i] at [i] in a step of i: 1 schedule #tile.schedule<[] reduce [j] vector j 16 by 1> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<512xf32>
  %r = tile.contract = [p: 512, q: 256] (%x[p, q], %s[p]) -> [p, q] at [p] schedule #tile.schedule<[q] reduce [] vector q 16 by 1> {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<512x256xf32>
  tile.return %r : tensor<512x256xf32>
}

// -----

// A sum over a shared loop: steps make the sums of blocks of rows, which a loop after them adds up. A tensor that is
// read in its step alone has room for one; the sums of blocks have room for all.

// CHECK-LABEL: rt.kernel @gradient(%x: memref<3200xf32>, %w: memref<32xf32>) outs(%t: memref<32xf32>)
// CHECK-SAME:    scratch(%r: memref<20xf32>, %s: memref<320xf32>)
// CHECK:         scf.for %step
// CHECK:           affine.apply affine_map<(d0) -> ((d0 floordiv 10))> (%step)
// CHECK:           memref.store %{{.*}}, %r
// CHECK:           scf.for %c
// CHECK:             memref.load %r
// CHECK:             vector.store %{{.*}}, %s
// CHECK:         scf.for %c
// CHECK-NOT:       scf.for
// CHECK:         vector.store %{{.*}}, %t
tile.kernel @gradient(%x: tensor<100x32xf32>, %w: tensor<32xf32>) -> (tensor<32xf32>) attributes {nest = #tile.nest<[100 by 20]>} {
  %r = tile.contract + [i: 100 | j: 32] (%x[i, j], %w[j]) -> [i] at [i] in a step of i: 20 schedule #tile.schedule<[i] reduce [j] vector j 16 by 2> {
  ^bb0(%a: f32, %b: f32):
    %y = arith.mulf %a, %b : f32
    tile.yield %y : f32
  } : tensor<100xf32>
  %s = tile.contract + [c: 10, j: 32 | i: 10] (%x[10*c + i, j], %r[10*c + i]) -> [c, j] at [c] schedule #tile.schedule<[c, j] reduce [i] vector j 16 by 2> {
  ^bb0(%a: f32, %b: f32):
    %y = arith.mulf %a, %b : f32
    tile.yield %y : f32
  } : tensor<10x32xf32>
  %t = tile.contract + [j: 32 | c: 10] (%s[c, j]) -> [j] schedule #tile.schedule<[j] reduce [c] vector j 16 by 2> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<32xf32>
  tile.return %t : tensor<32xf32>
}

// -----

// Two rows of sums need four rows of the map before. The windows move into the range at its ends, so
// the sums read from their own row minus that of the window.

// CHECK-LABEL: rt.kernel @neighbours
// CHECK-SAME:    scratch(%t: memref<64xf32>)
// CHECK:         scf.for %step
// CHECK:           %[[ROW:.*]] = affine.apply affine_map<(d0) -> ((d0 + -1))> (%step)
// CHECK-NEXT:      %[[LOW:.*]] = arith.maxsi %[[ROW]]
// CHECK-NEXT:      %[[FIRST:.*]] = arith.minsi %[[LOW]]
// CHECK:           affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * -16)))>
// CHECK:           scf.for %p
// CHECK:             scf.for %w
tile.kernel @neighbours(%x: tensor<6x16xf32>) -> (tensor<6x16xf32>) attributes {nest = #tile.nest<[6 by 2]>} {
  %t = tile.contract = [i_j(i: 6, j: 16)] (%x[i, j]) -> [i, j] at [i: step - 1 by 4] in a step of i: 4 x 16 schedule #tile.schedule<[i_j] reduce [] vector i_j 16 by 1> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<6x16xf32>
  %r = tile.contract + [p: 6, q: 16 | w: 3] (%t[p + w - 1, q]) -> [p, q] at [p] schedule #tile.schedule<[p, q] reduce [w] vector q 16 by 1> {
  ^bb0(%b: f32):
    tile.yield %b : f32
  } : tensor<6x16xf32>
  tile.return %r : tensor<6x16xf32>
}

// -----

// Two loops are divided as one: a thread runs the outer steps that its share touches, and no others.

// CHECK-LABEL: rt.kernel @two(
// CHECK:         %[[FIRST:.*]], %[[STOP:.*]] = rt.share 120 by 8 in 3 of %thread, %threads
// CHECK-NEXT:    %[[LOW:.*]] = affine.apply affine_map<(d0) -> ((d0 floordiv 40))> (%[[FIRST]])
// CHECK-NEXT:    %[[HIGH:.*]] = affine.apply affine_map<(d0) -> (((d0 + 39) floordiv 40))> (%[[STOP]])
// CHECK-NEXT:    scf.for %[[OUTER:.*]] = %[[LOW]] to %[[HIGH]] step
// CHECK-NEXT:      %[[FIRST:.*]], %[[STOP:.*]] = rt.share 120 by 8 in 3 of %thread, %threads
// CHECK-NEXT:      %[[FROM:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * -40)))> (%[[FIRST]], %[[OUTER]])
// CHECK-NEXT:      %[[TO:.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * -40)))> (%[[STOP]], %[[OUTER]])
// CHECK-NEXT:      %[[LOW:.*]] = arith.maxsi %[[FROM]], %{{.*}} : index
// CHECK-NEXT:      %[[HIGH:.*]] = arith.minsi %[[TO]], %{{.*}} : index
// CHECK-NEXT:      scf.for %{{.*}} = %[[LOW]] to %[[HIGH]] step
tile.kernel @two(%a: tensor<3x40xf32>) -> (tensor<3x40xf32>) attributes {nest = #tile.nest<[3 by 1 parallel 1, 40 by 8 parallel 8]>} {
  %s = tile.contract = [h: 3, m: 40] (%a[h, m]) -> [h, m] at [h, m] in a step of m: 1 x 8 schedule #tile.schedule<[m] reduce []> {
  ^bb0(%x: f32):
    %y = math.absf %x : f32
    tile.yield %y : f32
  } : tensor<3x40xf32>
  %t = tile.contract = [g: 3, i: 40] (%s[g, i]) -> [g, i] at [g, i] schedule #tile.schedule<[i] reduce []> {
  ^bb0(%x: f32):
    %y = math.exp %x : f32
    tile.yield %y : f32
  } : tensor<3x40xf32>
  tile.return %t : tensor<3x40xf32>
}

// -----

// A statement that does not depend on those in the loop runs before it, wherever it stands.

// CHECK-LABEL: rt.kernel @between
// CHECK-SAME:    scratch(%m: memref<8xf32>, %s: memref<16xf32>)
// CHECK:         vector.store %{{.*}}, %s
// CHECK:         scf.for %step
// CHECK:           memref.store %{{.*}}, %m
// CHECK:           vector.store %{{.*}}, %r
// CHECK-NOT:     scf.for %step
tile.kernel @between(%x: tensor<32x16xf32>, %y: tensor<32x16xf32>) -> (tensor<32x16xf32>) attributes {nest = #tile.nest<[32 by 8]>} {
  %m = tile.contract > [i: 32 | j: 16] (%x[i, j]) -> [i] at [i] in a step of i: 8 schedule #tile.schedule<[i] reduce [j] vector j 16 by 1> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<32xf32>
  %s = tile.contract + [j: 16 | i: 32] (%y[i, j]) -> [j] schedule #tile.schedule<[j] reduce [i] vector j 16 by 1> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<16xf32>
  %r = tile.contract = [p: 32, q: 16] (%m[p], %s[q]) -> [p, q] at [p] schedule #tile.schedule<[p, q] reduce [] vector q 16 by 1> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    tile.yield %c : f32
  } : tensor<32x16xf32>
  tile.return %r : tensor<32x16xf32>
}

// -----

// A step may have more room than it needs.

// CHECK-LABEL: rt.kernel @roomy
// CHECK-SAME:    scratch(%m: memref<12xf32>)
tile.kernel @roomy(%x: tensor<32x16xf32>) -> (tensor<32x16xf32>) attributes {nest = #tile.nest<[32 by 8]>} {
  %m = tile.contract > [i: 32 | j: 16] (%x[i, j]) -> [i] at [i] in a step of i: 12 schedule #tile.schedule<[i] reduce [j] vector j 16 by 1> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<32xf32>
  %r = tile.contract = [p: 32, q: 16] (%x[p, q], %m[p]) -> [p, q] at [p] schedule #tile.schedule<[p, q] reduce [] vector q 16 by 1> {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %a, %b : f32
    tile.yield %c : f32
  } : tensor<32x16xf32>
  tile.return %r : tensor<32x16xf32>
}
