// RUN: tessella-opt %s -p 'pick-kernels{target=avx512}' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'pick-kernels{target=avx512},insert-conversions{device=x86}' --split-input-file | filecheck %s --check-prefix=PLACED
// RUN: tessella-opt %s -p 'pick-kernels{target=neon places="arm/f32"}' --split-input-file | filecheck %s --check-prefix=ARM

// The kernels of least time together: the convolutions run channels-last, and so does what is
// between them. The function says how it was picked.

// CHECK-LABEL: func.func @chain
// CHECK-SAME:    nn.pick = {strategy = "cost", exact = true, places = ["x86/f32/nhwc", "x86/f32", "x86", "host"], target = "avx512"}
// CHECK-NEXT:    %a = nn.conv %x, %w {{.*}}kernel = "conv", places = [#nhwc, #nchw, #nhwc]
// CHECK-NEXT:    %c = nn.relu %a {kernel = "relu", places = [#nhwc, #nhwc]} : tensor<1x64x56x56xf32>
// CHECK-NEXT:    %d = nn.conv %c, %w {{.*}}kernel = "conv", places = [#nhwc,

// ARM:           = #place.at<arm, f32,
// ARM:           func.func @chain
// ARM-NEXT:      %a = nn.conv %x, %w {{.*}}kernel = "conv", places = [#
func.func @chain(%x: tensor<1x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x64x56x56xf32> {
  %a = nn.conv %x, %w pads [1, 1, 1, 1] : tensor<1x64x56x56xf32>
  %c = nn.relu %a : tensor<1x64x56x56xf32>
  %d = nn.conv %c, %w pads [1, 1, 1, 1] : tensor<1x64x56x56xf32>
  func.return %d : tensor<1x64x56x56xf32>
}

// -----

// One small convolution does not make the conversions of what it reads and writes worth their time.

// CHECK-LABEL: func.func @between
// CHECK-NEXT:    %a = nn.conv %x, %w {{.*}}kernel = "conv", places = [#nchw, #nchw, #nchw]
func.func @between(%x: tensor<1x256x28x28xf32>, %w: tensor<8x256x1x1xf32>) -> tensor<1x8x28x28xf32> {
  %a = nn.conv %x, %w : tensor<1x8x28x28xf32>
  func.return %a : tensor<1x8x28x28xf32>
}

// -----

// A conversion is where the value is smallest: after what cuts it, before what enlarges it. What
// joins a kernel's group comes first.

// PLACED-LABEL: func.func @after
// PLACED:         %a = nn.conv
// PLACED-NEXT:    %b = nn.relu %a {kernel = "relu"} : tensor<1x64x56x56xf32, #nhwc>
// PLACED-NEXT:    %c = nn.slice %b
// PLACED-NEXT:    %[[C:.*]] = place.relayout %c : tensor<1x64x2x2xf32, #nhwc> -> tensor<1x64x2x2xf32, #nchw>
// PLACED-NEXT:    func.return %[[C]]
func.func @after(%x: tensor<1x64x56x56xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x64x2x2xf32> {
  %a = nn.conv %x, %w pads [1, 1, 1, 1] : tensor<1x64x56x56xf32>
  %b = nn.relu %a : tensor<1x64x56x56xf32>
  %c = nn.slice %b starts [0, 0, 8, 8] sizes [1, 64, 2, 2] : tensor<1x64x2x2xf32>
  func.return %c : tensor<1x64x2x2xf32>
}

// -----

// PLACED-LABEL: func.func @before
// PLACED:         %a = nn.conv
// PLACED-NEXT:    %[[A:.*]] = place.relayout %a : tensor<1x64x14x14xf32, #nhwc> -> tensor<1x64x14x14xf32, #nchw>
// PLACED-NEXT:    %b = nn.tile %[[A]]
// PLACED-NEXT:    func.return %b
func.func @before(%x: tensor<1x64x14x14xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x64x112x112xf32> {
  %a = nn.conv %x, %w pads [1, 1, 1, 1] : tensor<1x64x14x14xf32>
  %b = nn.tile %a repeats [1, 1, 8, 8] : tensor<1x64x112x112xf32>
  func.return %b : tensor<1x64x112x112xf32>
}

// -----

// A value that several read in another layout is converted once.

// PLACED-LABEL: func.func @shared
// PLACED-NEXT:    %[[X:.*]] = place.relayout %x
// PLACED-NEXT:    %a = nn.conv %[[X]]
// PLACED-NEXT:    %b = nn.conv %[[X]]
// PLACED-NEXT:    %c = nn.add %a, %b {{.*}}nhwc
// PLACED-NEXT:    %[[C:.*]] = place.relayout %c
// PLACED-NEXT:    func.return %[[C]]
func.func @shared(%x: tensor<1x64x28x28xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<1x64x28x28xf32> {
  %a = nn.conv %x, %w pads [1, 1, 1, 1] : tensor<1x64x28x28xf32>
  %b = nn.conv %x, %w pads [1, 1, 1, 1] : tensor<1x64x28x28xf32>
  %c = nn.add %a, %b : tensor<1x64x28x28xf32>
  func.return %c : tensor<1x64x28x28xf32>
}

// -----

// What no native kernel can do runs in NumPy, which is a fallback. Integers are served whatever the
// precision of a place is; other floats where a place leaves the precision open, or else in the
// precision that it names.

// CHECK-LABEL: func.func @elements
// CHECK-NEXT:    nn.add %u, %u {kernel = "add", places = [#u8_nchw, #u8_nchw, #u8_nchw]}
// CHECK-NEXT:    nn.add %i, %i {kernel = "add", places = [#i64_nchw, #i64_nchw, #i64_nchw]}
// CHECK-NEXT:    nn.sqrt %d {kernel = "sqrt", places = [#f64_nchw, #f64_nchw]}

// ARM-LABEL: func.func @elements
// ARM:           nn.add %i, %i {kernel = "add", places = [#i64_nchw,
// ARM-NEXT:      nn.sqrt %d {kernel = "sqrt", places = [#f32_nchw, #f32_nchw]}
func.func @elements(%u: tensor<3xui8>, %i: tensor<4xi64>, %d: tensor<4xf64>) {
  %0 = nn.add %u, %u : tensor<3xui8>
  %2 = nn.add %i, %i : tensor<4xi64>
  %3 = nn.sqrt %d : tensor<4xf64>
  func.return
}
