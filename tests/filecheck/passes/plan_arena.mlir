// RUN: tessella-opt %s -p plan-arena --split-input-file | filecheck %s

// A buffer takes the place of one that is not needed any more; two of one call lie side by side.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    attributes {arena_bytes = 128 : i64}
// CHECK-NEXT:    %a = rt.arena 0 : memref<16xf32>
// CHECK-NEXT:    %b = rt.arena 64 : memref<16xf32>
// CHECK-NEXT:    %c = rt.arena 0 : memref<16xf32>
// CHECK-NEXT:    rt.call @k(%x) outs(%a)
// CHECK-NEXT:    rt.call @k(%a) outs(%b)
// CHECK-NEXT:    rt.call @k(%b) outs(%c)
// CHECK-NEXT:    rt.call @k(%c) outs(%y)
rt.kernel @k(%a: memref<16xf32>) outs(%b: memref<16xf32>) threads(%thread, %threads) {
  rt.return
}
rt.segment @segment_0(%x: memref<16xf32>) outs(%y: memref<16xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  rt.call @k(%x) outs(%a) threads(%thread, %threads)
  rt.call @k(%a) outs(%b) threads(%thread, %threads)
  rt.call @k(%b) outs(%c) threads(%thread, %threads)
  rt.call @k(%c) outs(%y) threads(%thread, %threads)
  rt.return
}

// -----

// A later use keeps a buffer alive, a copy too.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 192 : i64
// CHECK-NEXT:    %a = rt.arena 0 :
// CHECK-NEXT:    %b = rt.arena 64 :
// CHECK-NEXT:    %c = rt.arena 128 :
rt.kernel @k(%a: memref<16xf32>) outs(%b: memref<16xf32>) threads(%thread, %threads) {
  rt.return
}
rt.segment @segment_0(%x: memref<16xf32>) outs(%y: memref<16xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  rt.call @k(%x) outs(%a) threads(%thread, %threads)
  rt.call @k(%a) outs(%b) threads(%thread, %threads)
  rt.call @k(%b) outs(%c) threads(%thread, %threads)
  rt.call @k(%c) outs(%y) threads(%thread, %threads)
  "memref.copy"(%a, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  rt.return
}

// -----

// From the largest to the smallest, each at the lowest offset where it fits: %b above %a, %d
// in the place of %a, %e after it. Sizes are rounded up to 64 bytes.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 384 : i64
// CHECK-NEXT:    %a = rt.arena 192 : memref<17xf32>
// CHECK-NEXT:    %b = rt.arena 0 : memref<48xf32>
// CHECK-NEXT:    %d = rt.arena 192 : memref<3xi64>
// CHECK-NEXT:    %e = rt.arena 256 : memref<5xi1>
// CHECK-NEXT:    %f = rt.arena 320 : memref<1xf64>
rt.kernel @k(%a: memref<17xf32>) outs(%b: memref<48xf32>) threads(%thread, %threads) {
  rt.return
}
rt.kernel @l(%a: memref<48xf32>, %b: memref<3xi64>, %c: memref<5xi1>) outs(%d: memref<1xf64>) threads(%thread, %threads) {
  rt.return
}
rt.segment @segment_0(%x: memref<48xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<17xf32>
  %b = memref.alloc() : memref<48xf32>
  %d = memref.alloc() : memref<3xi64>
  %e = memref.alloc() : memref<5xi1>
  %f = memref.alloc() : memref<1xf64>
  rt.call @k(%a) outs(%b) threads(%thread, %threads)
  rt.call @l(%b, %d, %e) outs(%f) threads(%thread, %threads)
  rt.return
}

// -----

// The gap that %a leaves below %b is used where it is large enough: by %c and %e, not by %d.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 448 : i64
// CHECK-NEXT:    %a = rt.arena 0 : memref<48xf32>
// CHECK-NEXT:    %b = rt.arena 192 : memref<32xf32>
// CHECK-NEXT:    %c = rt.arena 0 : memref<32xf32>
// CHECK-NEXT:    %d = rt.arena 320 : memref<32xf32>
// CHECK-NEXT:    %e = rt.arena 128 : memref<16xf32>
rt.kernel @k(%a: memref<48xf32>) outs(%b: memref<32xf32>) threads(%thread, %threads) {
  rt.return
}
rt.kernel @l(%a: memref<32xf32>, %b: memref<32xf32>, %c: memref<32xf32>) outs(%d: memref<16xf32>) threads(%thread, %threads) {
  rt.return
}
rt.segment @segment_0(%x: memref<16xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<48xf32>
  %b = memref.alloc() : memref<32xf32>
  %c = memref.alloc() : memref<32xf32>
  %d = memref.alloc() : memref<32xf32>
  %e = memref.alloc() : memref<16xf32>
  rt.call @k(%a) outs(%b) threads(%thread, %threads)
  rt.call @l(%b, %c, %d) outs(%e) threads(%thread, %threads)
  rt.return
}

// -----

// A buffer that nobody uses is gone.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    attributes {arena_bytes = 0 : i64}
// CHECK-NEXT:    rt.return
rt.segment @segment_0() threads(%thread, %threads) {
  %a = memref.alloc() : memref<16xf32>
  rt.return
}

// -----

// Only segments have an arena.

// CHECK-LABEL: rt.kernel @k
// CHECK-NEXT:    memref.alloc
rt.kernel @k(%x: memref<16xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<16xf32>
  "memref.copy"(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  rt.return
}

// -----

// The arena of a segment that runs in a loop lies in that of the other.

// CHECK-LABEL: rt.segment @step
// CHECK-SAME:    arena_bytes = 64 : i64
// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 128 : i64
// CHECK-NEXT:    %spare = rt.arena 0 : memref<16xf32>
// CHECK-NEXT:    %{{.*}} = rt.arena 64 : memref<64xi8>
// CHECK-NEXT:    rt.scan @step(%h, %xs) outs(%t) scratch(%spare, %{{.*}}) threads(%i, %n) steps 3 carried 1 scanned 1 backward []
rt.kernel @k(%a: memref<16xf32>) outs(%b: memref<16xf32>) threads(%i, %n) {
  rt.return
}
rt.segment @step(%h: memref<16xf32>, %x: memref<4xf32>) outs(%t: memref<16xf32>) threads(%i, %n) {
  %a = memref.alloc() : memref<16xf32>
  rt.call @k(%h) outs(%a) threads(%i, %n)
  rt.call @k(%a) outs(%t) threads(%i, %n)
  rt.return
}
rt.segment @segment_0(%h: memref<16xf32>, %xs: memref<12xf32>) outs(%t: memref<16xf32>) threads(%i, %n) {
  %spare = memref.alloc() : memref<16xf32>
  rt.scan @step(%h, %xs) outs(%t) scratch(%spare) threads(%i, %n) steps 3 carried 1 scanned 1 backward []
  rt.return
}

// -----

// A late thread may still read %a when another one is past the call: %b does not lie there before
// the barrier, %c does.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 512 : i64
// CHECK-NEXT:    %a = rt.arena 0 :
// CHECK-NEXT:    %b = rt.arena 256 :
// CHECK-NEXT:    %c = rt.arena 0 :
rt.kernel @any(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<any>]} {
  rt.return
}
rt.segment @segment_0(%x: memref<64xf32>) outs(%y: memref<64xf32>, %z: memref<64xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %c = memref.alloc() : memref<64xf32>
  rt.call @any(%x) outs(%a) threads(%thread, %threads)
  rt.call @any(%x) outs(%b) threads(%thread, %threads)
  rt.barrier %threads
  rt.call @any(%b) outs(%c) threads(%thread, %threads)
  rt.barrier %threads
  rt.call @any(%c) outs(%y) threads(%thread, %threads)
  rt.return
}

// -----

// Where each thread touches the same part of both, %c takes the place of %a without a barrier.
// Scratch of each thread lies after the arena.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 512 : i64, private_bytes = 64 : i64
// CHECK-NEXT:    %a = rt.arena 256 :
// CHECK-NEXT:    %b = rt.arena 0 :
// CHECK-NEXT:    %c = rt.arena 256 :
// CHECK-NEXT:    %s = rt.arena 0 {private} :
// CHECK-NEXT:    %t = rt.arena 0 {private} :
rt.kernel @rows(%a: memref<64xf32>) outs(%b: memref<64xf32>) scratch(%s: memref<16xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>, #rt.part<own>]} {
  rt.return
}
rt.kernel @plain(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 256 by 64>, #rt.part<shared 256 by 64>]} {
  rt.return
}
rt.segment @segment_0(%x: memref<64xf32>) outs(%y: memref<64xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %c = memref.alloc() : memref<64xf32>
  %s = memref.alloc() {rt.private} : memref<16xf32>
  %t = memref.alloc() {rt.private} : memref<16xf32>
  rt.call @rows(%x) outs(%a) scratch(%s) threads(%thread, %threads)
  rt.call @rows(%a) outs(%b) scratch(%t) threads(%thread, %threads)
  rt.call @plain(%b) outs(%c) threads(%thread, %threads)
  rt.call @plain(%c) outs(%y) threads(%thread, %threads)
  rt.return
}

// -----

// In a loop, %a of the next step may be written while a late thread still reads %b: the barrier
// between is after %a. What each thread has for itself, it has in the other segment.

// CHECK-LABEL: rt.segment @step
// CHECK-SAME:    arena_bytes = 512 : i64, private_bytes = 64 : i64
// CHECK-NEXT:    %a = rt.arena 0 :
// CHECK-NEXT:    rt.call @any(%h) outs(%a)
// CHECK-NEXT:    rt.barrier
// CHECK-NEXT:    %b = rt.arena 256 :
// CHECK-NEXT:    %s = rt.arena 0 {private}
// CHECK-NEXT:    rt.call @own(%h) outs(%b) scratch(%s)
// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    arena_bytes = 768 : i64, private_bytes = 64 : i64
// CHECK:         [[A:%.*]] = rt.arena 0 : memref<512xi8>
// CHECK-NEXT:    [[P:%.*]] = rt.arena 0 {private} : memref<64xi8>
// CHECK-NEXT:    rt.scan @step(%h, %x) outs(%k) scratch(%p, [[A]], [[P]])
rt.kernel @any(%a: memref<64xf32>) outs(%b: memref<64xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<any>]} {
  rt.return
}
rt.kernel @own(%a: memref<64xf32>) outs(%b: memref<64xf32>) scratch(%s: memref<16xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<any>, #rt.part<own>]} {
  rt.return
}
rt.segment @step(%h: memref<64xf32>, %x: memref<4xf32>) outs(%k: memref<64xf32>) threads(%thread, %threads) {
  %a = memref.alloc() : memref<64xf32>
  rt.call @any(%h) outs(%a) threads(%thread, %threads)
  rt.barrier %threads
  %b = memref.alloc() : memref<64xf32>
  %s = memref.alloc() {rt.private} : memref<16xf32>
  rt.call @own(%h) outs(%b) scratch(%s) threads(%thread, %threads)
  rt.barrier %threads
  rt.call @any(%b) outs(%k) threads(%thread, %threads)
  rt.return
}
rt.segment @segment_0(%h: memref<64xf32>, %x: memref<12xf32>) outs(%k: memref<64xf32>) threads(%thread, %threads) {
  %p = memref.alloc() : memref<64xf32>
  rt.scan @step(%h, %x) outs(%k) scratch(%p) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.return
}
