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

// -----

// A loop that ends at the element for all rows and lanes adds the products themselves.

// CHECK-LABEL: rt.kernel @products
// CHECK:         scf.for %k =
// CHECK-NOT:       arith.select {{.*}}vector
// CHECK:           vector.fma
// CHECK:         rt.return
tile.kernel @products(%n: tensor<3xi32>, %x: tensor<3x6x64xf32>, %y: tensor<64x16xf32>) -> (tensor<3x6x16xf32>) {
  %s = tile.contract + [e: 3, i: 6, j: 16 | k: 64] (%n[e], %x[e, i, k], %y[k, j]) -> [e, i, j] schedule #tile.schedule<[e, j, i] reduce [k] vector j 8 by 2 rows i 6> {
  ^bb0(%end: i32, %v: f32, %w: f32):
    %k = tile.index "k"
    %at = arith.index_cast %k : index to i32
    %inside = arith.cmpi slt, %at, %end : i32
    %zero = arith.constant 0.0 : f32
    %product = arith.mulf %v, %w : f32
    %z = arith.select %inside, %product, %zero : f32
    tile.yield %z : f32
  } : tensor<3x6x16xf32>
  tile.return %s : tensor<3x6x16xf32>
}

// -----

// The end is that of the longest row of a tile: the comparisons of the others count.

// CHECK-LABEL: rt.kernel @rows
// CHECK:         scf.for %k =
// CHECK:           arith.select {{.*}}vector
// CHECK:         rt.return
tile.kernel @rows(%n: tensor<6xi32>, %x: tensor<6x64xf32>, %y: tensor<64x16xf32>) -> (tensor<6x16xf32>) {
  %s = tile.contract + [i: 6, j: 16 | k: 64] (%n[i], %x[i, k], %y[k, j]) -> [i, j] schedule #tile.schedule<[j, i] reduce [k] vector j 8 by 2 rows i 6> {
  ^bb0(%end: i32, %v: f32, %w: f32):
    %k = tile.index "k"
    %at = arith.index_cast %k : index to i32
    %inside = arith.cmpi slt, %at, %end : i32
    %zero = arith.constant 0.0 : f32
    %product = arith.mulf %v, %w : f32
    %z = arith.select %inside, %product, %zero : f32
    tile.yield %z : f32
  } : tensor<6x16xf32>
  tile.return %s : tensor<6x16xf32>
}
