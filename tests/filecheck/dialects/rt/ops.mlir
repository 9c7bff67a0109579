// RUN: TESSELLA_ROUNDTRIP

// CHECK:       func.func @kernel(%a: memref<16xf32>, %ok: i1) attributes {rt.kernel} {
// CHECK-NEXT:    %c = rt.context : memref<16xi64>
// CHECK-NEXT:    rt.check %ok, 3
// CHECK-NEXT:    %i = rt.iota : vector<16xindex>
// CHECK-NEXT:    func.return
func.func @kernel(%a: memref<16xf32>, %ok: i1) attributes {rt.kernel} {
  %c = rt.context : memref<16xi64>
  rt.check %ok, 3
  %i = rt.iota : vector<16xindex>
  func.return
}

// CHECK:       func.func @segment_0(%x: memref<16xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
// CHECK-NEXT:    %b = rt.arena 64 : memref<16xf32>
// CHECK-NEXT:    %w = rt.weight @conv1.w : memref<16xf32>
// CHECK-NEXT:    %v = rt.weight @"a b" : memref<16xf32>
func.func @segment_0(%x: memref<16xf32>) attributes {rt.segment, rt.inputs = 1 : i64} {
  %b = rt.arena 64 : memref<16xf32>
  %w = rt.weight @conv1.w : memref<16xf32>
  %v = rt.weight @"a b" : memref<16xf32>
  func.return
}

// CHECK:         %y = rt.launch @segment_0(%x) : (tensor<16xf32>) -> tensor<16xf32>
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %y = rt.launch @segment_0(%x) : (tensor<16xf32>) -> tensor<16xf32>
  func.return %y : tensor<16xf32>
}
