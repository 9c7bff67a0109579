// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// Constraints that are stated: on a reduced and a plain index one bounds the reduced index's loop.

// CHECK-LABEL: rt.kernel @bound
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK:         scf.for %x =
// CHECK-NEXT:      %[[A:.*]] = affine.apply affine_map<(d0) -> ((((d0 * -1) + 2) ceildiv 1))> (%x)
// CHECK-NEXT:      %[[LOW:.*]] = arith.maxsi %[[C0]], %[[A]] : index
// CHECK-NEXT:      %[[B:.*]] = affine.apply affine_map<(d0) -> (((((d0 * -1) + 6) floordiv 1) + 1))> (%x)
// CHECK-NEXT:      %[[HIGH:.*]] = arith.minsi %[[C3]], %[[B]] : index
// CHECK-NEXT:      scf.for %i = %[[LOW]] to %[[HIGH]]
// CHECK-NOT:       arith.cmpi
// CHECK:         rt.return
tile.kernel @bound(%a: tensor<9xf32>) -> (tensor<5xf32>) {
  %r = tile.contract + [x: 5 | i: 3] (%a[x + i]) -> [x] where [x + i - 2 < 5] schedule #tile.schedule<[x] reduce [i]> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<5xf32>
  tile.return %r : tensor<5xf32>
}

// -----

// On the rows and a reduced index: a loop for each set of rows that are inside together, row 1, both,
// and row 0.

// CHECK-LABEL: rt.kernel @edge
// CHECK:         scf.for %y =
// CHECK:           scf.for %k =
// CHECK-COUNT-1:     arith.addf
// CHECK-NEXT:        scf.yield
// CHECK:           scf.for %k_1 =
// CHECK-COUNT-2:     arith.addf
// CHECK-NEXT:        scf.yield
// CHECK:           scf.for %k_2 =
// CHECK-COUNT-1:     arith.addf
// CHECK-NEXT:        scf.yield
// CHECK:         rt.return
tile.kernel @edge(%a: tensor<8x8xf32>) -> (tensor<6x8xf32>) {
  %r = tile.contract + [y: 6, c: 8 | k: 3] (%a[y + k, c]) -> [y, c] where [y + k - 1 < 6] schedule #tile.schedule<[c, y] reduce [k] vector c 8 by 1 rows y 2> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<6x8xf32>
  tile.return %r : tensor<6x8xf32>
}

// -----

// On the vector index: a mask, of narrow integers. The operands are inside and are loaded as ever;
// a multiply-add takes zeros in the lanes at which the constraint does not hold.

// CHECK-LABEL: rt.kernel @mask
// CHECK-DAG:     %[[C5:.*]] = arith.constant 5 : i32
// CHECK:         %[[L:.*]] = rt.iota : vector<8xi32>
// CHECK-NEXT:    %[[E:.*]] = vector.broadcast %[[C5]] : i32 to vector<8xi32>
// CHECK:         scf.for %i = {{.*}} iter_args(%[[OLD:[0-9]+]] = %{{.*}}) -> (vector<8xf32>) {
// CHECK-NEXT:      %[[I:.*]] = affine.apply affine_map<(d0) -> ((d0 + -2))> (%i)
// CHECK-NEXT:      %[[J:.*]] = arith.index_cast %[[I]] : index to i32
// CHECK-NEXT:      %[[K:.*]] = vector.broadcast %[[J]] : i32 to vector<8xi32>
// CHECK-NEXT:      %[[X:.*]] = arith.addi %[[K]], %[[L]] : vector<8xi32>
// CHECK-NEXT:      %[[M:.*]] = arith.cmpi ult, %[[X]], %[[E]] : vector<8xi32>
// CHECK-NEXT:      %[[A:.*]] = vector.load %a
// CHECK-NEXT:      %[[V:.*]] = arith.select %[[M]], %[[A]], %[[ZERO:.*]] : vector<8xi1>, vector<8xf32>
// CHECK:           %[[W:.*]] = arith.select %[[M]], %{{.*}}, %[[ZERO]] : vector<8xi1>, vector<8xf32>
// CHECK-NEXT:      %[[NEW:.*]] = vector.fma %[[V]], %[[W]], %[[OLD]] : vector<8xf32>
// CHECK-NEXT:      scf.yield %[[NEW]] : vector<8xf32>
tile.kernel @mask(%a: tensor<8xf32>, %b: tensor<3xf32>) -> (tensor<8xf32>) {
  %r = tile.contract + [x: 8 | i: 3] (%a[x], %b[i]) -> [x] where [x + i - 2 < 5] schedule #tile.schedule<[x] reduce [i] vector x 8 by 1> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// A scalar statement checks point by point. What is free alone is checked too: elements without a
// point get the identity.

// CHECK-LABEL: rt.kernel @free
// CHECK:         scf.for %x =
// CHECK:           %[[M:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : index
// CHECK:           scf.for %i = {{.*}} iter_args(%[[OLD:[0-9]+]] = %{{.*}}) -> (f32) {
// CHECK:             %[[NEW:.*]] = arith.addf %[[OLD]]
// CHECK-NEXT:        arith.select %[[M]], %[[NEW]], %[[OLD]] : f32
tile.kernel @free(%a: tensor<5x3xf32>) -> (tensor<5xf32>) {
  %r = tile.contract + [x: 5 | i: 3] (%a[x, i]) -> [x] where [x - 1 < 2] schedule #tile.schedule<[x] reduce [i]> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<5xf32>
  tile.return %r : tensor<5xf32>
}

// -----

// A map gives its default elsewhere.

// CHECK-LABEL: rt.kernel @map
// CHECK-DAG:     %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK:         %[[M:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : vector<8xi32>
// CHECK-NEXT:    %[[A:.*]] = vector.load %a
// CHECK-NEXT:    %[[D:.*]] = vector.broadcast %[[TWO]] : f32 to vector<8xf32>
// CHECK-NEXT:    %[[R:.*]] = arith.select %[[M]], %[[A]], %[[D]] : vector<8xi1>, vector<8xf32>
// CHECK-NEXT:    vector.store %[[R]], %r
tile.kernel @map(%a: tensor<8xf32>) -> (tensor<8xf32>) {
  %r = tile.contract = [x: 8] (%a[x]) -> [x] where [x - 3 < 4] default 2.0 : f32 schedule #tile.schedule<[x] reduce [] vector x 8 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// An operand that can be left is loaded under the mask, one that cannot as ever.

// CHECK-LABEL: rt.kernel @operands
// CHECK:         %[[M:.*]] = arith.cmpi ult, %{{.*}}, %{{.*}} : vector<8xi32>
// CHECK:         vector.maskedload %a[%{{.*}}], %[[M]]
// CHECK-NEXT:    %[[B:.*]] = vector.load %b
// CHECK-NEXT:    %[[W:.*]] = arith.select %[[M]], %[[B]]
// CHECK-NEXT:    vector.fma %{{.*}}, %[[W]]
tile.kernel @operands(%a: tensor<8xf32>, %b: tensor<3x8xf32>) -> (tensor<8xf32>) {
  %r = tile.contract + [x: 8 | i: 3] (%a[x + i - 1], %b[i, x]) -> [x] schedule #tile.schedule<[x] reduce [i] vector x 8 by 1> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// Numbers that i32 does not hold are compared as indices.

// CHECK-LABEL: rt.kernel @wide
// CHECK-DAG:     %[[C:.*]] = arith.constant 3000000000 : index
// CHECK:         %[[E:.*]] = vector.broadcast %[[C]] : index to vector<8xindex>
// CHECK-NEXT:    arith.cmpi ult, %{{.*}}, %[[E]] : vector<8xindex>
// CHECK-NOT:     i32
// CHECK:         rt.return
tile.kernel @wide(%a: tensor<3000000000xf32>) -> (tensor<8xf32>) {
  %r = tile.contract = [x: 8] (%a[x - 1]) -> [x] default 0.0 : f32 schedule #tile.schedule<[x] reduce [] vector x 8 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// Lanes of a reduced index beyond its end: both operands are zero there.

// CHECK-LABEL: rt.kernel @tail
// CHECK:         %[[SUM:.*]] = scf.for %k =
// CHECK:         vector.create_mask %{{.*}} : vector<8xi1>
// CHECK:         %[[A:.*]] = vector.maskedload %a
// CHECK:         %[[B:.*]] = vector.maskedload %b
// CHECK-NEXT:    %[[F:.*]] = vector.fma %[[A]], %[[B]], %[[SUM]]
// CHECK-NEXT:    vector.reduction <add>, %[[F]]
tile.kernel @tail(%a: tensor<19xf32>, %b: tensor<19xf32>) -> (tensor<f32>) {
  %r = tile.contract + [| k: 19] (%a[k], %b[k]) -> [] schedule #tile.schedule<[] reduce [k] vector k 8 by 1> {
  ^bb0(%v: f32, %w: f32):
    %p = arith.mulf %v, %w : f32
    tile.yield %p : f32
  } : tensor<f32>
  tile.return %r : tensor<f32>
}
