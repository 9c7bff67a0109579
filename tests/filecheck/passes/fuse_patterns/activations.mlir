// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// CHECK-LABEL: func.func @silu
// CHECK-NEXT:    %y = nn.silu %x {node = "b", nn.pattern = "silu", nn.consumed = ["nn.sigmoid@a", "nn.mul@b"]}
// CHECK-NEXT:    func.return %y
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.sigmoid %x {node = "a"} : tensor<4xf32>
  %y = nn.mul %s, %x {node = "b"} : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// The gate of another value.

// CHECK-LABEL: func.func @gate
// CHECK-NEXT:    nn.sigmoid
// CHECK-NEXT:    nn.mul
// CHECK-NEXT:    func.return
func.func @gate(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.sigmoid %x : tensor<4xf32>
  %y = nn.mul %s, %z : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// The gate is read by somebody else too.

// CHECK-LABEL: func.func @shared_gate
// CHECK-NEXT:    nn.sigmoid
// CHECK-NEXT:    nn.mul
// CHECK-NEXT:    func.return
func.func @shared_gate(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = nn.sigmoid %x : tensor<4xf32>
  %y = nn.mul %s, %x : tensor<4xf32>
  func.return %y, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// With relu6 of x + 3, divided before or after; with a clip of x / 6 + 1/2; with a hard sigmoid. The
// clip of the second is itself spelled with min and max.

// CHECK-LABEL: func.func @hard_swish
// CHECK:         %a4 = nn.hard_swish %x {node = "a4", nn.pattern = "hard-swish", nn.consumed = ["nn.add@a1", "nn.clip@a2", "nn.div@a3", "nn.mul@a4"]}
// CHECK-NEXT:    %b5 = nn.hard_swish %x {node = "b5", nn.pattern = "hard-swish", nn.consumed = ["nn.add@b1", "nn.max@b2", "nn.min@b3", "nn.mul@b4", "nn.mul@b5"]}
// CHECK-NEXT:    %c4 = nn.hard_swish %x
// CHECK-NEXT:    %d2 = nn.hard_swish %x
// CHECK-NEXT:    func.return %a4, %b5, %c4, %d2
func.func @hard_swish(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %three = nn.splat 3.0 : f32 : tensor<f32>
  %six = nn.splat 6.0 : f32 : tensor<f32>
  %sixth = nn.splat 0.16666667 : f32 : tensor<f32>
  %a1 = nn.add %x, %three {node = "a1"} : tensor<4xf32>
  %a2 = nn.clip %a1 low 0.0 high 6.0 {node = "a2"} : tensor<4xf32>
  %a3 = nn.div %a2, %six {node = "a3"} : tensor<4xf32>
  %a4 = nn.mul %x, %a3 {node = "a4"} : tensor<4xf32>
  %b1 = nn.add %three, %x {node = "b1"} : tensor<4xf32>
  %b2 = nn.max %b1, %zero {node = "b2"} : tensor<4xf32>
  %b3 = nn.min %b2, %six {node = "b3"} : tensor<4xf32>
  %b4 = nn.mul %b3, %x {node = "b4"} : tensor<4xf32>
  %b5 = nn.mul %b4, %sixth {node = "b5"} : tensor<4xf32>
  %c1 = nn.div %x, %six : tensor<4xf32>
  %c2 = nn.add %c1, %half : tensor<4xf32>
  %c3 = nn.clip %c2 low 0.0 high 1.0 : tensor<4xf32>
  %c4 = nn.mul %c3, %x : tensor<4xf32>
  %d1 = nn.hard_sigmoid %x alpha 0.1666666716337204 : tensor<4xf32>
  %d2 = nn.mul %x, %d1 : tensor<4xf32>
  func.return %a4, %b5, %c4, %d2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A constant times itself is two factors: x / 36.

// CHECK-LABEL: func.func @square_of_a_constant
// CHECK-NOT:     nn.hard_swish
// CHECK:         func.return
func.func @square_of_a_constant(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = nn.splat 3.0 : f32 : tensor<f32>
  %sixth = nn.splat 0.16666667 : f32 : tensor<f32>
  %a1 = nn.add %x, %three : tensor<4xf32>
  %a2 = nn.clip %a1 low 0.0 high 6.0 : tensor<4xf32>
  %a3 = nn.mul %sixth, %sixth : tensor<f32>
  %a4 = nn.mul %x, %a2 : tensor<4xf32>
  %a5 = nn.mul %a4, %a3 : tensor<4xf32>
  func.return %a5 : tensor<4xf32>
}

// -----

// ONNX's default slope of a hard sigmoid is 0.2; the bound is 5; the sum is x + 2.

// CHECK-LABEL: func.func @other_gates
// CHECK-NOT:     nn.hard_swish
func.func @other_gates(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %three = nn.splat 3.0 : f32 : tensor<f32>
  %six = nn.splat 6.0 : f32 : tensor<f32>
  %a1 = nn.hard_sigmoid %x : tensor<4xf32>
  %a2 = nn.mul %x, %a1 : tensor<4xf32>
  %b1 = nn.add %x, %three : tensor<4xf32>
  %b2 = nn.clip %b1 low 0.0 high 5.0 : tensor<4xf32>
  %b3 = nn.div %b2, %six : tensor<4xf32>
  %b4 = nn.mul %x, %b3 : tensor<4xf32>
  %c1 = nn.add %x, %two : tensor<4xf32>
  %c2 = nn.clip %c1 low 0.0 high 6.0 : tensor<4xf32>
  %c3 = nn.div %c2, %six : tensor<4xf32>
  %c4 = nn.mul %x, %c3 : tensor<4xf32>
  func.return %a2, %b4, %c4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @bounds
// CHECK:         %a = nn.relu %x {nn.pattern = "relu"
// CHECK-NEXT:    %b2 = nn.clip %x low -1.0 high 2.0 {nn.pattern = "clip", nn.consumed = ["nn.max", "nn.min"]}
// CHECK-NEXT:    %c2 = nn.clip %x low -1.0 high 2.0 {
// CHECK-NEXT:    %d2 = nn.clip %x low 0.0 high 2.0 {
// CHECK-NEXT:    func.return
func.func @bounds(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %minus = nn.splat -1.0 : f32 : tensor<f32>
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %a = nn.max %zero, %x : tensor<4xf32>
  %b1 = nn.max %x, %minus : tensor<4xf32>
  %b2 = nn.min %b1, %two : tensor<4xf32>
  %c1 = nn.min %two, %x : tensor<4xf32>
  %c2 = nn.max %minus, %c1 : tensor<4xf32>
  %d1 = nn.min %x, %two : tensor<4xf32>
  %d2 = nn.relu %d1 : tensor<4xf32>
  func.return %a, %b2, %c2, %d2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Bounds in the wrong order mean what comes last; a bound that varies is no property; integers have
// bounds beyond what a property holds.

// CHECK-LABEL: func.func @no_bounds
// CHECK-NOT:     nn.clip
// CHECK-NOT:     nn.relu
func.func @no_bounds(%x: tensor<4xf32>, %low: tensor<4xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi64>) {
  %minus = nn.splat -1.0 : f32 : tensor<f32>
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %one = nn.splat 1 : i64 : tensor<i64>
  %many = nn.splat 9007199254740993 : i64 : tensor<i64>
  %a1 = nn.max %x, %two : tensor<4xf32>
  %a2 = nn.min %a1, %minus : tensor<4xf32>
  %b1 = nn.max %x, %low : tensor<4xf32>
  %b2 = nn.min %b1, %two : tensor<4xf32>
  %i1 = nn.max %i, %one : tensor<4xi64>
  %i2 = nn.min %i1, %many : tensor<4xi64>
  func.return %a2, %b2, %i2 : tensor<4xf32>, tensor<4xf32>, tensor<4xi64>
}

// -----

// CHECK-LABEL: func.func @leaky_relu
// CHECK:         %a2 = nn.leaky_relu %x alpha 0.25 {nn.pattern = "leaky-relu", nn.consumed = ["nn.mul", "nn.max"]}
// CHECK-NEXT:    %b3 = nn.leaky_relu %x alpha 0.25 {
// CHECK-NEXT:    %c3 = nn.leaky_relu %x alpha 4.0 {
// CHECK-NEXT:    func.return
func.func @leaky_relu(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %quarter = nn.splat 0.25 : f32 : tensor<f32>
  %a1 = nn.mul %x, %quarter : tensor<4xf32>
  %a2 = nn.max %a1, %x : tensor<4xf32>
  %b1 = nn.less %x, %zero : tensor<4xi1>
  %b2 = nn.mul %quarter, %x : tensor<4xf32>
  %b3 = nn.where %b1, %b2, %x : tensor<4xf32>
  %c1 = nn.greater %x, %zero : tensor<4xi1>
  %c2 = nn.div %x, %quarter : tensor<4xf32>
  %c3 = nn.where %c1, %x, %c2 : tensor<4xf32>
  func.return %a2, %b3, %c3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// max(x, 4 x) is steep where x is positive; a slope of 0 makes NaN of infinity; where x < 1; the branches
// the other way round.

// CHECK-LABEL: func.func @other_slopes
// CHECK-NOT:     nn.leaky_relu
func.func @other_slopes(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %four = nn.splat 4.0 : f32 : tensor<f32>
  %a1 = nn.mul %x, %four : tensor<4xf32>
  %a2 = nn.max %a1, %x : tensor<4xf32>
  %b1 = nn.mul %x, %zero : tensor<4xf32>
  %b2 = nn.max %b1, %x : tensor<4xf32>
  %c1 = nn.less %x, %one : tensor<4xi1>
  %c2 = nn.mul %x, %four : tensor<4xf32>
  %c3 = nn.where %c1, %c2, %x : tensor<4xf32>
  %d1 = nn.less %x, %zero : tensor<4xi1>
  %d2 = nn.mul %x, %four : tensor<4xf32>
  %d3 = nn.where %d1, %x, %d2 : tensor<4xf32>
  func.return %a2, %b2, %c3, %d3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Scales of one number each.

// CHECK-LABEL: func.func @scales
// CHECK:         %[[S:.*]] = nn.splat 6.000000e+00 : f32 : tensor<f32>
// CHECK-NEXT:    %b = nn.mul %x, %[[S]] {nn.pattern = "scale-scale", nn.consumed = ["nn.mul", "nn.mul"]}
// CHECK-NEXT:    func.return %b
func.func @scales(%x: tensor<4xf32>) -> tensor<4xf32> {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %three = nn.splat 3.0 : f32 : tensor<4xf32>
  %a = nn.mul %two, %x : tensor<4xf32>
  %b = nn.mul %a, %three : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// A scale that varies; a product that is too small to be normal; one that is too large.

// CHECK-LABEL: func.func @other_scales
// CHECK-NOT:     scale-scale
func.func @other_scales(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %small = nn.splat 1.0e-20 : f32 : tensor<f32>
  %large = nn.splat 1.0e+20 : f32 : tensor<f32>
  %a1 = nn.mul %x, %two : tensor<4xf32>
  %a2 = nn.mul %a1, %y : tensor<4xf32>
  %b1 = nn.mul %x, %small : tensor<4xf32>
  %b2 = nn.mul %b1, %small : tensor<4xf32>
  %c1 = nn.mul %x, %large : tensor<4xf32>
  %c2 = nn.mul %c1, %large : tensor<4xf32>
  func.return %a2, %b2, %c2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
