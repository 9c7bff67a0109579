// RUN: tessella-opt %s -t 'tessella-llvm{machine=avx2}' | filecheck %s

// CHECK: target triple = "x86_64-unknown-linux-gnu"
// CHECK: define void @"zero"(ptr %buffers
// CHECK: "target-cpu"="x86-64-v3"
rt.kernel @zero(%x: memref<1xf32>) threads(%thread, %threads) {
  %0 = arith.constant 0.000000e+00 : f32
  %1 = arith.constant 0 : index
  memref.store %0, %x[%1] : memref<1xf32>
  rt.return
}
