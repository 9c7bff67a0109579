// RUN: tessella-opt %s -p materialize-precisions --split-input-file | filecheck %s

// The tensors of a place have its precision as element type; constants and groups too.

// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%x: tensor<4xf32, #place.at<x86, f32, nchw>>) -> tensor<4xf32, #place.at<x86, f32, nchw>>
// CHECK-NEXT:    %w = nn.weight @w : tensor<4xf64, #place.at<x86, f64, nchw>>
// CHECK-NEXT:    %s = nn.splat 5.000000e-01 : f64 : tensor<4xf64, #place.at<x86, f64, nchw>>
// CHECK-NEXT:    %0 = nn.cast %x {node = "place.cast", kernel = "cast", places = [#place.at<x86, f32, nchw>, #place.at<x86, f64, nchw>], to = f64} : (tensor<4xf32, #place.at<x86, f32, nchw>>) -> tensor<4xf64, #place.at<x86, f64, nchw>>
// CHECK-NEXT:    %1 = nn.fused %0, %w, %s {
// CHECK-NEXT:    ^bb0(%2: tensor<4xf64, #place.at<x86, f64, nchw>>, %3: tensor<4xf64, #place.at<x86, f64, nchw>>, %4: tensor<4xf64, #place.at<x86, f64, nchw>>):
// CHECK-NEXT:      %a = nn.add %2, %3 {{.*}} -> tensor<4xf64, #place.at<x86, f64, nchw>>
// CHECK-NEXT:      %b = nn.mul %a, %4 {{.*}} -> tensor<4xf64, #place.at<x86, f64, nchw>>
// CHECK:         %[[R:.*]] = nn.cast %1 {{.*}} to = f32}
// CHECK-NEXT:    func.return %[[R]]
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
!x = tensor<4xf32, #f32>
!y = tensor<4xf32, #f64>
func.func @main(%x: !x) -> !x {
  %w = nn.weight @w : !y
  %s = nn.splat 0.5 : f32 : !y
  %0 = place.cast %x : !x -> !y
  %1 = nn.fused %0, %w, %s {
  ^bb0(%2: !y, %3: !y, %4: !y):
    %a = nn.add %2, %3 {kernel = "add", places = [#f64, #f64, #f64]} : (!y, !y) -> !y
    %b = nn.mul %a, %4 {kernel = "mul", places = [#f64, #f64, #f64]} : (!y, !y) -> !y
    nn.yield %b : !y
  } : (!y, !y, !y) -> !y
  %2 = place.cast %1 : !y -> !x
  func.return %2 : !x
}

// -----

// Where element types say all, there is nothing to do.

// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    %a = nn.cast %x {kernel = "cast", places = [#place.at<x86, f32, nchw>, #place.at<x86, f64, nchw>], to = f64}
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
func.func @plain(%x: tensor<4xf32, #f32>) -> tensor<4xf64, #f64> {
  %a = nn.cast %x {kernel = "cast", places = [#f32, #f64], to = f64} : (tensor<4xf32, #f32>) -> tensor<4xf64, #f64>
  func.return %a : tensor<4xf64, #f64>
}
