// RUN: tessella-opt %s -p 'insert-conversions{device=x86}' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'insert-conversions{device=arm}' --split-input-file | filecheck %s --check-prefix=ARM

// Inputs and outputs are row-major. A conversion that two ops want is there once.

// CHECK-LABEL: func.func @shared
// CHECK-SAME:    (%x: tensor<1x8x6x6xf32, #f32_nchw>, %i: tensor<4xi64, #i64_nchw>)
// CHECK-SAME:    -> (tensor<1x8x6x6xf32, #f32_nchw>, tensor<1x8x6x6xf32, #f32_nchw>)
// CHECK-NEXT:    %[[X:.*]] = place.relayout %x : tensor<1x8x6x6xf32, #f32_nchw> -> tensor<1x8x6x6xf32, #nhwc>
// CHECK-NEXT:    %a = nn.relu %[[X]] {kernel = "relu"} : tensor<1x8x6x6xf32, #nhwc>
// CHECK-NEXT:    %b = nn.neg %[[X]] {
// CHECK-NEXT:    %c = nn.add %a, %b {
// CHECK-NEXT:    %[[C:.*]] = place.relayout %c : tensor<1x8x6x6xf32, #nhwc> -> tensor<1x8x6x6xf32, #f32_nchw>
// CHECK-NEXT:    func.return %[[C]], %[[C]] : tensor<1x8x6x6xf32, #f32_nchw>, tensor<1x8x6x6xf32, #f32_nchw>

// ARM-LABEL: func.func @shared
// ARM-SAME:      (%x: tensor<1x8x6x6xf32, #arm_f32_nchw>, %i: tensor<4xi64, #arm_i64_nchw>)
#nhwc = #place.at<x86, f32, nhwc>
!t = tensor<1x8x6x6xf32>
func.func @shared(%x: !t, %i: tensor<4xi64>) -> (!t, !t) {
  %a = nn.relu %x {kernel = "relu", places = [#nhwc, #nhwc]} : !t
  %b = nn.neg %x {kernel = "neg", places = [#nhwc, #nhwc]} : !t
  %c = nn.add %a, %b {kernel = "add", places = [#nhwc, #nhwc, #nhwc]} : !t
  func.return %c, %c : !t, !t
}

// -----

// Nothing to convert where every value already is where it is wanted.

// CHECK-LABEL: func.func @row_major
// CHECK-NEXT:    %a = nn.relu %x {
// CHECK-NEXT:    %b = nn.add %a, %x {
// CHECK-NEXT:    func.return %b, %x
#nchw = #place.at<x86, f32, nchw>
!t = tensor<1x8x6x6xf32>
func.func @row_major(%x: !t) -> (!t, !t) {
  %a = nn.relu %x {kernel = "relu", places = [#nchw, #nchw]} : !t
  %b = nn.add %a, %x {kernel = "add", places = [#nchw, #nchw, #nchw]} : !t
  func.return %b, %x : !t, !t
}

// -----

// To the host and back: the order in memory changes on the native side.

// CHECK-LABEL: func.func @host
// CHECK:         %a = nn.relu
// CHECK-NEXT:    %[[R:.*]] = place.relayout %a : {{.*}} -> tensor<1x8x6x6xf32, #x86_nchw>
// CHECK-NEXT:    %[[H:.*]] = place.copy %[[R]] : {{.*}} -> tensor<1x8x6x6xf32, #host_nchw>
// CHECK-NEXT:    %b = nn.neg %[[H]] {
// CHECK-NEXT:    %c = nn.abs %b {
// CHECK-NEXT:    %[[N:.*]] = place.copy %c : {{.*}} -> tensor<1x8x6x6xf32, #x86_nchw>
// CHECK-NEXT:    %[[L:.*]] = place.relayout %[[N]] : {{.*}} -> tensor<1x8x6x6xf32, #nhwc>
// CHECK-NEXT:    %d = nn.add %[[L]], %a {
// CHECK-NEXT:    %[[B:.*]] = place.copy %b : {{.*}} -> tensor<1x8x6x6xf32, #x86_nchw>
// CHECK-NEXT:    func.return %[[B]] :
#nhwc = #place.at<x86, f32, nhwc>
#host = #place.at<host, f32, nchw>
!t = tensor<1x8x6x6xf32>
func.func @host(%x: !t) -> !t {
  %a = nn.relu %x {kernel = "relu", places = [#nhwc, #nhwc]} : !t
  %b = nn.neg %a {kernel = "host", places = [#host, #host]} : !t
  %c = nn.abs %b {kernel = "host", places = [#host, #host]} : !t
  %d = nn.add %c, %a {kernel = "add", places = [#nhwc, #nhwc, #nhwc]} : !t
  func.return %b : !t
}

// -----

// A constant is one at each place where it is wanted, and gone where nobody reads it. This weight
// is not in the store: it is put into another order when the program runs.

// CHECK-LABEL: func.func @constants
// CHECK-NEXT:    %w = nn.weight @w : tensor<1x8x6x6xf32, #nchw>
// CHECK-NEXT:    %[[NHWC:.*]] = place.relayout %w : {{.*}} -> tensor<1x8x6x6xf32, #nhwc>
// CHECK-NEXT:    %[[NCHW:.*]] = nn.weight @w : tensor<1x8x6x6xf32, #nchw>
// CHECK-NEXT:    %s = nn.splat 1.000000e+00 : f32 : tensor<1x8x6x6xf32, #nchw>
// CHECK-NEXT:    %[[X:.*]] = place.relayout %x
// CHECK-NEXT:    %a = nn.add %[[X]], %[[NHWC]] {
// CHECK-NEXT:    %[[A:.*]] = place.relayout %a
// CHECK-NEXT:    %b = nn.add %[[A]], %[[NCHW]] {
// CHECK-NEXT:    %c = nn.sub %a, %[[NHWC]] {
// CHECK-NEXT:    func.return %s
#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
!t = tensor<1x8x6x6xf32>
func.func @constants(%x: !t) -> !t {
  %w = nn.weight @w : !t
  %unused = nn.weight @unused : !t
  %s = nn.splat 1.0 : f32 : !t
  %a = nn.add %x, %w {kernel = "add", places = [#nhwc, #nhwc, #nhwc]} : !t
  %b = nn.add %a, %w {kernel = "add", places = [#nchw, #nchw, #nchw]} : !t
  %c = nn.sub %a, %w {kernel = "sub", places = [#nhwc, #nhwc, #nhwc]} : !t
  func.return %s : !t
}

// -----

// `any` becomes the layout that the operand has; a constant is row-major then. An op without
// places is left alone.

// CHECK-LABEL: func.func @any
// CHECK-NEXT:    %[[X:.*]] = place.relayout %x
// CHECK-NEXT:    %a = nn.relu %[[X]] {
// CHECK-NEXT:    %b = nn.transpose %a perm {{.*}} {kernel = "transpose"}
// CHECK-NEXT:    %c = nn.transpose %x perm {{.*}} {kernel = "transpose"}
// CHECK-NEXT:    %w = nn.weight @w : tensor<1x8x6x6xf32, #nchw>
// CHECK-NEXT:    %d = nn.transpose %w perm {{.*}} {kernel = "transpose"}
// CHECK-NEXT:    %e = nn.neg %x : tensor<1x8x6x6xf32>
// CHECK-NEXT:    func.return
#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
#any = #place.at<x86, f32, any>
!t = tensor<1x8x6x6xf32>
func.func @any(%x: !t) {
  %a = nn.relu %x {kernel = "relu", places = [#nhwc, #nhwc]} : !t
  %b = nn.transpose %a perm [0, 2, 3, 1] {kernel = "transpose", places = [#any, #nchw]} : tensor<1x6x6x8xf32>
  %c = nn.transpose %x perm [0, 2, 3, 1] {kernel = "transpose", places = [#any, #nchw]} : tensor<1x6x6x8xf32>
  %w = nn.weight @w : !t
  %d = nn.transpose %w perm [0, 2, 3, 1] {kernel = "transpose", places = [#any, #nchw]} : tensor<1x6x6x8xf32>
  %e = nn.neg %x : !t
  func.return
}
