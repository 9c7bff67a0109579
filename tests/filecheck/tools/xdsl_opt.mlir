// RUN: xdsl-opt %s -p 'plan-arena' | filecheck %s

// The installed package is a plugin of xDSL's own tool.

// CHECK: %w = nn.weight @w : tensor<4xf32>
// CHECK: rt.arena 0 : memref<4xf32>
%w = nn.weight @w : tensor<4xf32>
rt.segment @segment_0() outs(%x: memref<4xf32>) threads(%thread, %threads) {
  %0 = memref.alloc() : memref<4xf32>
  "memref.copy"(%0, %x) : (memref<4xf32>, memref<4xf32>) -> ()
  rt.return
}
