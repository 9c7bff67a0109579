// RUN: not tessella-opt %s -p materialize-precisions 2>&1 | filecheck %s

// A kernel of two precisions at once, for an op that has one.

// CHECK: error: materialize-precisions: 1 unsupported thing in the model
// CHECK: nn.add (node 'sum'): the kernel mixed mixes precisions: nn.add
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
!x = tensor<4xf32, #f32>
!y = tensor<4xf32, #f64>
func.func @main(%x: !x, %y: !y) -> !x {
  %a = nn.add %x, %y {node = "sum", kernel = "mixed", places = [#f32, #f64, #f32]} : (!x, !y) -> !x
  func.return %a : !x
}
