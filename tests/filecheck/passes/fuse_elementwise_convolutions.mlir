// RUN: tessella-opt %s -p fuse-elementwise --split-input-file | filecheck %s

// A convolution with bias and an activation after it is one kernel.

// CHECK-LABEL: func.func @activations
// CHECK:         %relu = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.relu 
// CHECK-NEXT:      nn.yield
// CHECK:         %relu6 = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.clip 
// CHECK-NEXT:      nn.yield
// CHECK:         %leaky = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.leaky_relu 
// CHECK-NEXT:      nn.yield
// CHECK:         %hard_swish = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.hard_swish 
// CHECK-NEXT:      nn.yield
// CHECK:         %silu = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.silu 
// CHECK-NEXT:      nn.yield
// CHECK:         %gelu = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.gelu 
// CHECK-NEXT:      nn.yield
// CHECK:         %gelu_tanh = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.gelu_tanh 
// CHECK-NEXT:      nn.yield
// CHECK:         %clip = nn.fused({{.*}} = %w, {{.*}} = %b) {
// CHECK:           nn.conv
// CHECK-NEXT:      nn.clip 
// CHECK-NEXT:      nn.yield
// CHECK:         func.return %clip
!x = tensor<1x3x4x4xf32>
func.func @activations(%x: !x, %w: tensor<3x3x1x1xf32>, %b: tensor<3xf32>) -> !x {
  %c0 = nn.conv %x, %w, %b {kernel = "conv"} : !x
  %relu = nn.relu %c0 {kernel = "relu"} : !x
  %c1 = nn.conv %relu, %w, %b {kernel = "conv"} : !x
  %relu6 = nn.clip %c1 low 0.0 high 6.0 {kernel = "clip"} : !x
  %c2 = nn.conv %relu6, %w, %b {kernel = "conv"} : !x
  %leaky = nn.leaky_relu %c2 alpha 0.1 {kernel = "leaky_relu"} : !x
  %c3 = nn.conv %leaky, %w, %b {kernel = "conv"} : !x
  %hard_swish = nn.hard_swish %c3 {kernel = "hard_swish"} : !x
  %c4 = nn.conv %hard_swish, %w, %b {kernel = "conv"} : !x
  %silu = nn.silu %c4 {kernel = "silu"} : !x
  %c5 = nn.conv %silu, %w, %b {kernel = "conv"} : !x
  %gelu = nn.gelu %c5 {kernel = "gelu"} : !x
  %c6 = nn.conv %gelu, %w, %b {kernel = "conv"} : !x
  %gelu_tanh = nn.gelu_tanh %c6 {kernel = "gelu_tanh"} : !x
  %c7 = nn.conv %gelu_tanh, %w, %b {kernel = "conv"} : !x
  %clip = nn.clip %c7 low -1.0 high 1.0 {kernel = "clip"} : !x
  func.return %clip : !x
}

// -----

// The sum with a residual, and an activation after that.

// CHECK-LABEL: func.func @residual
// CHECK-NEXT:    %r = nn.fused(%[[X:.*]] = %x, %[[W:.*]] = %w) {
// CHECK-NEXT:      %c = nn.conv %[[X]], %[[W]] {
// CHECK-NEXT:      %s = nn.add %[[X]], %c {
// CHECK-NEXT:      %[[R:.*]] = nn.relu %s {
// CHECK-NEXT:      nn.yield %[[R]]
!x = tensor<1x3x4x4xf32>
func.func @residual(%x: !x, %w: tensor<3x3x1x1xf32>) -> !x {
  %c = nn.conv %x, %w {kernel = "conv"} : !x
  %s = nn.add %x, %c {kernel = "add"} : !x
  %r = nn.relu %s {kernel = "relu"} : !x
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
  %c = nn.conv %x, %w {kernel = "conv"} : !x
  %r = nn.relu %c {kernel = "relu"} : !x
  %a = nn.exp %y {kernel = "exp", places = [#nchw, #nchw]} : !y
  %m = place.relayout %a : !y -> !z
  %s = nn.relu %m {kernel = "relu", places = [#nhwc, #nhwc]} : !z
  %d = nn.conv %x, %w {kernel = "conv"} : !x
  %h = nn.relu %d {kernel = "host"} : !x
  func.return %c, %r, %s, %h : !x, !x, !z, !x
}
