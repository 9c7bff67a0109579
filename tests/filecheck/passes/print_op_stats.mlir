// RUN: tessella-opt %s -p print-op-stats 2>&1 >/dev/null | filecheck %s
// RUN: tessella-opt %s -p print-op-stats 2>/dev/null | filecheck %s --check-prefix=IR

// The ops are counted by name, also in groups, and stay as they are.

// CHECK: Operations encountered:
// CHECK-NEXT: func.func 1
// CHECK-NEXT: func.return 1
// CHECK-NEXT: nn.add 1
// CHECK-NEXT: nn.fused 1
// CHECK-NEXT: nn.relu 2
// CHECK-NEXT: nn.yield 1
// CHECK-NOT: builtin.module

// IR: nn.relu
// IR: nn.fused
// IR: nn.add
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x : tensor<4xf32>
  %1 = nn.fused(%a = %0) {
    %2 = nn.relu %a : tensor<4xf32>
    %3 = nn.add %2, %a : tensor<4xf32>
    nn.yield %3 : tensor<4xf32>
  } : tensor<4xf32>
  func.return %1 : tensor<4xf32>
}
