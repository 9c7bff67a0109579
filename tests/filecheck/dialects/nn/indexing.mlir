// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @gather(
// CHECK-NEXT:    %0 = nn.gather %d, %i axis 1 : tensor<2x2x3xf32>
// CHECK-NEXT:    %1 = nn.gather_elements %d, %i : tensor<2x3xf32>
// CHECK-NEXT:    %2 = nn.gather_nd %d, %t : tensor<5xf32>
// CHECK-NEXT:    func.return
func.func @gather(%d: tensor<2x3xf32>, %i: tensor<2x3xi64>, %t: tensor<5x2xi32>) {
  %0 = nn.gather %d, %i axis 1 : tensor<2x2x3xf32>
  %1 = nn.gather_elements %d, %i : tensor<2x3xf32>
  %2 = nn.gather_nd %d, %t : tensor<5xf32>
  func.return
}

// CHECK-LABEL: func.func @scatter(
// CHECK-NEXT:    %0 = nn.scatter_elements %d, %i, %d axis 1 : tensor<2x3xf32>
// CHECK-NEXT:    %1 = nn.scatter_nd %d, %t, %u reduction "add" : tensor<2x3xf32>
// CHECK-NEXT:    func.return
func.func @scatter(%d: tensor<2x3xf32>, %i: tensor<2x3xi64>, %t: tensor<5x1xi32>, %u: tensor<5x3xf32>) {
  %0 = nn.scatter_elements %d, %i, %d axis 1 : tensor<2x3xf32>
  %1 = nn.scatter_nd %d, %t, %u reduction "add" : tensor<2x3xf32>
  func.return
}
