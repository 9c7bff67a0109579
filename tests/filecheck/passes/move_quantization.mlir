// RUN: tessella-opt %s -p move-quantization,eliminate-identities --split-input-file | filecheck %s

// Behind moves and a maximum, until a quantization with equal parameters takes it back.

// CHECK-LABEL: func.func @meet
// CHECK-NEXT:    %[[T:.*]] = nn.transpose %x perm [0, 1, 3, 2] : tensor<1x2x6x4xui8>
// CHECK-NEXT:    %[[P:.*]] = nn.max_pool %[[T]] kernel_shape [2, 2] strides [2, 2] : tensor<1x2x3x2xui8>
// CHECK-NEXT:    func.return %[[P]]
func.func @meet(%x: tensor<1x2x4x6xui8>) -> tensor<1x2x3x2xui8> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 3 : ui8 : tensor<ui8>
  %s2 = nn.splat 0.5 : f32 : tensor<f32>
  %a = nn.dequantize %x, %s, %z : tensor<1x2x4x6xf32>
  %b = nn.transpose %a perm [0, 1, 3, 2] : tensor<1x2x6x4xf32>
  %c = nn.max_pool %b kernel_shape [2, 2] strides [2, 2] : tensor<1x2x3x2xf32>
  %d = nn.quantize %c, %s2, %z : tensor<1x2x3x2xui8>
  func.return %d : tensor<1x2x3x2xui8>
}

// -----

// With other parameters, the two are next to each other.

// CHECK-LABEL: func.func @requantize
// CHECK:         %[[T:.*]] = nn.reshape %x shape [8] : tensor<8xui8>
// CHECK-NEXT:    %[[D:.*]] = nn.dequantize %[[T]]
// CHECK-NEXT:    %[[Q:.*]] = nn.quantize %[[D]]
// CHECK-NEXT:    func.return %[[Q]]
func.func @requantize(%x: tensor<2x4xui8>) -> tensor<8xui8> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 3 : ui8 : tensor<ui8>
  %s2 = nn.splat 0.25 : f32 : tensor<f32>
  %a = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %b = nn.reshape %a shape [8] : tensor<8xf32>
  %d = nn.quantize %b, %s2, %z : tensor<8xui8>
  func.return %d : tensor<8xui8>
}

// -----

// A quantization goes before moves of what is computed, and takes a clip along that it implies.

// CHECK-LABEL: func.func @up
// CHECK:         %[[E:.*]] = nn.exp %x
// CHECK-NEXT:    %[[Q:.*]] = nn.quantize %[[E]]
// CHECK-NEXT:    %[[T:.*]] = nn.transpose %[[Q]] : tensor<4x2xui8>
// CHECK-NEXT:    func.return %[[T]]
func.func @up(%x: tensor<2x4xf32>) -> tensor<4x2xui8> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 0 : ui8 : tensor<ui8>
  %e = nn.exp %x : tensor<2x4xf32>
  %r = nn.relu %e : tensor<2x4xf32>
  %t = nn.transpose %r perm [1, 0] : tensor<4x2xf32>
  %q = nn.quantize %t, %s, %z : tensor<4x2xui8>
  func.return %q : tensor<4x2xui8>
}

// -----

// The clip stays where it changes something: below 0 there are 3 steps.

// CHECK-LABEL: func.func @clip
// CHECK:         nn.relu
// CHECK-NEXT:    nn.quantize
func.func @clip(%x: tensor<2x4xf32>) -> tensor<2x4xui8> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 3 : ui8 : tensor<ui8>
  %r = nn.relu %x : tensor<2x4xf32>
  %q = nn.quantize %r, %s, %z : tensor<2x4xui8>
  func.return %q : tensor<2x4xui8>
}

// -----

// The scales of channels move with them, but not through a reshape.

// CHECK-LABEL: func.func @channels
// CHECK:         %[[S:.*]] = nn.transpose %s : tensor<1x2xf32>
// CHECK-NEXT:    %[[T:.*]] = nn.transpose %x : tensor<4x2xui8>
// CHECK-NEXT:    %[[A:.*]] = nn.dequantize %[[T]], %[[S]]
// CHECK-NEXT:    %[[D:.*]] = nn.dequantize %x, %s
// CHECK-NEXT:    %[[B:.*]] = nn.reshape %[[D]]
// CHECK-NEXT:    func.return %[[A]], %[[B]]
func.func @channels(%x: tensor<2x4xui8>, %s: tensor<2x1xf32>) -> (tensor<4x2xf32>, tensor<8xf32>) {
  %z = nn.splat 3 : ui8 : tensor<ui8>
  %a = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %b = nn.transpose %a perm [1, 0] : tensor<4x2xf32>
  %c = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %d = nn.reshape %c shape [8] : tensor<8xf32>
  func.return %b, %d : tensor<4x2xf32>, tensor<8xf32>
}

// -----

// A concat of equal parameters, and padding with zeros, which are the zero point.

// CHECK-LABEL: func.func @concat
// CHECK:         %[[C:.*]] = nn.concat %x, %y axis 1 : tensor<2x8xui8>
// CHECK-NEXT:    %[[P:.*]] = nn.pad %[[C]] low [0, 1] high [0, 0] value 3.0 : tensor<2x9xui8>
// CHECK-NEXT:    %[[D:.*]] = nn.dequantize %[[P]]
// CHECK-NEXT:    func.return %[[D]]
func.func @concat(%x: tensor<2x4xui8>, %y: tensor<2x4xui8>) -> tensor<2x9xf32> {
  %s = nn.splat 0.5 : f32 : tensor<f32>
  %z = nn.splat 3 : ui8 : tensor<ui8>
  %a = nn.dequantize %x, %s, %z : tensor<2x4xf32>
  %b = nn.dequantize %y, %s, %z : tensor<2x4xf32>
  %c = nn.concat %a, %b axis 1 : tensor<2x8xf32>
  %d = nn.pad %c low [0, 1] high [0, 0] : tensor<2x9xf32>
  func.return %d : tensor<2x9xf32>
}

// -----

// Products with a scale that is infinite, or so large that they may be, do not cancel out.

// CHECK-LABEL: func.func @infinite
// CHECK:         nn.dequantize
// CHECK-NEXT:    nn.max_pool
// CHECK-NEXT:    nn.pad
// CHECK-NEXT:    nn.quantize
// CHECK-NEXT:    nn.dequantize
// CHECK-NEXT:    nn.quantize
func.func @infinite(%x: tensor<1x2x4x6xui8>, %y: tensor<4xui8>) -> (tensor<1x2x2x4xui8>, tensor<4xui8>) {
  %s = nn.splat 0x7f800000 : f32 : tensor<f32>
  %h = nn.splat 3.0e38 : f32 : tensor<f32>
  %z = nn.splat 3 : ui8 : tensor<ui8>
  %a = nn.dequantize %x, %s, %z : tensor<1x2x4x6xf32>
  %b = nn.max_pool %a kernel_shape [2, 2] strides [2, 2] : tensor<1x2x2x3xf32>
  %c = nn.pad %b low [0, 0, 0, 1] high [0, 0, 0, 0] : tensor<1x2x2x4xf32>
  %d = nn.quantize %c, %s, %z : tensor<1x2x2x4xui8>
  %e = nn.dequantize %y, %h, %z : tensor<4xf32>
  %f = nn.quantize %e, %h, %z : tensor<4xui8>
  func.return %d, %f : tensor<1x2x2x4xui8>, tensor<4xui8>
}
