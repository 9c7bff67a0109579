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

// -----

// In a loop, a step waits for the one before: @fc reads all of what @fc has written.

// CHECK-LABEL: rt.segment @step
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @fc(%h) outs(%k)
// CHECK-NEXT:    rt.return
// CHECK-LABEL: rt.segment @segment_0
// CHECK-NEXT:    %p = memref.alloc()
// CHECK-NEXT:    rt.scan @step
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @fc(%k) outs(%y)
// CHECK-NEXT:    rt.return
rt.kernel @fc(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.segment @step(%h: memref<64xf32>, %x: memref<4xf32>) outs(%k: memref<64xf32>) threads(%thread, %threads) {
  rt.call @fc(%h) outs(%k) threads(%thread, %threads)
  rt.return
}
rt.segment @segment_0(%h: memref<64xf32>, %x: memref<12xf32>) outs(%k: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  %p = memref.alloc() : memref<64xf32>
  rt.scan @step(%h, %x) outs(%k) scratch(%p) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.call @fc(%k) outs(%y) threads(%thread, %threads)
  rt.return
}

// -----

// What steps write over is one buffer: @fc reads in each step what @fill wrote in the one before.

// CHECK-LABEL: rt.segment @step
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @fc(%k) outs(%y)
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @fill(%x) outs(%k)
// CHECK-NEXT:    rt.return
rt.kernel @fc(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @fill(%a: memref<4xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.segment @step(%h: memref<64xf32>, %x: memref<4xf32>) outs(%k: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  rt.call @fc(%k) outs(%y) threads(%thread, %threads)
  rt.call @fill(%x) outs(%k) threads(%thread, %threads)
  rt.return
}
rt.segment @segment_0(%h: memref<64xf32>, %x: memref<12xf32>) outs(%k: memref<64xf32>, %ys: memref<192xf32>) threads(%thread, %threads) {
  "memref.copy"(%h, %k) : (memref<64xf32>, memref<64xf32>) -> ()
  rt.scan @step(%k, %x) outs(%k, %ys) scratch(%k) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.return
}

// -----

// In a loop with a condition, all wait for it at the end of a step, and for what the first thread
// puts into its place at last.

// CHECK-LABEL: rt.segment @step
// CHECK-NEXT:    rt.call @go(%h) outs(%d)
// CHECK-NEXT:    rt.call @add(%h) outs(%k)
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.return
// CHECK-LABEL: rt.segment @segment_0
// CHECK:         rt.scan @step
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @add(%k) outs(%y)
// CHECK-NEXT:    rt.return
rt.kernel @add(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @go(%a: memref<64xf32>) outs(%b: memref<1xi1>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<alone>]} {
  rt.return
}
rt.segment @step(%c: memref<1xi1>, %h: memref<64xf32>) outs(%d: memref<1xi1>, %k: memref<64xf32>) threads(%thread, %threads) {
  rt.call @go(%h) outs(%d) threads(%thread, %threads)
  rt.call @add(%h) outs(%k) threads(%thread, %threads)
  rt.return
}
rt.segment @segment_0(%c: memref<1xi1>, %h: memref<64xf32>) outs(%d: memref<1xi1>, %k: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  %q = memref.alloc() : memref<1xi1>
  %p = memref.alloc() : memref<64xf32>
  rt.scan @step(%c, %h) outs(%d, %k) scratch(%q, %p) threads(%thread, %threads) carried 2 scanned 0 backward [] conditional true
  rt.call @add(%k) outs(%y) threads(%thread, %threads)
  rt.return
}

// -----

// After a failed check, a thread makes the condition false when it is there, and before all read it.

// CHECK-LABEL: rt.segment @step
// CHECK-NEXT:    rt.call @add(%h) outs(%k)
// CHECK-NEXT:    rt.call @go(%h) outs(%d)
// CHECK-NEXT:    rt.watch %d : memref<1xi1>
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.stop %d : memref<1xi1>
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.return
rt.kernel @add(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @go(%a: memref<64xf32>) outs(%b: memref<1xi1>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<alone>]} {
  rt.return
}
rt.segment @step(%c: memref<1xi1>, %h: memref<64xf32>) outs(%d: memref<1xi1>, %k: memref<64xf32>) threads(%thread, %threads) {
  rt.call @add(%h) outs(%k) threads(%thread, %threads)
  rt.call @go(%h) outs(%d) threads(%thread, %threads)
  rt.watch %d : memref<1xi1>
  rt.stop %d : memref<1xi1>
  rt.return
}
rt.segment @segment_0(%c: memref<1xi1>, %h: memref<64xf32>) outs(%d: memref<1xi1>, %k: memref<64xf32>) threads(%thread, %threads) {
  %q = memref.alloc() : memref<1xi1>
  %p = memref.alloc() : memref<64xf32>
  rt.scan @step(%c, %h) outs(%d, %k) scratch(%q, %p) threads(%thread, %threads) carried 2 scanned 0 backward [] conditional true
  rt.return
}

// -----

// One thread needs no barrier.

// CHECK-LABEL: rt.segment @step
// CHECK-NEXT:    rt.call @go(%h) outs(%d, %k)
// CHECK-NEXT:    rt.stop %d : memref<1xi1>
// CHECK-NEXT:    rt.return
rt.kernel @go(%a: memref<64xf32>) outs(%b: memref<1xi1>, %c: memref<64xf32>) threads(%thread, %threads) {
  rt.return
}
rt.segment @step(%c: memref<1xi1>, %h: memref<64xf32>) outs(%d: memref<1xi1>, %k: memref<64xf32>) threads(%thread, %threads) {
  rt.call @go(%h) outs(%d, %k) threads(%thread, %threads)
  rt.stop %d : memref<1xi1>
  rt.return
}
rt.segment @segment_0(%c: memref<1xi1>, %h: memref<64xf32>) outs(%d: memref<1xi1>, %k: memref<64xf32>) threads(%thread, %threads) {
  %q = memref.alloc() : memref<1xi1>
  %p = memref.alloc() : memref<64xf32>
  rt.scan @step(%c, %h) outs(%d, %k) scratch(%q, %p) threads(%thread, %threads) carried 2 scanned 0 backward [] conditional true
  rt.return
}

// -----

// Steps that divide alike what they carry and the elements of sequences do not wait, and neither
// do those who divide whole sequences like this.

// CHECK-LABEL: rt.segment @step
// CHECK-NOT:     rt.barrier
// CHECK-LABEL: rt.segment @segment_0
// CHECK-NOT:     rt.barrier
rt.kernel @add(%a: memref<64xf32>, %b: memref<64xf32>) outs(%c: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @map(%a: memref<192xf32>) outs(%b: memref<192xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.segment @step(%h: memref<64xf32>, %x: memref<64xf32>) outs(%k: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  rt.call @add(%h, %x) outs(%k) threads(%thread, %threads)
  rt.call @add(%k, %x) outs(%y) threads(%thread, %threads)
  rt.return
}
rt.segment @segment_0(%h: memref<64xf32>, %x: memref<192xf32>) outs(%k: memref<64xf32>, %z: memref<192xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<192xf32>
  %y = memref.alloc() : memref<192xf32>
  %p = memref.alloc() : memref<64xf32>
  rt.call @map(%x) outs(%a) threads(%thread, %threads)
  rt.scan @step(%h, %a) outs(%k, %y) scratch(%p) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.call @map(%y) outs(%z) threads(%thread, %threads)
  rt.return
}

// -----

// What is carried lies in two buffers in turn: @turn writes in a step what a late thread may still
// read in the step before.

// CHECK-LABEL: rt.segment @step
// CHECK-NEXT:    rt.call @keep(%x) outs(%y)
// CHECK-NEXT:    rt.barrier %threads
// CHECK-NEXT:    rt.call @turn(%h) outs(%k)
// CHECK-NEXT:    rt.return
rt.kernel @keep(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.kernel @turn(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 128>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.segment @step(%h: memref<64xf32>, %x: memref<64xf32>) outs(%k: memref<64xf32>, %y: memref<64xf32>) threads(%thread, %threads) {
  rt.call @keep(%x) outs(%y) threads(%thread, %threads)
  rt.call @turn(%h) outs(%k) threads(%thread, %threads)
  rt.return
}
rt.segment @segment_0(%h: memref<64xf32>, %x: memref<192xf32>) outs(%k: memref<64xf32>, %y: memref<192xf32>) threads(%thread, %threads) {
  %p = memref.alloc() : memref<64xf32>
  rt.scan @step(%h, %x) outs(%k, %y) scratch(%p) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.return
}
