// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// All orders of the factors; what was there is told, in order.

// CHECK-LABEL: func.func @torch
// CHECK:         %g = nn.gelu %x {node = "e", nn.pattern = "gelu-erf", nn.consumed = ["nn.div@a", "nn.erf@b", "nn.add@c", "nn.mul@d", "nn.mul@e"]} : tensor<2x3xf32>
// CHECK-NEXT:    func.return %g
func.func @torch(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %root = nn.splat 1.41421354 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.div %x, %root {node = "a"} : tensor<2x3xf32>
  %b = nn.erf %a {node = "b"} : tensor<2x3xf32>
  %c = nn.add %b, %one {node = "c"} : tensor<2x3xf32>
  %d = nn.mul %x, %c {node = "d"} : tensor<2x3xf32>
  %g = nn.mul %d, %half {node = "e"} : tensor<2x3xf32>
  func.return %g : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @half_first
// CHECK:         %g = nn.gelu %x {{.*}}["nn.mul", "nn.mul", "nn.erf", "nn.add", "nn.mul"]
// CHECK-NEXT:    func.return %g
func.func @half_first(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %root = nn.splat 0.707106769 : f32 : tensor<1xf32>
  %one = nn.splat 1.0 : f32 : tensor<2x3xf32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.mul %x, %half : tensor<2x3xf32>
  %b = nn.mul %root, %x : tensor<2x3xf32>
  %c = nn.erf %b : tensor<2x3xf32>
  %d = nn.add %one, %c : tensor<2x3xf32>
  %g = nn.mul %a, %d : tensor<2x3xf32>
  func.return %g : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @half_of_the_sum
// CHECK:         %g = nn.gelu %x
// CHECK-NEXT:    func.return %g
func.func @half_of_the_sum(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %root = nn.splat 1.4142135623730951 : f64 : tensor<f64>
  %one = nn.splat 1.0 : f64 : tensor<f64>
  %two = nn.splat 2.0 : f64 : tensor<f64>
  %a = nn.div %x, %root : tensor<2x3xf64>
  %b = nn.erf %a : tensor<2x3xf64>
  %c = nn.add %one, %b : tensor<2x3xf64>
  %d = nn.div %c, %two : tensor<2x3xf64>
  %g = nn.mul %d, %x : tensor<2x3xf64>
  func.return %g : tensor<2x3xf64>
}

// -----

// In double precision 1.41421354 is another number than the square root of 2.

// CHECK-LABEL: func.func @other_constant
// CHECK:         nn.div
// CHECK-NEXT:    nn.erf
// CHECK-NEXT:    nn.add
// CHECK-NEXT:    nn.mul
// CHECK-NEXT:    nn.mul
// CHECK-NEXT:    func.return
func.func @other_constant(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %root = nn.splat 1.41421354 : f64 : tensor<f64>
  %one = nn.splat 1.0 : f64 : tensor<f64>
  %half = nn.splat 0.5 : f64 : tensor<f64>
  %a = nn.div %x, %root : tensor<2x3xf64>
  %b = nn.erf %a : tensor<2x3xf64>
  %c = nn.add %b, %one : tensor<2x3xf64>
  %d = nn.mul %x, %c : tensor<2x3xf64>
  %g = nn.mul %d, %half : tensor<2x3xf64>
  func.return %g : tensor<2x3xf64>
}

// -----

// The error function is of another value.

// CHECK-LABEL: func.func @other_value
// CHECK-NOT:     nn.gelu
func.func @other_value(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %root = nn.splat 1.41421354 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.div %x, %root : tensor<2x3xf32>
  %b = nn.erf %a : tensor<2x3xf32>
  %c = nn.add %b, %one : tensor<2x3xf32>
  %d = nn.mul %y, %c : tensor<2x3xf32>
  %g = nn.mul %d, %half : tensor<2x3xf32>
  func.return %g : tensor<2x3xf32>
}

// -----

// Somebody else reads the error function.

// CHECK-LABEL: func.func @second_use
// CHECK-NOT:     nn.gelu
func.func @second_use(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %root = nn.splat 1.41421354 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.div %x, %root : tensor<2x3xf32>
  %b = nn.erf %a : tensor<2x3xf32>
  %c = nn.add %b, %one : tensor<2x3xf32>
  %d = nn.mul %x, %c : tensor<2x3xf32>
  %g = nn.mul %d, %half : tensor<2x3xf32>
  func.return %g, %b : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A constant gives the result its shape.

// CHECK-LABEL: func.func @broadcast
// CHECK-NOT:     nn.gelu
func.func @broadcast(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %root = nn.splat 1.41421354 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<2x1xf32>
  %a = nn.div %x, %root : tensor<3xf32>
  %b = nn.erf %a : tensor<3xf32>
  %c = nn.add %b, %one : tensor<3xf32>
  %d = nn.mul %x, %c : tensor<3xf32>
  %g = nn.mul %d, %half : tensor<2x3xf32>
  func.return %g : tensor<2x3xf32>
}

// -----

// By tanh, with the cube as a power and as products.

// CHECK-LABEL: func.func @tanh
// CHECK:         %g = nn.gelu_tanh %x {{{.*}}nn.pattern = "gelu-tanh"
// CHECK-NEXT:    %h = nn.gelu_tanh %y
// CHECK-NEXT:    func.return %g, %h
func.func @tanh(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %three = nn.splat 3.0 : f32 : tensor<f32>
  %cubic = nn.splat 0.044715 : f32 : tensor<f32>
  %root = nn.splat 0.797884583 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.pow %x, %three : tensor<2x3xf32>
  %b = nn.mul %cubic, %a : tensor<2x3xf32>
  %c = nn.add %x, %b : tensor<2x3xf32>
  %d = nn.mul %root, %c : tensor<2x3xf32>
  %e = nn.tanh %d : tensor<2x3xf32>
  %f = nn.add %e, %one : tensor<2x3xf32>
  %x1 = nn.mul %x, %half : tensor<2x3xf32>
  %g = nn.mul %x1, %f : tensor<2x3xf32>
  %y1 = nn.mul %y, %y : tensor<2x3xf32>
  %y2 = nn.mul %y, %y1 : tensor<2x3xf32>
  %y3 = nn.mul %cubic, %y2 : tensor<2x3xf32>
  %y4 = nn.add %y3, %y : tensor<2x3xf32>
  %y5 = nn.mul %y4, %root : tensor<2x3xf32>
  %y6 = nn.tanh %y5 : tensor<2x3xf32>
  %y7 = nn.add %one, %y6 : tensor<2x3xf32>
  %y8 = nn.mul %y, %y7 : tensor<2x3xf32>
  %h = nn.mul %half, %y8 : tensor<2x3xf32>
  func.return %g, %h : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// With x in front of the sum, and with the constants multiplied out.

// CHECK-LABEL: func.func @other_sums
// CHECK:         %g = nn.gelu_tanh %x
// CHECK-NEXT:    %h = nn.gelu_tanh %y
// CHECK-NEXT:    func.return %g, %h
func.func @other_sums(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %cubic = nn.splat 0.044715 : f32 : tensor<f32>
  %root = nn.splat 0.7978845608 : f32 : tensor<f32>
  %both = nn.splat 0.0356774081 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.mul %x, %root : tensor<2x3xf32>
  %b = nn.mul %x, %cubic : tensor<2x3xf32>
  %c = nn.mul %b, %x : tensor<2x3xf32>
  %d = nn.add %one, %c : tensor<2x3xf32>
  %e = nn.mul %a, %d : tensor<2x3xf32>
  %f = nn.tanh %e : tensor<2x3xf32>
  %x1 = nn.add %f, %one : tensor<2x3xf32>
  %x2 = nn.mul %half, %x1 : tensor<2x3xf32>
  %g = nn.mul %x, %x2 : tensor<2x3xf32>
  %y1 = nn.pow %y, %two : tensor<2x3xf32>
  %y2 = nn.mul %y1, %y : tensor<2x3xf32>
  %y3 = nn.mul %y2, %both : tensor<2x3xf32>
  %y4 = nn.mul %y, %root : tensor<2x3xf32>
  %y5 = nn.add %y4, %y3 : tensor<2x3xf32>
  %y6 = nn.tanh %y5 : tensor<2x3xf32>
  %y7 = nn.add %y6, %one : tensor<2x3xf32>
  %y8 = nn.mul %y7, %half : tensor<2x3xf32>
  %h = nn.mul %y8, %y : tensor<2x3xf32>
  func.return %g, %h : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// The fourth power in place of the cube.

// CHECK-LABEL: func.func @fourth_power
// CHECK-NOT:     nn.gelu
func.func @fourth_power(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %four = nn.splat 4.0 : f32 : tensor<f32>
  %cubic = nn.splat 0.044715 : f32 : tensor<f32>
  %root = nn.splat 0.797884583 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.pow %x, %four : tensor<2x3xf32>
  %b = nn.mul %cubic, %a : tensor<2x3xf32>
  %c = nn.add %x, %b : tensor<2x3xf32>
  %d = nn.mul %root, %c : tensor<2x3xf32>
  %e = nn.tanh %d : tensor<2x3xf32>
  %f = nn.add %e, %one : tensor<2x3xf32>
  %x1 = nn.mul %x, %half : tensor<2x3xf32>
  %g = nn.mul %x1, %f : tensor<2x3xf32>
  func.return %g : tensor<2x3xf32>
}
