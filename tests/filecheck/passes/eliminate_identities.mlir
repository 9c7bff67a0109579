// RUN: tessella-opt %s -p eliminate-identities --split-input-file | filecheck %s

// Ops that only move elements, and move none.

// CHECK-LABEL: func.func @movement
// CHECK-NEXT:    func.return %x : tensor<2x3xf32>
func.func @movement(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %v1 = nn.reshape %x shape [2, 3] : tensor<2x3xf32>
  %v2 = nn.transpose %v1 perm [0, 1] : tensor<2x3xf32>
  %v3 = nn.slice %v2 starts [0, 0] sizes [2, 3] : tensor<2x3xf32>
  %v4 = nn.pad %v3 low [0, 0] high [0, 0] value 1.0 : tensor<2x3xf32>
  %v5 = nn.expand %v4 shape [2, 3] : tensor<2x3xf32>
  %v6 = nn.tile %v5 repeats [1, 1] : tensor<2x3xf32>
  %v7 = nn.concat %v6 axis 1 : tensor<2x3xf32>
  %v8 = nn.cast %v7 to f32 : tensor<2x3xf32>
  func.return %v8 : tensor<2x3xf32>
}

// -----

// Each of them, with something changed.

// CHECK-LABEL: func.func @movement_of_something
// CHECK-NEXT:    nn.transpose
// CHECK-NEXT:    nn.slice
// CHECK-NEXT:    nn.pad
// CHECK-NEXT:    nn.expand
// CHECK-NEXT:    nn.tile
// CHECK-NEXT:    nn.concat
// CHECK-NEXT:    nn.cast
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    func.return
func.func @movement_of_something(%x: tensor<1x3x3xf32>) -> tensor<144xf64> {
  %v2 = nn.transpose %x perm [0, 2, 1] : tensor<1x3x3xf32>
  %v3 = nn.slice %v2 starts [0, 2, 0] sizes [1, 3, 3] steps [1, -1, 1] : tensor<1x3x3xf32>
  %v4 = nn.pad %v3 low [0, 0, 0] high [0, 0, 1] mode "edge" value 1.0 : tensor<1x3x4xf32>
  %v5 = nn.expand %v4 shape [3, 3, 4] : tensor<3x3x4xf32>
  %v6 = nn.tile %v5 repeats [1, 1, 1] : tensor<3x3x4xf32>
  %v7 = nn.tile %v6 repeats [2, 1, 1] : tensor<6x3x4xf32>
  %v8 = nn.concat %v7, %v7 axis 1 : tensor<6x6x4xf32>
  %v9 = nn.slice %v8 starts [0, 0, 0] sizes [6, 6, 4] : tensor<6x6x4xf32>
  %v10 = nn.cast %v9 to f64 : tensor<6x6x4xf64>
  %v11 = nn.reshape %v10 shape [144] : tensor<144xf64>
  %v12 = nn.reshape %v11 shape [144] : tensor<144xf64>
  func.return %v12 : tensor<144xf64>
}

// -----

// Gathering at one known index, from the front or from the back, is a slice.

// CHECK-LABEL: func.func @gather_one
// CHECK-NEXT:    %0 = nn.slice %x starts [0, 1, 0] sizes [2, 1, 4] {node = "g"}
// CHECK-NEXT:    %1 = nn.reshape %0 shape [2, 4] {node = "g"}
// CHECK-NEXT:    %2 = nn.slice %x starts [0, 2, 0] sizes [2, 1, 4]
// CHECK-NEXT:    func.return %1, %2
func.func @gather_one(%x: tensor<2x3x4xf32>) -> (tensor<2x4xf32>, tensor<2x1x4xf32>) {
  %i = nn.splat 1 : i64 : tensor<i64>
  %0 = nn.gather %x, %i axis 1 {node = "g"} : tensor<2x4xf32>
  %j = nn.splat -1 : i64 : tensor<1xi64>
  %1 = nn.gather %x, %j axis 1 : tensor<2x1x4xf32>
  func.return %0, %1 : tensor<2x4xf32>, tensor<2x1x4xf32>
}

// -----

// Not so at an index outside, at two, or at one that is not known.

// CHECK-LABEL: func.func @gather_others
// CHECK-NOT:     nn.slice
func.func @gather_others(%x: tensor<2x3xf32>, %k: tensor<i64>)
    -> (tensor<3xf32>, tensor<2x3xf32>, tensor<3xf32>) {
  %i = nn.splat 2 : i64 : tensor<i64>
  %0 = nn.gather %x, %i : tensor<3xf32>
  %j = nn.splat 1 : i64 : tensor<2xi64>
  %1 = nn.gather %x, %j : tensor<2x3xf32>
  %2 = nn.gather %x, %k : tensor<3xf32>
  func.return %0, %1, %2 : tensor<3xf32>, tensor<2x3xf32>, tensor<3xf32>
}

// -----

// Two in a row are one.

// CHECK-LABEL: func.func @twice
// CHECK-NEXT:    %v1 = nn.transpose %x perm [1, 0, 2] {node = "b"}
// CHECK-NEXT:    %v2 = nn.expand %v1 shape [4, 3, 2, 5]
// CHECK-NEXT:    %v3 = nn.reshape %v2 shape [30, 4]
// CHECK-NEXT:    %v4 = nn.relu %v3
// CHECK-NEXT:    func.return %v4
func.func @twice(%x: tensor<2x3x5xf32>) -> tensor<30x4xf32> {
  %v0 = nn.transpose %x perm [2, 0, 1] {node = "a"} : tensor<5x2x3xf32>
  %v1 = nn.transpose %v0 {node = "b"} : tensor<3x2x5xf32>
  %v5 = nn.expand %v1 shape [1, 3, 2, 5] : tensor<1x3x2x5xf32>
  %v2 = nn.expand %v5 shape [4, 3, 2, 5] : tensor<4x3x2x5xf32>
  %v6 = nn.reshape %v2 shape [120] : tensor<120xf32>
  %v3 = nn.reshape %v6 shape [30, 4] : tensor<30x4xf32>
  %v4 = nn.relu %v3 : tensor<30x4xf32>
  %v7 = nn.relu %v4 : tensor<30x4xf32>
  %v8 = nn.neg %v7 : tensor<30x4xf32>
  %v9 = nn.neg %v8 : tensor<30x4xf32>
  func.return %v9 : tensor<30x4xf32>
}

// -----

// Arithmetic with neutral elements.

// CHECK-LABEL: func.func @neutral
// CHECK-NEXT:    func.return %x
func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = nn.splat 0.0 : f32 : tensor<3xf32>
  %minus_zero = nn.splat -0.0 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<2x1xf32>
  %yes = nn.splat true : tensor<3xi1>
  %v1 = nn.add %minus_zero, %x : tensor<2x3xf32>
  %v2 = nn.sub %v1, %zero : tensor<2x3xf32>
  %v3 = nn.mul %one, %v2 : tensor<2x3xf32>
  %v4 = nn.div %v3, %one : tensor<2x3xf32>
  %v5 = nn.pow %v4, %one : tensor<2x3xf32>
  %v6 = nn.clip %v5 : tensor<2x3xf32>
  %v7 = nn.where %yes, %v6, %zero : tensor<2x3xf32>
  func.return %v7 : tensor<2x3xf32>
}

// -----

// -0.0 + 0.0 is 0.0, and -0.0 - -0.0 as well; a number that is broadcast gives the shape.

// CHECK-LABEL: func.func @not_neutral
// CHECK:         %v1 = nn.add %x, %zero
// CHECK-NEXT:    %v2 = nn.sub %v1, %minus_zero
// CHECK-NEXT:    %v3 = nn.sub %zero, %v2
// CHECK-NEXT:    %v4 = nn.mul %v3, %one
// CHECK-NEXT:    %v5 = nn.div %one, %v4
// CHECK-NEXT:    func.return %v5
func.func @not_neutral(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %zero = nn.splat 0.0 : f32 : tensor<3xf32>
  %minus_zero = nn.splat -0.0 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<2x3xf32>
  %v1 = nn.add %x, %zero : tensor<3xf32>
  %v2 = nn.sub %v1, %minus_zero : tensor<3xf32>
  %v3 = nn.sub %zero, %v2 : tensor<3xf32>
  %v4 = nn.mul %v3, %one : tensor<2x3xf32>
  %v5 = nn.div %one, %v4 : tensor<2x3xf32>
  func.return %v5 : tensor<2x3xf32>
}

// -----

// A square, and a division by a power of two.

// CHECK-LABEL: func.func @cheaper
// CHECK:         %v1 = nn.mul %x, %x {node = "square"}
// CHECK-NEXT:    %[[H:.*]] = nn.splat 1.250000e-01 : f32 : tensor<f32>
// CHECK-NEXT:    %v2 = nn.mul %v1, %[[H]] {node = "eighth"}
// CHECK-NEXT:    %v3 = nn.div %v2, %three
// CHECK-NEXT:    nn.pow %v3, %three
func.func @cheaper(%x: tensor<3xf32>) -> tensor<3xf32> {
  %two = nn.splat 2.0 : f32 : tensor<f32>
  %three = nn.splat 3.0 : f32 : tensor<f32>
  %eight = nn.splat 8.0 : f32 : tensor<f32>
  %v1 = nn.pow %x, %two {node = "square"} : tensor<3xf32>
  %v2 = nn.div %v1, %eight {node = "eighth"} : tensor<3xf32>
  %v3 = nn.div %v2, %three : tensor<3xf32>
  %v4 = nn.pow %v3, %three : tensor<3xf32>
  func.return %v4 : tensor<3xf32>
}

// -----

// What is expanded for an op that broadcasts is read as it is; the other one gives the shape.

// CHECK-LABEL: func.func @expanded
// CHECK-NEXT:    %v1 = nn.expand %r
// CHECK-NEXT:    %v2 = nn.add %r, %v1
// CHECK-NEXT:    func.return %v2
func.func @expanded(%r: tensor<3xf32>) -> tensor<2x3xf32> {
  %v1 = nn.expand %r shape [2, 3] : tensor<2x3xf32>
  %v2 = nn.add %v1, %v1 : tensor<2x3xf32>
  func.return %v2 : tensor<2x3xf32>
}

// -----

// Equal ops are one, wherever they come from; what nobody reads is gone.

// CHECK-LABEL: func.func @shared
// CHECK-NEXT:    nn.splat 5.000000e-01
// CHECK-NEXT:    nn.splat 0.000000e+00
// CHECK-NEXT:    nn.splat -0.000000e+00
// CHECK-NEXT:    %v1 = nn.exp %x {node = "a"}
// CHECK-NEXT:    %v2 = nn.mul %v1, %
// CHECK-NEXT:    %v3 = nn.add %v1, %
// CHECK-NEXT:    %v4 = nn.sub %v1, %
// CHECK-NEXT:    func.return %v2, %v2, %v3, %v4
func.func @shared(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %half = nn.splat 0.5 : f32 : tensor<f32>
  %again = nn.splat 0.5 : f32 : tensor<f32>
  %unread = nn.splat 0.5 : f32 : tensor<3xf32>
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %other = nn.splat -0.0 : f32 : tensor<3xf32>
  %v1 = nn.exp %x {node = "a"} : tensor<3xf32>
  %v5 = nn.exp %x {node = "b"} : tensor<3xf32>
  %v2 = nn.mul %v1, %half : tensor<3xf32>
  %v6 = nn.mul %v5, %again : tensor<3xf32>
  %v3 = nn.add %v1, %zero : tensor<3xf32>
  %v4 = nn.sub %v1, %other : tensor<3xf32>
  func.return %v2, %v6, %v3, %v4 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// -----

// A row of -inf alone makes a softmax NaN: this is no identity.

// CHECK-LABEL: func.func @nan
// CHECK:         nn.softmax
// CHECK-NEXT:    nn.is_nan
// CHECK-NEXT:    nn.where
func.func @nan(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %p = nn.softmax %x : tensor<2x3xf32>
  %n = nn.is_nan %p : tensor<2x3xi1>
  %y = nn.where %n, %zero, %p : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
