// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    %y = nn.softmax %x {node = "y", nn.pattern = "softmax", nn.consumed = ["nn.reduce_max@m", "nn.sub@s", "nn.exp@e", "nn.reduce_sum@t", "nn.div@y"]}
// CHECK-NEXT:    %z = nn.log_softmax %x axis 0 {node = "z", nn.pattern = "log-softmax", 
// CHECK-NEXT:    func.return %y, %z
func.func @softmax(%x: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<4x5xf32>) {
  %m = nn.reduce_max %x axes [1] keepdims true {node = "m"} : tensor<4x1xf32>
  %s = nn.sub %x, %m {node = "s"} : tensor<4x5xf32>
  %e = nn.exp %s {node = "e"} : tensor<4x5xf32>
  %t = nn.reduce_sum %e axes [1] keepdims true {node = "t"} : tensor<4x1xf32>
  %y = nn.div %e, %t {node = "y"} : tensor<4x5xf32>
  %m1 = nn.reduce_max %x axes [0] keepdims true : tensor<1x5xf32>
  %s1 = nn.sub %x, %m1 : tensor<4x5xf32>
  %e1 = nn.exp %s1 : tensor<4x5xf32>
  %t1 = nn.reduce_sum %e1 axes [0] keepdims true : tensor<1x5xf32>
  %l1 = nn.log %t1 : tensor<1x5xf32>
  %z = nn.sub %s1, %l1 {node = "z"} : tensor<4x5xf32>
  func.return %y, %z : tensor<4x5xf32>, tensor<4x5xf32>
}

// -----

// The sum is along another axis than the maximum.

// CHECK-LABEL: func.func @other_axis
// CHECK-NOT:     nn.softmax
func.func @other_axis(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %m = nn.reduce_max %x axes [1] keepdims true : tensor<5x1xf32>
  %s = nn.sub %x, %m : tensor<5x5xf32>
  %e = nn.exp %s : tensor<5x5xf32>
  %t = nn.reduce_sum %e axes [0] keepdims true : tensor<1x5xf32>
  %y = nn.div %e, %t : tensor<5x5xf32>
  func.return %y : tensor<5x5xf32>
}

// -----

// Without the maximum, large numbers overflow.

// CHECK-LABEL: func.func @no_maximum
// CHECK-NOT:     nn.softmax
func.func @no_maximum(%x: tensor<5x5xf32>) -> tensor<5x5xf32> {
  %e = nn.exp %x : tensor<5x5xf32>
  %t = nn.reduce_sum %e axes [1] keepdims true : tensor<5x1xf32>
  %y = nn.div %e, %t : tensor<5x5xf32>
  func.return %y : tensor<5x5xf32>
}

// -----

// Somebody else reads the sum.

// CHECK-LABEL: func.func @second_use
// CHECK-NOT:     nn.softmax
func.func @second_use(%x: tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5x1xf32>) {
  %m = nn.reduce_max %x axes [1] keepdims true : tensor<5x1xf32>
  %s = nn.sub %x, %m : tensor<5x5xf32>
  %e = nn.exp %s : tensor<5x5xf32>
  %t = nn.reduce_sum %e axes [1] keepdims true : tensor<5x1xf32>
  %y = nn.div %e, %t : tensor<5x5xf32>
  func.return %y, %t : tensor<5x5xf32>, tensor<5x1xf32>
}

// -----

// Softmax along an axis that is made the last one for it.

// CHECK-LABEL: func.func @transposed
// CHECK-NEXT:    %y = nn.softmax %x axis {{[0-9]}} {nn.pattern = "transpose-softmax-transpose", nn.consumed = ["nn.transpose", "nn.softmax", "nn.transpose"]}
// CHECK-NEXT:    func.return %y
func.func @transposed(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %a = nn.transpose %x perm [2, 0, 1] : tensor<4x2x3xf32>
  %b = nn.softmax %a : tensor<4x2x3xf32>
  %y = nn.transpose %b perm [1, 2, 0] : tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32>
}

// -----

// The second permutation is not the inverse of the first.

// CHECK-LABEL: func.func @not_inverse
// CHECK-NEXT:    nn.transpose
// CHECK-NEXT:    nn.softmax
// CHECK-NEXT:    nn.transpose
func.func @not_inverse(%x: tensor<3x3x3xf32>) -> tensor<3x3x3xf32> {
  %a = nn.transpose %x perm [2, 0, 1] : tensor<3x3x3xf32>
  %b = nn.softmax %a : tensor<3x3x3xf32>
  %y = nn.transpose %b perm [2, 0, 1] : tensor<3x3x3xf32>
  func.return %y : tensor<3x3x3xf32>
}
