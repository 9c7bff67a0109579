// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @reductions(
// CHECK-NEXT:    %0 = nn.reduce_max %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
// CHECK-NEXT:    %1 = nn.reduce_mean %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
// CHECK-NEXT:    %2 = nn.reduce_min %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
// CHECK-NEXT:    %3 = nn.reduce_prod %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
// CHECK-NEXT:    %4 = nn.reduce_sum %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
// CHECK-NEXT:    %5 = nn.reduce_sum %x axes [] : tensor<2x3x4xf32>
// CHECK-NEXT:    %6 = nn.reduce_sum %x axes [1] : tensor<2x4xf32>
// CHECK-NEXT:    func.return
func.func @reductions(%x: tensor<2x3x4xf32>) {
  %0 = nn.reduce_max %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
  %1 = nn.reduce_mean %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
  %2 = nn.reduce_min %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
  %3 = nn.reduce_prod %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
  %4 = nn.reduce_sum %x axes [0, 2] keepdims true : tensor<1x3x1xf32>
  %5 = nn.reduce_sum %x axes [] : tensor<2x3x4xf32>
  %6 = nn.reduce_sum %x axes [1] : tensor<2x4xf32>
  func.return
}

// CHECK-LABEL: func.func @along_an_axis(
// CHECK-NEXT:    %0 = nn.arg_max %x axis 1 select_last_index true : tensor<2x4xi64>
// CHECK-NEXT:    %1 = nn.arg_min %x axis 1 keepdims true : tensor<2x1x4xi64>
// CHECK-NEXT:    %2 = nn.softmax %x : tensor<2x3x4xf32>
// CHECK-NEXT:    %3 = nn.log_softmax %x axis 0 : tensor<2x3x4xf32>
// CHECK-NEXT:    %4 = nn.cumsum %x exclusive true axis 1 : tensor<2x3x4xf32>
// CHECK-NEXT:    %5, %6 = nn.topk %x k 2 : tensor<2x3x2xf32>, tensor<2x3x2xi64>
// CHECK-NEXT:    func.return
func.func @along_an_axis(%x: tensor<2x3x4xf32>) {
  %0 = nn.arg_max %x axis 1 select_last_index true : tensor<2x4xi64>
  %1 = nn.arg_min %x axis 1 keepdims true : tensor<2x1x4xi64>
  %2 = nn.softmax %x : tensor<2x3x4xf32>
  %3 = nn.log_softmax %x axis 0 : tensor<2x3x4xf32>
  %4 = nn.cumsum %x exclusive true axis 1 : tensor<2x3x4xf32>
  %5, %6 = nn.topk %x k 2 : tensor<2x3x2xf32>, tensor<2x3x2xi64>
  func.return
}
