// RUN: tessella-opt %s -p view-op-graph 2>&1 >/dev/null | filecheck %s
// RUN: tessella-opt %s -p view-op-graph 2>/dev/null | filecheck %s --check-prefix=IR

// CHECK:      digraph program {
// CHECK-NEXT:   node [shape=box]
// CHECK-NEXT:   op0 [label="func.func"]
// CHECK-NEXT:   subgraph cluster_op0 {
// CHECK-NEXT:     op1 [label="x"]
// CHECK-NEXT:     op2 [label="nn.relu\na \"quoted\" name"]
// CHECK-NEXT:     op3 [label="nn.add\nkernel add"]
// CHECK-NEXT:     op4 [label="func.return"]
// CHECK-NEXT:   }
// CHECK-NEXT:   op1 -> op2 [label="tensor<4xf32>"]
// CHECK-NEXT:   op2 -> op3 [label="tensor<4xf32>"]
// CHECK-NEXT:   op1 -> op3 [label="tensor<4xf32>"]
// CHECK-NEXT:   op3 -> op4 [label="tensor<4xf32>"]
// CHECK-NEXT: }
// IR: nn.relu %x
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %1 = nn.relu %x {node = "a \"quoted\" name"} : tensor<4xf32>
  %2 = nn.add %1, %x {kernel = "add"} : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
