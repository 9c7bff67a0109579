// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @group(
// CHECK-NEXT:    %0, %1 = nn.fused(%a = %x, %b = %y) {
// CHECK-NEXT:      %2 = nn.add %a, %b : tensor<4xf32>
// CHECK-NEXT:      %3 = nn.relu %2 : tensor<4xf32>
// CHECK-NEXT:      nn.yield %3, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:    } : tensor<4xf32>, tensor<4xf32>
func.func @group(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %0, %1 = nn.fused(%a = %x, %b = %y) {
    %2 = nn.add %a, %b : tensor<4xf32>
    %3 = nn.relu %2 : tensor<4xf32>
    nn.yield %3, %2 : tensor<4xf32>, tensor<4xf32>
  } : tensor<4xf32>, tensor<4xf32>
  func.return
}
