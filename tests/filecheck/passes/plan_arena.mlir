// RUN: tessella-opt %s -p plan-arena --split-input-file | filecheck %s

// A buffer takes the place of one that is not needed any more; two of one call lie side by side.

// CHECK-LABEL: func.func @segment_0
// CHECK-SAME:    attributes {rt.segment, rt.inputs = 1 : i64, rt.arena_bytes = 128 : i64}
// CHECK-NEXT:    %a = rt.arena 0 : memref<16xf32>
// CHECK-NEXT:    %b = rt.arena 64 : memref<16xf32>
// CHECK-NEXT:    %c = rt.arena 0 : memref<16xf32>
// CHECK-NEXT:    func.call @k(%x, %a)
// CHECK-NEXT:    func.call @k(%a, %b)
// CHECK-NEXT:    func.call @k(%b, %c)
// CHECK-NEXT:    func.call @k(%c, %y)
func.func private @k(memref<16xf32>, memref<16xf32>) -> ()
func.func @segment_0(%x: memref<16xf32>, %y: memref<16xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  func.call @k(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%b, %c) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%c, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}

// -----

// A later use keeps a buffer alive, a copy too.

// CHECK-LABEL: func.func @segment_0
// CHECK-SAME:    rt.arena_bytes = 192 : i64
// CHECK-NEXT:    %a = rt.arena 0 :
// CHECK-NEXT:    %b = rt.arena 64 :
// CHECK-NEXT:    %c = rt.arena 128 :
func.func private @k(memref<16xf32>, memref<16xf32>) -> ()
func.func @segment_0(%x: memref<16xf32>, %y: memref<16xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
  %a = memref.alloc() : memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  func.call @k(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%b, %c) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%c, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  "memref.copy"(%a, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}

// -----

// From the largest to the smallest, each at the lowest offset where it fits: %b above %a, %d
// in the place of %a, %e behind it. Sizes are rounded up to 64 bytes.

// CHECK-LABEL: func.func @segment_0
// CHECK-SAME:    rt.arena_bytes = 384 : i64
// CHECK-NEXT:    %a = rt.arena 192 : memref<17xf32>
// CHECK-NEXT:    %b = rt.arena 0 : memref<48xf32>
// CHECK-NEXT:    %d = rt.arena 192 : memref<3xi64>
// CHECK-NEXT:    %e = rt.arena 256 : memref<5xi1>
// CHECK-NEXT:    %f = rt.arena 320 : memref<1xf64>
func.func private @k(memref<17xf32>, memref<48xf32>) -> ()
func.func private @l(memref<48xf32>, memref<3xi64>, memref<5xi1>, memref<1xf64>) -> ()
func.func @segment_0(%x: memref<48xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
  %a = memref.alloc() : memref<17xf32>
  %b = memref.alloc() : memref<48xf32>
  %d = memref.alloc() : memref<3xi64>
  %e = memref.alloc() : memref<5xi1>
  %f = memref.alloc() : memref<1xf64>
  func.call @k(%a, %b) : (memref<17xf32>, memref<48xf32>) -> ()
  func.call @l(%b, %d, %e, %f) : (memref<48xf32>, memref<3xi64>, memref<5xi1>, memref<1xf64>) -> ()
  func.return
}

// -----

// The gap that %a leaves below %b is used where it is large enough: by %c and %e, not by %d.

// CHECK-LABEL: func.func @segment_0
// CHECK-SAME:    rt.arena_bytes = 448 : i64
// CHECK-NEXT:    %a = rt.arena 0 : memref<48xf32>
// CHECK-NEXT:    %b = rt.arena 192 : memref<32xf32>
// CHECK-NEXT:    %c = rt.arena 0 : memref<32xf32>
// CHECK-NEXT:    %d = rt.arena 320 : memref<32xf32>
// CHECK-NEXT:    %e = rt.arena 128 : memref<16xf32>
func.func private @k(memref<48xf32>, memref<32xf32>) -> ()
func.func private @l(memref<32xf32>, memref<32xf32>, memref<32xf32>, memref<16xf32>) -> ()
func.func @segment_0(%x: memref<16xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
  %a = memref.alloc() : memref<48xf32>
  %b = memref.alloc() : memref<32xf32>
  %c = memref.alloc() : memref<32xf32>
  %d = memref.alloc() : memref<32xf32>
  %e = memref.alloc() : memref<16xf32>
  func.call @k(%a, %b) : (memref<48xf32>, memref<32xf32>) -> ()
  func.call @l(%b, %c, %d, %e) : (memref<32xf32>, memref<32xf32>, memref<32xf32>, memref<16xf32>) -> ()
  func.return
}

// -----

// A buffer that nobody uses is gone.

// CHECK-LABEL: func.func @segment_0
// CHECK-SAME:    attributes {rt.segment, rt.inputs = 0 : i64, rt.arena_bytes = 0 : i64}
// CHECK-NEXT:    func.return
func.func @segment_0() attributes {rt.segment, rt.inputs = 0 : i64} {
  %a = memref.alloc() : memref<16xf32>
  func.return
}

// -----

// Only segments have an arena.

// CHECK-LABEL: func.func @k
// CHECK-SAME:    attributes {rt.kernel}
// CHECK-NEXT:    memref.alloc
func.func @k(%x: memref<16xf32>) attributes {rt.kernel} {
  %a = memref.alloc() : memref<16xf32>
  "memref.copy"(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
