// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @moves(
// CHECK-NEXT:    %0 = nn.reshape %x shape [3, 2] : tensor<3x2xf32>
// CHECK-NEXT:    %1 = nn.transpose %x : tensor<3x2xf32>
// CHECK-NEXT:    %2 = nn.slice %x starts [0, 2] sizes [2, 2] steps [1, -1] : tensor<2x2xf32>
// CHECK-NEXT:    %3 = nn.pad %x low [0, 1] high [2, 0] : tensor<4x4xf32>
// CHECK-NEXT:    %4 = nn.concat %x, %x, %x axis 0 : tensor<6x3xf32>
// CHECK-NEXT:    %5 = nn.expand %x shape [4, 2, 3] : tensor<4x2x3xf32>
// CHECK-NEXT:    %6 = nn.tile %x repeats [1, 2] : tensor<2x6xf32>
// CHECK-NEXT:    %7 = nn.resize %x sizes [4, 3] scales [2.0, 1.0] coordinates "asymmetric" nearest_mode "floor" : tensor<4x3xf32>
// CHECK-NEXT:    %8 = nn.channel_shuffle %6 groups 3 : tensor<2x6xf32>
// CHECK-NEXT:    func.return
func.func @moves(%x: tensor<2x3xf32>) {
  %0 = nn.reshape %x shape [3, 2] : tensor<3x2xf32>
  %1 = nn.transpose %x : tensor<3x2xf32>
  %2 = nn.slice %x starts [0, 2] sizes [2, 2] steps [1, -1] : tensor<2x2xf32>
  %3 = nn.pad %x low [0, 1] high [2, 0] : tensor<4x4xf32>
  %4 = nn.concat %x, %x, %x axis 0 : tensor<6x3xf32>
  %5 = nn.expand %x shape [4, 2, 3] : tensor<4x2x3xf32>
  %6 = nn.tile %x repeats [1, 2] : tensor<2x6xf32>
  %7 = nn.resize %x sizes [4, 3] scales [2.0, 1.0] coordinates "asymmetric" nearest_mode "floor" : tensor<4x3xf32>
  %8 = nn.channel_shuffle %6 groups 3 : tensor<2x6xf32>
  func.return
}

// CHECK-LABEL: func.func @scalars(
// CHECK-NEXT:    %0 = nn.reshape %x shape [1, 1] : tensor<1x1xf32>
// CHECK-NEXT:    %1 = nn.transpose %x : tensor<f32>
// CHECK-NEXT:    func.return
func.func @scalars(%x: tensor<f32>) {
  %0 = nn.reshape %x shape [1, 1] : tensor<1x1xf32>
  %1 = nn.transpose %x : tensor<f32>
  func.return
}
