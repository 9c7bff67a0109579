// RUN: tessella-opt %s -p 'fuse-patterns{only="pad-conv","batch-norm-conv","conv-conv","scaled-operand"}' --split-input-file | filecheck %s

// Zeros around an image are pads of the convolution.

// CHECK-LABEL: func.func @pad
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %y = nn.conv %x, %w strides [2, 2] pads [2, 1, 0, 1] {node = "c", nn.pattern = "pad-conv", nn.consumed = ["nn.pad", "nn.conv@c"]}
// CHECK-NEXT:    func.return %y
func.func @pad(%x: tensor<1x3x6x6xf32>) -> tensor<1x2x3x3xf32> {
  %w = nn.weight @w : tensor<2x3x3x3xf32>
  %p = nn.pad %x low [0, 0, 2, 0] high [0, 0, 0, 0] : tensor<1x3x8x6xf32>
  %y = nn.conv %p, %w strides [2, 2] pads [0, 1, 0, 1] {node = "c"} : tensor<1x2x3x3xf32>
  func.return %y : tensor<1x2x3x3xf32>
}

// -----

// Other numbers, other modes, padded channels, and a padded image that something else reads.

// CHECK-LABEL: func.func @other_pads
// CHECK-COUNT-4: nn.pad
// CHECK-NOT:     pad-conv
func.func @other_pads(%x: tensor<1x3x6x6xf32>, %z: tensor<1x2x6x6xf32>) -> (tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x6x4xf32>, tensor<1x3x8x6xf32>) {
  %w = nn.weight @w : tensor<2x3x3x3xf32>
  %a = nn.pad %x low [0, 0, 1, 0] high [0, 0, 1, 0] value 1.0 : tensor<1x3x8x6xf32>
  %b = nn.pad %x low [0, 0, 1, 0] high [0, 0, 1, 0] mode "edge" : tensor<1x3x8x6xf32>
  %c = nn.pad %z low [0, 1, 0, 0] high [0, 0, 0, 0] : tensor<1x3x6x6xf32>
  %d = nn.pad %x low [0, 0, 1, 0] high [0, 0, 1, 0] : tensor<1x3x8x6xf32>
  %1 = nn.conv %a, %w : tensor<1x2x6x4xf32>
  %2 = nn.conv %b, %w : tensor<1x2x6x4xf32>
  %3 = nn.conv %c, %w : tensor<1x2x4x4xf32>
  %4 = nn.conv %d, %w : tensor<1x2x6x4xf32>
  func.return %1, %2, %3, %4, %d : tensor<1x2x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x6x4xf32>, tensor<1x3x8x6xf32>
}

// -----

// A normalization before a convolution scales its weights and shifts its bias.

// CHECK-LABEL: func.func @norm
// CHECK:         %[[W:.*]] = nn.mul %w, %{{.*}} : tensor<2x3x1x1xf32>
// CHECK:         %[[T:.*]] = nn.mul %w, %{{.*}} : tensor<2x3x1x1xf32>
// CHECK-NEXT:    %[[S:.*]] = nn.reduce_sum %[[T]] axes [1, 2, 3]
// CHECK-NEXT:    %[[B:.*]] = nn.add %[[S]], %b
// CHECK-NEXT:    %y = nn.conv %x, %[[W]], %[[B]] {
// CHECK-NEXT:    func.return %y
func.func @norm(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.weight @w : tensor<2x3x1x1xf32>
  %b = nn.weight @b : tensor<2xf32>
  %s = nn.weight @s : tensor<3xf32>
  %n = nn.batch_norm %x, %s, %s, %s, %s epsilon 0.001 : tensor<1x3x4x4xf32>
  %y = nn.conv %n, %w, %b : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// A padded image has zeros that the normalization does not shift; groups; weights that are computed.

// CHECK-LABEL: func.func @other_norms
// CHECK-COUNT-3: nn.batch_norm
// CHECK-NOT:     batch-norm-conv
func.func @other_norms(%x: tensor<1x2x4x4xf32>, %v: tensor<2x2x1x1xf32>) -> (tensor<1x2x6x6xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.weight @w : tensor<2x2x1x1xf32>
  %u = nn.weight @u : tensor<2x1x1x1xf32>
  %s = nn.weight @s : tensor<2xf32>
  %a = nn.batch_norm %x, %s, %s, %s, %s epsilon 0.001 : tensor<1x2x4x4xf32>
  %b = nn.batch_norm %x, %s, %s, %s, %s epsilon 0.001 : tensor<1x2x4x4xf32>
  %c = nn.batch_norm %x, %s, %s, %s, %s epsilon 0.001 : tensor<1x2x4x4xf32>
  %1 = nn.conv %a, %w pads [1, 1, 1, 1] : tensor<1x2x6x6xf32>
  %2 = nn.conv %b, %u groups 2 : tensor<1x2x4x4xf32>
  %3 = nn.conv %c, %v : tensor<1x2x4x4xf32>
  func.return %1, %2, %3 : tensor<1x2x6x6xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// A convolution of single points after another one, with strides.

// CHECK-LABEL: func.func @twice
// CHECK:         %[[P:.*]] = nn.matmul %{{.*}}, %{{.*}} : tensor<4x27xf32>
// CHECK-NEXT:    %[[W:.*]] = nn.reshape %[[P]] shape [4, 3, 3, 3]
// CHECK:         %y = nn.conv %x, %[[W]], %{{.*}} strides [2, 2] pads [1, 1, 1, 1] {{{.*}}nn.pattern = "conv-conv"
// CHECK-NEXT:    func.return %y
func.func @twice(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x4x4xf32> {
  %w = nn.weight @w : tensor<16x3x3x3xf32>
  %b = nn.weight @b : tensor<16xf32>
  %v = nn.weight @v : tensor<4x16x1x1xf32>
  %a = nn.conv %x, %w, %b pads [1, 1, 1, 1] : tensor<1x16x8x8xf32>
  %y = nn.conv %a, %v strides [2, 2] : tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// The second one has pads, windows, or groups; something lies between.

// CHECK-LABEL: func.func @not_twice
// CHECK-COUNT-8: nn.conv
// CHECK-NOT:     conv-conv
func.func @not_twice(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x10x10xf32>, tensor<1x4x6x6xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %w = nn.weight @w : tensor<4x3x1x1xf32>
  %v = nn.weight @v : tensor<4x4x1x1xf32>
  %u = nn.weight @u : tensor<4x4x3x3xf32>
  %g = nn.weight @g : tensor<4x1x1x1xf32>
  %a = nn.conv %x, %w : tensor<1x4x8x8xf32>
  %1 = nn.conv %a, %v pads [1, 1, 1, 1] : tensor<1x4x10x10xf32>
  %b = nn.conv %x, %w : tensor<1x4x8x8xf32>
  %2 = nn.conv %b, %u : tensor<1x4x6x6xf32>
  %c = nn.conv %x, %w : tensor<1x4x8x8xf32>
  %3 = nn.conv %c, %g groups 4 : tensor<1x4x8x8xf32>
  %d = nn.conv %x, %w : tensor<1x4x8x8xf32>
  %r = nn.relu %d : tensor<1x4x8x8xf32>
  %4 = nn.conv %r, %v : tensor<1x4x8x8xf32>
  func.return %1, %2, %3, %4 : tensor<1x4x10x10xf32>, tensor<1x4x6x6xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
}

// -----

// A factor of each channel moves into constant weights, whatever the padding.

// CHECK-LABEL: func.func @scaled
// CHECK:         %[[W:.*]] = nn.mul %w, %{{.*}} : tensor<4x3x3x3xf32>
// CHECK-NEXT:    %y = nn.conv %x, %[[W]], %b pads [1, 1, 1, 1] {
func.func @scaled(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = nn.weight @w : tensor<4x3x3x3xf32>
  %b = nn.weight @b : tensor<4xf32>
  %s = nn.weight @s : tensor<3x1x1xf32>
  %1 = nn.mul %s, %x : tensor<1x3x8x8xf32>
  %y = nn.conv %1, %w, %b pads [1, 1, 1, 1] : tensor<1x4x8x8xf32>
  func.return %y : tensor<1x4x8x8xf32>
}

// -----

// Factors along another axis, a dividend, and a convolution with groups.

// CHECK-LABEL: func.func @not_scaled
// CHECK-NOT:     scaled-operand
func.func @not_scaled(%x: tensor<1x3x8x8xf32>) -> (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x3x8x8xf32>) {
  %w = nn.weight @w : tensor<4x3x1x1xf32>
  %g = nn.weight @g : tensor<3x1x1x1xf32>
  %s = nn.weight @s : tensor<3x1x1xf32>
  %c = nn.weight @c : tensor<8xf32>
  %1 = nn.mul %x, %c : tensor<1x3x8x8xf32>
  %a = nn.conv %1, %w : tensor<1x4x8x8xf32>
  %2 = nn.div %s, %x : tensor<1x3x8x8xf32>
  %b = nn.conv %2, %w : tensor<1x4x8x8xf32>
  %3 = nn.mul %x, %s : tensor<1x3x8x8xf32>
  %d = nn.conv %3, %g groups 3 : tensor<1x3x8x8xf32>
  func.return %a, %b, %d : tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x3x8x8xf32>
}
