// RUN: TESSELLA_ROUNDTRIP

// A body looks the bits of a word up in a table.

// CHECK-LABEL: tile.kernel @lookup
// CHECK:           %{{.*}} = arith.lookup %{{.*}} {table = array<f64: 0.000000e+00, 5.000000e-01, 1.000000e+00, -2.000000e+00>} : i32 to f32
tile.kernel @lookup(%w: tensor<8xi32>) -> (tensor<8xf32>) {
  %0 = tile.contract = [n: 8] (%w[n]) -> [n] {
  ^bb0(%1: i32):
    %2 = arith.lookup %1 {table = array<f64: 0.0, 0.5, 1.0, -2.0>} : i32 to f32
    tile.yield %2 : f32
  } : tensor<8xf32>
  tile.return %0 : tensor<8xf32>
}
