// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @products(
// CHECK-NEXT:    %0 = nn.matmul %a, %b : tensor<2x3x5xf32>
// CHECK-NEXT:    %1 = nn.matmul %a, %c transpose_b true : tensor<2x3x5xf32>
// CHECK-NEXT:    %2 = nn.fc %a, %b, %d : tensor<2x3x5xf32>
// CHECK-NEXT:    func.return
func.func @products(%a: tensor<2x3x4xf32>, %b: tensor<4x5xf32>, %c: tensor<5x4xf32>, %d: tensor<5xf32>) {
  %0 = nn.matmul %a, %b : tensor<2x3x5xf32>
  %1 = nn.matmul %a, %c transpose_b true : tensor<2x3x5xf32>
  %2 = nn.fc %a, %b, %d : tensor<2x3x5xf32>
  func.return
}

// CHECK-LABEL: func.func @packed(
// CHECK-NEXT:    %0 = nn.packed_matmul %x, %w, %s bits 4 : tensor<5x9xf32>
// CHECK-NEXT:    %1 = nn.packed_matmul %y, %w, %s bits 2 table [0.0, 0.5, 1.0, -2.0] : tensor<5x9xf32>
// CHECK-NEXT:    %2 = nn.packed_matmul %i, %v, %s, %t bits 4 : tensor<5x9xf32>
// CHECK-NEXT:    func.return
func.func @packed(%x: tensor<5x48xf32>, %y: tensor<5x96xf32>, %w: tensor<9x2x3x1xi32>, %s: tensor<9x2xf32>, %i: tensor<5x48xi16>, %v: tensor<9x2x3x2xi16>, %t: tensor<5x2xf32>) {
  %0 = nn.packed_matmul %x, %w, %s bits 4 : tensor<5x9xf32>
  %1 = nn.packed_matmul %y, %w, %s bits 2 table [0.0, 0.5, 1.0, -2.0] : tensor<5x9xf32>
  %2 = nn.packed_matmul %i, %v, %s, %t bits 4 : tensor<5x9xf32>
  func.return
}

// CHECK-LABEL: func.func @convolutions(
// CHECK-NEXT:    %0 = nn.conv %x, %w strides [1, 2] pads [1, 0, 1, 0] groups 2 : tensor<1x6x8x3xf32>
// CHECK-NEXT:    %1 = nn.conv %x, %w, %b strides [1, 2] pads [1, 0, 1, 0] groups 2 : tensor<1x6x8x3xf32>
// CHECK-NEXT:    %2 = nn.conv_transpose %x, %v, %b strides [1, 2] pads [1, 0, 1, 0] output_pads [0, 1] groups 2 : tensor<1x6x8x18xf32>
// CHECK-NEXT:    func.return
func.func @convolutions(%x: tensor<1x4x8x8xf32>, %w: tensor<6x2x3x3xf32>, %b: tensor<6xf32>, %v: tensor<4x3x3x3xf32>) {
  %0 = nn.conv %x, %w strides [1, 2] pads [1, 0, 1, 0] groups 2 : tensor<1x6x8x3xf32>
  %1 = nn.conv %x, %w, %b strides [1, 2] pads [1, 0, 1, 0] groups 2 : tensor<1x6x8x3xf32>
  %2 = nn.conv_transpose %x, %v, %b strides [1, 2] pads [1, 0, 1, 0] output_pads [0, 1] groups 2 : tensor<1x6x8x18xf32>
  func.return
}

// Bytes of any signs have sums in 32 bits.

// CHECK-LABEL: func.func @sums(
// CHECK-NEXT:    %0 = nn.matmul %a, %b sums i32 : tensor<2x5xi32>
// CHECK-NEXT:    %1 = nn.fc %a, %b, %c sums i32 : tensor<2x5xi32>
// CHECK-NEXT:    %2 = nn.matmul %b, %b transpose_b true : tensor<4x4xi8>
// CHECK-NEXT:    %3 = nn.conv %x, %x, %d sums i32 : tensor<1x1x1xi32>
// CHECK-NEXT:    func.return
func.func @sums(%a: tensor<2x4xui8>, %b: tensor<4x5xi8>, %c: tensor<5xi32>, %d: tensor<1xi32>, %x: tensor<1x2x3xi8>) {
  %0 = nn.matmul %a, %b sums i32 : tensor<2x5xi32>
  %1 = nn.fc %a, %b, %c sums i32 : tensor<2x5xi32>
  %2 = nn.matmul %b, %b transpose_b true : tensor<4x4xi8>
  %3 = nn.conv %x, %x, %d sums i32 : tensor<1x1x1xi32>
  func.return
}
