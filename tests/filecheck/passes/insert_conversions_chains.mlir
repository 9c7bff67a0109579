// RUN: tessella-opt %s -p insert-conversions --split-input-file | filecheck %s

// Conversions there and back cancel; so does what nobody reads any more.

// CHECK-LABEL: func.func @inverse
// CHECK-NEXT:    %[[X:.*]] = place.relayout %x
// CHECK-NEXT:    %a = nn.relu %[[X]] {
// CHECK-NEXT:    %[[R:.*]] = place.relayout %a : {{.*}} -> tensor<1x8x6x6xf32, #place.at<x86, f32, nchw>>
// CHECK-NEXT:    %b = nn.neg %a {
// CHECK-NEXT:    func.return %[[R]], %x
#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
#host = #place.at<host, f32, nchw>
func.func @inverse(%x: tensor<1x8x6x6xf32, #nchw>) -> (tensor<1x8x6x6xf32, #nchw>, tensor<1x8x6x6xf32, #nchw>) {
  %0 = place.relayout %x : tensor<1x8x6x6xf32, #nchw> -> tensor<1x8x6x6xf32, #nhwc>
  %a = nn.relu %0 {kernel = "relu", places = [#nhwc, #nhwc]} : (tensor<1x8x6x6xf32, #nhwc>) -> tensor<1x8x6x6xf32, #nhwc>
  %1 = place.relayout %a : tensor<1x8x6x6xf32, #nhwc> -> tensor<1x8x6x6xf32, #nchw>
  %2 = place.copy %1 : tensor<1x8x6x6xf32, #nchw> -> tensor<1x8x6x6xf32, #host>
  %3 = place.copy %2 : tensor<1x8x6x6xf32, #host> -> tensor<1x8x6x6xf32, #nchw>
  %4 = place.relayout %3 : tensor<1x8x6x6xf32, #nchw> -> tensor<1x8x6x6xf32, #nhwc>
  %b = nn.neg %4 {kernel = "neg", places = [#nhwc, #nhwc]} : (tensor<1x8x6x6xf32, #nhwc>) -> tensor<1x8x6x6xf32, #nhwc>
  %5 = place.relayout %0 : tensor<1x8x6x6xf32, #nhwc> -> tensor<1x8x6x6xf32, #nchw>
  func.return %3, %5 : tensor<1x8x6x6xf32, #nchw>, tensor<1x8x6x6xf32, #nchw>
}

// -----

// To a device: a value narrows before it is copied, and widens after. Textures stay on the device.
// The precision changes where the place of the kernel asks for it, and in plain sight.

// CHECK-LABEL: func.func @device
// CHECK-NEXT:    %[[W:.*]] = nn.weight @w : tensor<1x8x6x6xf32, #place.at<opencl, f32, nchw>>
// CHECK-NEXT:    %[[CAST:.*]] = place.cast %[[W]] : {{.*}} -> tensor<1x8x6x6xf32, #place.at<opencl, f16, nchw>>
// CHECK-NEXT:    %[[IMAGE:.*]] = place.relayout %[[CAST]] : {{.*}} -> tensor<1x8x6x6xf32, #place.at<opencl, f16, image>>
// CHECK-NEXT:    %[[A:.*]] = place.cast %x : {{.*}} -> tensor<1x8x6x6xf32, #place.at<x86, f16, nchw>>
// CHECK-NEXT:    %[[B:.*]] = place.copy %[[A]] : {{.*}} -> tensor<1x8x6x6xf32, #place.at<opencl, f16, nchw>>
// CHECK-NEXT:    %[[C:.*]] = place.relayout %[[B]] : {{.*}} -> tensor<1x8x6x6xf32, #place.at<opencl, f16, image>>
// CHECK-NEXT:    %a = nn.add %[[C]], %[[IMAGE]] {
// CHECK-NEXT:    %[[D:.*]] = place.relayout %a : {{.*}} -> tensor<1x8x6x6xf32, #place.at<opencl, f16, nchw>>
// CHECK-NEXT:    %[[E:.*]] = place.copy %[[D]] : {{.*}} -> tensor<1x8x6x6xf32, #place.at<x86, f16, nchw>>
// CHECK-NEXT:    %[[F:.*]] = place.cast %[[E]] : {{.*}} -> tensor<1x8x6x6xf32, #place.at<x86, f32, nchw>>
// CHECK-NEXT:    func.return %[[F]]
#image = #place.at<opencl, f16, image>
func.func @device(%x: tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32> {
  %w = nn.weight @w : tensor<1x8x6x6xf32>
  %a = nn.add %x, %w {kernel = "add", places = [#image, #image, #image]} : (tensor<1x8x6x6xf32>, tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  func.return %a : tensor<1x8x6x6xf32>
}

// -----

// What a cast has rounded stays rounded: it is not undone by going back.

// CHECK-LABEL: func.func @rounded
// CHECK-NEXT:    %[[A:.*]] = place.cast %x : {{.*}} -> tensor<4xf32, #place.at<x86, f16, nchw>>
// CHECK-NEXT:    %[[B:.*]] = place.cast %[[A]] : {{.*}} -> tensor<4xf32, #place.at<x86, f32, nchw>>
// CHECK-NEXT:    %a = nn.relu %[[B]] {
#full = #place.at<x86, f32, nchw>
#half = #place.at<x86, f16, nchw>
func.func @rounded(%x: tensor<4xf32, #full>) -> tensor<4xf32, #full> {
  %0 = place.cast %x : tensor<4xf32, #full> -> tensor<4xf32, #half>
  %1 = place.cast %0 : tensor<4xf32, #half> -> tensor<4xf32, #full>
  %a = nn.relu %1 {kernel = "relu", places = [#full, #full]} : (tensor<4xf32, #full>) -> tensor<4xf32, #full>
  func.return %a : tensor<4xf32, #full>
}

// -----

// An operand whose place is `any` is left where it is, whatever it is: it is never converted.

// CHECK-LABEL: func.func @never
// CHECK-NEXT:    %a = nn.cumsum %i {{.*}}places = [#place.at<x86, i64, nchw>, #place.at<host, i64, nchw>]
// CHECK-NEXT:    %b = nn.gather %x, %a {{.*}}places = [#place.at<x86, f32, nchw>, #place.at<host, i64, nchw>, #place.at<x86, f32, nchw>]
// CHECK-NEXT:    func.return %b
#anywhere = #place.at<any, any, any>
#here = #place.at<x86, f32, nchw>
#ints = #place.at<host, i64, nchw>
func.func @never(%x: tensor<4x8xf32>, %i: tensor<3xi64>) -> tensor<3x8xf32> {
  %a = nn.cumsum %i {kernel = "host", places = [#anywhere, #ints], axis = 0 : i64, exclusive = false, reverse = false} : (tensor<3xi64>) -> tensor<3xi64>
  %b = nn.gather %x, %a {kernel = "gather", places = [#here, #anywhere, #here], axis = 0 : i64} : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  func.return %b : tensor<3x8xf32>
}
