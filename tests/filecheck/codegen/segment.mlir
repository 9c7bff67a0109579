// RUN: tessella-opt %s -t 'tessella-llvm{machine=neon}' | filecheck %s

rt.kernel @k(%a: memref<8xf32>, %b: memref<8xf32>) outs(%c: memref<8xf32>) threads(%thread, %threads) {
  rt.return
}

rt.segment @segment_0(%x: memref<8xf32>) outs(%y: memref<8xf32>) threads(%thread, %threads) attributes {arena_bytes = 128 : i64} {
  %w = rt.weight @w slot 0 : memref<8xf32>
  %v = rt.weight @v slot 1 : memref<8xf32>
  %t = rt.arena 64 : memref<8xf32>
  rt.call @k(%x, %v) outs(%t) threads(%thread, %threads)
  rt.call @k(%t, %w) outs(%y) threads(%thread, %threads)
  rt.return
}

// CHECK:      ; segment_0
// CHECK:      target triple = "aarch64-unknown-linux-gnu"
// CHECK-NEXT: define void @"segment_0"(ptr noundef %context, ptr noundef %inputs, ptr noundef %outputs, ptr noundef %weights, ptr noundef align 64 %arena, i64 %thread, i64 %threads) #0 {
// CHECK-NEXT: entry:
// CHECK-NEXT:   %buffers = alloca [4 x ptr], align 8
// CHECK-NEXT:   store ptr %context, ptr %buffers, align 8
// CHECK:        [[W:%.*]] = getelementptr inbounds ptr, ptr %weights, i64 0
// CHECK-NEXT:   = load ptr, ptr [[W]], align 8
// CHECK-NEXT:   [[V:%.*]] = getelementptr inbounds ptr, ptr %weights, i64 1
// CHECK-NEXT:   = load ptr, ptr [[V]], align 8
// CHECK-NEXT:   getelementptr inbounds i8, ptr %arena, i64 64
// CHECK:        call void @"k"(ptr %buffers, i64 %thread, i64 %threads)
// CHECK:        call void @"k"(ptr %buffers, i64 %thread, i64 %threads)
// CHECK-NEXT:   ret void
// CHECK:      declare void @"k"(ptr, i64, i64) nounwind
