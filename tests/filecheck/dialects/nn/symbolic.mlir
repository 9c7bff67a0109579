// RUN: tessella-opt %s --split-input-file | tessella-opt --split-input-file | filecheck %s

// Sizes of the module's symbols as values, and a symbol that an op defines: the types below it
// depend on the symbol.

// CHECK-LABEL: builtin.module attributes {symbols = [#nn.symbol<n, 1 to 64>, #nn.symbol<k, 0 to 64>]} {
// CHECK:         %t = nn.trim %x, %c sizes {{\[\[k\]\]}} : tensor<[k]x4xf32>
// CHECK-NEXT:    %i = nn.iota count [k] : tensor<[k]xi64>
// CHECK-NEXT:    %r = nn.reshape %t shape {{\[}}[4 * k]{{\]}} : tensor<[4 * k]xf32>
// CHECK-NEXT:    %s = nn.sizes values {{\[}}[k], [n], 4] : tensor<3xi64>
builtin.module attributes {symbols = [#nn.symbol<n, 1 to 64>, #nn.symbol<k, 0 to 64>]} {
  func.func @main(%x: tensor<[n]x4xf32>, %c: tensor<i64>) -> tensor<[4 * k]xf32> {
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]x4xf32>
    %i = nn.iota count [k] : tensor<[k]xi64>
    %r = nn.reshape %t shape [[4 * k]] : tensor<[4 * k]xf32>
    %s = nn.sizes values [[k], [n], 4] : tensor<3xi64>
    func.return %r : tensor<[4 * k]xf32>
  }
}

// -----

// A number instead of a symbol: a program that is specialised for it.

// CHECK: %t = nn.trim %x, %c sizes [3] : tensor<3x4xf32>
func.func @main(%x: tensor<5x4xf32>, %c: tensor<i64>) -> tensor<3x4xf32> {
  %t = nn.trim %x, %c sizes [3] : tensor<3x4xf32>
  func.return %t : tensor<3x4xf32>
}
