// RUN: tessella-opt %s -p 'tile-split-sums{target=avx512}' --split-input-file | filecheck %s

// The rows of each channel lie in pages of their own: they are summed in the order of memory.
tile.kernel @apart(%x: tensor<64x128x1024xf32>) -> (tensor<128xf32>) {
  %s = tile.contract + [c: 128 | n: 64, x: 1024] (%x[n, c, x]) -> [c] {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  } : tensor<128xf32>
  tile.return %s : tensor<128xf32>
}
// CHECK-LABEL: @apart
// CHECK: %[[P:.*]] = tile.contract + [n: 64, c: 128 | x: 1024] (%x[n, c, x]) -> [n, c]
// CHECK: tile.contract + [c: 128 | n: 64] (%[[P]][n, c]) -> [c]

// -----

// What is in cache is summed at once, and so are rows that lie side by side.
tile.kernel @small(%x: tensor<8x16x64xf32>) -> (tensor<16xf32>) {
  %s = tile.contract + [c: 16 | n: 8, x: 64] (%x[n, c, x]) -> [c] {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  } : tensor<16xf32>
  tile.return %s : tensor<16xf32>
}
// CHECK-LABEL: @small
// CHECK: tile.contract + [c: 16 | n: 8, x: 64]

// -----

tile.kernel @inner(%x: tensor<128x64x1024xf32>) -> (tensor<128xf32>) {
  %s = tile.contract + [c: 128 | n: 64, x: 1024] (%x[c, n, x]) -> [c] {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  } : tensor<128xf32>
  tile.return %s : tensor<128xf32>
}
// CHECK-LABEL: @inner
// CHECK: tile.contract + [c: 128 | n: 64, x: 1024]

// What runs along an index stays as it is.

// CHECK-LABEL: tile.kernel @along
// CHECK:         tile.contract + [c: 4 | n: 512, x: 1024 running] (%x[n, c, x]) -> [c, x]
tile.kernel @along(%x: tensor<512x4x1024xf32>) -> (tensor<4x1024xf32>) {
  %s = tile.contract + [c: 4 | n: 512, x: 1024 running] (%x[n, c, x]) -> [c, x] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4x1024xf32>
  tile.return %s : tensor<4x1024xf32>
}
