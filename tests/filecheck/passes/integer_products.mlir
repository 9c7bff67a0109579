// RUN: tessella-opt %s -p 'integer-products{target="avx512+avx512vnni"},fold-constants,eliminate-identities' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'integer-products{target="neon+dotprod"},fold-constants,eliminate-identities' --split-input-file | filecheck %s --check-prefix=ARM

// A product without zero points.

// CHECK-LABEL: func.func @symmetric
// CHECK:         %[[Y:.*]] = nn.matmul %{{.*}}, %{{.*}} sums i32 {nn.pattern = "integer-products", nn.consumed = ["nn.matmul"]} : tensor<2x3xi32>
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
// CHECK:         %[[Y:.*]] = nn.conv %{{.*}}, %{{.*}} sums i32 {nn.pattern
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

// -----

// Signed activations become unsigned ones where the instruction of the target takes these. Where it
// takes signed ones, they stay, and nothing is taken off the sums.

// CHECK-LABEL: func.func @signed
// CHECK:         nn.cast %x to ui8
// CHECK:         nn.matmul %{{.*}}, %{{.*}} sums i32 {{.*}} : tensor<2x3xi32>
// CHECK:         nn.sub
// ARM-LABEL:   func.func @signed
// ARM-NOT:       nn.add
// ARM:           %[[Y:.*]] = nn.matmul %x, %{{.*}} sums i32 {{.*}} : tensor<2x3xi32>
// ARM-NOT:       nn.sub
// ARM:           nn.cast %[[Y]] to f32
func.func @signed(%x: tensor<2x4xi8>) -> tensor<2x3xf32> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 0 : i8 : tensor<i8>
  %w = nn.splat 3 : i8 : tensor<4x3xi8>
  %a = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %b = nn.dequantize %w, %s, %z : tensor<4x3xf32>
  %c = nn.matmul %a, %b : tensor<2x3xf32>
  func.return %c : tensor<2x3xf32>
}

// -----

// A factor absorbs no scale by which it is divided to 0 or infinity.

// CHECK-LABEL: func.func @absorbed
// CHECK:         nn.splat 6.000000e+00
// CHECK:         %[[ONE:.*]] = nn.splat 1.000000e+00
// CHECK-NEXT:    nn.quantize %{{.*}}, %[[ONE]], %z
// CHECK-NEXT:    nn.mul %x, %h
// CHECK-NEXT:    nn.quantize %{{.*}}, %s, %z
// CHECK-NEXT:    nn.quantize %{{.*}}, %t, %z
func.func @absorbed(%x: tensor<4xf32>, %z: tensor<ui8>) -> (tensor<4xui8>, tensor<4xui8>, tensor<4xui8>) {
  %f = nn.splat 3.0 : f32 : tensor<f32>
  %h = nn.splat 3.0e38 : f32 : tensor<f32>
  %one = nn.splat 0.5 : f32 : tensor<f32>
  %s = nn.splat 1.0e-20 : f32 : tensor<f32>
  %t = nn.splat 0x7f800000 : f32 : tensor<f32>
  %a = nn.mul %x, %f : tensor<4xf32>
  %b = nn.quantize %a, %one, %z : tensor<4xui8>
  %c = nn.mul %x, %h : tensor<4xf32>
  %d = nn.quantize %c, %s, %z : tensor<4xui8>
  %e = nn.mul %x, %f : tensor<4xf32>
  %g = nn.quantize %e, %t, %z : tensor<4xui8>
  func.return %b, %d, %g : tensor<4xui8>, tensor<4xui8>, tensor<4xui8>
}
