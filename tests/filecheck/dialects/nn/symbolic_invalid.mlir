// RUN: tessella-opt %s --split-input-file --verify-diagnostics

// A symbol is known from the op on that defines it.
builtin.module attributes {symbols = [#nn.symbol<k, 0 to 5>]} {
  func.func @main(%x: tensor<5xf32>, %c: tensor<i64>) -> tensor<[k]xf32> {
    // expected-error@+1 {{nn.iota: the symbol k is not defined above it}}
    %i = nn.iota count [k] : tensor<[k]xi64>
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]xf32>
    func.return %t : tensor<[k]xf32>
  }
}

// -----

// The functions that an op runs count too.
builtin.module attributes {symbols = [#nn.symbol<k, 0 to 5>]} {
  func.func @step(%h: tensor<i64>, %e: tensor<i64>) -> tensor<i64> {
    %s = nn.sizes values [[k]] : tensor<1xi64>
    func.return %h : tensor<i64>
  }
  func.func @main(%x: tensor<5xi64>, %c: tensor<i64>) -> tensor<i64> {
    // expected-error@+1 {{nn.scan: the symbol k is not defined above it}}
    %h = nn.scan @step %c, %x carried 1 scanned 1 : tensor<i64>
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]xi64>
    func.return %h : tensor<i64>
  }
}

// -----

builtin.module attributes {symbols = [#nn.symbol<k, 0 to 5>]} {
  func.func @main(%x: tensor<5xf32>, %c: tensor<i64>) -> tensor<[k]xf32> {
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]xf32>
    // expected-error@+1 {{nn.trim: the symbol k is defined twice}}
    %u = nn.trim %x, %c sizes [[k]] : tensor<[k]xf32>
    func.return %u : tensor<[k]xf32>
  }
}

// -----

builtin.module attributes {symbols = [#nn.symbol<k, 0 to 5>]} {
  func.func @main(%x: tensor<5xf32>, %c: tensor<i64>, %y: tensor<[k]xf32>) -> tensor<[k]xf32> {
    // expected-error@+1 {{nn.trim: the symbol k is a size of an input too}}
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]xf32>
    func.return %t : tensor<[k]xf32>
  }
}

// -----

builtin.module attributes {symbols = [#nn.symbol<k, 0 to 5>]} {
  func.func @step(%x: tensor<5xf32>, %c: tensor<i64>) {
    // expected-error@+1 {{nn.trim: the symbol k is defined outside of @main}}
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]xf32>
    func.return
  }
  func.func @main() {
    func.return
  }
}

// -----

builtin.module attributes {symbols = [#nn.symbol<k, 2 to 5>]} {
  func.func @main(%x: tensor<5xf32>, %c: tensor<i64>) {
    // expected-error@+1 {{nn.trim: a size is not a symbol that begins at 0}}
    %t = nn.trim %x, %c sizes [[k]] : tensor<[k]xf32>
    func.return
  }
}

// -----

func.func @main(%x: tensor<5xf32>, %c: tensor<i32>) {
  // expected-error@+1 {{nn.trim: count is an i64}}
  %t = nn.trim %x, %c sizes [3] : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<5xf32>, %c: tensor<i64>) {
  // expected-error@+1 {{nn.trim: x has too few slices}}
  %t = nn.trim %x, %c sizes [6] : tensor<6xf32>
  func.return
}
