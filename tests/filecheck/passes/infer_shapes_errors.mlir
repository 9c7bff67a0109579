// RUN: not tessella-opt %s --disable-verify -p infer-shapes --split-input-file 2>&1 | filecheck %s

// CHECK:      error: infer-shapes: nn.reshape (head): the number of elements changes
// CHECK-NEXT:   expected: 40, as (5, 8) has
// CHECK-NEXT:   found: 8 in (8,)
func.func @main(%x: tensor<5x8xf32>) -> tensor<8xf32> {
  %1 = nn.relu %x : tensor<1x8xf32>
  %2 = nn.reshape %1 shape [8] {node = "head"} : tensor<8xf32>
  func.return %2 : tensor<8xf32>
}

// -----

// CHECK:      error: infer-shapes: the shape of argument 0 of @main is not known
// CHECK-NEXT:   expected: a size in each dimension
// CHECK-NEXT:   found: tensor<?x8xf32>
func.func @main(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  func.return %x : tensor<?x8xf32>
}
