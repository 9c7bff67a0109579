// RUN: tessella-opt %s -t tessella-llvm | filecheck %s

rt.kernel @scale(%a: memref<64xf32>, %m: memref<64xi1>) threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %16 = arith.constant 16 : index
  %64 = arith.constant 64 : index
  %half = arith.constant dense<0.5> : vector<16xf32>
  scf.for %i = %0 to %64 step %16 {
    %x = vector.load %a[%i] : memref<64xf32>, vector<16xf32>
    %y = math.exp %x : vector<16xf32>
    %z = vector.fma %y, %half, %x : vector<16xf32>
    %k = vector.load %m[%i] : memref<64xi1>, vector<16xi1>
    vector.maskedstore %a[%i], %k, %z : memref<64xf32>, vector<16xi1>, vector<16xf32>
  }
  rt.return
}

// CHECK:      ; scale
// CHECK-NEXT: target datalayout = "e-m:e-{{.*}}"
// CHECK-NEXT: target triple = "x86_64-unknown-linux-gnu"

// The exported function loads the pointers; the body is a function so that they can be `noalias`.
// CHECK-NEXT: define void @"scale"(ptr %buffers, i64 %thread, i64 %threads) #0 {
// CHECK-NEXT:   %slot0 = getelementptr inbounds ptr, ptr %buffers, i64 0
// CHECK-NEXT:   %context = load ptr, ptr %slot0, align 8
// CHECK-NEXT:   %slot1 = getelementptr inbounds ptr, ptr %buffers, i64 1
// CHECK-NEXT:   %a0 = load ptr, ptr %slot1, align 8
// CHECK:        call void @"scale.body"(ptr %context, ptr %a0, ptr %a1, i64 %thread, i64 %threads)
// CHECK-NEXT:   ret void
// CHECK:      define internal void @"scale.body"(ptr noalias noundef %context, ptr noalias noundef %a0, ptr noalias noundef %a1, i64 %thread, i64 %threads) #1 {
// CHECK-NEXT: entry:
// CHECK-NEXT:   br label %[[HEAD:head[0-9]+]]
// CHECK-NEXT: [[HEAD]]:
// CHECK-NEXT:   %[[I:v[0-9]+]] = phi i64 [ 0, %entry ], [ %{{v[0-9]+}}, %[[BODY:body[0-9]+]] ]
// CHECK-NEXT:   %[[MORE:v[0-9]+]] = icmp slt i64 %[[I]], 64
// CHECK-NEXT:   br i1 %[[MORE]], label %[[BODY]], label %[[DONE:done[0-9]+]]

// Every access has the alignment of its element: buffers have no other.
// CHECK:        %[[A:v[0-9]+]] = getelementptr float, ptr %a0, i64 %[[I]]
// CHECK-NEXT:   load <16 x float>, ptr %[[A]], align 4
// CHECK-NEXT:   call <16 x float> @ts.exp.v16f32(<16 x float> %{{v[0-9]+}})
// CHECK-NEXT:   call <16 x float> @llvm.fma.v16f32(<16 x float> %{{v[0-9]+}}, <16 x float> splat (float 0x3FE0000000000000), <16 x float> %{{v[0-9]+}})

// An i1 takes a byte.
// CHECK-NEXT:   %[[M:v[0-9]+]] = getelementptr i8, ptr %a1, i64 %[[I]]
// CHECK-NEXT:   load <16 x i8>, ptr %[[M]], align 1
// CHECK-NEXT:   icmp ne <16 x i8> %{{v[0-9]+}}, splat (i8 0)
// CHECK-NEXT:   call void @llvm.masked.store.v16f32.p0(<16 x float> %{{v[0-9]+}}, ptr align 4 %[[A]], <16 x i1> %{{v[0-9]+}})
// CHECK-NEXT:   add nsw i64 %[[I]], 16

// The vector math that is used comes along.
// CHECK:      define internal <16 x float> @ts.exp.v16f32(<16 x float> %x) #1 {
// CHECK-NOT:  declare
// CHECK:      attributes #0 = { nounwind "target-cpu"="x86-64-v4" "prefer-vector-width"="512" "min-legal-vector-width"="512" }
