// RUN: tessella-opt %s -p hoist-invariants --split-input-file | filecheck %s

// What reads values that stay goes before the loop, with the weights that it reads; what it gives
// is passed on, what is not read any more is not.

// CHECK:       tile.segment @step(%h: tensor<4xf32>, %x: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %c = tile.call @k(%h, %b)
// CHECK-NEXT:    %d = tile.call @k(%c, %w)
// CHECK-NEXT:    %e = tile.call @k(%w, %w)
// CHECK-NEXT:    %f = tile.call @k(%d, %e)
// CHECK-NEXT:    tile.return %f
// CHECK:       tile.segment @segment_0(
// CHECK-NEXT:    %v = tile.view %r
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %a = tile.call @k(%v, %w)
// CHECK-NEXT:    %b = tile.call @k(%a, %a)
// CHECK-NEXT:    %t = tile.scan @step(%h, %xs, %b) carried 1 scanned 1 backward []
tile.kernel @k(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%x[i], %y[i]) -> [i] {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
tile.segment @step(%h: tensor<4xf32>, %x: tensor<4xf32>, %r: tensor<2x2xf32>) -> (tensor<4xf32>) {
  %w = nn.weight @w : tensor<4xf32>
  %v = tile.view %r : tensor<2x2xf32> -> tensor<4xf32>
  %a = tile.call @k(%v, %w) : tensor<4xf32>
  %b = tile.call @k(%a, %a) : tensor<4xf32>
  %c = tile.call @k(%h, %b) : tensor<4xf32>
  %d = tile.call @k(%c, %w) : tensor<4xf32>
  %e = tile.call @k(%w, %w) : tensor<4xf32>
  %f = tile.call @k(%d, %e) : tensor<4xf32>
  tile.return %f : tensor<4xf32>
}
tile.segment @segment_0(%h: tensor<4xf32>, %xs: tensor<3x4xf32>, %r: tensor<2x2xf32>) -> (tensor<4xf32>) {
  %t = tile.scan @step(%h, %xs, %r) carried 1 scanned 1 backward [] : tensor<4xf32>
  tile.return %t : tensor<4xf32>
}

// -----

// Out of two loops, and what is returned.

// CHECK:       tile.segment @inner(%h: tensor<4xf32>, %x: tensor<f32>, %a: tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:    tile.return %a
// CHECK:       tile.segment @outer(%h: tensor<4xf32>, %x: tensor<4xf32>, %a: tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:    %t = tile.scan @inner(%h, %x, %a)
// CHECK:       tile.segment @segment_0(
// CHECK-NEXT:    %a = tile.call @k(%r)
// CHECK-NEXT:    %t = tile.scan @outer(%h, %xs, %a)
tile.kernel @k(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%x[i]) -> [i] {
  ^bb0(%a: f32):
    %c = arith.addf %a, %a : f32
    tile.yield %c : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
tile.segment @inner(%h: tensor<4xf32>, %x: tensor<f32>, %r: tensor<4xf32>) -> (tensor<4xf32>) {
  %a = tile.call @k(%r) : tensor<4xf32>
  tile.return %a : tensor<4xf32>
}
tile.segment @outer(%h: tensor<4xf32>, %x: tensor<4xf32>, %r: tensor<4xf32>) -> (tensor<4xf32>) {
  %t = tile.scan @inner(%h, %x, %r) carried 1 scanned 1 backward [] : tensor<4xf32>
  tile.return %t : tensor<4xf32>
}
tile.segment @segment_0(%h: tensor<4xf32>, %xs: tensor<3x4xf32>, %r: tensor<4xf32>) -> (tensor<4xf32>) {
  %t = tile.scan @outer(%h, %xs, %r) carried 1 scanned 1 backward [] : tensor<4xf32>
  tile.return %t : tensor<4xf32>
}

// -----

// A segment that two ops run stays as it is.

// CHECK:       tile.segment @step(%h: tensor<4xf32>, %x: tensor<4xf32>, %r: tensor<2x2xf32>)
// CHECK-NEXT:    %v = tile.view %r
tile.segment @step(%h: tensor<4xf32>, %x: tensor<4xf32>, %r: tensor<2x2xf32>) -> (tensor<4xf32>) {
  %v = tile.view %r : tensor<2x2xf32> -> tensor<4xf32>
  tile.return %v : tensor<4xf32>
}
tile.segment @segment_0(%h: tensor<4xf32>, %xs: tensor<3x4xf32>, %r: tensor<2x2xf32>) -> (tensor<4xf32>) {
  %t = tile.scan @step(%h, %xs, %r) carried 1 scanned 1 backward [] : tensor<4xf32>
  %u = tile.scan @step(%t, %xs, %r) carried 1 scanned 1 backward [] : tensor<4xf32>
  tile.return %u : tensor<4xf32>
}
