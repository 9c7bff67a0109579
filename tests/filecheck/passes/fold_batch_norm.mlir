// RUN: tessella-opt %s -p fold-batch-norm --split-input-file | filecheck %s

// Weights are scaled by scale / sqrt(variance + epsilon); the bias is (b - mean) times that, + bias.

// CHECK-LABEL: func.func @conv_bias
// CHECK:         %[[E:.*]] = nn.splat 1.000000e-03 : f32 : tensor<2xf32>
// CHECK-NEXT:    %[[V:.*]] = nn.add %variance, %[[E]] {node = "c.w"}
// CHECK-NEXT:    %[[D:.*]] = nn.sqrt %[[V]] {node = "c.w"}
// CHECK-NEXT:    %[[F:.*]] = nn.div %scale, %[[D]] {node = "c.w"}
// CHECK-NEXT:    %[[C:.*]] = nn.sub %b, %mean {node = "c.b"}
// CHECK-NEXT:    %[[P:.*]] = nn.mul %[[C]], %[[F]] {node = "c.b"}
// CHECK-NEXT:    %[[B:.*]] = nn.add %[[P]], %bias {node = "c.b"}
// CHECK-NEXT:    %[[S:.*]] = nn.reshape %[[F]] shape [2, 1, 1, 1] {node = "c.w"}
// CHECK-NEXT:    %[[W:.*]] = nn.mul %w, %[[S]] {node = "c.w"}
// CHECK-NEXT:    %y = nn.conv %x, %[[W]], %[[B]] pads [1, 0, 1, 0] {node = "c", nn.pattern = "fold-batch-norm", nn.consumed = ["nn.conv@c", "nn.batch_norm@n"]}
// CHECK-NEXT:    func.return %y
func.func @conv_bias(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.weight @w : tensor<2x3x3x1xf32>
  %b = nn.weight @b : tensor<2xf32>
  %scale = nn.weight @scale : tensor<2xf32>
  %bias = nn.weight @bias : tensor<2xf32>
  %mean = nn.weight @mean : tensor<2xf32>
  %variance = nn.weight @variance : tensor<2xf32>
  %c = nn.conv %x, %w, %b pads [1, 0, 1, 0] {node = "c"} : tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %bias, %mean, %variance epsilon 0.001 {node = "n"} : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Someone else reads the convolution's result: the normalization becomes two ops of its own.

// CHECK-LABEL: func.func @two_uses
// CHECK:         %c = nn.conv %x, %w 
// CHECK:         %[[F:.*]] = nn.div %s, %{{.*}} {node = "n.w"}
// CHECK-NEXT:    %[[M:.*]] = nn.mul %s, %[[F]] {node = "n.b"}
// CHECK-NEXT:    %[[B:.*]] = nn.sub %s, %[[M]] {node = "n.b"}
// CHECK-NEXT:    %[[FR:.*]] = nn.reshape %[[F]] shape [2, 1, 1] {node = "n.w"}
// CHECK-NEXT:    %[[BR:.*]] = nn.reshape %[[B]] shape [2, 1, 1] {node = "n.b"}
// CHECK-NEXT:    %[[Y:.*]] = nn.mul %c, %[[FR]] {node = "n"}
// CHECK-NEXT:    %y = nn.add %[[Y]], %[[BR]] {node = "n"}
// CHECK-NEXT:    func.return %c, %y
func.func @two_uses(%x: tensor<1x3x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.weight @w : tensor<2x3x1x1xf32>
  %s = nn.weight @s : tensor<2xf32>
  %c = nn.conv %x, %w : tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %s, %s, %s, %s epsilon 0.001 {node = "n"} : tensor<1x2x4x4xf32>
  func.return %c, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// A parameter of the normalization is no constant.

// CHECK-LABEL: func.func @computed_parameter
// CHECK:         nn.conv
// CHECK-NEXT:    %y = nn.batch_norm %c, %s, %bias, %s, %s
// CHECK-NEXT:    func.return
func.func @computed_parameter(%x: tensor<1x3x4x4xf32>, %bias: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.weight @w : tensor<2x3x1x1xf32>
  %s = nn.weight @s : tensor<2xf32>
  %c = nn.conv %x, %w : tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %s, %bias, %s, %s epsilon 0.001 : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// The convolution's weight is no constant.

// CHECK-LABEL: func.func @computed_weight
// CHECK:         %c = nn.conv %x, %w
// CHECK:         nn.mul %c, %
// CHECK:         nn.add
// CHECK-NEXT:    func.return
func.func @computed_weight(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %s = nn.weight @s : tensor<2xf32>
  %c = nn.conv %x, %w : tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %s, %s, %s, %s epsilon 0.001 : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// A scale and a shift for each channel; one number for all channels; a difference; a quotient.

// CHECK-LABEL: func.func @channels
// CHECK:         %[[S:.*]] = nn.reshape %scale shape [2]
// CHECK-NEXT:    %[[S4:.*]] = nn.reshape %[[S]] shape [2, 1, 1, 1]
// CHECK-NEXT:    %[[W:.*]] = nn.mul %w, %[[S4]]
// CHECK-NEXT:    %[[B:.*]] = nn.reshape %shift shape [2]
// CHECK-NEXT:    %[[ONE:.*]] = nn.reshape %one shape [1]
// CHECK-NEXT:    %[[TWO:.*]] = nn.expand %[[ONE]] shape [2]
// CHECK-NEXT:    %[[B2:.*]] = nn.sub %[[B]], %[[TWO]]
// CHECK-NEXT:    %[[H:.*]] = nn.splat 5.000000e-01 : f32 : tensor<2xf32>
// CHECK-NEXT:    %[[H4:.*]] = nn.reshape %[[H]] shape [2, 1, 1, 1]
// CHECK-NEXT:    %[[W3:.*]] = nn.div %[[W]], %[[H4]]
// CHECK-NEXT:    %[[B3:.*]] = nn.div %[[B2]], %[[H]]
// CHECK-NEXT:    nn.conv %x, %[[W3]], %[[B3]]
// CHECK-NEXT:    func.return
func.func @channels(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.weight @w : tensor<2x3x1x1xf32>
  %scale = nn.weight @scale : tensor<1x2x1x1xf32>
  %shift = nn.weight @shift : tensor<2x1x1xf32>
  %one = nn.weight @one : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<1x2x4x4xf32>
  %c = nn.conv %x, %w : tensor<1x2x4x4xf32>
  %1 = nn.mul %scale, %c : tensor<1x2x4x4xf32>
  %2 = nn.add %1, %shift : tensor<1x2x4x4xf32>
  %3 = nn.sub %2, %one : tensor<1x2x4x4xf32>
  %4 = nn.div %3, %half : tensor<1x2x4x4xf32>
  func.return %4 : tensor<1x2x4x4xf32>
}

// -----

// Constants that vary along a spatial axis; a constant that is divided by.

// CHECK-LABEL: func.func @no_channels
// CHECK:         %c = nn.conv %x, %w
// CHECK-NEXT:    nn.mul %{{.*}}, %row
// CHECK-NEXT:    nn.div %one, %
// CHECK-NEXT:    func.return
func.func @no_channels(%x: tensor<1x3x4x2xf32>) -> tensor<1x2x4x2xf32> {
  %w = nn.weight @w : tensor<2x3x1x1xf32>
  %row = nn.weight @row : tensor<2xf32>
  %one = nn.weight @one : tensor<f32>
  %c = nn.conv %x, %w : tensor<1x2x4x2xf32>
  %1 = nn.mul %c, %row : tensor<1x2x4x2xf32>
  %2 = nn.div %one, %1 : tensor<1x2x4x2xf32>
  func.return %2 : tensor<1x2x4x2xf32>
}

// -----

// Behind products of matrices: the columns of w, or its rows where it is read transposed.

// CHECK-LABEL: func.func @products
// CHECK:         %[[W:.*]] = nn.mul %w, %row
// CHECK-NEXT:    %[[M:.*]] = nn.matmul %x, %[[W]] 
// CHECK:         nn.fc %[[M]], %v, %row transpose_w true
// CHECK-NEXT:    func.return
func.func @products(%x: tensor<7x5x3xf32>) -> tensor<7x5x2xf32> {
  %w = nn.weight @w : tensor<3x2xf32>
  %v = nn.weight @v : tensor<2x2xf32>
  %row = nn.weight @row : tensor<2xf32>
  %1 = nn.matmul %x, %w : tensor<7x5x2xf32>
  %2 = nn.mul %1, %row : tensor<7x5x2xf32>
  %3 = nn.matmul %2, %v transpose_b true : tensor<7x5x2xf32>
  %4 = nn.add %3, %row : tensor<7x5x2xf32>
  func.return %4 : tensor<7x5x2xf32>
}

// -----

// A scale after a normalization goes into it, and with it into the convolution.

// CHECK-LABEL: func.func @scale_layer
// CHECK:         nn.weight @shift
// CHECK-NOT:     nn.batch_norm
// CHECK:         nn.conv
// CHECK-NEXT:    func.return
func.func @scale_layer(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.weight @w : tensor<2x3x1x1xf32>
  %s = nn.weight @s : tensor<2xf32>
  %scale = nn.weight @scale : tensor<2x1x1xf32>
  %shift = nn.weight @shift : tensor<2x1x1xf32>
  %c = nn.conv %x, %w : tensor<1x2x4x4xf32>
  %n = nn.batch_norm %c, %s, %s, %s, %s epsilon 0.001 : tensor<1x2x4x4xf32>
  %1 = nn.mul %n, %scale : tensor<1x2x4x4xf32>
  %2 = nn.add %1, %shift : tensor<1x2x4x4xf32>
  func.return %2 : tensor<1x2x4x4xf32>
}
