// RUN: tessella-opt %s -p fuse-fc --split-input-file | filecheck %s

// A product with a matrix and a bias along the last axis; the bias may be the first operand.

// CHECK-LABEL: func.func @bias
// CHECK-NEXT:    %v2 = nn.fc %x, %w, %b {node = "product", transpose_w = false} : (tensor<5x7x3xf32>, tensor<3x4xf32>, tensor<4xf32>) -> tensor<5x7x4xf32>
// CHECK-NEXT:    %[[B:.*]] = nn.reshape %c {shape = array<i64: 5>}
// CHECK-NEXT:    %v4 = nn.fc %v2, %v, %[[B]] {transpose_w = true}
// CHECK-NEXT:    func.return %v4
func.func @bias(%x: tensor<5x7x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>, %v: tensor<5x4xf32>, %c: tensor<1x5xf32>) -> tensor<5x7x5xf32> {
  %v1 = nn.matmul %x, %w {node = "product", transpose_b = false} : (tensor<5x7x3xf32>, tensor<3x4xf32>) -> tensor<5x7x4xf32>
  %v2 = nn.add %v1, %b {node = "sum"} : (tensor<5x7x4xf32>, tensor<4xf32>) -> tensor<5x7x4xf32>
  %v3 = nn.matmul %v2, %v {transpose_b = true} : (tensor<5x7x4xf32>, tensor<5x4xf32>) -> tensor<5x7x5xf32>
  %v4 = nn.add %c, %v3 : (tensor<1x5xf32>, tensor<5x7x5xf32>) -> tensor<5x7x5xf32>
  func.return %v4 : tensor<5x7x5xf32>
}

// -----

// The bias varies along another axis.

// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.add
func.func @rows(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4x1xf32>) -> tensor<4x4xf32> {
  %v1 = nn.matmul %x, %w {transpose_b = false} : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  %v2 = nn.add %v1, %b : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
  func.return %v2 : tensor<4x4xf32>
}

// -----

// There is a matrix for each batch.

// CHECK-LABEL: func.func @batches
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.add
func.func @batches(%x: tensor<2x4x3xf32>, %w: tensor<2x3x4xf32>, %b: tensor<4xf32>) -> tensor<2x4x4xf32> {
  %v1 = nn.matmul %x, %w {transpose_b = false} : (tensor<2x4x3xf32>, tensor<2x3x4xf32>) -> tensor<2x4x4xf32>
  %v2 = nn.add %v1, %b : (tensor<2x4x4xf32>, tensor<4xf32>) -> tensor<2x4x4xf32>
  func.return %v2 : tensor<2x4x4xf32>
}

// -----

// Someone else reads the product.

// CHECK-LABEL: func.func @two_uses
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.add
func.func @two_uses(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %v1 = nn.matmul %x, %w {transpose_b = false} : (tensor<4x3xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  %v2 = nn.add %v1, %b : (tensor<4x4xf32>, tensor<4xf32>) -> tensor<4x4xf32>
  func.return %v1, %v2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A transposition of the last two axes becomes a flag of the products that read it.

// CHECK-LABEL: func.func @transposed
// CHECK-NEXT:    %v1 = nn.matmul %x, %y {transpose_b = true} : (tensor<2x4x3xf32>, tensor<2x5x3xf32>) -> tensor<2x4x5xf32>
// CHECK-NEXT:    %v2 = nn.fc %v1, %w, %b {transpose_w = false} : (tensor<2x4x5xf32>, tensor<5x6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
// CHECK-NEXT:    func.return %v2
func.func @transposed(%x: tensor<2x4x3xf32>, %y: tensor<2x5x3xf32>, %w: tensor<5x6xf32>, %b: tensor<6xf32>) -> tensor<2x4x6xf32> {
  %yt = nn.transpose %y {perm = array<i64: 0, 2, 1>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %v1 = nn.matmul %x, %yt {transpose_b = false} : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
  %wt = nn.transpose %w {perm = array<i64: 1, 0>} : (tensor<5x6xf32>) -> tensor<6x5xf32>
  %v2 = nn.fc %v1, %wt, %b {transpose_w = true} : (tensor<2x4x5xf32>, tensor<6x5xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
  func.return %v2 : tensor<2x4x6xf32>
}

// -----

// It moves another axis; it is the first operand; someone else reads it.

// CHECK-LABEL: func.func @other_transpositions
// CHECK-NEXT:    nn.transpose %x
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.transpose %y
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.transpose %y
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    func.return
func.func @other_transpositions(%x: tensor<3x3x3xf32>, %y: tensor<3x3xf32>) -> (tensor<3x3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) {
  %v1 = nn.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  %v2 = nn.matmul %x, %v1 {transpose_b = false} : (tensor<3x3x3xf32>, tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  %v3 = nn.transpose %y {perm = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %v4 = nn.matmul %v3, %y {transpose_b = false} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %v5 = nn.transpose %y {perm = array<i64: 1, 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %v6 = nn.matmul %v4, %v5 {transpose_b = false} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  func.return %v2, %v5, %v6 : tensor<3x3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>
}
