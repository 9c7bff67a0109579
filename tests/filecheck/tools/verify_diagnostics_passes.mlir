// RUN: tessella-opt %s -p 'insert-conversions{device=x86}' --split-input-file --verify-diagnostics
// RUN: sed 's/@unknown/@+1/' %s > %t
// RUN: not tessella-opt %t -p 'insert-conversions{device=x86}' --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// What a pass has against a program has no line.

// CHECK: error: unexpected error: insert-conversions: 1 unsupported thing
// CHECK: hint: no line is known for it
// CHECK: error: expected error "the kernel mixed mixes precisions" was not produced
#f32 = #place.at<x86, f32, nchw>
#f64 = #place.at<x86, f64, nchw>
!x = tensor<4xf32>
// expected-error@unknown {{the kernel mixed mixes precisions}}
func.func @main(%x: !x, %y: !x) -> !x {
  %a = nn.add %x, %y {node = "sum", kernel = "mixed", places = [#f32, #f64, #f32]} : !x
  func.return %a : !x
}
