// RUN: tessella-opt %s | tessella-opt | filecheck %s
// RUN: tessella-opt %s --print-op-generic | tessella-opt | filecheck %s

// The project's dialects stand beside all of xDSL's, with its own vector forms of arith.

// CHECK-LABEL: func.func @tensors
// CHECK: nn.weight @"layer/w:0"
// CHECK: place.relayout
// CHECK: nn.splat 1.000000e-01
func.func @tensors(%x: tensor<1x2x3x4xf32, #place.at<x86, f32, nchw>>) {
  %w = nn.weight @"layer/w:0" : tensor<4xf32>
  %0 = place.relayout %x : tensor<1x2x3x4xf32, #place.at<x86, f32, nchw>>
    -> tensor<1x2x3x4xf32, #place.at<x86, f32, nhwc>>
  %1 = nn.splat 0.1 : f32 : tensor<4xf32>
  func.return
}

// CHECK-LABEL: func.func @loops
// CHECK: rt.context : memref<16xi64>
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : vector<8xi1>, vector<8xf32>
func.func @loops(%a: vector<8xf32>, %n: index) -> vector<8xf32> {
  %0 = rt.context : memref<16xi64>
  %1 = vector.create_mask %n : vector<8xi1>
  %2 = arith.select %1, %a, %a : vector<8xi1>, vector<8xf32>
  func.return %2 : vector<8xf32>
}

// CHECK-LABEL: func.func @upstream
// CHECK: cf.br
func.func @upstream() {
  cf.br ^bb1
^bb1:
  func.return
}
