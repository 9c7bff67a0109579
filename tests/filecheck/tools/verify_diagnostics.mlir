// RUN: tessella-opt %s --split-input-file --verify-diagnostics | filecheck %s

// Errors are compared with the comments; a chunk without errors is printed.

func.func @several(%a: tensor<4xf32>, %b: tensor<5xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{shapes do not broadcast}}
  %0 = nn.add %a, %b : tensor<4xf32>
  // expected-error@below {{expected tensor<4xf32>, found tensor<3xf32>}}
  %1 = nn.relu %a : tensor<3xf32>
  %2 = nn.relu %a : tensor<4xi32> // expected-error {{found tensor<4xi32>}}
  func.return %a : tensor<4xf32>
}

// -----

// A comment may stand below, and two may share a line.
func.func @nested(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.fused(%x = %a) {
    %1 = nn.relu %x : tensor<5xf32>
    // expected-error@above {{nn.relu}}
    nn.yield %x : tensor<4xf32>
  } : tensor<4xf32>
  %2 = nn.neg %0 : tensor<5xf32>
  %3 = nn.neg %0 : tensor<6xf32>
  // expected-error@-2 {{found tensor<5xf32>}} expected-error@-1 {{found tensor<6xf32>}}
  func.return %0 : tensor<4xf32>
}

// -----

// Text that does not parse.
// expected-error@+1 {{Operation nn.there_is_no_such_op is not registered}}
"nn.there_is_no_such_op"() : () -> ()

// -----

// A type that breaks its own rules.
// expected-error@+1 {{expected a device (host, x86, arm}}
%0 = "test.op"() : () -> tensor<4xf32, #place.at<nowhere, f32, nchw>>

// -----

// CHECK-LABEL: @fine
// CHECK-NEXT: nn.relu
func.func @fine(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %a : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
