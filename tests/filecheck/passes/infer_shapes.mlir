// What is wrong before the pass is right after it: the input is not verified, the output is.
// RUN: tessella-opt %s --disable-verify -p infer-shapes --split-input-file | tessella-opt --split-input-file | filecheck %s

// CHECK-LABEL: func.func @main(%x: tensor<5x8xf32>) -> (tensor<5x4xf32>, tensor<5x2xi64>) {
// CHECK-NEXT:    %w = nn.weight @w : tensor<8x4xf32>
// CHECK-NEXT:    %v1 = nn.matmul %x, %w : tensor<5x4xf32>
// CHECK-NEXT:    %v2, %v3 = nn.topk %v1 k 2 : tensor<5x2xf32>, tensor<5x2xi64>
// CHECK-NEXT:    func.return %v1, %v3 : tensor<5x4xf32>, tensor<5x2xi64>
func.func @main(%x: tensor<5x8xf32>) -> (tensor<?x4xf32>, tensor<?x?xi64>) {
  %w = nn.weight @w : tensor<8x4xf32>
  %v1 = nn.matmul %x, %w : tensor<?x4xf32>
  %v2, %v3 = nn.topk %v1 k 2 : tensor<?x?xf32>, tensor<?x?xi64>
  func.return %v1, %v3 : tensor<?x4xf32>, tensor<?x?xi64>
}

// -----

// The region of a group, and places, which stay.

// CHECK-LABEL: func.func @main
// CHECK-SAME:    -> tensor<5x8xf32, #nchw> {
// CHECK-NEXT:    %v1 = nn.fused(%[[A:.*]] = %x) {
// CHECK-NEXT:      %[[R:.*]] = nn.relu %[[A]] : tensor<5x8xf32, #nchw>
// CHECK-NEXT:      nn.yield %[[R]] : tensor<5x8xf32, #nchw>
// CHECK-NEXT:    } : tensor<5x8xf32, #nchw>
func.func @main(%x: tensor<5x8xf32, #place.at<x86, f32, nchw>>) -> tensor<1x8xf32, #place.at<x86, f32, nchw>> {
  %v1 = nn.fused(%a = %x) {
    %v2 = nn.relu %a : tensor<1x8xf32, #place.at<x86, f32, nchw>>
    nn.yield %v2 : tensor<1x8xf32, #place.at<x86, f32, nchw>>
  } : tensor<1x8xf32, #place.at<x86, f32, nchw>>
  func.return %v1 : tensor<1x8xf32, #place.at<x86, f32, nchw>>
}
