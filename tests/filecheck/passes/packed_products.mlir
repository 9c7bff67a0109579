// RUN: tessella-opt %s -p 'packed-products{target="avx2"}' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'packed-products{target="neon+dotprod"}' --split-input-file | filecheck %s --check-prefix=ARM

// Two blocks of 32 integers in words of 32 bits.

// CHECK-LABEL: func.func @blocks
// CHECK:         %[[W:.*]] = nn.weight @matrix.words : tensor<5x2x4x1xi32>
// CHECK:         %[[S:.*]] = nn.weight @matrix.scale : tensor<5x2xf32>
// CHECK:         nn.packed_matmul %x, %[[W]], %[[S]] bits 4 {nn.pattern = "packed-products", nn.consumed = ["nn.matmul"]} : tensor<3x5xf32>
func.func @blocks(%x: tensor<3x64xf32>) -> tensor<3x5xf32> {
  %w = nn.splat 3 : i4 : tensor<5x2x32xi4>
  %s = nn.splat 0.5 : f32 : tensor<5x2x1xf32>
  %z = nn.splat 0 : i4 : tensor<5x2x1xi4>
  %d = nn.dequantize %w, %s, %z : tensor<5x2x32xf32>
  %m = nn.reshape %d shape [5, 64] : tensor<5x64xf32>
  %y = nn.matmul %x, %m transpose_b true : tensor<3x5xf32>
  func.return %y : tensor<3x5xf32>
}

// -----

// Integers that are multiplied by others have words of the target's instruction.

// CHECK-LABEL: func.func @integers
// CHECK:         nn.cast %{{.*}} to i16 : tensor<3x64xi16>
// CHECK:         nn.weight @matrix.words : tensor<5x2x4x2xi16>
// CHECK:         nn.packed_matmul %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} bits 4
// ARM-LABEL:   func.func @integers
// ARM:           nn.weight @matrix.words : tensor<5x2x4x4xi8>
func.func @integers(%x: tensor<3x2x32xi8>, %t: tensor<3x2x1xf32>) -> tensor<3x5xf32> {
  %n = nn.splat 0 : i8 : tensor<i8>
  %a = nn.dequantize %x, %t, %n : tensor<3x2x32xf32>
  %b = nn.reshape %a shape [3, 64] : tensor<3x64xf32>
  %w = nn.splat 11 : ui4 : tensor<5x2x32xui4>
  %s = nn.splat 0.5 : f32 : tensor<5x2x1xf32>
  %z = nn.splat 8 : ui4 : tensor<5x2x1xui4>
  %d = nn.dequantize %w, %s, %z : tensor<5x2x32xf32>
  %m = nn.reshape %d shape [5, 64] : tensor<5x64xf32>
  %y = nn.matmul %b, %m transpose_b true : tensor<3x5xf32>
  func.return %y : tensor<3x5xf32>
}

// -----

// Bytes without blocks become floats.

// CHECK-LABEL: func.func @bytes
// CHECK-NOT:     nn.packed_matmul
func.func @bytes(%x: tensor<3x64xf32>) -> tensor<3x5xf32> {
  %w = nn.splat 3 : i8 : tensor<64x5xi8>
  %s = nn.splat 0.5 : f32 : tensor<5xf32>
  %z = nn.splat 0 : i8 : tensor<5xi8>
  %d = nn.dequantize %w, %s, %z : tensor<64x5xf32>
  %y = nn.matmul %x, %d : tensor<3x5xf32>
  func.return %y : tensor<3x5xf32>
}
