// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @ensemble(
// CHECK-NEXT:    %0 = nn.tree_ensemble %x, %t, %l, %v trees 2 levels 3 bits 2 : tensor<5x2xf32>
// CHECK-NEXT:    %1 = nn.tree_ensemble %x, %t, %l, %v trees 2 levels 3 bits 2 aggregate "max" : tensor<5x2xf32>
// CHECK-NEXT:    func.return
func.func @ensemble(%x: tensor<5x4xf32>, %t: tensor<9xf32>, %l: tensor<9xi32>, %v: tensor<9x2xf32>) {
  %0 = nn.tree_ensemble %x, %t, %l, %v trees 2 levels 3 bits 2 : tensor<5x2xf32>
  %1 = nn.tree_ensemble %x, %t, %l, %v trees 2 levels 3 bits 2 aggregate "max" : tensor<5x2xf32>
  func.return
}
