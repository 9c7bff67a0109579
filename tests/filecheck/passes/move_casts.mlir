// RUN: tessella-opt %s -p move-casts --split-input-file | filecheck %s

// Before what makes a tensor larger, also past several ops; only once for all readers.

// CHECK-LABEL: func.func @hoist
// CHECK-NEXT:    %[[X:.*]] = place.cast %x : tensor<1x4xf32, #f32_nchw> -> tensor<1x4xf64, #f64_nchw>
// CHECK-NEXT:    %a = nn.expand %[[X]] {{.*}} {kernel = "expand"
// CHECK-NEXT:    %b = nn.tile %a 
// CHECK-NEXT:    %d = nn.expand %[[X]]
// CHECK-NEXT:    func.return %b, %d : tensor<6x4xf64, #f64_nchw>, tensor<2x4xf64, #f64_nchw>
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
!x = tensor<1x4xf32, #f32>
!a = tensor<3x4xf32, #f32>
!b = tensor<6x4xf32, #f32>
!d = tensor<2x4xf32, #f32>
func.func @hoist(%x: !x) -> (tensor<6x4xf64, #f64>, tensor<2x4xf64, #f64>) {
  %a = nn.expand %x shape [3, 4] {kernel = "expand"} : !a
  %b = nn.tile %a repeats [2, 1] {kernel = "tile"} : !b
  %c = place.cast %b : !b -> tensor<6x4xf64, #f64>
  %d = nn.expand %x shape [2, 4] {kernel = "expand"} : !d
  %e = place.cast %d : !d -> tensor<2x4xf64, #f64>
  func.return %c, %e : tensor<6x4xf64, #f64>, tensor<2x4xf64, #f64>
}

// -----

// Behind what makes it smaller, whatever reads that.

// CHECK-LABEL: func.func @sink
// CHECK-NEXT:    %b = nn.slice %x {{.*}} {kernel = "slice"
// CHECK-NEXT:    %[[B:.*]] = place.cast %b : tensor<2xf64, #f64_nchw> -> tensor<2xf32, #f32_nchw>
// CHECK-NEXT:    %c = nn.relu %[[B]]
// CHECK-NEXT:    func.return %c, %[[B]]
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
!b = tensor<2xf32, #f32>
func.func @sink(%x: tensor<9xf64, #f64>) -> (!b, !b) {
  %a = place.cast %x : tensor<9xf64, #f64> -> tensor<9xf32, #f32>
  %b = nn.slice %a starts [0] sizes [2] {kernel = "slice"} : !b
  %c = nn.relu %b {kernel = "relu"} : !b
  func.return %c, %b : !b, !b
}

// -----

// It stays where the size does, where the value is read elsewhere too, and before arithmetic.

// CHECK-LABEL: func.func @stays
// CHECK-NEXT:    %a = nn.reshape %x
// CHECK-NEXT:    %b = place.cast %a
// CHECK-NEXT:    %c = nn.expand %a
// CHECK-NEXT:    %d = place.cast %c
// CHECK-NEXT:    %e = nn.pad %x
// CHECK-NEXT:    %f = place.cast %e
// CHECK-NEXT:    func.return
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
!x = tensor<4xf32, #f32>
!a = tensor<1x4xf32, #f32>
!c = tensor<3x4xf32, #f32>
!e = tensor<5xf32, #f32>
func.func @stays(%x: !x) -> (tensor<1x4xf64, #f64>, tensor<3x4xf64, #f64>, !c, tensor<5xf64, #f64>) {
  %a = nn.reshape %x shape [1, 4] {kernel = "view"} : !a
  %b = place.cast %a : !a -> tensor<1x4xf64, #f64>
  %c = nn.expand %a shape [3, 4] {kernel = "expand"} : !c
  %d = place.cast %c : !c -> tensor<3x4xf64, #f64>
  %e = nn.pad %x low [0] high [1] value 0.1 {kernel = "pad"} : !e
  %f = place.cast %e : !e -> tensor<5xf64, #f64>
  func.return %b, %d, %c, %f : tensor<1x4xf64, #f64>, tensor<3x4xf64, #f64>, !c, tensor<5xf64, #f64>
}

// -----

// Before what makes a tensor of an open size larger, for some sizes at the least; never more elements are cast.

// CHECK-LABEL: func.func @open
// CHECK-NEXT:    %[[X:.*]] = place.cast %x
// CHECK-NEXT:    %a = nn.expand %[[X]]
// CHECK-NEXT:    func.return %a
builtin.module attributes {symbols = [#nn.symbol<n, 1 to 9>]} {
  func.func @open(%x: tensor<1x4xf32, #place.at<x86, f32, nchw>>) -> tensor<[n]x4xf64, #place.at<x86, f64, nchw>> {
    %a = nn.expand %x shape [[n], 4] {kernel = "expand"} : tensor<[n]x4xf32, #place.at<x86, f32, nchw>>
    %b = place.cast %a : tensor<[n]x4xf32, #place.at<x86, f32, nchw>> -> tensor<[n]x4xf64, #place.at<x86, f64, nchw>>
    func.return %b : tensor<[n]x4xf64, #place.at<x86, f64, nchw>>
  }
}
