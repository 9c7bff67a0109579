// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// As PyTorch's older exporter spells a layer norm.

// CHECK-LABEL: func.func @torch
// CHECK:         %y = nn.layer_norm %x, %w, %b epsilon 9.999999974752427e-07 {node = "y", nn.pattern = "layer-norm", nn.consumed = ["nn.reduce_mean@m", "nn.sub@c", "nn.pow@q", "nn.reduce_mean@v", "nn.add@e", "nn.sqrt@r", "nn.div@u", "nn.mul@s", "nn.add@y"]}
// CHECK-NEXT:    func.return %y
func.func @torch(%x: tensor<2x5x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x5x8xf32> {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %epsilon = nn.splat 1.0e-6 : f32 : tensor<f32>
  %m = nn.reduce_mean %x axes [2] keepdims true {node = "m"} : tensor<2x5x1xf32>
  %c = nn.sub %x, %m {node = "c"} : tensor<2x5x8xf32>
  %q = nn.pow %c, %two {node = "q"} : tensor<2x5x8xf32>
  %v = nn.reduce_mean %q axes [2] keepdims true {node = "v"} : tensor<2x5x1xf32>
  %e = nn.add %v, %epsilon {node = "e"} : tensor<2x5x1xf32>
  %r = nn.sqrt %e {node = "r"} : tensor<2x5x1xf32>
  %u = nn.div %c, %r {node = "u"} : tensor<2x5x8xf32>
  %s = nn.mul %u, %w {node = "s"} : tensor<2x5x8xf32>
  %y = nn.add %s, %b {node = "y"} : tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// -----

// Scaled before the division, over two axes, without epsilon; the bias has a shape of its own.

// CHECK-LABEL: func.func @by_hand
// CHECK-NEXT:    %y = nn.layer_norm %x, %w, %b axis 1 epsilon 0.0 {
// CHECK-NEXT:    func.return %y
func.func @by_hand(%x: tensor<2x5x8xf32>, %w: tensor<8xf32>, %b: tensor<1x5x8xf32>) -> tensor<2x5x8xf32> {
  %m = nn.reduce_mean %x axes [2, 1] keepdims true : tensor<2x1x1xf32>
  %c = nn.sub %x, %m : tensor<2x5x8xf32>
  %q = nn.mul %c, %c : tensor<2x5x8xf32>
  %v = nn.reduce_mean %q axes [1, 2] keepdims true : tensor<2x1x1xf32>
  %r = nn.sqrt %v : tensor<2x1x1xf32>
  %s = nn.mul %w, %c : tensor<2x5x8xf32>
  %u = nn.div %s, %r : tensor<2x5x8xf32>
  %y = nn.add %b, %u : tensor<2x5x8xf32>
  func.return %y : tensor<2x5x8xf32>
}

// -----

// As TensorFlow spells it: the scale is folded into the deviation's reciprocal.

// CHECK-LABEL: func.func @tensorflow
// CHECK:         %y = nn.layer_norm %x, %w, %b {{.*}} {nn.pattern = "layer-norm-folded"
// CHECK-NEXT:    func.return %y
func.func @tensorflow(%x: tensor<5x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<5x8xf32> {
  %epsilon = nn.splat 1.0e-6 : f32 : tensor<f32>
  %m = nn.reduce_mean %x axes [1] keepdims true : tensor<5x1xf32>
  %c = nn.sub %x, %m : tensor<5x8xf32>
  %q = nn.mul %c, %c : tensor<5x8xf32>
  %v = nn.reduce_mean %q axes [1] keepdims true : tensor<5x1xf32>
  %e = nn.add %v, %epsilon : tensor<5x1xf32>
  %r = nn.sqrt %e : tensor<5x1xf32>
  %i = nn.reciprocal %r : tensor<5x1xf32>
  %g = nn.mul %i, %w : tensor<5x8xf32>
  %s = nn.mul %x, %g : tensor<5x8xf32>
  %n = nn.mul %m, %g : tensor<5x8xf32>
  %t = nn.sub %b, %n : tensor<5x8xf32>
  %y = nn.add %s, %t : tensor<5x8xf32>
  func.return %y : tensor<5x8xf32>
}

// -----

// Without scale and bias. What varies along other axes is no parameter: it stays.

// CHECK-LABEL: func.func @no_parameters
// CHECK:         %[[ONES:.*]] = nn.splat 1.000000e+00 : f32 : tensor<8xf32>
// CHECK-NEXT:    %u = nn.layer_norm %x, %[[ONES]] 
// CHECK-NEXT:    %s = nn.mul %u, %w
// CHECK-NEXT:    %y = nn.add %s, %b
// CHECK-NEXT:    func.return %y
func.func @no_parameters(%x: tensor<5x8xf32>, %w: tensor<5x1xf32>, %b: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %epsilon = nn.splat 1.0e-6 : f32 : tensor<f32>
  %m = nn.reduce_mean %x axes [1] keepdims true : tensor<5x1xf32>
  %c = nn.sub %x, %m : tensor<5x8xf32>
  %q = nn.mul %c, %c : tensor<5x8xf32>
  %v = nn.reduce_mean %q axes [1] keepdims true : tensor<5x1xf32>
  %e = nn.add %epsilon, %v : tensor<5x1xf32>
  %r = nn.sqrt %e : tensor<5x1xf32>
  %u = nn.div %c, %r : tensor<5x8xf32>
  %s = nn.mul %u, %w : tensor<5x8xf32>
  %y = nn.add %s, %b : tensor<5x8xf32>
  func.return %y : tensor<5x8xf32>
}

// -----

// The variance is over another axis than the mean.

// CHECK-LABEL: func.func @other_axis
// CHECK-NOT:     nn.layer_norm
func.func @other_axis(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %m = nn.reduce_mean %x axes [1] keepdims true : tensor<8x1xf32>
  %c = nn.sub %x, %m : tensor<8x8xf32>
  %q = nn.mul %c, %c : tensor<8x8xf32>
  %v = nn.reduce_mean %q keepdims true : tensor<1x1xf32>
  %r = nn.sqrt %v : tensor<1x1xf32>
  %y = nn.div %c, %r : tensor<8x8xf32>
  func.return %y : tensor<8x8xf32>
}

// -----

// The axis is not the last; the mean lacks the axis, so that it belongs to columns.

// CHECK-LABEL: func.func @other_means
// CHECK-NOT:     nn.layer_norm
func.func @other_means(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %m = nn.reduce_mean %x axes [0] keepdims true : tensor<1x8xf32>
  %c = nn.sub %x, %m : tensor<8x8xf32>
  %q = nn.mul %c, %c : tensor<8x8xf32>
  %v = nn.reduce_mean %q axes [0] keepdims true : tensor<1x8xf32>
  %r = nn.sqrt %v : tensor<1x8xf32>
  %y = nn.div %c, %r : tensor<8x8xf32>
  %m1 = nn.reduce_mean %x axes [1] : tensor<8xf32>
  %c1 = nn.sub %x, %m1 : tensor<8x8xf32>
  %q1 = nn.mul %c1, %c1 : tensor<8x8xf32>
  %v1 = nn.reduce_mean %q1 axes [1] : tensor<8xf32>
  %r1 = nn.sqrt %v1 : tensor<8xf32>
  %y1 = nn.div %c1, %r1 : tensor<8x8xf32>
  func.return %y, %y1 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// Somebody else reads the mean.

// CHECK-LABEL: func.func @second_use
// CHECK-NOT:     nn.layer_norm
func.func @second_use(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x1xf32>) {
  %m = nn.reduce_mean %x axes [1] keepdims true : tensor<8x1xf32>
  %c = nn.sub %x, %m : tensor<8x8xf32>
  %q = nn.mul %c, %c : tensor<8x8xf32>
  %v = nn.reduce_mean %q axes [1] keepdims true : tensor<8x1xf32>
  %r = nn.sqrt %v : tensor<8x1xf32>
  %y = nn.div %c, %r : tensor<8x8xf32>
  func.return %y, %m : tensor<8x8xf32>, tensor<8x1xf32>
}

// -----

// A scale that makes the result larger than x is no parameter.

// CHECK-LABEL: func.func @large_scale
// CHECK:         %y = nn.layer_norm %x, %{{.*}} : tensor<5x1xf32>
// CHECK-NEXT:    %z = nn.mul %y, %w
func.func @large_scale(%x: tensor<5x1xf32>, %w: tensor<8xf32>) -> tensor<5x8xf32> {
  %m = nn.reduce_mean %x axes [1] keepdims true : tensor<5x1xf32>
  %c = nn.sub %x, %m : tensor<5x1xf32>
  %q = nn.mul %c, %c : tensor<5x1xf32>
  %v = nn.reduce_mean %q axes [1] keepdims true : tensor<5x1xf32>
  %r = nn.sqrt %v : tensor<5x1xf32>
  %y = nn.div %c, %r : tensor<5x1xf32>
  %z = nn.mul %y, %w : tensor<5x8xf32>
  func.return %z : tensor<5x8xf32>
}

// -----

// RMS norm by a reciprocal, and by a division whose scale is one number.

// CHECK-LABEL: func.func @rms
// CHECK:         %y = nn.rms_norm %x, %w epsilon 9.999999974752427e-07 {node = "y", nn.pattern = "rms-norm", nn.consumed = ["nn.pow@q", "nn.reduce_mean@m", "nn.add@e", "nn.sqrt@r", "nn.reciprocal@i", "nn.mul@u", "nn.mul@y"]}
// CHECK-NEXT:    %[[S:.*]] = nn.splat 3.000000e+00 : f32 : tensor<8xf32>
// CHECK-NEXT:    %z = nn.rms_norm %x, %[[S]]
// CHECK-NEXT:    func.return %y, %z
func.func @rms(%x: tensor<5x8xf32>, %w: tensor<8xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %three = nn.splat 3.0 : f32 : tensor<8xf32>
  %epsilon = nn.splat 1.0e-6 : f32 : tensor<f32>
  %q = nn.pow %x, %two {node = "q"} : tensor<5x8xf32>
  %m = nn.reduce_mean %q axes [1] keepdims true {node = "m"} : tensor<5x1xf32>
  %e = nn.add %m, %epsilon {node = "e"} : tensor<5x1xf32>
  %r = nn.sqrt %e {node = "r"} : tensor<5x1xf32>
  %i = nn.reciprocal %r {node = "i"} : tensor<5x1xf32>
  %u = nn.mul %x, %i {node = "u"} : tensor<5x8xf32>
  %y = nn.mul %w, %u {node = "y"} : tensor<5x8xf32>
  %q1 = nn.mul %x, %x : tensor<5x8xf32>
  %m1 = nn.reduce_mean %q1 axes [1] keepdims true : tensor<5x1xf32>
  %e1 = nn.add %m1, %epsilon : tensor<5x1xf32>
  %r1 = nn.sqrt %e1 : tensor<5x1xf32>
  %u1 = nn.div %x, %r1 : tensor<5x8xf32>
  %z = nn.mul %u1, %three : tensor<5x8xf32>
  func.return %y, %z : tensor<5x8xf32>, tensor<5x8xf32>
}

// -----

// The sum of squares in place of their mean; the square of another value.

// CHECK-LABEL: func.func @no_rms
// CHECK-NOT:     nn.rms_norm
func.func @no_rms(%x: tensor<5x8xf32>, %z: tensor<5x8xf32>) -> (tensor<5x8xf32>, tensor<5x8xf32>) {
  %q = nn.mul %x, %x : tensor<5x8xf32>
  %m = nn.reduce_sum %q axes [1] keepdims true : tensor<5x1xf32>
  %r = nn.sqrt %m : tensor<5x1xf32>
  %y = nn.div %x, %r : tensor<5x8xf32>
  %q1 = nn.mul %z, %z : tensor<5x8xf32>
  %m1 = nn.reduce_mean %q1 axes [1] keepdims true : tensor<5x1xf32>
  %r1 = nn.sqrt %m1 : tensor<5x1xf32>
  %y1 = nn.div %x, %r1 : tensor<5x8xf32>
  func.return %y, %y1 : tensor<5x8xf32>, tensor<5x8xf32>
}

// -----

// As PyTorch exports a group norm.

// CHECK-LABEL: func.func @groups
// CHECK:         %[[W:.*]] = nn.reshape %w shape [6]
// CHECK:         %[[B:.*]] = nn.reshape %b shape [6]
// CHECK:         %y = nn.group_norm %x, %[[W]], %[[B]] groups 3 {nn.pattern = "group-norm"
// CHECK-NEXT:    func.return %y
func.func @groups(%x: tensor<2x6x5x4xf32>, %w: tensor<6x1x1xf32>, %b: tensor<6x1x1xf32>) -> tensor<2x6x5x4xf32> {
  %one = nn.splat 1.0 : f32 : tensor<3xf32>
  %zero = nn.splat 0.0 : f32 : tensor<3xf32>
  %g = nn.reshape %x shape [2, 3, 40] : tensor<2x3x40xf32>
  %n = nn.group_norm %g, %one, %zero groups 3 : tensor<2x3x40xf32>
  %r = nn.reshape %n shape [2, 6, 5, 4] : tensor<2x6x5x4xf32>
  %s = nn.mul %r, %w : tensor<2x6x5x4xf32>
  %y = nn.add %s, %b : tensor<2x6x5x4xf32>
  func.return %y : tensor<2x6x5x4xf32>
}
