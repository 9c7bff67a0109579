// RUN: tessella-opt %s --print-op-generic | tessella-opt | filecheck %s

// CHECK:       #nchw_global_linear = #place.at<acme, f32, nchw, {memory = "global", tiling = "linear"}>
// CHECK-NEXT:  #nchw_local_2d = #place.at<acme, f32, nchw, {memory = "local", tiling = "2d"}>
// CHECK-NEXT:  #nhwc = #place.at<acme, f32, nhwc, {memory = "global", tiling = "linear"}>
// CHECK:       func.func @copies(%x: tensor<4xf32, #nchw_global_linear>)
// CHECK-NEXT:    %a = place.copy %x : tensor<4xf32, #nchw_global_linear> -> tensor<4xf32, #nchw_local_2d>
// CHECK:       func.func private @other(tensor<1x2x3xf32, #nhwc>)
func.func @copies(%x: tensor<4xf32, #place.at<acme, f32, nchw, {memory = "global", tiling = "linear"}>>) {
  %a = place.copy %x : tensor<4xf32, #place.at<acme, f32, nchw, {memory = "global", tiling = "linear"}>>
    -> tensor<4xf32, #place.at<acme, f32, nchw, {tiling = "2d", memory = "local"}>>
  func.return
}
func.func private @other(tensor<1x2x3xf32, #place.at<acme, f32, nhwc, {memory = "global", tiling = "linear"}>>)
