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

// -----

// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %c, %t = nn.scan @half %go, %h carried 2 scanned 0 conditional true : tensor<i1>, tensor<3xf32>
// CHECK-NEXT:    %d, %u, %zs = nn.scan @rows %c, %t, %xs carried 2 scanned 1 backward [1] conditional true : tensor<i1>, tensor<3xf32>, tensor<5x3xf32>
func.func @half(%c: tensor<i1>, %h: tensor<3xf32>) -> (tensor<i1>, tensor<3xf32>) {
  %a = nn.relu %h : tensor<3xf32>
  func.return %c, %a : tensor<i1>, tensor<3xf32>
}
func.func @rows(%c: tensor<i1>, %h: tensor<3xf32>, %x: tensor<f32>) -> (tensor<i1>, tensor<3xf32>, tensor<3xf32>) {
  %a = nn.mul %h, %x : tensor<3xf32>
  func.return %c, %a, %h : tensor<i1>, tensor<3xf32>, tensor<3xf32>
}
func.func @main(%go: tensor<i1>, %h: tensor<3xf32>, %xs: tensor<5xf32>) -> (tensor<3xf32>, tensor<5x3xf32>) {
  %c, %t = nn.scan @half %go, %h carried 2 scanned 0 conditional true : tensor<i1>, tensor<3xf32>
  %d, %u, %zs = nn.scan @rows %c, %t, %xs carried 2 scanned 1 backward [1] conditional true : tensor<i1>, tensor<3xf32>, tensor<5x3xf32>
  func.return %u, %zs : tensor<3xf32>, tensor<5x3xf32>
}
