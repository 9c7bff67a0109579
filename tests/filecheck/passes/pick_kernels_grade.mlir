// RUN: tessella-opt %s -p 'pick-kernels{strategy=grade target=avx512}' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'pick-kernels{strategy=grade places="host","x86"}' --split-input-file | filecheck %s --check-prefix=HOST
// RUN: tessella-opt %s -p 'pick-kernels{strategy=grade places="arm/f32/nhwc","host"}' --split-input-file | filecheck %s --check-prefix=ARM
// RUN: tessella-opt %s -p 'pick-kernels{strategy=grade places="x86","x86/f32/nhwc"}' --split-input-file | filecheck %s --check-prefix=NCHW

// The place named first has the most weight: a convolution reads and writes channels-last. Its
// weights and vectors are row-major. Kernels that do with any layout take the one that flows in.

// CHECK-LABEL: func.func @flow
// CHECK-NEXT:    %a = nn.conv %x, %w, %b {node = "first", kernel = "conv", places = [#nhwc, #nchw, #nchw, #nhwc]}
// CHECK-NEXT:    %c = nn.relu %a {kernel = "relu", places = [#nhwc, #nhwc]} : tensor<1x8x6x6xf32>
// CHECK-NEXT:    %d = nn.relu %x {kernel = "relu", places = [#nchw, #nchw]}

// A place that names its target alone means f32 and nchw.
// NCHW-LABEL: func.func @flow
// NCHW-SAME:     nn.pick = {strategy = "grade", places = ["x86", "x86/f32/nhwc"], target = "native"}
// NCHW-NEXT:     %a = nn.conv %x, %w, %b {node = "first", kernel = "conv", places = [#nchw, #nchw, #nchw, #nchw]}

// NumPy serves all ops where it is asked for first.
// HOST-LABEL: func.func @flow
// HOST-NEXT:     %a = nn.conv %x, %w, %b {node = "first", kernel = "host", places = [#nchw, #nchw, #nchw, #nchw]}
// HOST-NEXT:     %c = nn.relu %a {kernel = "host", places = [#nchw, #nchw]}

// ARM-LABEL: func.func @flow
// ARM-NEXT:      %a = nn.conv %x, %w, %b {node = "first", kernel = "conv", places = [#nhwc, #nchw, #nchw, #nhwc]}
// ARM-NEXT:      %c = nn.relu %a {kernel = "relu", places = [#nhwc, #nhwc]}

func.func @flow(%x: tensor<1x8x6x6xf32>, %w: tensor<8x8x1x1xf32>, %b: tensor<8xf32>) {
  %a = nn.conv %x, %w, %b {node = "first"} : tensor<1x8x6x6xf32>
  %c = nn.relu %a : tensor<1x8x6x6xf32>
  %d = nn.relu %x : tensor<1x8x6x6xf32>
  %e = nn.conv %x, %w {node = "second"} : tensor<1x8x6x6xf32>
  func.return
}

// -----

// The first computed operand of the result's rank decides: neither an argument, nor a constant,
// nor one that is broadcast to a higher rank. Constants have no kernel.

// CHECK-LABEL: func.func @first_operand
// CHECK-NEXT:    %s = nn.splat 1.000000e+00 : f32 : tensor<1x8x6x6xf32>
// CHECK-NEXT:    %w = nn.weight @w : tensor<8x1x1xf32>
// CHECK-NEXT:    %a = nn.max_pool %x {{.*}} {kernel = "max_pool", places = [#nhwc, #nhwc]
// CHECK-NEXT:    %b = nn.add %s, %a {kernel = "add", places = [#nhwc, #nhwc, #nhwc]}
// CHECK-NEXT:    %c = nn.relu %y {kernel = "relu", places = [#nchw, #nchw]}
// CHECK-NEXT:    %d = nn.add %c, %a {kernel = "add", places = [#nchw, #nchw, #nchw]}
// CHECK-NEXT:    %e = nn.relu %w {kernel = "relu", places = [#nchw, #nchw]}
// CHECK-NEXT:    %f = nn.add %e, %a {kernel = "add", places = [#nhwc, #nhwc, #nhwc]}
// CHECK-NEXT:    func.return
func.func @first_operand(%x: tensor<1x8x6x6xf32>, %y: tensor<1x8x6x6xf32>) {
  %s = nn.splat 1.0 : f32 : tensor<1x8x6x6xf32>
  %w = nn.weight @w : tensor<8x1x1xf32>
  %a = nn.max_pool %x kernel_shape [1, 1] : tensor<1x8x6x6xf32>
  %b = nn.add %s, %a : tensor<1x8x6x6xf32>
  %c = nn.relu %y : tensor<1x8x6x6xf32>
  %d = nn.add %c, %a : tensor<1x8x6x6xf32>
  %e = nn.relu %w : tensor<8x1x1xf32>
  %f = nn.add %e, %a : tensor<1x8x6x6xf32>
  func.return
}

// -----

// A reshape is a view of row-major memory. A transposition reads what there is, in any layout.

// CHECK-LABEL: func.func @movement
// CHECK:         %b = nn.transpose %a {{.*}} {kernel = "transpose", places = [#any, #nchw]}
// CHECK-NEXT:    %c = nn.reshape %a {{.*}} {kernel = "view", places = [#nchw, #nchw]}
// CHECK-NEXT:    %d = nn.reduce_max %a {{.*}} {kernel = "reduce_max", places = [#nhwc, #nhwc]}
func.func @movement(%x: tensor<1x8x6x6xf32>) {
  %a = nn.max_pool %x kernel_shape [1, 1] : tensor<1x8x6x6xf32>
  %b = nn.transpose %a perm [0, 2, 3, 1] : tensor<1x6x6x8xf32>
  %c = nn.reshape %a shape [8, 36] : tensor<8x36xf32>
  %d = nn.reduce_max %a axes [2, 3] keepdims true : tensor<1x8x1x1xf32>
  func.return
}

// -----

// What no native kernel can do runs in NumPy, which is a fallback. Integers are served whatever the precision of a
// place is; other floats where a place leaves the precision open, or else in the precision that it names.

// CHECK-LABEL: func.func @elements
// CHECK-NEXT:    nn.add %u, %u {kernel = "add", places = [#x86_u8_nchw, #x86_u8_nchw, #x86_u8_nchw]}
// CHECK-NEXT:    nn.relu %e {kernel = "host", places = [#host_f32_nchw, #host_f32_nchw], fallback = "host"}
// CHECK-NEXT:    nn.add %i, %i {kernel = "add", places = [#x86_i64_nchw, #x86_i64_nchw, #x86_i64_nchw]}
// CHECK-NEXT:    nn.sqrt %d {kernel = "sqrt", places = [#x86_f64_nchw, #x86_f64_nchw]}
// CHECK-NEXT:    nn.less %d, %d {kernel = "less", places = [#x86_f64_nchw, #x86_f64_nchw, #x86_bool_nchw]}

// ARM-LABEL: func.func @elements
// ARM:           nn.add %i, %i {kernel = "add", places = [#arm_i64_nchw,
// ARM-NEXT:      nn.sqrt %d {kernel = "sqrt", places = [#arm_f32_nchw,
// ARM-NEXT:      nn.less %d, %d {kernel = "less", places = [#arm_f32_nchw,
func.func @elements(%u: tensor<3xui8>, %e: tensor<0x4xf32>, %i: tensor<4xi64>, %d: tensor<4xf64>) {
  %0 = nn.add %u, %u : tensor<3xui8>
  %1 = nn.relu %e : tensor<0x4xf32>
  %2 = nn.add %i, %i : tensor<4xi64>
  %3 = nn.sqrt %d : tensor<4xf64>
  %4 = nn.less %d, %d : tensor<4xi1>
  func.return
}
