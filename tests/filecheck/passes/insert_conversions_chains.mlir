// RUN: tessella-opt %s -p 'insert-conversions{device=x86}' --split-input-file | filecheck %s

// Conversions there and back cancel; so does what nobody reads any more.

// CHECK-LABEL: func.func @inverse
// CHECK-NEXT:    %[[X:.*]] = place.relayout %x
// CHECK-NEXT:    %a = nn.relu %[[X]] {
// CHECK-NEXT:    %[[R:.*]] = place.relayout %a : {{.*}} -> tensor<1x8x6x6xf32, #nchw>
// CHECK-NEXT:    %b = nn.neg %a {
// CHECK-NEXT:    func.return %[[R]], %x
#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
#host = #place.at<host, f32, nchw>
func.func @inverse(%x: tensor<1x8x6x6xf32, #nchw>) -> (tensor<1x8x6x6xf32, #nchw>, tensor<1x8x6x6xf32, #nchw>) {
  %0 = place.relayout %x : tensor<1x8x6x6xf32, #nchw> -> tensor<1x8x6x6xf32, #nhwc>
  %a = nn.relu %0 {kernel = "relu", places = [#nhwc, #nhwc]} : tensor<1x8x6x6xf32, #nhwc>
  %1 = place.relayout %a : tensor<1x8x6x6xf32, #nhwc> -> tensor<1x8x6x6xf32, #nchw>
  %2 = place.copy %1 : tensor<1x8x6x6xf32, #nchw> -> tensor<1x8x6x6xf32, #host>
  %3 = place.copy %2 : tensor<1x8x6x6xf32, #host> -> tensor<1x8x6x6xf32, #nchw>
  %4 = place.relayout %3 : tensor<1x8x6x6xf32, #nchw> -> tensor<1x8x6x6xf32, #nhwc>
  %b = nn.neg %4 {kernel = "neg", places = [#nhwc, #nhwc]} : tensor<1x8x6x6xf32, #nhwc>
  %5 = place.relayout %0 : tensor<1x8x6x6xf32, #nhwc> -> tensor<1x8x6x6xf32, #nchw>
  func.return %3, %5 : tensor<1x8x6x6xf32, #nchw>, tensor<1x8x6x6xf32, #nchw>
}

// -----

// To a device: a value narrows before it is copied, and widens after. Textures stay on the device.
// The precision changes where the place of the kernel asks for it, and in plain sight.

// CHECK-LABEL: func.func @device
// CHECK-NEXT:    %[[W:.*]] = nn.weight @w : tensor<1x8x6x6xf32, #opencl_f32_nchw>
// CHECK-NEXT:    %[[CAST:.*]] = place.cast %[[W]] : {{.*}} -> tensor<1x8x6x6xf16, #opencl_f16_nchw>
// CHECK-NEXT:    %[[IMAGE:.*]] = place.relayout %[[CAST]] : {{.*}} -> tensor<1x8x6x6xf16, #image>
// CHECK-NEXT:    %[[A:.*]] = place.cast %x : {{.*}} -> tensor<1x8x6x6xf16, #x86_f16_nchw>
// CHECK-NEXT:    %[[B:.*]] = place.copy %[[A]] : {{.*}} -> tensor<1x8x6x6xf16, #opencl_f16_nchw>
// CHECK-NEXT:    %[[C:.*]] = place.relayout %[[B]] : {{.*}} -> tensor<1x8x6x6xf16, #image>
// CHECK-NEXT:    %a = nn.add %[[C]], %[[IMAGE]] {
// CHECK-NEXT:    %[[D:.*]] = place.relayout %a : {{.*}} -> tensor<1x8x6x6xf16, #opencl_f16_nchw>
// CHECK-NEXT:    %[[E:.*]] = place.copy %[[D]] : {{.*}} -> tensor<1x8x6x6xf16, #x86_f16_nchw>
// CHECK-NEXT:    %[[F:.*]] = place.cast %[[E]] : {{.*}} -> tensor<1x8x6x6xf32, #x86_f32_nchw>
// CHECK-NEXT:    func.return %[[F]]
#image = #place.at<opencl, f16, image>
func.func @device(%x: tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32> {
  %w = nn.weight @w : tensor<1x8x6x6xf32>
  %a = nn.add %x, %w {kernel = "add", places = [#image, #image, #image]} : tensor<1x8x6x6xf32>
  func.return %a : tensor<1x8x6x6xf32>
}

// -----

// What a cast has rounded stays rounded: it is not undone by going back.

// CHECK-LABEL: func.func @rounded
// CHECK-NEXT:    %[[A:.*]] = place.cast %x : {{.*}} -> tensor<4xf16, #f16_nchw>
// CHECK-NEXT:    %[[B:.*]] = place.cast %[[A]] : {{.*}} -> tensor<4xf32, #f32_nchw>
// CHECK-NEXT:    %a = nn.relu %[[B]] {
#full = #place.at<x86, f32, nchw>
#half = #place.at<x86, f16, nchw>
func.func @rounded(%x: tensor<4xf32, #full>) -> tensor<4xf32, #full> {
  %0 = place.cast %x : tensor<4xf32, #full> -> tensor<4xf16, #half>
  %1 = place.cast %0 : tensor<4xf16, #half> -> tensor<4xf32, #full>
  %a = nn.relu %1 {kernel = "relu", places = [#full, #full]} : tensor<4xf32, #full>
  func.return %a : tensor<4xf32, #full>
}

// -----

// What a cast has widened is still there: going back needs no cast. One cast serves all readers.

// CHECK-LABEL: func.func @widened
// CHECK-NEXT:    %[[A:.*]] = place.cast %x : {{.*}} -> tensor<1x8x6x6xf64, #f64_nchw>
// CHECK-NEXT:    %[[B:.*]] = place.relayout %[[A]] : {{.*}} -> tensor<1x8x6x6xf64, #nhwc>
// CHECK-NEXT:    %a = nn.relu %[[B]] {
// CHECK-NEXT:    %b = nn.neg %[[B]] {
// CHECK-NEXT:    %c = nn.abs %x {
// CHECK-NEXT:    func.return %c
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nhwc>
!x = tensor<1x8x6x6xf32, #f32>
!y = tensor<1x8x6x6xf64, #f64>
!z = tensor<1x8x6x6xf64, #place.at<x86, f64, nchw>>
func.func @widened(%x: !x) -> !x {
  %0 = place.cast %x : !x -> !z
  %1 = place.relayout %0 : !z -> !y
  %a = nn.relu %1 {kernel = "relu", places = [#f64, #f64]} : !y
  %b = nn.neg %1 {kernel = "neg", places = [#f64, #f64]} : !y
  %2 = place.relayout %1 : !y -> !z
  %3 = place.cast %2 : !z -> !x
  %c = nn.abs %3 {kernel = "abs", places = [#f32, #f32]} : !x
  func.return %c : !x
}

// -----

// The order changes while elements are small: before a cast that widens, after one that narrows.

// CHECK-LABEL: func.func @narrow
// CHECK-NEXT:    %[[A:.*]] = place.relayout %x : {{.*}} -> tensor<1x8x6x6xf32, #f32_nhwc>
// CHECK-NEXT:    %[[B:.*]] = place.cast %[[A]] : {{.*}} -> tensor<1x8x6x6xf64, #f64_nhwc>
// CHECK-NEXT:    %a = nn.relu %[[B]] {
// CHECK-NEXT:    %b = nn.neg %[[B]] {
// CHECK-NEXT:    %[[C:.*]] = place.cast %a : {{.*}} -> tensor<1x8x6x6xf32, #f32_nhwc>
// CHECK-NEXT:    %[[D:.*]] = place.relayout %[[C]] : {{.*}} -> tensor<1x8x6x6xf32, #nchw>
// CHECK-NEXT:    func.return %[[D]]
#f64 = #place.at<x86, f64, nhwc>
!x = tensor<1x8x6x6xf32>
func.func @narrow(%x: !x) -> !x {
  %a = nn.relu %x {kernel = "relu", places = [#f64, #f64]} : !x
  %b = nn.neg %x {kernel = "neg", places = [#f64, #f64]} : !x
  func.return %a : !x
}

// -----

// A splat is another number in another precision: 0.1 in f16.

// CHECK-LABEL: func.func @splat
// CHECK-NEXT:    %s = nn.splat 9.997560e-02 : f16 : tensor<4xf16, #f16_nchw>
// CHECK-NEXT:    %[[X:.*]] = place.cast %x
// CHECK-NEXT:    %a = nn.add %[[X]], %s
#half = #place.at<x86, f16, nchw>
!x = tensor<4xf32>
func.func @splat(%x: !x) {
  %s = nn.splat 0.1 : f32 : !x
  %a = nn.add %x, %s {kernel = "add", places = [#half, #half, #half]} : !x
  func.return
}

// -----

// An operand whose place is `any` is left where it is, whatever it is: it is never converted.

// CHECK-LABEL: func.func @never
// CHECK-NEXT:    %a = nn.cumsum %i axis 0 {{.*}} : tensor<3xi64, #host_i64_nchw>
// CHECK-NEXT:    %b = nn.gather %x, %a 
// CHECK-NEXT:    func.return %b
#anywhere = #place.at<any, any, any>
#here = #place.at<x86, f32, nchw>
#ints = #place.at<host, i64, nchw>
func.func @never(%x: tensor<4x8xf32>, %i: tensor<3xi64>) -> tensor<3x8xf32> {
  %a = nn.cumsum %i axis 0 {kernel = "host", places = [#anywhere, #ints]} : tensor<3xi64>
  %b = nn.gather %x, %a {kernel = "gather", places = [#here, #anywhere, #here]} : tensor<3x8xf32>
  func.return %b : tensor<3x8xf32>
}
