// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// A product with a matrix and a bias along the last axis; the bias may be the first operand.

// CHECK-LABEL: func.func @bias
// CHECK-NEXT:    %v2 = nn.fc %x, %w, %b {node = "sum", nn.pattern = "fc", nn.consumed = ["nn.matmul@product", "nn.add@sum"]} : tensor<5x7x4xf32>
// CHECK-NEXT:    %[[B:.*]] = nn.reshape %c shape [5]
// CHECK-NEXT:    %v4 = nn.fc %v2, %v, %[[B]] transpose_w true {
// CHECK-NEXT:    func.return %v4
func.func @bias(%x: tensor<5x7x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>, %v: tensor<5x4xf32>, %c: tensor<1x5xf32>) -> tensor<5x7x5xf32> {
  %v1 = nn.matmul %x, %w {node = "product"} : tensor<5x7x4xf32>
  %v2 = nn.add %v1, %b {node = "sum"} : tensor<5x7x4xf32>
  %v3 = nn.matmul %v2, %v transpose_b true : tensor<5x7x5xf32>
  %v4 = nn.add %c, %v3 : tensor<5x7x5xf32>
  func.return %v4 : tensor<5x7x5xf32>
}

// -----

// Both summands are products; a bias of one number.

// CHECK-LABEL: func.func @two_products
// CHECK:         %v1 = nn.matmul %x, %w
// CHECK-NEXT:    %v2 = nn.matmul %x, %w
// CHECK-NEXT:    %[[B:.*]] = nn.splat 7.000000e-01 : f32 : tensor<4xf32>
// CHECK-NEXT:    %v3 = nn.fc %x, %w, %[[B]]
// CHECK-NEXT:    nn.add %v3, %v1
func.func @two_products(%x: tensor<5x3xf32>, %w: tensor<3x4xf32>) -> (tensor<5x4xf32>, tensor<5x4xf32>) {
  %b = nn.splat 0.7 : f32 : tensor<f32>
  %v1 = nn.matmul %x, %w : tensor<5x4xf32>
  %v2 = nn.matmul %x, %w : tensor<5x4xf32>
  %v4 = nn.matmul %x, %w : tensor<5x4xf32>
  %v3 = nn.add %v4, %b : tensor<5x4xf32>
  %v5 = nn.add %v3, %v1 : tensor<5x4xf32>
  func.return %v5, %v2 : tensor<5x4xf32>, tensor<5x4xf32>
}

// -----

// Rows are flattened before the product and come back after it, with the bias on either side.

// CHECK-LABEL: func.func @rows_in_one
// CHECK-NEXT:    %v4 = nn.fc %x, %w, %b {{.*}}nn.consumed = ["nn.reshape", "nn.matmul", "nn.add", "nn.reshape"]
// CHECK-NEXT:    %v7 = nn.matmul %x, %w {nn.pattern = "matmul-reshape"
// CHECK-NEXT:    func.return %v4, %v7
func.func @rows_in_one(%x: tensor<5x7x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>) -> (tensor<5x7x4xf32>, tensor<5x7x4xf32>) {
  %v1 = nn.reshape %x shape [35, 3] : tensor<35x3xf32>
  %v2 = nn.matmul %v1, %w : tensor<35x4xf32>
  %v3 = nn.add %v2, %b : tensor<35x4xf32>
  %v4 = nn.reshape %v3 shape [5, 7, 4] : tensor<5x7x4xf32>
  %v5 = nn.reshape %x shape [35, 3] : tensor<35x3xf32>
  %v6 = nn.matmul %v5, %w : tensor<35x4xf32>
  %v7 = nn.reshape %v6 shape [5, 7, 4] : tensor<5x7x4xf32>
  func.return %v4, %v7 : tensor<5x7x4xf32>, tensor<5x7x4xf32>
}

// -----

// A dimension is squeezed between product and bias, down to a vector too; a flattened image.

// CHECK-LABEL: func.func @squeezed
// CHECK-NEXT:    %[[X:.*]] = nn.reshape %x shape [5, 3]
// CHECK-NEXT:    %v3 = nn.fc %[[X]], %w, %b {{.*}}nn.consumed = ["nn.matmul", "nn.reshape", "nn.add"]
// CHECK-NEXT:    %[[Y:.*]] = nn.reshape %y shape [3]
// CHECK-NEXT:    %v6 = nn.fc %[[Y]], %w, %b {{.*}} : tensor<4xf32>
// CHECK-NEXT:    %v7 = nn.reshape %z shape [2, 3]
// CHECK-NEXT:    %v9 = nn.fc %v7, %w, %b
// CHECK-NEXT:    func.return %v3, %v6, %v9
func.func @squeezed(%x: tensor<5x1x3xf32>, %y: tensor<1x3xf32>, %z: tensor<2x3x1x1xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>) -> (tensor<5x4xf32>, tensor<4xf32>, tensor<2x4xf32>) {
  %v1 = nn.matmul %x, %w : tensor<5x1x4xf32>
  %v2 = nn.reshape %v1 shape [5, 4] : tensor<5x4xf32>
  %v3 = nn.add %v2, %b : tensor<5x4xf32>
  %v4 = nn.matmul %y, %w : tensor<1x4xf32>
  %v5 = nn.reshape %v4 shape [4] : tensor<4xf32>
  %v6 = nn.add %v5, %b : tensor<4xf32>
  %v7 = nn.reshape %z shape [2, 3] : tensor<2x3xf32>
  %v8 = nn.matmul %v7, %w : tensor<2x4xf32>
  %v9 = nn.add %v8, %b : tensor<2x4xf32>
  func.return %v3, %v6, %v9 : tensor<5x4xf32>, tensor<4xf32>, tensor<2x4xf32>
}

// -----

// The reshape cuts the columns; the rows come back in another shape; the bias varies along another axis.

// CHECK-LABEL: func.func @no_layers
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    nn.add
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.add
// CHECK-NEXT:    func.return
func.func @no_layers(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %b: tensor<2xf32>, %c: tensor<4x1xf32>) -> (tensor<8x2xf32>, tensor<1x4x4xf32>, tensor<4x4xf32>) {
  %v1 = nn.matmul %x, %w : tensor<4x4xf32>
  %v2 = nn.reshape %v1 shape [8, 2] : tensor<8x2xf32>
  %v3 = nn.add %v2, %b : tensor<8x2xf32>
  %v4 = nn.reshape %x shape [2, 2, 3] : tensor<2x2x3xf32>
  %v5 = nn.matmul %v4, %w : tensor<2x2x4xf32>
  %v6 = nn.reshape %v5 shape [1, 4, 4] : tensor<1x4x4xf32>
  %v7 = nn.matmul %x, %w : tensor<4x4xf32>
  %v8 = nn.add %v7, %c : tensor<4x4xf32>
  func.return %v3, %v6, %v8 : tensor<8x2xf32>, tensor<1x4x4xf32>, tensor<4x4xf32>
}

// -----

// There is a matrix for each batch.

// CHECK-LABEL: func.func @batches
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.add
func.func @batches(%x: tensor<2x4x3xf32>, %w: tensor<2x3x4xf32>, %b: tensor<4xf32>) -> tensor<2x4x4xf32> {
  %v1 = nn.matmul %x, %w : tensor<2x4x4xf32>
  %v2 = nn.add %v1, %b : tensor<2x4x4xf32>
  func.return %v2 : tensor<2x4x4xf32>
}

// -----

// Someone else reads the product.

// CHECK-LABEL: func.func @two_uses
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.add
func.func @two_uses(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>, %b: tensor<4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %v1 = nn.matmul %x, %w : tensor<4x4xf32>
  %v2 = nn.add %v1, %b : tensor<4x4xf32>
  func.return %v1, %v2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A transposition of the last two axes becomes a flag of the products that read it.

// CHECK-LABEL: func.func @transposed
// CHECK-NEXT:    %v1 = nn.matmul %x, %y transpose_b true {nn.pattern = "transposed-operand", nn.consumed = ["nn.transpose", "nn.matmul"]} : tensor<2x4x5xf32>
// CHECK-NEXT:    %v2 = nn.fc %v1, %w, %b {{{.*}}} : tensor<2x4x6xf32>
// CHECK-NEXT:    func.return %v2
func.func @transposed(%x: tensor<2x4x3xf32>, %y: tensor<2x5x3xf32>, %w: tensor<5x6xf32>, %b: tensor<6xf32>) -> tensor<2x4x6xf32> {
  %yt = nn.transpose %y perm [0, 2, 1] : tensor<2x3x5xf32>
  %v1 = nn.matmul %x, %yt : tensor<2x4x5xf32>
  %wt = nn.transpose %w : tensor<6x5xf32>
  %v2 = nn.fc %v1, %wt, %b transpose_w true : tensor<2x4x6xf32>
  func.return %v2 : tensor<2x4x6xf32>
}

// -----

// It moves another axis; it is the first operand; someone else reads it; it is of a transposition.

// CHECK-LABEL: func.func @other_transpositions
// CHECK-NEXT:    nn.transpose %x
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.transpose %y
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.transpose %y
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    nn.transpose
// CHECK-NEXT:    nn.transpose
// CHECK-NEXT:    nn.matmul
// CHECK-NEXT:    func.return
func.func @other_transpositions(%x: tensor<3x3x3xf32>, %y: tensor<3x3xf32>) -> (tensor<3x3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3x3xf32>) {
  %v1 = nn.transpose %x perm [1, 0, 2] : tensor<3x3x3xf32>
  %v2 = nn.matmul %x, %v1 : tensor<3x3x3xf32>
  %v3 = nn.transpose %y : tensor<3x3xf32>
  %v4 = nn.matmul %v3, %y : tensor<3x3xf32>
  %v5 = nn.transpose %y : tensor<3x3xf32>
  %v6 = nn.matmul %v4, %v5 : tensor<3x3xf32>
  %v7 = nn.transpose %v2 perm [1, 0, 2] : tensor<3x3x3xf32>
  %v8 = nn.transpose %v7 perm [0, 2, 1] : tensor<3x3x3xf32>
  %v9 = nn.matmul %x, %v8 : tensor<3x3x3xf32>
  func.return %v2, %v5, %v6, %v9 : tensor<3x3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3x3xf32>
}

// -----

// A bias of one number that gives the sum its shape.

// CHECK-LABEL: func.func @large_bias
// CHECK:         nn.matmul
// CHECK-NEXT:    nn.add
func.func @large_bias(%x: tensor<4x3xf32>, %w: tensor<3x4xf32>) -> tensor<2x4x4xf32> {
  %b = nn.splat 0.7 : f32 : tensor<2x1x1xf32>
  %v1 = nn.matmul %x, %w : tensor<4x4xf32>
  %v2 = nn.add %v1, %b : tensor<2x4x4xf32>
  func.return %v2 : tensor<2x4x4xf32>
}
