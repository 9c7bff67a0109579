// RUN: tessella-opt %s -p insert-barriers --split-input-file | filecheck %s

// @norm reads rows that other threads have written columns of.

// CHECK-LABEL: rt.segment @segment_0
// CHECK:         rt.call @fc(%x) outs(%a)
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @norm(%a) outs(%y)
// CHECK-NEXT:    rt.return
rt.kernel @fc(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<shared 32 by 16>]} {
  rt.return
}
rt.kernel @norm(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.segment @segment_0(%x: memref<64xf32>) outs(%y: memref<64xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<64xf32>
  rt.call @fc(%x) outs(%a) threads(%thread, %threads)
  rt.call @norm(%a) outs(%y) threads(%thread, %threads)
  rt.return
}

// -----

// A chain whose kernels divide rows alike has no barrier. Reading together needs none either.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-NOT:     rt.barrier
rt.kernel @norm(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @fc(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<shared 32 by 16>]} {
  rt.return
}
rt.segment @segment_0(%x: memref<64xf32>) outs(%y: memref<64xf32>, %z: memref<64xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  rt.call @norm(%x) outs(%a) threads(%thread, %threads)
  rt.call @norm(%a) outs(%b) threads(%thread, %threads)
  rt.call @norm(%b) outs(%y) threads(%thread, %threads)
  rt.call @fc(%x) outs(%z) threads(%thread, %threads)
  rt.return
}

// -----

// Pieces of other sizes do not agree. The first thread waits for the others before it copies, and
// goes on alone without waiting.

// CHECK-LABEL: rt.segment @segment_0
// CHECK:         rt.call @rows(%x) outs(%a)
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @blocks(%a) outs(%b)
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @alone(%b) outs(%c)
// CHECK-NEXT:    rt.call @alone(%c) outs(%d)
// CHECK-NEXT:    "memref.copy"(%d, %y)
// CHECK-NEXT:    rt.return
rt.kernel @rows(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @blocks(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 128>, #rt.part<shared 256 by 128>]} {
  rt.return
}
rt.kernel @alone(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) {
  rt.return
}
rt.segment @segment_0(%x: memref<64xf32>) outs(%y: memref<64xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %c = memref.alloc() : memref<64xf32>
  %d = memref.alloc() : memref<64xf32>
  rt.call @rows(%x) outs(%a) threads(%thread, %threads)
  rt.call @blocks(%a) outs(%b) threads(%thread, %threads)
  rt.call @alone(%b) outs(%c) threads(%thread, %threads)
  rt.call @alone(%c) outs(%d) threads(%thread, %threads)
  "memref.copy"(%d, %y) : (memref<64xf32>, memref<64xf32>) -> ()
  rt.return
}
