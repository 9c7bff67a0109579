// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// Lanes two elements apart: two vectors, and the lanes picked. Of the second one, nothing after the
// last lane's element is read.

// CHECK-LABEL: rt.kernel @two
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK:         %[[M:.*]] = vector.create_mask %[[C3]]
// CHECK:         %[[A:.*]] = vector.load %a
// CHECK:         %[[B:.*]] = vector.maskedload %a[%{{.*}}], %[[M]]
// CHECK-NEXT:    %[[X:.*]] = vector.shuffle %[[A]], %[[B]] [0, 2, 4, 6]
// CHECK-NEXT:    vector.store %[[X]], %r
tile.kernel @two(%a: tensor<14xf32>) -> (tensor<7xf32>) {
  %r = tile.contract = [x: 7] (%a[2*x + 1]) -> [x] schedule #tile.schedule<[x] reduce [] vector x 4 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<7xf32>
  tile.return %r : tensor<7xf32>
}

// -----

// A vector of 3 lanes: their 5 elements are the last.

// CHECK-LABEL: rt.kernel @rest
// CHECK-DAG:     %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG:     %[[C5:.*]] = arith.constant 5 : index
// CHECK:         %[[C:.*]] = vector.load %a[%[[C1]]]
// CHECK-NEXT:    %[[N:.*]] = vector.create_mask %[[C1]]
// CHECK:         %[[D:.*]] = vector.maskedload %a[%[[C5]]], %[[N]]
// CHECK-NEXT:    %[[Y:.*]] = vector.shuffle %[[C]], %[[D]] [0, 2, 4, 6]
// CHECK-NEXT:    %[[K:.*]] = vector.create_mask %[[C3]]
// CHECK-NEXT:    vector.maskedstore %r[%{{.*}}], %[[K]], %[[Y]]
tile.kernel @rest(%a: tensor<6xf32>) -> (tensor<3xf32>) {
  %r = tile.contract = [x: 3] (%a[2*x + 1]) -> [x] schedule #tile.schedule<[x] reduce [] vector x 4 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<3xf32>
  tile.return %r : tensor<3xf32>
}

// -----

// Three apart: ten elements in three vectors.

// CHECK-LABEL: rt.kernel @three
// CHECK:         %[[A:.*]] = vector.load %a
// CHECK-NEXT:    %[[B:.*]] = vector.load %a
// CHECK:         %[[C:.*]] = vector.maskedload %a
// CHECK-NEXT:    %[[X:.*]] = vector.shuffle %[[A]], %[[B]] [0, 3, 6, -1]
// CHECK-NEXT:    %[[Y:.*]] = vector.shuffle %[[X]], %[[C]] [0, 1, 2, 5]
// CHECK-NEXT:    vector.store %[[Y]], %r
tile.kernel @three(%a: tensor<10xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [x: 4] (%a[3*x]) -> [x] schedule #tile.schedule<[x] reduce [] vector x 4 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}

// -----

// Four apart: of the last vector only the first element.

// CHECK-LABEL: rt.kernel @four
// CHECK-DAG:     %[[C1:.*]] = arith.constant 1 : index
// CHECK-COUNT-3: vector.load %a
// CHECK:         %[[M:.*]] = vector.create_mask %[[C1]]
// CHECK:         vector.maskedload %a[%{{.*}}], %[[M]]
// CHECK-NEXT:    vector.shuffle %{{.*}}, %{{.*}} [0, 4, -1, -1]
// CHECK-NEXT:    vector.shuffle %{{.*}}, %{{.*}} [0, 1, 4, -1]
// CHECK-NEXT:    vector.shuffle %{{.*}}, %{{.*}} [0, 1, 2, 4]
tile.kernel @four(%a: tensor<13xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [x: 4] (%a[4*x]) -> [x] schedule #tile.schedule<[x] reduce [] vector x 4 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}

// -----

// With padding: the lanes that count are two apart, the elements that may be read side by side.

// CHECK-LABEL: rt.kernel @padded
// CHECK-DAG:     %[[C2:.*]] = arith.constant 2 : i32
// CHECK:         %[[IOTA:.*]] = rt.iota
// CHECK-NEXT:    %[[TWOS:.*]] = vector.broadcast %[[C2]]
// CHECK-NEXT:    arith.muli %[[IOTA]], %[[TWOS]]
// CHECK-NOT:     rt.iota
// CHECK:         %[[THREE:.*]] = vector.create_mask
// CHECK:         scf.for %x =
// CHECK:           scf.for %i = {{.*}} iter_args(%[[OLD:[0-9]+]] = %{{.*}})
// CHECK:             %[[AT:.*]] = affine.apply affine_map<(d0, d1) -> ((((d0 * 2) + d1) + -1))> (%x, %i)
// CHECK:             %[[LANES:.*]] = arith.cmpi ult
// CHECK:             %[[FIRST:.*]] = arith.cmpi ult
// CHECK:             vector.maskedload %a[%{{.*}}], %[[FIRST]]
// CHECK:             affine.apply affine_map<(d0, d1) -> ((((d0 * 2) + d1) + 3))> (%x, %i)
// CHECK:             %[[SECOND:.*]] = arith.cmpi ult
// CHECK-NEXT:        %[[BOTH:.*]] = arith.andi %[[SECOND]], %[[THREE]]
// CHECK:             vector.maskedload %a[%{{.*}}], %[[BOTH]]
// CHECK-NEXT:        %[[X:.*]] = vector.shuffle %{{.*}}, %{{.*}} [0, 2, 4, 6]
// CHECK-NEXT:        %[[SUM:.*]] = arith.addf %[[OLD]], %[[X]]
// CHECK-NEXT:        arith.select %[[LANES]], %[[SUM]], %[[OLD]]
tile.kernel @padded(%a: tensor<14xf32>) -> (tensor<8xf32>) {
  %r = tile.contract + [x: 8 | i: 3] (%a[2*x + i - 1]) -> [x] schedule #tile.schedule<[x] reduce [i] vector x 4 by 1> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// Rows share what they load: neighbouring windows, two elements apart, of one line.

// CHECK-LABEL: rt.kernel @shared
// CHECK:         scf.for %i =
// CHECK-COUNT-1:   vector.load %a
// CHECK-COUNT-1:   vector.maskedload %a
// CHECK:           vector.shuffle
// CHECK-NOT:       vector.shuffle
// CHECK-COUNT-2:   vector.fma
// CHECK:           scf.yield
tile.kernel @shared(%a: tensor<9xf32>, %w: tensor<2x3xf32>) -> (tensor<2x4xf32>) {
  %r = tile.contract + [c: 2, x: 4 | i: 3] (%a[2*x + i], %w[c, i]) -> [c, x] schedule #tile.schedule<[x, c] reduce [i] vector x 4 by 1 rows c 2> {
  ^bb0(%v: f32, %k: f32):
    %p = arith.mulf %v, %k : f32
    tile.yield %p : f32
  } : tensor<2x4xf32>
  tile.return %r : tensor<2x4xf32>
}
