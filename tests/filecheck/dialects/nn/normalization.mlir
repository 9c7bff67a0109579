// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @norms(
// CHECK-NEXT:    %0 = nn.layer_norm %x, %s : tensor<2x3x4xf32>
// CHECK-NEXT:    %1 = nn.layer_norm %x, %s, %s : tensor<2x3x4xf32>
// CHECK-NEXT:    %2 = nn.rms_norm %x, %s : tensor<2x3x4xf32>
// CHECK-NEXT:    %3 = nn.group_norm %x, %c, %c groups 3 : tensor<2x3x4xf32>
// CHECK-NEXT:    %4 = nn.batch_norm %x, %c, %c, %c, %c : tensor<2x3x4xf32>
// CHECK-NEXT:    %5 = nn.lrn %x size 5 : tensor<2x3x4xf32>
// CHECK-NEXT:    func.return
func.func @norms(%x: tensor<2x3x4xf32>, %c: tensor<3xf32>, %s: tensor<4xf32>) {
  %0 = nn.layer_norm %x, %s : tensor<2x3x4xf32>
  %1 = nn.layer_norm %x, %s, %s : tensor<2x3x4xf32>
  %2 = nn.rms_norm %x, %s : tensor<2x3x4xf32>
  %3 = nn.group_norm %x, %c, %c groups 3 : tensor<2x3x4xf32>
  %4 = nn.batch_norm %x, %c, %c, %c, %c : tensor<2x3x4xf32>
  %5 = nn.lrn %x size 5 : tensor<2x3x4xf32>
  func.return
}
