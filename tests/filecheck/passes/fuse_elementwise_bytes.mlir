// RUN: tessella-opt %s -p fuse-elementwise | filecheck %s

// Bytes are written, and each reader dequantizes them: elementwise ops, a mean, a pool. The members of a group share one
// dequantization.

// CHECK-LABEL: func.func @readers
// CHECK-NEXT:    %[[Q:.*]], %{{.*}} = nn.fused
// CHECK-NEXT:      nn.exp
// CHECK-NEXT:      %[[B:.*]] = nn.quantize
// CHECK-NEXT:      %[[D:.*]] = nn.dequantize %[[B]]
// CHECK-NEXT:      %[[S:.*]] = nn.sigmoid %[[D]]
// CHECK-NEXT:      %[[Y:.*]] = nn.mul %[[D]], %[[S]]
// CHECK-NEXT:      nn.yield %[[B]], %[[Y]]
// CHECK:         nn.fused(%{{.*}} = %[[Q]],
// CHECK-NEXT:      nn.dequantize
// CHECK-NEXT:      nn.reduce_mean
// CHECK:         nn.fused(%{{.*}} = %[[Q]],
// CHECK-NEXT:      nn.dequantize
// CHECK-NEXT:      nn.avg_pool
#f32 = #place.at<x86, f32, nchw>
#u8 = #place.at<x86, u8, nchw>
!x = tensor<1x4x8x8xf32, #f32>
!q = tensor<1x4x8x8xui8, #u8>
!m = tensor<1x4x1x1xf32, #f32>
!p = tensor<1x4x4x4xf32, #f32>
func.func @readers(%x: !x, %s: tensor<f32, #f32>, %z: tensor<ui8, #u8>) -> (!m, !p, !x) {
  %e = nn.exp %x {kernel = "exp"} : !x
  %q = nn.quantize %e, %s, %z {kernel = "quantize"} : !q
  %d = nn.dequantize %q, %s, %z {kernel = "dequantize"} : !x
  %m = nn.reduce_mean %d axes [2, 3] keepdims true {kernel = "reduce_mean"} : !m
  %p = nn.avg_pool %d kernel_shape [2, 2] strides [2, 2] {kernel = "avg_pool"} : !p
  %g = nn.sigmoid %d {kernel = "sigmoid"} : !x
  %y = nn.mul %d, %g {kernel = "mul"} : !x
  func.return %m, %p, %y : !m, !p, !x
}
