// RUN: not tessella-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// The exit code is 1 for errors that are not expected, or expected and missing.

// CHECK: verify_diagnostics_fails.mlir:7: error: unexpected error: nn.relu
func.func @unexpected(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %a : tensor<3xf32>
  func.return %a : tensor<4xf32>
}

// -----

func.func @missing(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: error: expected error "broadcast" was not produced
  // expected-error@+1 {{broadcast}}
  func.return %a : tensor<4xf32>
}

// -----

// On another line than the error's.
func.func @elsewhere(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: error: unexpected error: nn.relu
  // CHECK: error: expected error "nn.relu" was not produced
  // expected-error@+2 {{nn.relu}}
  %0 = nn.relu %a : tensor<3xf32>
  func.return %a : tensor<4xf32>
}

// -----

// With another text.
func.func @otherwise(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: error: unexpected error: nn.relu
  // CHECK: error: expected error "shapes do not broadcast" was not produced
  // expected-error@+1 {{shapes do not broadcast}}
  %0 = nn.relu %a : tensor<3xf32>
  func.return %a : tensor<4xf32>
}

// -----

func.func @unreadable(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: error: cannot read the expectation
  // expected-error@+1 no braces
  func.return %a : tensor<4xf32>
}
