// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @pool(
// CHECK-NEXT:    %0 = nn.max_pool %x kernel_shape [3, 3] strides [2, 2] ceil_mode true : tensor<1x4x4x4xf32>
// CHECK-NEXT:    %1 = nn.avg_pool %x count_include_pad true kernel_shape [3, 3] strides [2, 2] : tensor<1x4x3x3xf32>
// CHECK-NEXT:    %2 = nn.max_pool %x kernel_shape [3, 3] strides [2, 2] {node = "pool1", kernel = "host"} : tensor<1x4x3x3xf32>
// CHECK-NEXT:    func.return
func.func @pool(%x: tensor<1x4x8x8xf32>) {
  %0 = nn.max_pool %x kernel_shape [3, 3] strides [2, 2] ceil_mode true : tensor<1x4x4x4xf32>
  %1 = nn.avg_pool %x count_include_pad true kernel_shape [3, 3] strides [2, 2] : tensor<1x4x3x3xf32>
  %2 = nn.max_pool %x kernel_shape [3, 3] strides [2, 2] {node = "pool1", kernel = "host"} : tensor<1x4x3x3xf32>
  func.return
}
