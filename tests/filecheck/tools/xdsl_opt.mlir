// RUN: xdsl-opt %s -p 'plan-arena' | filecheck %s

// The installed package is a plugin of xDSL's own tool.

// CHECK: %w = nn.weight @w : tensor<4xf32>
// CHECK: rt.arena 0 : memref<4xf32>
%w = nn.weight @w : tensor<4xf32>
func.func @segment_0(%x: memref<4xf32>) attributes {rt.segment, rt.inputs = 0 : i64} {
  %0 = memref.alloc() : memref<4xf32>
  "memref.copy"(%0, %x) : (memref<4xf32>, memref<4xf32>) -> ()
  func.return
}
