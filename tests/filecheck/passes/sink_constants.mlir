// RUN: tessella-opt %s -p sink-constants --split-input-file | filecheck %s

// A constant goes into the function, what the function does not read goes.

// CHECK-LABEL: func.func @step(%h: tensor<3xf32>, %x: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<3xf32> {
// CHECK-NEXT:    %w = nn.weight @w : tensor<3xf32>
// CHECK-NEXT:    %a = nn.mul %h, %w
// CHECK-LABEL: func.func @main(
// CHECK:         nn.scan @step %h, %xs, %v carried 1 scanned 1
func.func @step(%h: tensor<3xf32>, %x: tensor<3xf32>, %w: tensor<3xf32>, %u: tensor<3xf32>, %v: tensor<3xf32>) -> tensor<3xf32> {
  %a = nn.mul %h, %w : tensor<3xf32>
  %b = nn.add %a, %x : tensor<3xf32>
  %c = nn.add %b, %v : tensor<3xf32>
  func.return %c : tensor<3xf32>
}
func.func @main(%h: tensor<3xf32>, %xs: tensor<5x3xf32>, %v: tensor<3xf32>) -> tensor<3xf32> {
  %w = nn.weight @w : tensor<3xf32>
  %t = nn.scan @step %h, %xs, %w, %v, %v carried 1 scanned 1 : tensor<3xf32>
  func.return %t : tensor<3xf32>
}

// -----

// What is carried and what is scanned stays, though it is constant.

// CHECK-LABEL: func.func @step(%h: tensor<f32>, %x: tensor<f32>)
// CHECK-LABEL: func.func @main
// CHECK:         nn.scan @step %z, %w carried 1 scanned 1
func.func @step(%h: tensor<f32>, %x: tensor<f32>) -> tensor<f32> {
  %a = nn.add %h, %x : tensor<f32>
  func.return %a : tensor<f32>
}
func.func @main() -> tensor<f32> {
  %z = nn.splat 0.0 : f32 : tensor<f32>
  %w = nn.weight @w : tensor<5xf32>
  %t = nn.scan @step %z, %w carried 1 scanned 1 : tensor<f32>
  func.return %t : tensor<f32>
}

// -----

// Through two functions.

// CHECK-LABEL: func.func @inner(%h: tensor<f32>, %x: tensor<f32>)
// CHECK-NEXT:    nn.weight @w
// CHECK-LABEL: func.func @outer(%h: tensor<f32>, %xs: tensor<4xf32>)
// CHECK-NEXT:    %a = nn.scan @inner %h, %xs carried 1 scanned 1
func.func @inner(%h: tensor<f32>, %x: tensor<f32>, %w: tensor<f32>) -> tensor<f32> {
  %a = nn.add %h, %w : tensor<f32>
  func.return %a : tensor<f32>
}
func.func @outer(%h: tensor<f32>, %xs: tensor<4xf32>, %w: tensor<f32>) -> tensor<f32> {
  %a = nn.scan @inner %h, %xs, %w carried 1 scanned 1 : tensor<f32>
  func.return %a : tensor<f32>
}
func.func @main(%h: tensor<f32>, %xs: tensor<5x4xf32>) -> tensor<f32> {
  %w = nn.weight @w : tensor<f32>
  %t = nn.scan @outer %h, %xs, %w carried 1 scanned 1 : tensor<f32>
  func.return %t : tensor<f32>
}

// -----

// A function that two ops run stays as it is.

// CHECK-LABEL: func.func @step(%h: tensor<f32>, %x: tensor<f32>, %w: tensor<f32>)
// CHECK-LABEL: func.func @main
// CHECK:         nn.scan @step %h, %xs, %w carried
// CHECK:         nn.scan @step %t, %xs, %w carried
func.func @step(%h: tensor<f32>, %x: tensor<f32>, %w: tensor<f32>) -> tensor<f32> {
  %a = nn.add %h, %w : tensor<f32>
  func.return %a : tensor<f32>
}
func.func @main(%h: tensor<f32>, %xs: tensor<5xf32>) -> tensor<f32> {
  %w = nn.weight @w : tensor<f32>
  %t = nn.scan @step %h, %xs, %w carried 1 scanned 1 : tensor<f32>
  %u = nn.scan @step %t, %xs, %w carried 1 scanned 1 : tensor<f32>
  func.return %u : tensor<f32>
}
