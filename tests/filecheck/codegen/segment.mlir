// RUN: tessella-opt %s -t 'tessella-llvm{machine=neon}' | filecheck %s

func.func private @k(memref<8xf32>, memref<8xf32>, memref<8xf32>) -> ()

func.func @segment_0(%x: memref<8xf32>, %y: memref<8xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
  %w = rt.weight @w : memref<8xf32>
  %v = rt.weight @v : memref<8xf32>
  %t = rt.arena 64 : memref<8xf32>
  func.call @k(%x, %v, %t) : (memref<8xf32>, memref<8xf32>, memref<8xf32>) -> ()
  func.call @k(%t, %w, %y) : (memref<8xf32>, memref<8xf32>, memref<8xf32>) -> ()
  func.return
}

// CHECK:      ; segment_0
// CHECK:      target triple = "aarch64-unknown-linux-gnu"
// CHECK-NEXT: define void @"segment_0"(ptr noundef %context, ptr noundef %inputs, ptr noundef %outputs, ptr noundef align 64 %weights, ptr noundef align 64 %arena, i64 %thread, i64 %threads) #0 {
// CHECK-NEXT: entry:
// CHECK-NEXT:   %buffers = alloca [4 x ptr], align 8
// CHECK-NEXT:   store ptr %context, ptr %buffers, align 8
// CHECK:        getelementptr inbounds i8, ptr %weights, i64 0
// CHECK-NEXT:   getelementptr inbounds i8, ptr %weights, i64 64
// CHECK-NEXT:   getelementptr inbounds i8, ptr %arena, i64 64
// CHECK:        call void @"k"(ptr %buffers, i64 %thread, i64 %threads)
// CHECK:        call void @"k"(ptr %buffers, i64 %thread, i64 %threads)
// CHECK-NEXT:   ret void
// CHECK:      declare void @"k"(ptr, i64, i64) nounwind
