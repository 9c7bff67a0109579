// RUN: tessella-opt %s -p 'tile-divide-running{target=avx512}' | filecheck %s

// A long row in blocks. What is left after the last block is a statement of its own.

// CHECK-LABEL: tile.kernel @long
// CHECK:         [[S:%.*]] = tile.contract + [block: 64 | t: 15616] (%x[15616*block + t]) -> [block]
// CHECK:         [[B:%.*]] = tile.contract + [| block: 65 running exclusive] ([[S]][block]) -> [block]
// CHECK:         [[E:%.*]] = tile.empty
// CHECK:         [[M:%.*]] = tile.contract + [block: 64 | t: 15616 running] (%x[15616*block + t]) post ([[B]][block]) init [[E]]
// CHECK-SAME:        -> [15616*block + t] {
// CHECK:           arith.addf
// CHECK:         tile.contract + [| t: 579 running] (%x[t + 999424]) post ([[B]][64]) init [[M]] -> [t + 999424] {
tile.kernel @long(%x: tensor<1000003xf32>) -> (tensor<1000003xf32>) {
  %y = tile.contract + [| t: 1000003 running] (%x[t]) -> [t] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1000003xf32>
  tile.return %y : tensor<1000003xf32>
}

// In reverse, what is left lies before all blocks.

// CHECK-LABEL: tile.kernel @reverse
// CHECK:         tile.contract > [block: 64 | t: 15616] (%x[15616*block + t + 579]) -> [block]
// CHECK:         tile.contract > [| block: 65 running reverse exclusive] ({{.*}}[block - 1]) -> [block]
// CHECK:         tile.contract > [block: 64 | t: 15616 running reverse] (%x[15616*block + t + 579]) post ({{.*}}[block + 1])
// CHECK:         tile.contract > [| t: 579 running reverse] (%x[t]) post ({{.*}}[0])
tile.kernel @reverse(%x: tensor<1000003xf32>) -> (tensor<1000003xf32>) {
  %y = tile.contract > [| t: 1000003 running reverse] (%x[t]) -> [t] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<1000003xf32>
  tile.return %y : tensor<1000003xf32>
}

// Threads divide the rows of many.

// CHECK-LABEL: tile.kernel @rows
// CHECK:         tile.contract + [n: 64 | t: 16384 running] (%x[n, t]) -> [n, t] {
tile.kernel @rows(%x: tensor<64x16384xf32>) -> (tensor<64x16384xf32>) {
  %y = tile.contract + [n: 64 | t: 16384 running] (%x[n, t]) -> [n, t] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<64x16384xf32>
  tile.return %y : tensor<64x16384xf32>
}
