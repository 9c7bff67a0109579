// RUN: tessella-opt %s -p 'fuse-patterns{only="scaled-operand","products-of-one","gelu-erf"}' --split-input-file | filecheck %s

// A scale moves into constant weights.

// CHECK-LABEL: func.func @scaled
// CHECK:         %[[W:.*]] = nn.mul %w, %{{.*}} : tensor<3x4xf32>
// CHECK-NEXT:    %y = nn.fc %x, %[[W]], %b {
// CHECK-NEXT:    func.return %y
func.func @scaled(%x: tensor<5x3xf32>) -> tensor<5x4xf32> {
  %w = nn.weight @w : tensor<3x4xf32>
  %b = nn.weight @b : tensor<4xf32>
  %c = nn.splat 0.5 : f32 : tensor<f32>
  %s = nn.mul %x, %c : tensor<5x3xf32>
  %t = nn.div %s, %c : tensor<5x3xf32>
  %u = nn.mul %c, %t : tensor<5x3xf32>
  %y = nn.fc %u, %w, %b : tensor<5x4xf32>
  func.return %y : tensor<5x4xf32>
}

// -----

// Weights that are computed, and a scaled operand that something else reads.

// CHECK-LABEL: func.func @not_scaled
// CHECK-COUNT-2: nn.mul %{{.*}}, %c
// CHECK-NOT:     scaled-operand
func.func @not_scaled(%x: tensor<5x3xf32>, %v: tensor<3x4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x3xf32>) {
  %w = nn.weight @w : tensor<3x4xf32>
  %c = nn.splat 0.5 : f32 : tensor<f32>
  %s = nn.mul %x, %c : tensor<5x3xf32>
  %t = nn.mul %x, %c : tensor<5x3xf32>
  %y = nn.matmul %s, %v : tensor<5x4xf32>
  %z = nn.matmul %t, %w : tensor<5x4xf32>
  func.return %y, %z, %t : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x3xf32>
}

// -----

// A factor or a divisor of each column moves into the rows of constant weights.

// CHECK-LABEL: func.func @columns
// CHECK:         %[[S:.*]] = nn.reshape %s shape [3, 1]
// CHECK:         %[[W:.*]] = nn.mul %w, %[[S]] : tensor<3x4xf32>
// CHECK:         %y = nn.fc %x, %[[W]], %b {
// CHECK:         %[[V:.*]] = nn.div %v, %{{.*}} : tensor<4x3xf32>
// CHECK:         %z = nn.matmul %x, %[[V]] transpose_b
func.func @columns(%x: tensor<5x3xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
  %w = nn.weight @w : tensor<3x4xf32>
  %v = nn.weight @v : tensor<4x3xf32>
  %b = nn.weight @b : tensor<4xf32>
  %s = nn.weight @s : tensor<3xf32>
  %t = nn.weight @t : tensor<1x3xf32>
  %1 = nn.mul %s, %x : tensor<5x3xf32>
  %y = nn.fc %1, %w, %b : tensor<5x4xf32>
  %2 = nn.div %x, %t : tensor<5x3xf32>
  %z = nn.matmul %2, %v transpose_b true : tensor<5x4xf32>
  func.return %y, %z : tensor<5x4xf32>, tensor<5x4xf32>
}

// -----

// Factors of rows, a dividend, factors that are no constants, and factors that make x larger.

// CHECK-LABEL: func.func @not_columns
// CHECK-NOT:     scaled-operand
func.func @not_columns(%x: tensor<5x3xf32>, %f: tensor<3xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>) {
  %w = nn.weight @w : tensor<3x4xf32>
  %s = nn.weight @s : tensor<3xf32>
  %r = nn.weight @r : tensor<5x1xf32>
  %1 = nn.mul %x, %r : tensor<5x3xf32>
  %a = nn.matmul %1, %w : tensor<5x4xf32>
  %2 = nn.div %s, %x : tensor<5x3xf32>
  %b = nn.matmul %2, %w : tensor<5x4xf32>
  %3 = nn.mul %x, %f : tensor<5x3xf32>
  %c = nn.matmul %3, %w : tensor<5x4xf32>
  %l = nn.weight @l : tensor<5x3xf32>
  %4 = nn.mul %f, %l : tensor<5x3xf32>
  %d = nn.matmul %4, %w : tensor<5x4xf32>
  func.return %a, %b, %c, %d : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
}

// -----

// The last factor of a gelu stays with it, although a product with constant weights could take it.

// CHECK-LABEL: func.func @late
// CHECK:         %g = nn.gelu %x
// CHECK:         %y = nn.matmul %g, %w
func.func @late(%x: tensor<5x3xf32>) -> tensor<5x4xf32> {
  %w = nn.weight @w : tensor<3x4xf32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %c = nn.splat 1.41421356 : f32 : tensor<f32>
  %a = nn.div %x, %c : tensor<5x3xf32>
  %e = nn.erf %a : tensor<5x3xf32>
  %f = nn.add %e, %one : tensor<5x3xf32>
  %h = nn.mul %x, %f : tensor<5x3xf32>
  %g = nn.mul %h, %half : tensor<5x3xf32>
  %y = nn.matmul %g, %w : tensor<5x4xf32>
  func.return %y : tensor<5x4xf32>
}

// -----

// Three products of one operand; weights that come later move before the first of them.

// CHECK-LABEL: func.func @together
// CHECK:         %[[W:.*]] = nn.concat %{{.*}}, %{{.*}}, %{{.*}} axis 0 : tensor<10x3xf32>
// CHECK:         %[[P:.*]] = nn.matmul %x, %[[W]] transpose_b true : tensor<5x10xf32>
// CHECK-COUNT-3: nn.slice %[[P]]
// CHECK:         %n = nn.relu %a
// CHECK-NEXT:    func.return %n, %b, %c
func.func @together(%x: tensor<5x3xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x2xf32>) {
  %u = nn.weight @u : tensor<4x3xf32>
  %a = nn.matmul %x, %u transpose_b true : tensor<5x4xf32>
  %n = nn.relu %a : tensor<5x4xf32>
  %v = nn.weight @v : tensor<4x3xf32>
  %b = nn.matmul %x, %v transpose_b true : tensor<5x4xf32>
  %w = nn.weight @w : tensor<2x3xf32>
  %c = nn.matmul %x, %w transpose_b true : tensor<5x2xf32>
  func.return %n, %b, %c : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x2xf32>
}

// -----

// Products of other operands, with other properties, and with weights that are computed.

// CHECK-LABEL: func.func @apart
// CHECK-COUNT-4: nn.matmul
// CHECK-NOT:     products-of-one
func.func @apart(%x: tensor<5x3xf32>, %y: tensor<5x3xf32>, %v: tensor<3x4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>) {
  %u = nn.weight @u : tensor<3x4xf32>
  %w = nn.weight @w : tensor<4x3xf32>
  %a = nn.matmul %x, %u : tensor<5x4xf32>
  %b = nn.matmul %x, %w transpose_b true : tensor<5x4xf32>
  %c = nn.matmul %x, %v : tensor<5x4xf32>
  %d = nn.matmul %y, %u : tensor<5x4xf32>
  func.return %a, %b, %c, %d : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>
}
