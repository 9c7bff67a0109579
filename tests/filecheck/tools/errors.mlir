// RUN: not tessella-opt %s --split-input-file 2>&1 | filecheck %s

// All errors of all chunks are shown with their lines, and the other chunks are printed.

// CHECK: errors.mlir:7: error: nn.relu
// CHECK-NEXT: %0 = nn.relu
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = nn.relu %a : (tensor<4xf32>) -> tensor<3xf32>
  // CHECK: errors.mlir:9: error: nn.neg
  %1 = nn.neg %a : (tensor<4xf32>) -> tensor<3xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: errors.mlir:16: error: Operation oops is not registered
oops

// -----

// CHECK: func.func @good
func.func @good() {
  func.return
}
