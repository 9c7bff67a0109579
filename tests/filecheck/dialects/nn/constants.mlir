// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @weights(
// CHECK-NEXT:    %0 = nn.weight @conv1.w : tensor<8x3xf32>
// CHECK-NEXT:    %1 = nn.weight @"a b" : tensor<8xi8>
// CHECK-NEXT:    %2 = nn.weight @w {node = "n"} : tensor<f64>
// CHECK-NEXT:    func.return
func.func @weights() {
  %0 = nn.weight @conv1.w : tensor<8x3xf32>
  %1 = nn.weight @"a b" : tensor<8xi8>
  %2 = nn.weight @w {node = "n"} : tensor<f64>
  func.return
}

// CHECK-LABEL: func.func @splats(
// CHECK-NEXT:    %0 = nn.splat 5.000000e-01 : f32 : tensor<8xf32>
// CHECK-NEXT:    %1 = nn.splat 0xff800000 : f32 : tensor<2x3xf32>
// CHECK-NEXT:    %2 = nn.splat -3 : i8 : tensor<2xi8>
// CHECK-NEXT:    %3 = nn.splat 200 : ui8 : tensor<2xui8>
// CHECK-NEXT:    %4 = nn.splat true : tensor<2xi1>
// CHECK-NEXT:    %5 = nn.splat 9223372036854775807 : i64 : tensor<i64>
// CHECK-NEXT:    func.return
func.func @splats() {
  %0 = nn.splat 5.000000e-01 : f32 : tensor<8xf32>
  %1 = nn.splat 0xff800000 : f32 : tensor<2x3xf32>
  %2 = nn.splat -3 : i8 : tensor<2xi8>
  %3 = nn.splat 200 : ui8 : tensor<2xui8>
  %4 = nn.splat true : tensor<2xi1>
  %5 = nn.splat 9223372036854775807 : i64 : tensor<i64>
  func.return
}
