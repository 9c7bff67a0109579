// RUN: tessella-opt %s -p 'fuse-patterns{only="conv-conv" places="x86/f32" target=avx2}' --split-input-file | filecheck %s

// Few channels between two convolutions make both cheaper than one.

// CHECK-LABEL: func.func @narrow
// CHECK-SAME:    nn.refused = [{pattern = "conv-conv", op = "nn.conv", node = "nn.conv", reason = "it takes {{.*}}, and its parts take {{.*}}", consumed = ["nn.conv", "nn.conv"]}]
// CHECK-COUNT-2: nn.conv
func.func @narrow(%x: tensor<1x128x16x16xf32>) -> tensor<1x128x16x16xf32> {
  %w = nn.weight @w : tensor<4x128x1x1xf32>
  %v = nn.weight @v : tensor<128x4x1x1xf32>
  %a = nn.conv %x, %w : tensor<1x4x16x16xf32>
  %y = nn.conv %a, %v : tensor<1x128x16x16xf32>
  func.return %y : tensor<1x128x16x16xf32>
}

// -----

// CHECK-LABEL: func.func @wide
// CHECK-NOT:     nn.refused
// CHECK:         nn.matmul
// CHECK:         %y = nn.conv %x
func.func @wide(%x: tensor<1x16x16x16xf32>) -> tensor<1x16x16x16xf32> {
  %w = nn.weight @w : tensor<128x16x1x1xf32>
  %v = nn.weight @v : tensor<16x128x1x1xf32>
  %a = nn.conv %x, %w : tensor<1x128x16x16xf32>
  %y = nn.conv %a, %v : tensor<1x16x16x16xf32>
  func.return %y : tensor<1x16x16x16xf32>
}
