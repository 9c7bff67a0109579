// RUN: TESSELLA_ROUNDTRIP

// Groups of buffers without members are left out, but for the inputs.

// CHECK:       rt.kernel @kernel(%a: memref<16xf32>, %i: memref<2xi64>) outs(%b: memref<16xf32>) scratch(%s: memref<4xf32>) threads(%thread, %threads) attributes {code = 3 : i64, nodes = ["n"]} {
// CHECK-NEXT:    %c = rt.context : memref<16xi64>
// CHECK-NEXT:    %ok = arith.cmpi ult, %thread, %threads : index
// CHECK-NEXT:    rt.check %ok, 3
// CHECK-NEXT:    %l = rt.iota : vector<16xindex>
// CHECK-NEXT:    rt.prefetch %a[%thread] {level = 2 : i64} : memref<16xf32>
// CHECK-NEXT:    rt.prefetch %b[%thread] {level = 1 : i64, write} : memref<16xf32>
// CHECK-NEXT:    rt.return
rt.kernel @kernel(%a: memref<16xf32>, %i: memref<2xi64>) outs(%b: memref<16xf32>) scratch(%s: memref<4xf32>) threads(%thread, %threads) attributes {code = 3 : i64, nodes = ["n"]} {
  %c = rt.context : memref<16xi64>
  %ok = arith.cmpi ult, %thread, %threads : index
  rt.check %ok, 3
  %l = rt.iota : vector<16xindex>
  rt.prefetch %a[%thread] {level = 2 : i64} : memref<16xf32>
  rt.prefetch %b[%thread] {level = 1 : i64, write} : memref<16xf32>
  rt.return
}

// CHECK:       rt.kernel @fill() outs(%b: memref<16xf32>) threads(%i, %n) {
rt.kernel @fill() outs(%b: memref<16xf32>) threads(%i, %n) {
  rt.return
}

// CHECK:       rt.segment @segment_0(%x: memref<16xf32>) outs(%y: memref<16xf32>) threads(%thread, %threads) attributes {arena_bytes = 128 : i64} {
// CHECK-NEXT:    %s = rt.arena 64 : memref<4xf32>
// CHECK-NEXT:    %w = rt.weight @conv1.w : memref<2xi64>
// CHECK-NEXT:    %v = rt.weight @"a b" slot 3 : memref<16xf32>
// CHECK-NEXT:    rt.call @kernel(%x, %w) outs(%y) scratch(%s) threads(%thread, %threads)
// CHECK-NEXT:    rt.call @fill() outs(%y) threads(%thread, %threads)
rt.segment @segment_0(%x: memref<16xf32>) outs(%y: memref<16xf32>) threads(%thread, %threads) attributes {arena_bytes = 128 : i64} {
  %s = rt.arena 64 : memref<4xf32>
  %w = rt.weight @conv1.w : memref<2xi64>
  %v = rt.weight @"a b" slot 3 : memref<16xf32>
  rt.call @kernel(%x, %w) outs(%y) scratch(%s) threads(%thread, %threads)
  rt.call @fill() outs(%y) threads(%thread, %threads)
  rt.return
}

// CHECK:         %y = rt.launch @segment_0(%x) : tensor<16xf32>
func.func @main(%x: tensor<2x8xf32>) -> tensor<16xf32> {
  %y = rt.launch @segment_0(%x) : tensor<16xf32>
  func.return %y : tensor<16xf32>
}

// CHECK:         %r = rt.dot %c, %a, %b {instruction = "vpdpbusd"} : vector<16xi32>, vector<4xui8>, vector<64xi8> -> vector<16xi32>
%c, %a, %b = "test.op"() : () -> (vector<16xi32>, vector<4xui8>, vector<64xi8>)
%r = rt.dot %c, %a, %b {instruction = "vpdpbusd"} : vector<16xi32>, vector<4xui8>, vector<64xi8> -> vector<16xi32>
