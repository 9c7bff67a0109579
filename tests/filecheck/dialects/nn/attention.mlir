// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @attention(
// CHECK-NEXT:    %0 = nn.attention %q, %k, %v scale 0.25 : tensor<2x3x5x8xf32>
// CHECK-NEXT:    %1 = nn.attention %q, %kt, %v, %mask scale 1.0 transposed_k true nan_as_zero true : tensor<2x3x5x8xf32>
// CHECK-NEXT:    func.return
func.func @attention(%q: tensor<2x3x5x16xf32>, %k: tensor<2x1x7x16xf32>, %kt: tensor<2x1x16x7xf32>, %v: tensor<7x8xf32>, %mask: tensor<3x1x7xf32>) {
  %0 = nn.attention %q, %k, %v scale 0.25 : tensor<2x3x5x8xf32>
  %1 = nn.attention %q, %kt, %v, %mask scale 1.0 transposed_k true nan_as_zero true : tensor<2x3x5x8xf32>
  func.return
}
