// RUN: tessella-opt %s -p print-types 2>&1 >/dev/null | filecheck %s

#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
func.func @main(%x: tensor<1x8x5x5xf32, #nchw>) -> (tensor<1x8x5x5xf32, #nhwc>) {
  %y = place.relayout %x : tensor<1x8x5x5xf32, #nchw> -> tensor<1x8x5x5xf32, #nhwc>
  %z = nn.relu %y {node = "relu1"} : tensor<1x8x5x5xf32, #nhwc>
  func.return %z : tensor<1x8x5x5xf32, #nhwc>
}
// CHECK: place.relayout
// CHECK-NEXT: operand 0  tensor<1x8x5x5xf32, #place.at<x86, f32, nchw>>
// CHECK-NEXT: result 0   tensor<1x8x5x5xf32, #place.at<x86, f32, nhwc>>
// CHECK-NEXT: nn.relu relu1
// CHECK-NEXT: operand 0  tensor<1x8x5x5xf32, #place.at<x86, f32, nhwc>>
// CHECK-NEXT: result 0   tensor<1x8x5x5xf32, #place.at<x86, f32, nhwc>>
// CHECK-NEXT: func.return
// CHECK-NEXT: operand 0  tensor<1x8x5x5xf32, #place.at<x86, f32, nhwc>>
