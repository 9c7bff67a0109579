// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// The loop over a reduced index ends at an element beyond which the body counts nothing.

// CHECK-LABEL: rt.kernel @ragged
// CHECK:         scf.for %i =
// CHECK:           [[N:%.+]] = memref.load %n[%i]
// CHECK:           [[END:%.+]] = arith.index_cast [[N]] : i64 to index
// CHECK:           [[LEAST:%.+]] = arith.minsi {{%.+}}, [[END]] : index
// CHECK:           [[STOP:%.+]] = arith.maxsi [[LEAST]], {{%.+}} : index
// CHECK:           [[LAST:%.+]] = arith.minsi [[STOP]],
// CHECK:           scf.for %k = {{%.+}} to [[LAST]] step
tile.kernel @ragged(%n: tensor<8xi64>, %x: tensor<8x512xf32>) -> (tensor<8xf32>) {
  %s = tile.contract + [i: 8 | k: 512] (%n[i], %x[i, k]) -> [i] schedule #tile.schedule<[i] reduce [k] vector k 8 by 4> {
  ^bb0(%end: i64, %v: f32):
    %k = tile.index "k"
    %at = arith.index_cast %k : index to i64
    %inside = arith.cmpi slt, %at, %end : i64
    %zero = arith.constant 0.0 : f32
    %y = arith.select %inside, %v, %zero : f32
    tile.yield %y : f32
  } : tensor<8xf32>
  tile.return %s : tensor<8xf32>
}

// -----

// A one beyond the element changes the sum.

// CHECK-LABEL: rt.kernel @counted
// CHECK-NOT:     arith.maxsi
// CHECK:         rt.return
tile.kernel @counted(%n: tensor<8xi64>, %x: tensor<8x512xf32>) -> (tensor<8xf32>) {
  %s = tile.contract + [i: 8 | k: 512] (%n[i], %x[i, k]) -> [i] schedule #tile.schedule<[i] reduce [k] vector k 8 by 4> {
  ^bb0(%end: i64, %v: f32):
    %k = tile.index "k"
    %at = arith.index_cast %k : index to i64
    %inside = arith.cmpi slt, %at, %end : i64
    %one = arith.constant 1.0 : f32
    %y = arith.select %inside, %v, %one : f32
    tile.yield %y : f32
  } : tensor<8xf32>
  tile.return %s : tensor<8xf32>
}

// -----

// The element depends on the index itself.

// CHECK-LABEL: rt.kernel @each
// CHECK-NOT:     arith.maxsi
// CHECK:         rt.return
tile.kernel @each(%n: tensor<8x512xi64>, %x: tensor<8x512xf32>) -> (tensor<8xf32>) {
  %s = tile.contract + [i: 8 | k: 512] (%n[i, k], %x[i, k]) -> [i] schedule #tile.schedule<[i] reduce [k] vector k 8 by 4> {
  ^bb0(%end: i64, %v: f32):
    %k = tile.index "k"
    %at = arith.index_cast %k : index to i64
    %inside = arith.cmpi slt, %at, %end : i64
    %zero = arith.constant 0.0 : f32
    %y = arith.select %inside, %v, %zero : f32
    tile.yield %y : f32
  } : tensor<8xf32>
  tile.return %s : tensor<8xf32>
}
