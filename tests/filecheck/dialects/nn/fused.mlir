// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @group(
// CHECK-NEXT:    %0, %1 = nn.fused %x, %y {
// CHECK-NEXT:    ^{{.*}}(%a: tensor<4xf32>, %b: tensor<4xf32>):
// CHECK-NEXT:      %2 = nn.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:      %3 = nn.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:      nn.yield %3, %2 : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:    } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
func.func @group(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %0, %1 = nn.fused %x, %y {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = nn.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = nn.relu %2 : (tensor<4xf32>) -> tensor<4xf32>
    nn.yield %3, %2 : tensor<4xf32>, tensor<4xf32>
  } : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return
}
