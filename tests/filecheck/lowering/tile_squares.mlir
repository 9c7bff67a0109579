// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// An operand that lies across: squares of 4 x 4 are loaded along the rows, transposed by 8 shuffles,
// and stored along the lanes.

// CHECK-LABEL: rt.kernel @square
// CHECK-COUNT-4: vector.load %a[%{{.*}}] : memref<32xf32>, vector<4xf32>
// CHECK-COUNT-8: vector.shuffle
// CHECK-NOT:     vector.shuffle
// CHECK-COUNT-4: vector.store %{{.*}}, %r[%{{.*}}] : memref<32xf32>, vector<4xf32>
// CHECK-NOT:     vector.store
// CHECK-NOT:     memref.load
// CHECK:         rt.return
tile.kernel @square(%a: tensor<4x8xf32>) -> (tensor<8x4xf32>) {
  %r = tile.contract = [x: 8, y: 4] (%a[y, x]) -> [x, y] schedule #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x4xf32>
  tile.return %r : tensor<8x4xf32>
}

// -----

// The lanes that each of the shuffles takes: first neighbours change places, then pairs of them.

// CHECK-LABEL: rt.kernel @lanes
// CHECK:         %[[A:.*]] = vector.load %a
// CHECK:         %[[B:.*]] = vector.load %a
// CHECK:         %[[C:.*]] = vector.load %a
// CHECK:         %[[D:.*]] = vector.load %a
// CHECK-NEXT:    %[[A1:.*]] = vector.shuffle %[[A]], %[[B]] [0, 4, 2, 6]
// CHECK-NEXT:    %[[B1:.*]] = vector.shuffle %[[A]], %[[B]] [1, 5, 3, 7]
// CHECK-NEXT:    %[[C1:.*]] = vector.shuffle %[[C]], %[[D]] [0, 4, 2, 6]
// CHECK-NEXT:    %[[D1:.*]] = vector.shuffle %[[C]], %[[D]] [1, 5, 3, 7]
// CHECK-NEXT:    %[[R0:.*]] = vector.shuffle %[[A1]], %[[C1]] [0, 1, 4, 5]
// CHECK-NEXT:    %[[R2:.*]] = vector.shuffle %[[A1]], %[[C1]] [2, 3, 6, 7]
// CHECK-NEXT:    %[[R1:.*]] = vector.shuffle %[[B1]], %[[D1]] [0, 1, 4, 5]
// CHECK-NEXT:    %[[R3:.*]] = vector.shuffle %[[B1]], %[[D1]] [2, 3, 6, 7]
// CHECK:         vector.store %[[R0]], %r
// CHECK:         vector.store %[[R1]], %r
// CHECK:         vector.store %[[R2]], %r
// CHECK:         vector.store %[[R3]], %r
tile.kernel @lanes(%a: tensor<4x5xf32>) -> (tensor<4x4xf32>) {
  %r = tile.contract = [x: 4, y: 4] (%a[y, x]) -> [x, y] schedule #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4x4xf32>
  tile.return %r : tensor<4x4xf32>
}

// -----

// Edges in both directions: the last square of each lies over the one before it.

// CHECK-LABEL: rt.kernel @edges
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG:     %[[C6:.*]] = arith.constant 6 : index
// CHECK:         scf.for %x = {{.*}}
// CHECK:           arith.minsi %x, %[[C6]] : index
// CHECK:           scf.for %y = {{.*}}
// CHECK:             arith.minsi %y, %[[C3]] : index
// CHECK-COUNT-4:     vector.load %a
// CHECK-COUNT-4:     vector.store
// CHECK-NOT:       vector.maskedstore
// CHECK:         rt.return
tile.kernel @edges(%a: tensor<7x10xf32>) -> (tensor<10x7xf32>) {
  %r = tile.contract = [x: 10, y: 7] (%a[y, x]) -> [x, y] schedule #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<10x7xf32>
  tile.return %r : tensor<10x7xf32>
}

// -----

// Fewer rows than lanes, and fewer columns: nothing after them is loaded, stores are masked.

// CHECK-LABEL: rt.kernel @small
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK:         vector.create_mask %[[C2]]
// CHECK-COUNT-3: vector.maskedload %a
// CHECK-NOT:     vector.maskedload
// CHECK:         vector.create_mask %[[C3]]
// CHECK-COUNT-2: vector.maskedstore
// CHECK-NOT:     vector.maskedstore
// CHECK:         rt.return
tile.kernel @small(%a: tensor<3x7xf32>) -> (tensor<2x3xf32>) {
  %r = tile.contract = [x: 2, y: 3] (%a[y, x]) -> [x, y] schedule #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<2x3xf32>
  tile.return %r : tensor<2x3xf32>
}

// -----

// Another operand of the map lies along the lanes, a third one is the same for all of them.

// CHECK-LABEL: rt.kernel @mixed
// CHECK-COUNT-4: vector.load %a
// CHECK-COUNT-8: vector.shuffle
// CHECK:         vector.load %b
// CHECK:         memref.load %c
// CHECK:         vector.broadcast
tile.kernel @mixed(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %c: tensor<8xf32>) -> (tensor<8x4xf32>) {
  %r = tile.contract = [x: 8, y: 4] (%a[y, x], %b[x, y], %c[x]) -> [x, y] schedule #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4> {
  ^bb0(%u: f32, %v: f32, %w: f32):
    %p = arith.addf %u, %v : f32
    %q = arith.mulf %p, %w : f32
    tile.yield %q : f32
  } : tensor<8x4xf32>
  tile.return %r : tensor<8x4xf32>
}

// -----

// Blocks of squares: four of them along the lanes, then the next rows.

// CHECK-LABEL: rt.kernel @blocks
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[C16:.*]] = arith.constant 16 : index
// CHECK:         scf.for %y = %{{.*}} to %{{.*}} step %[[C16]] {
// CHECK-NEXT:      scf.for %x = %{{.*}} to %{{.*}} step %[[C4]] {
// CHECK:             scf.for %[[IN:.*]] = %{{.*}} to %[[C16]] step %[[C4]] {
// CHECK-NEXT:          affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%y, %[[IN]])
tile.kernel @blocks(%a: tensor<64x8xf32>) -> (tensor<8x64xf32>) {
  %r = tile.contract = [x: 8, y: 64] (%a[y, x]) -> [x, y] schedule #tile.schedule<[x, y] reduce [] vector y 4 by 1 rows x 4 blocks [y 16]> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x64xf32>
  tile.return %r : tensor<8x64xf32>
}
