// RUN: not tessella-opt %s --split-input-file 2>&1 | filecheck %s

// All errors are shown with their lines, on stderr; the chunks without errors are printed.

// CHECK: errors.mlir:8: error: nn.relu
// CHECK-NEXT: %0 = nn.relu
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %a : tensor<3xf32>
  // CHECK: errors.mlir:10: error: nn.neg
  %1 = nn.neg %a : tensor<3xf32>
  func.return %a : tensor<4xf32>
}

// -----

// CHECK: errors.mlir:19: error: Operation oops is not registered
// CHECK-NEXT: oops

oops

// -----

// Something is missing at the end of a line.
func.func @g(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: errors.mlir:28: error: Expected
  // CHECK-NEXT: %0 = nn.relu %a

  %0 = nn.relu %a

  func.return %a : tensor<4xf32>
}

// -----

// CHECK: func.func @good
func.func @good() {
  func.return
}
