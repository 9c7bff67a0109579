// RUN: tessella-opt %s -p tile-find-running | filecheck %s

// All values up to one: it runs along the index of the output.

// CHECK-LABEL: tile.kernel @forward
// CHECK:         tile.contract + [j: 4 | i: 16 running] (%A[j, i]) -> [j, i] {
tile.kernel @forward(%A: tensor<4x16xf32>) -> (tensor<4x16xf32>) {
  %S = tile.contract + [j: 4, i: 16 | k: 16] (%A[j, k]) -> [j, i] where [i - k < 16] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4x16xf32>
  tile.return %S : tensor<4x16xf32>
}

// The other constraint keeps its index, and the body reads the value of the new one.

// CHECK-LABEL: tile.kernel @backward
// CHECK:         tile.contract > [| i: 16 running reverse exclusive] (%A[i]) -> [i] where [i + 2 < 16] {
// CHECK:           tile.index "i"
tile.kernel @backward(%A: tensor<16xi64>) -> (tensor<16xi64>) {
  %S = tile.contract > [i: 16 | k: 16] (%A[k]) -> [i] where [k - i - 1 < 16, k + 2 < 16] {
  ^bb0(%a: i64):
    %k = tile.index "k"
    %n = arith.index_cast %k : index to i64
    %r = arith.muli %a, %n : i64
    tile.yield %r : i64
  } : tensor<16xi64>
  tile.return %S : tensor<16xi64>
}

// What is summed depends on the output's index; fewer values count; only the last few values do.

// CHECK-LABEL: tile.kernel @others
// CHECK:         tile.contract + [i: 16 | k: 16] (%A[k], %B[i]) -> [i] where [i - k < 16] {
// CHECK:         tile.contract + [i: 16 | k: 12] (%A[k]) -> [i] where [i - k < 16] {
// CHECK:         tile.contract + [i: 16 | k: 16] (%A[k]) -> [i] where [i - k < 3] {
tile.kernel @others(%A: tensor<16xf32>, %B: tensor<16xf32>)
    -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %R = tile.contract + [i: 16 | k: 16] (%A[k], %B[i]) -> [i] where [i - k < 16] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  } : tensor<16xf32>
  %S = tile.contract + [i: 16 | k: 12] (%A[k]) -> [i] where [i - k < 16] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<16xf32>
  %T = tile.contract + [i: 16 | k: 16] (%A[k]) -> [i] where [i - k < 3] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<16xf32>
  tile.return %R, %S, %T : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}
