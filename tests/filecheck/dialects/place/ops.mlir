// RUN: TESSELLA_ROUNDTRIP

// CHECK:       func.func @conversions(%x: tensor<1x3x8x8xf32, #nchw>) {
// CHECK-NEXT:    %a = place.relayout %x : tensor<1x3x8x8xf32, #nchw> -> tensor<1x3x8x8xf32, #x86_f32_nhwc>
// CHECK-NEXT:    %b = place.cast %a : tensor<1x3x8x8xf32, #x86_f32_nhwc> -> tensor<1x3x8x8xf16, #x86_f16_nhwc>
// CHECK-NEXT:    %c = place.copy %b : tensor<1x3x8x8xf16, #x86_f16_nhwc> -> tensor<1x3x8x8xf16, #host_f16_nhwc>
func.func @conversions(%x: tensor<1x3x8x8xf32, #place.at<x86, f32, nchw>>) {
  %a = place.relayout %x : tensor<1x3x8x8xf32, #place.at<x86, f32, nchw>> -> tensor<1x3x8x8xf32, #place.at<x86, f32, nhwc>>
  %b = place.cast %a : tensor<1x3x8x8xf32, #place.at<x86, f32, nhwc>> -> tensor<1x3x8x8xf16, #place.at<x86, f16, nhwc>>
  %c = place.copy %b : tensor<1x3x8x8xf16, #place.at<x86, f16, nhwc>> -> tensor<1x3x8x8xf16, #place.at<host, f16, nhwc>>
  func.return
}

// CHECK:       func.func private @packed(tensor<64x3x3x8xf32, #packed>)
// CHECK-NEXT:  func.func private @anywhere(tensor<i64, #any>)
func.func private @packed(tensor<64x3x3x8xf32, #place.at<x86, f32, packed<[0 floordiv 32, 2, 3, 1, 0 mod 32]>>>)
func.func private @anywhere(tensor<i64, #place.at<any, any, any>>)

// Dimensions in digits: channels in blocks, four elements of a dot product together, and blocks in blocks.
// CHECK:       func.func private @blocked(tensor<1x40x8x8xf32, #nchw16c>)
// CHECK-NEXT:  func.func private @dots(tensor<64x32xf32, #packed_1>)
// CHECK-NEXT:  func.func private @nested(tensor<8x128xf32, #packed_2>)
func.func private @blocked(tensor<1x40x8x8xf32, #place.at<x86, f32, nchw16c>>)
func.func private @dots(tensor<64x32xf32, #place.at<x86, f32, packed<[0 floordiv 4, 1, 0 mod 4]>>>)
func.func private @nested(tensor<8x128xf32, #place.at<x86, f32, packed<[1 floordiv 64, 0, 1 floordiv 16 mod 4, 1 mod 16]>>>)

// An op on tensors at a place, and what its kernel wants.
// CHECK:       func.func @placed
// CHECK-NEXT:    %y = nn.relu %x {node = "relu1", kernel = "x86.relu", places = [#x86_f32_nhwc, #x86_f32_nhwc]} : tensor<1x8x4x4xf32, #x86_f32_nhwc>
func.func @placed(%x: tensor<1x8x4x4xf32, #place.at<x86, f32, nhwc>>) {
  %y = nn.relu %x {node = "relu1", kernel = "x86.relu", places = [#place.at<x86, f32, nhwc>, #place.at<x86, f32, nhwc>]} : tensor<1x8x4x4xf32, #place.at<x86, f32, nhwc>>
  func.return
}
