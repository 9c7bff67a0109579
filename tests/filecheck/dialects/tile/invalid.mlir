// RUN: tessella-opt %s --split-input-file --verify-diagnostics

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the index k of [a, k] is not declared}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, k]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the access [a] has 1 dimensions, the tensor 2}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{[b] is accessed after the reduction over b}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [b] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{an assignment has no reduced indices}}
%0 = tile.contract = [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected a body over (f32), found (f64)}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f64):
  tile.yield %v : f64
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the body yields f32, the output holds f64}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf64>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{an index is declared twice}}
%0 = tile.contract + [a: 3, a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected an aggregation: + * > < =}}
%0 = tile.contract - [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : (tensor<3x10xf32>) -> tensor<3xf32>

// -----

%x, %i = "test.op"() : () -> (tensor<3x10xf32>, index)
// expected-error@+1 {{expected 2 coordinates, found 1}}
%v = tile.extract %x[%i] : tensor<3x10xf32> -> f32

// -----

// expected-error@+1 {{the returned types differ from the function type}}
tile.kernel @k(%x: tensor<3xf32>) -> (tensor<4xf32>) {
  tile.return %x : tensor<3xf32>
}
