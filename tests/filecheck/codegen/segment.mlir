// RUN: tessella-opt %s -t 'tessella-llvm{machine=neon}' | filecheck %s

rt.kernel @k(%a: memref<8xf32>, %b: memref<8xf32>) outs(%c: memref<8xf32>) threads(%thread, %threads) {
  rt.return
}

// What each thread touches of a buffer says that threads run the kernel together.
rt.kernel @shared(%a: memref<8xf32>) outs(%c: memref<8xf32>) scratch(%t: memref<8xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<shared 32 by 16>, #rt.part<shared 32 by 16>, #rt.part<own>]} {
  %first, %stop = rt.share 16 by 3 in 2 of %thread, %threads
  rt.return
}

rt.segment @segment_0(%x: memref<8xf32>) outs(%y: memref<8xf32>) threads(%thread, %threads) attributes {arena_bytes = 128 : i64, private_bytes = 64 : i64} {
  %w = rt.weight @w slot 0 : memref<8xf32>
  %v = rt.weight @v slot 1 : memref<8xf32>
  %t = rt.arena 64 : memref<8xf32>
  rt.call @k(%x, %v) outs(%t) threads(%thread, %threads)
  rt.barrier %threads
  %p = rt.arena 0 {private} : memref<8xf32>
  rt.call @shared(%t) outs(%y) scratch(%p) threads(%thread, %threads)
  rt.return
}

// Of each of two ranges of 8, which have 3 grains, a thread begins at none but the first two: the rest of 2 stays with
// the grain before it.
// CHECK:      ; shared
// CHECK:      define internal void @"shared.body"
// CHECK:        [[T:%.*]] = mul nsw i64 %thread, 6
// CHECK-NEXT:   [[U:%.*]] = udiv i64 [[T]], %threads
// CHECK-NEXT:   [[R:%.*]] = udiv i64 [[U]], 3
// CHECK-NEXT:   [[V:%.*]] = urem i64 [[U]], 3
// CHECK-NEXT:   [[G:%.*]] = call i64 @llvm.umin.i64(i64 [[V]], i64 1)
// CHECK-NEXT:   mul nsw i64 [[R]], 8
// CHECK-NEXT:   mul nsw i64 [[G]], 3

// CHECK:      ; segment_0
// CHECK:      target triple = "aarch64-unknown-linux-gnu"
// CHECK-NEXT: define void @"segment_0"(ptr noundef %args) #0 {
// CHECK:        %context = load ptr, ptr %args, align 8
// CHECK:        call void @"segment_0.body"(ptr %args)
// CHECK-NEXT:   br i1 %recorded, label %stamp, label %end
// CHECK:        call void @stamp.end(ptr %context)
// CHECK:        ret void

// What is before the barrier is a phase. Share 0 runs @k alone.
// CHECK:      define internal void @"phase.0"(ptr %args, i64 %share, i64 %shares) noinline optnone #0 {
// CHECK:        %context.offset = mul nuw i64 %share, 128
// CHECK:        %private.offset = mul nuw i64 %share, %stride
// CHECK-NEXT:   %private = getelementptr inbounds i8, ptr %privates, i64 %private.offset
// CHECK:        [[V:%.*]] = getelementptr inbounds ptr, ptr %weights, i64 1
// CHECK-NEXT:   = load ptr, ptr [[V]], align 8
// CHECK-NEXT:   getelementptr inbounds i8, ptr %arena, i64 64
// CHECK:        store ptr %context, ptr %buffers, align 8
// CHECK:        [[ALONE:%.*]] = icmp eq i64 %share, 0
// CHECK-NEXT:   br i1 [[ALONE]]
// An event is written where the context has memory for events.
// CHECK:        br i1 %recorded, label %[[STAMP:.*]], label
// CHECK:        [[STAMP]]:
// CHECK-NEXT:   call void @stamp(ptr %context, i64 0)
// CHECK:        call void @"k"(ptr %buffers, i64 %share, i64 %shares)
// CHECK:        ret void

// CHECK:      define internal void @"phase.1"(ptr %args, i64 %share, i64 %shares) noinline optnone #0 {
// CHECK:        getelementptr inbounds i8, ptr %private, i64 0
// CHECK:        call void @"shared"(ptr %buffers, i64 %share, i64 %shares)
// CHECK:        call void @stamp(ptr %context, i64 -1)
// CHECK:        ret void

// A phase in which nothing is divided has one share.
// CHECK:      define void @"segment_0.body"(ptr %args) #0 {
// CHECK:        call void @"phase.0"(ptr %args, i64 0, i64 1)
// CHECK-NEXT:   call void @launch(ptr %args, ptr @"phase.1")
// CHECK-NEXT:   ret void
// CHECK:      declare void @"k"(ptr, i64, i64) nounwind
