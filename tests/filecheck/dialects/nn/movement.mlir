// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @moves(
// CHECK-NEXT:    %0 = nn.reshape %x {shape = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %1 = nn.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %2 = nn.slice %x {starts = array<i64: 0, 2>, sizes = array<i64: 2, 2>, steps = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
// CHECK-NEXT:    %3 = nn.pad %x {low = array<i64: 0, 1>, high = array<i64: 2, 0>, mode = "constant", value = 0.000000e+00 : f64} : (tensor<2x3xf32>) -> tensor<4x4xf32>
// CHECK-NEXT:    %4 = nn.concat %x, %x, %x {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
// CHECK-NEXT:    %5 = nn.expand %x {shape = array<i64: 4, 2, 3>} : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
// CHECK-NEXT:    %6 = nn.tile %x {repeats = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<2x6xf32>
// CHECK-NEXT:    %7 = nn.resize %x {sizes = array<i64: 4, 3>, scales = array<f64: 2.000000e+00, 1.000000e+00>, mode = "nearest", coordinates = "asymmetric", nearest_mode = "floor"} : (tensor<2x3xf32>) -> tensor<4x3xf32>
// CHECK-NEXT:    %8 = nn.channel_shuffle %6 {groups = 3 : i64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
// CHECK-NEXT:    func.return
func.func @moves(%x: tensor<2x3xf32>) {
  %0 = nn.reshape %x {shape = array<i64: 3, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = nn.transpose %x {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = nn.slice %x {starts = array<i64: 0, 2>, sizes = array<i64: 2, 2>, steps = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  %3 = nn.pad %x {low = array<i64: 0, 1>, high = array<i64: 2, 0>, mode = "constant", value = 0.000000e+00 : f64} : (tensor<2x3xf32>) -> tensor<4x4xf32>
  %4 = nn.concat %x, %x, %x {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  %5 = nn.expand %x {shape = array<i64: 4, 2, 3>} : (tensor<2x3xf32>) -> tensor<4x2x3xf32>
  %6 = nn.tile %x {repeats = array<i64: 1, 2>} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  %7 = nn.resize %x {sizes = array<i64: 4, 3>, scales = array<f64: 2.000000e+00, 1.000000e+00>, mode = "nearest", coordinates = "asymmetric", nearest_mode = "floor"} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %8 = nn.channel_shuffle %6 {groups = 3 : i64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  func.return
}

// CHECK-LABEL: func.func @scalars(
// CHECK-NEXT:    %0 = nn.reshape %x {shape = array<i64: 1, 1>} : (tensor<f32>) -> tensor<1x1xf32>
// CHECK-NEXT:    %1 = nn.transpose %x {perm = array<i64>} : (tensor<f32>) -> tensor<f32>
// CHECK-NEXT:    func.return
func.func @scalars(%x: tensor<f32>) {
  %0 = nn.reshape %x {shape = array<i64: 1, 1>} : (tensor<f32>) -> tensor<1x1xf32>
  %1 = nn.transpose %x {perm = array<i64>} : (tensor<f32>) -> tensor<f32>
  func.return
}
