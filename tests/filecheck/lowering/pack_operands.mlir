// RUN: tessella-opt %s -p pack-operands --split-input-file | filecheck %s

// A weight is packed once for all calls that want it so. Operands that are as wanted stay; the
// weight itself too where somebody reads it as it is.

// CHECK-LABEL: tile.segment @segment_0
// CHECK-NEXT:    %[[P:.*]] = nn.weight @w.packed : tensor<3x5xf32, #packed>
// CHECK-NEXT:    %[[Q:.*]] = nn.weight @w.packed : tensor<3x5xf32, #packed>
// CHECK-NEXT:    %w = nn.weight @w : tensor<3x5xf32, #nchw>
// CHECK-NEXT:    %a = tile.call @k(%x, %[[P]]) :
// CHECK-NEXT:    %b = tile.call @k(%a, %[[Q]])
// CHECK-NEXT:    tile.return %b, %w
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, packed<[1 floordiv 4, 0, 1 mod 4]>>
!t = tensor<3x5xf32, #p>
tile.kernel @k(%x: !t, %w: !t {tile.constant, tile.packed = #q}) -> (!t) {
  %r = tile.contract = [i: 3, j: 5] (%x[i, j], %w[i, j]) -> [i, j] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.addf %a, %b : f32
    tile.yield %p : f32
  } : !t
  tile.return %r : !t
}
tile.segment @segment_0(%x: !t) -> (!t, !t) {
  %w = nn.weight @w : !t
  %unused = nn.weight @unused : !t
  %a = tile.call @k(%x, %w) : !t
  %b = tile.call @k(%a, %w) : !t
  tile.return %b, %w : !t, !t
}

// -----

// A weight under another shape is packed with that shape; the view is gone.

// CHECK-LABEL: tile.segment @segment_0
// CHECK-NEXT:    %[[P:.*]] = nn.weight @w.packed : tensor<3x5xf32, #packed>
// CHECK-NEXT:    %a = tile.call @k(%[[P]])
// CHECK-NEXT:    tile.return %a
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, packed<[1, 0]>>
!t = tensor<3x5xf32, #p>
!u = tensor<15xf32, #p>
tile.kernel @k(%w: !t {tile.constant, tile.packed = #q}) -> (!t) {
  %r = tile.contract = [i: 3, j: 5] (%w[i, j]) -> [i, j] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : !t
  tile.return %r : !t
}
tile.segment @segment_0() -> (!t) {
  %w = nn.weight @w : !u
  %v = tile.view %w : !u -> !t
  %a = tile.call @k(%v) : !t
  tile.return %a : !t
}

// -----

// What is computed goes through a kernel that copies it; equal copies are one kernel.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.kernel @[[COPY:relayout_[0-9]+]](%x: tensor<3x5xf32, #nchw>) -> (tensor<3x5xf32, #packed>) attributes {
// CHECK-NEXT:    %[[R:.*]] = tile.contract = [d0: 3, d1: 5] (%x[d0, d1]) -> [d0, d1] {
// CHECK:         tile.return %[[R]]
// CHECK-NOT:   @relayout
// CHECK-LABEL: tile.segment @segment_0
// CHECK-NEXT:    %[[X:.*]] = tile.call @[[COPY]](%x) : tensor<3x5xf32, #packed>
// CHECK-NEXT:    %a = tile.call @k(%[[X]])
// CHECK-NEXT:    %[[A:.*]] = tile.call @[[COPY]](%a)
// CHECK-NEXT:    %b = tile.call @k(%[[A]])
// CHECK-NEXT:    tile.return %b
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, packed<[1, 0]>>
!t = tensor<3x5xf32, #p>
tile.kernel @k(%w: !t {tile.packed = #q}) -> (!t) {
  %r = tile.contract = [i: 3, j: 5] (%w[i, j]) -> [i, j] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : !t
  tile.return %r : !t
}
tile.segment @segment_0(%x: !t) -> (!t) {
  %a = tile.call @k(%x) : !t
  %b = tile.call @k(%a) : !t
  tile.return %b : !t
}

// -----

// Nothing happens where all types agree already, and outside of segments.

// CHECK-LABEL: tile.segment @segment_0
// CHECK-NEXT:    %w = nn.weight @w : tensor<3x5xf32, #nchw>
// CHECK-NEXT:    %a = tile.call @k(%x, %w)
// CHECK-NEXT:    tile.return %a
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %v = nn.weight @v
#p = #place.at<x86, f32, nchw>
!t = tensor<3x5xf32, #p>
tile.kernel @k(%x: !t, %w: !t {tile.constant}) -> (!t) {
  %r = tile.contract = [i: 3, j: 5] (%x[i, j], %w[i, j]) -> [i, j] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.addf %a, %b : f32
    tile.yield %p : f32
  } : !t
  tile.return %r : !t
}
tile.segment @segment_0(%x: !t) -> (!t) {
  %w = nn.weight @w : !t
  %a = tile.call @k(%x, %w) : !t
  tile.return %a : !t
}
func.func @main() {
  %v = nn.weight @v : !t
  func.return
}
