// RUN: TESSELLA_ROUNDTRIP

// CHECK:       func.func @step(
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %t, %ys = nn.scan @step %h, %xs, %r carried 1 scanned 1 : tensor<3xf32>, tensor<5x2xf32>
// CHECK-NEXT:    %u, %zs = nn.scan @step %t, %xs, %r carried 1 scanned 1 backward [0, 1] {node = "n"} : tensor<3xf32>, tensor<5x2xf32>
// CHECK-NEXT:    func.return
func.func @step(%h: tensor<3xf32>, %x: tensor<f32>, %r: tensor<3xf32>) -> (tensor<3xf32>, tensor<2xf32>) {
  %a = nn.mul %h, %r : tensor<3xf32>
  %b = nn.add %a, %x : tensor<3xf32>
  %y = nn.slice %b starts [1] sizes [2] steps [1] : tensor<2xf32>
  func.return %b, %y : tensor<3xf32>, tensor<2xf32>
}
func.func @main(%h: tensor<3xf32>, %xs: tensor<5xf32>, %r: tensor<3xf32>) -> (tensor<3xf32>, tensor<5x2xf32>) {
  %t, %ys = nn.scan @step %h, %xs, %r carried 1 scanned 1 : tensor<3xf32>, tensor<5x2xf32>
  %u, %zs = nn.scan @step %t, %xs, %r carried 1 scanned 1 backward [0, 1] {node = "n"} : tensor<3xf32>, tensor<5x2xf32>
  func.return %u, %zs : tensor<3xf32>, tensor<5x2xf32>
}
