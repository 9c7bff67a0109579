// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// CHECK-LABEL: func.func @shuffle
// CHECK-NEXT:    %y = nn.channel_shuffle %x groups 3 {node = "c", nn.pattern = "channel-shuffle", nn.consumed = ["nn.reshape@a", "nn.transpose@b", "nn.reshape@c"]}
// CHECK-NEXT:    func.return %y
func.func @shuffle(%x: tensor<2x6x5x7xf32>) -> tensor<2x6x5x7xf32> {
  %a = nn.reshape %x shape [2, 3, 2, 5, 7] {node = "a"} : tensor<2x3x2x5x7xf32>
  %b = nn.transpose %a perm [0, 2, 1, 3, 4] {node = "b"} : tensor<2x2x3x5x7xf32>
  %y = nn.reshape %b shape [2, 6, 5, 7] {node = "c"} : tensor<2x6x5x7xf32>
  func.return %y : tensor<2x6x5x7xf32>
}

// -----

// With the image in one dimension.

// CHECK-LABEL: func.func @flat
// CHECK-NEXT:    %y = nn.channel_shuffle %x groups 2 {
// CHECK-NEXT:    func.return %y
func.func @flat(%x: tensor<1x6x5x7xf32>) -> tensor<1x6x5x7xf32> {
  %a = nn.reshape %x shape [1, 2, 3, 35] : tensor<1x2x3x35xf32>
  %b = nn.transpose %a perm [0, 2, 1, 3] : tensor<1x3x2x35xf32>
  %y = nn.reshape %b shape [1, 6, 5, 7] : tensor<1x6x5x7xf32>
  func.return %y : tensor<1x6x5x7xf32>
}

// -----

// Rows are moved in place of channels; the result has another shape; the groups are read too.

// CHECK-LABEL: func.func @no_shuffle
// CHECK-NOT:     nn.channel_shuffle
func.func @no_shuffle(%x: tensor<2x6x4x4xf32>) -> (tensor<2x6x4x4xf32>, tensor<2x6x16xf32>, tensor<2x6x4x4xf32>, tensor<2x3x2x4x4xf32>) {
  %a = nn.reshape %x shape [2, 6, 2, 2, 4] : tensor<2x6x2x2x4xf32>
  %b = nn.transpose %a perm [0, 1, 3, 2, 4] : tensor<2x6x2x2x4xf32>
  %c = nn.reshape %b shape [2, 6, 4, 4] : tensor<2x6x4x4xf32>
  %d = nn.reshape %x shape [2, 3, 2, 16] : tensor<2x3x2x16xf32>
  %e = nn.transpose %d perm [0, 2, 1, 3] : tensor<2x2x3x16xf32>
  %f = nn.reshape %e shape [2, 6, 16] : tensor<2x6x16xf32>
  %g = nn.reshape %x shape [2, 3, 2, 4, 4] : tensor<2x3x2x4x4xf32>
  %h = nn.transpose %g perm [0, 2, 1, 3, 4] : tensor<2x2x3x4x4xf32>
  %i = nn.reshape %h shape [2, 6, 4, 4] : tensor<2x6x4x4xf32>
  func.return %c, %f, %i, %g : tensor<2x6x4x4xf32>, tensor<2x6x16xf32>, tensor<2x6x4x4xf32>, tensor<2x3x2x4x4xf32>
}

// -----

// Batches that are made one for a transposition of what is in them.

// CHECK-LABEL: func.func @batches
// CHECK-NEXT:    %y = nn.transpose %x perm [0, 1, 3, 2] {nn.pattern = "batched-transpose", nn.consumed = ["nn.reshape", "nn.transpose", "nn.reshape"]}
// CHECK-NEXT:    func.return %y
func.func @batches(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x5x4xf32> {
  %a = nn.reshape %x shape [6, 4, 5] : tensor<6x4x5xf32>
  %b = nn.transpose %a perm [0, 2, 1] : tensor<6x5x4xf32>
  %y = nn.reshape %b shape [2, 3, 5, 4] : tensor<2x3x5x4xf32>
  func.return %y : tensor<2x3x5x4xf32>
}

// -----

// The batches come back in other sizes; the last reshape cuts the rows.

// CHECK-LABEL: func.func @other_batches
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    nn.transpose
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    nn.transpose
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    func.return
func.func @other_batches(%x: tensor<2x3x4x5xf32>) -> (tensor<3x2x5x4xf32>, tensor<2x3x10x2xf32>) {
  %a = nn.reshape %x shape [6, 4, 5] : tensor<6x4x5xf32>
  %b = nn.transpose %a perm [0, 2, 1] : tensor<6x5x4xf32>
  %y = nn.reshape %b shape [3, 2, 5, 4] : tensor<3x2x5x4xf32>
  %c = nn.reshape %x shape [6, 4, 5] : tensor<6x4x5xf32>
  %d = nn.transpose %c perm [0, 2, 1] : tensor<6x5x4xf32>
  %z = nn.reshape %d shape [2, 3, 10, 2] : tensor<2x3x10x2xf32>
  func.return %y, %z : tensor<3x2x5x4xf32>, tensor<2x3x10x2xf32>
}
