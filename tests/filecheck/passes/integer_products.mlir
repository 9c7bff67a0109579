// RUN: tessella-opt %s -p integer-products,fold-constants,eliminate-identities --split-input-file | filecheck %s

// A product without zero points.

// CHECK-LABEL: func.func @symmetric
// CHECK:         %[[Y:.*]] = nn.matmul %{{.*}}, %{{.*}} {nn.pattern = "integer-products", nn.consumed = ["nn.matmul"]} : tensor<2x3xi32>
// CHECK:         %[[F:.*]] = nn.cast %[[Y]] to f32
// CHECK:         nn.mul %[[F]]
func.func @symmetric(%x: tensor<2x4xui8>) -> tensor<2x3xf32> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 0 : ui8 : tensor<ui8>
  %w = nn.splat 3 : i8 : tensor<4x3xi8>
  %v = nn.splat 0 : i8 : tensor<i8>
  %a = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %b = nn.dequantize %w, %s, %v : tensor<4x3xf32>
  %c = nn.matmul %a, %b : tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}

// -----

// The zero point of the activations is taken off with the sums of weights, and fills the padding.

// CHECK-LABEL: func.func @padded
// CHECK:         nn.pad %x low [0, 0, 1, 1] high [0, 0, 1, 1] value 7.0 : tensor<1x2x6x6xui8>
// CHECK:         %[[Y:.*]] = nn.conv %{{.*}}, %{{.*}} {nn.pattern
// CHECK:         %[[C:.*]] = nn.splat 378 : i32 : tensor<1x3x1x1xi32>
// CHECK:         nn.sub %[[Y]], %[[C]] : tensor<1x3x4x4xi32>
func.func @padded(%x: tensor<1x2x4x4xui8>) -> tensor<1x3x4x4xf32> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 7 : ui8 : tensor<ui8>
  %w = nn.splat 3 : i8 : tensor<3x2x3x3xi8>
  %v = nn.splat 0 : i8 : tensor<i8>
  %a = nn.dequantize %x, %s, %z : tensor<1x2x4x4xf32>
  %b = nn.dequantize %w, %s, %v : tensor<3x2x3x3xf32>
  %c = nn.conv %a, %b pads [1, 1, 1, 1] : tensor<1x3x4x4xf32>
  func.return %c : tensor<1x3x4x4xf32>
}

// -----

// Few activations times activations stay floats: sums of rows and columns would be as much work.

// CHECK-LABEL: func.func @activations
// CHECK:         nn.matmul %a, %b : tensor<2x3xf32>
func.func @activations(%x: tensor<2x4xui8>, %w: tensor<4x3xi8>) -> tensor<2x3xf32> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 0 : ui8 : tensor<ui8>
  %v = nn.splat 0 : i8 : tensor<i8>
  %a = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %b = nn.dequantize %w, %s, %v : tensor<4x3xf32>
  %c = nn.matmul %a, %b : tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}
