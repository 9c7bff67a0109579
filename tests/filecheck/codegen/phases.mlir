// RUN: tessella-opt %s -t 'tessella-llvm{machine=neon}' | filecheck %s

rt.kernel @shared(%a: memref<8xf32>) outs(%c: memref<8xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<shared 32 by 16>]} {
  rt.return
}

rt.segment @waits(%h: memref<8xf32>, %x: memref<8xf32>) outs(%k: memref<8xf32>) threads(%thread, %threads) {
  rt.barrier %threads
  rt.call @shared(%h) outs(%k) threads(%thread, %threads)
  rt.return
}

rt.segment @goes_on(%h: memref<8xf32>, %x: memref<8xf32>) outs(%k: memref<8xf32>) threads(%thread, %threads) {
  rt.call @shared(%h) outs(%k) threads(%thread, %threads)
  rt.return
}

// A loop whose steps wait for each other runs between phases; another one is part of a phase.
// CHECK:      ; loops
// CHECK:      define internal void @"phase.1"
// CHECK:        call void @"goes_on.phase"(ptr {{.*}}, i64 %share, i64 %shares)
// CHECK:      define void @"loops.body"(ptr %args) #0 {
// CHECK:        call void @"waits.body"(ptr
// CHECK:        br i1
// CHECK:        call void @launch(ptr %args, ptr @"phase.1")
// CHECK:      declare void @"waits.body"(ptr) nounwind
// CHECK:      declare void @"goes_on.phase"(ptr, i64, i64) nounwind
rt.segment @loops(%h: memref<8xf32>, %xs: memref<40xf32>) outs(%k: memref<8xf32>, %l: memref<8xf32>) threads(%thread, %threads) attributes {arena_bytes = 64 : i64} {
  %s = rt.arena 0 : memref<8xf32>
  rt.scan @waits(%h, %xs) outs(%k) scratch(%s) threads(%thread, %threads) steps 5 carried 1 scanned 1 backward []
  rt.scan @goes_on(%k, %xs) outs(%l) scratch(%s) threads(%thread, %threads) steps 5 carried 1 scanned 1 backward []
  rt.return
}
