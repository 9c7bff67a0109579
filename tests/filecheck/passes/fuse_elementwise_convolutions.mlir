// RUN: tessella-opt %s -p fuse-elementwise --split-input-file | filecheck %s

// A convolution with bias and an activation behind it is one kernel.

// CHECK-LABEL: func.func @activations
// CHECK:         %relu = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.relu 
// CHECK-NEXT:      nn.yield
// CHECK:         %relu6 = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.clip 
// CHECK-NEXT:      nn.yield
// CHECK:         %leaky = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.leaky_relu 
// CHECK-NEXT:      nn.yield
// CHECK:         %hard_swish = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.hard_swish 
// CHECK-NEXT:      nn.yield
// CHECK:         %silu = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.silu 
// CHECK-NEXT:      nn.yield
// CHECK:         %gelu = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.gelu 
// CHECK-NEXT:      nn.yield
// CHECK:         %gelu_tanh = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.gelu_tanh 
// CHECK-NEXT:      nn.yield
// CHECK:         %clip = nn.fused %{{.*}}, %w, %b {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.clip 
// CHECK-NEXT:      nn.yield
// CHECK:         func.return %clip
!x = tensor<1x3x4x4xf32>
func.func @activations(%x: !x, %w: tensor<3x3x1x1xf32>, %b: tensor<3xf32>) -> !x {
  %c0 = nn.conv %x, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %relu = nn.relu %c0 {kernel = "relu"} : (!x) -> !x
  %c1 = nn.conv %relu, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %relu6 = nn.clip %c1 {kernel = "clip", low = 0.0 : f64, high = 6.0 : f64} : (!x) -> !x
  %c2 = nn.conv %relu6, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %leaky = nn.leaky_relu %c2 {kernel = "leaky_relu", alpha = 0.1 : f64} : (!x) -> !x
  %c3 = nn.conv %leaky, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %hard_swish = nn.hard_swish %c3 {kernel = "hard_swish"} : (!x) -> !x
  %c4 = nn.conv %hard_swish, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %silu = nn.silu %c4 {kernel = "silu"} : (!x) -> !x
  %c5 = nn.conv %silu, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %gelu = nn.gelu %c5 {kernel = "gelu"} : (!x) -> !x
  %c6 = nn.conv %gelu, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %gelu_tanh = nn.gelu_tanh %c6 {kernel = "gelu_tanh"} : (!x) -> !x
  %c7 = nn.conv %gelu_tanh, %w, %b {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>, tensor<3xf32>) -> !x
  %clip = nn.clip %c7 {kernel = "clip", low = -1.0 : f64, high = 1.0 : f64} : (!x) -> !x
  func.return %clip : !x
}

// -----

// The sum with a residual, and an activation behind that.

// CHECK-LABEL: func.func @residual
// CHECK-NEXT:    %r = nn.fused %x, %w {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: tensor<1x3x4x4xf32>, %[[W:.*]]: tensor<3x3x1x1xf32>):
// CHECK-NEXT:      %c = nn.conv %[[X]], %[[W]] {
// CHECK-NEXT:      %s = nn.add %[[X]], %c {
// CHECK-NEXT:      %[[R:.*]] = nn.relu %s {
// CHECK-NEXT:      nn.yield %[[R]]
!x = tensor<1x3x4x4xf32>
func.func @residual(%x: !x, %w: tensor<3x3x1x1xf32>) -> !x {
  %c = nn.conv %x, %w {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>) -> !x
  %s = nn.add %x, %c {kernel = "add"} : (!x, !x) -> !x
  %r = nn.relu %s {kernel = "relu"} : (!x) -> !x
  func.return %r : !x
}

// -----

// Somebody else reads the convolution's result; the activation is at another layout; it is not native.

// CHECK-LABEL: func.func @apart
// CHECK-NOT:     nn.fused
#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
!x = tensor<1x3x4x4xf32>
!y = tensor<1x3x4x4xf32, #nchw>
!z = tensor<1x3x4x4xf32, #nhwc>
func.func @apart(%x: !x, %w: tensor<3x3x1x1xf32>, %y: !y) -> (!x, !x, !z, !x) {
  %c = nn.conv %x, %w {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>) -> !x
  %r = nn.relu %c {kernel = "relu"} : (!x) -> !x
  %a = nn.exp %y {kernel = "exp", places = [#nchw, #nchw]} : (!y) -> !y
  %m = place.relayout %a : !y -> !z
  %s = nn.relu %m {kernel = "relu", places = [#nhwc, #nhwc]} : (!z) -> !z
  %d = nn.conv %x, %w {kernel = "conv", strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<3x3x1x1xf32>) -> !x
  %h = nn.relu %d {kernel = "host"} : (!x) -> !x
  func.return %c, %r, %s, %h : !x, !x, !z, !x
}
