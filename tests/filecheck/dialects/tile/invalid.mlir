// RUN: tessella-opt %s --split-input-file --verify-diagnostics

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the index k of [a, k] is not declared}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, k]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the access [a] has 1 dimensions, the tensor 2}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{[b] is accessed after the reduction over b}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [b] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{an assignment has no reduced indices}}
%0 = tile.contract = [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected a body over (f32), found (f64)}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f64):
  tile.yield %v : f64
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the body yields f32, the output holds f64}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf64>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{an index is declared twice}}
%0 = tile.contract + [a: 3, a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected an aggregation: + * > < =}}
%0 = tile.contract - [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{the index k of a + k - 1 < 4 is not declared}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] where [a < 2, a + k - 1 < 4] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{'<' expected}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] where [a + b] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected a size of 0 or more, found -1}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] where [a < -1] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+4 {{expected a #tile.schedule}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] schedule 1 : i64 {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{post operands without a post body}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) post (%x[a, 0]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{[a, b] is accessed after the reduction over b}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) post (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
}, {
^bb0(%s: f32, %v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

// expected-error@+1 {{Expected 'reduce'}}
"test.op"() {a = #tile.schedule<[y] vector y 8>}

// -----

// expected-error@+1 {{Expected 'by'}}
"test.op"() {a = #tile.schedule<[y] reduce [] vector y 8>}

// -----

// expected-error@+1 {{Expected integer literal}}
"test.op"() {a = #tile.schedule<[y] reduce [] blocks [y]>}

// -----

// expected-error@+1 {{Expected integer literal}}
"test.op"() {a = #tile.schedule<[y] reduce [] unroll y>}

// -----

%x, %i = "test.op"() : () -> (tensor<3x10xf32>, index)
// expected-error@+1 {{expected 2 coordinates, found 1}}
%v = tile.extract %x[%i] : tensor<3x10xf32> -> f32

// -----

// expected-error@+1 {{the returned types differ from the function type}}
tile.kernel @k(%x: tensor<3xf32>) -> (tensor<4xf32>) {
  tile.return %x : tensor<3xf32>
}

// -----

#digits = #place.at<x86, f32, packed<[1 floordiv 3, 0, 7 mod 3]>>
%x = "test.op"() : () -> tensor<3x6xf32, #digits>
// expected-error@+1 {{packed<[1 floordiv 3, 0, 7 mod 3]> is not an order of 2 dimensions}}
%r = tile.contract = [i: 3, j: 6] (%x[i, j]) -> [i, j] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3x6xf32>

// -----

#digits = #place.at<x86, f32, packed<[1 floordiv 3, 0, 7 mod 3]>>
// expected-error@+1 {{is not a memory order}}
tile.kernel @k(%x: tensor<3x6xf32, #digits>) -> (tensor<3x6xf32, #digits>) {
  tile.return %x : tensor<3x6xf32, #digits>
}

// -----

%x, %i = "test.op"() : () -> (tensor<3xf32>, index)
// expected-error@+1 {{tile.extract: expected f32, found f64}}
%v = tile.extract %x[%i] : tensor<3xf32> -> f64

// -----

%x = "test.op"() : () -> tensor<3xf32>
%0 = tile.contract = [a: 3] (%x[a]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
// expected-error@+1 {{expected the type of a tensor}}
} : f32

// -----

%x, %t = "test.op"() : () -> (tensor<3xf32>, tensor<2xf32>)
// expected-error@+1 {{tile.extract: the index a has 3 values, the dimension 2}}
%0 = tile.contract = [a: 3] (%x[a]) -> [a] {
^bb0(%v: f32):
  %a = tile.index "a"
  %w = tile.extract %t[%a] : tensor<2xf32> -> f32
  tile.yield %w : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{tile.index: the index c is not declared}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  %c = tile.index "c"
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x, %one = "test.op"() : () -> (tensor<3x10xf32>, f32)
// expected-error@+1 {{arith.addf takes a value from outside its body}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  %w = arith.addf %v, %one : f32
  tile.yield %w : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{nn.relu does not belong into a body}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  %y = nn.relu %x : tensor<3x10xf32>
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<8xi4>
// expected-error@+1 {{expected elements of 8 bits or more, found tensor<8xi4>}}
%0 = tile.contract = [i: 8] (%x[i]) -> [i] {
^bb0(%v: i4):
  tile.yield %v : i4
} : tensor<8xi4>

// -----

// A statement writes into the buffer of its init, which is lost.

// expected-error@+1 {{%r is used after a statement has written over it as its init; read the result of that statement, or a copy made before}}
tile.kernel @read_later(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r = tile.contract = [i: 2] (%x[i]) init %e -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%x[i]) init %r -> [i + 2] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %t = tile.contract = [i: 4] (%r[i]) -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %s, %t : tensor<4xf32>, tensor<4xf32>
}

// -----

// Also by number, in the body of a later statement,

// expected-error@+1 {{%r is used after a statement has written over it as its init}}
tile.kernel @extracted(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r = tile.contract = [i: 2] (%x[i]) init %e -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%x[i]) init %r -> [i + 2] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %t = tile.contract = [i: 2] () -> [i] {
    %i = tile.index "i"
    %v = tile.extract %r[%i] : tensor<4xf32> -> f32
    tile.yield %v : f32
  } : tensor<2xf32>
  tile.return %s, %t : tensor<4xf32>, tensor<2xf32>
}

// -----

// by the statement itself, whose points have no order,

// expected-error@+1 {{%r is used after a statement has written over it as its init}}
tile.kernel @itself(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%x[i]) -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 4] (%r[3 - i]) init %r -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %s : tensor<4xf32>
}

// -----

// as the init of two statements,

// expected-error@+1 {{%e is used after a statement has written over it as its init}}
tile.kernel @two(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r = tile.contract = [i: 2] (%x[i]) init %e -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%x[i]) init %e -> [i + 2] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// or as a result.

// expected-error@+1 {{%r is used after a statement has written over it as its init}}
tile.kernel @returned(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%x[i]) -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%x[i]) init %r -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error@+1 {{%x is used after a statement has written over it as its init}}
tile.kernel @argument(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 2] (%x[i + 2]) init %x -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}

// -----

// expected-error@+1 {{expected an init of the result's type tensor<8xf32>, found tensor<4xf32>}}
tile.kernel @larger(%x: tensor<4xf32>) -> (tensor<8xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r = tile.contract = [i: 4] (%x[i]) init %e -> [i + 4] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %r : tensor<8xf32>
}

// -----

// What is read before is read in time.

tile.kernel @read_before(%x: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r = tile.contract = [i: 2] (%x[i]) init %e -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %t = tile.contract = [i: 4] (%r[i]) -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%x[i]) init %r -> [i + 2] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %s, %t : tensor<4xf32>, tensor<4xf32>
}

// -----

// What a point holds that reads outside of a tensor, or that is left out.

%x = "test.op"() : () -> tensor<3xf32>
// expected-error@+1 {{expected a default of an assignment with points that leave an operand, or that a constraint leaves out}}
%0 = tile.contract = [a: 3] (%x[a - 1]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// expected-error@+1 {{expected a default of an assignment with points that leave an operand, or that a constraint leaves out}}
%0 = tile.contract = [a: 3] (%x[a]) -> [a] where [a < 2] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// expected-error@+1 {{expected a default of f32, which the body yields, found 1.000000e+00 : f64}}
%0 = tile.contract = [a: 3] (%x[a - 1]) -> [a] default 1.0 : f64 {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected a number above 0 as parts}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] parts 0 {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{a default belongs to an assignment}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) -> [a] default 1.0 : f32 {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{tile.index: b is read after the reduction over it}}
%0 = tile.contract + [a: 3 | b: 10] (%x[a, b]) post () -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
}, {
^bb0(%v: f32):
  %b = tile.index "b"
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{[a] is written for each value of b, which is not reduced}}
%0 = tile.contract = [a: 3, b: 10] (%x[a, b]) -> [a] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3x16xf32>
// expected-error@+1 {{the schedule does not fit the statement: expected numbers above 0, found #tile.schedule<[i, j] reduce [] vector j 0 by 0>}}
%0 = tile.contract = [i: 3, j: 16] (%x[i, j]) -> [i, j] schedule #tile.schedule<[i, j] reduce [] vector j 0 by 0> {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3x16xf32>

// -----

%x = "test.op"() : () -> tensor<3x16xf32>
// expected-error@+1 {{expected the loops [i_j], found #tile.schedule<[i, j] reduce []>}}
%0 = tile.contract = [i_j(i: 3, j: 16)] (%x[i, j]) -> [i, j] schedule #tile.schedule<[i, j] reduce []> {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3x16xf32>

// -----

%x = "test.op"() : () -> tensor<3x16xf32>
// expected-error@+1 {{an index is declared twice}}
%0 = tile.contract = [i(i: 3, j: 16)] (%x[i, j]) -> [i, j] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3x16xf32>

// -----

// expected-error@+3 {{expected the indices that i_j merges}}
%x = "test.op"() : () -> tensor<3x16xf32>

%0 = tile.contract = [i_j()] (%x[i, j]) -> [i, j] {
^bb0(%v: f32):
  tile.yield %v : f32
} : tensor<3x16xf32>

// -----

// expected-error@+1 {{a tensor is not traversed along i_j(i: 3, j: 16) as along one index}}
tile.kernel @apart(%x: tensor<16x3xf32>) -> (tensor<3x16xf32>) {
  %0 = tile.contract = [i_j(i: 3, j: 16)] (%x[j, i]) -> [i, j] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<3x16xf32>
  tile.return %0 : tensor<3x16xf32>
}

// -----

// A step has one row, which no loop runs over.

// expected-error@+1 {{expected a schedule of the indices [j], which steps of shared loops run, found [i, j]}}
tile.kernel @rows(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 1]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] schedule #tile.schedule<[i, j] reduce []> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %0 : tensor<8x16xf32>
}

// -----

%a, %b = "test.op"() : () -> (tensor<3x8xui8>, tensor<8x16xi8>)
// expected-error@+1 {{expected a dot product by one of vpdpbusd}}
%0 = tile.contract + [m: 3, n: 16 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 1 dot k vpdq> {
^bb0(%x: ui8, %y: i8):
  %u = arith.extui %x : ui8 to i32
  %v = arith.extsi %y : i8 to i32
  %p = arith.muli %u, %v : i32
  tile.yield %p : i32
} : tensor<3x16xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x8xi8>, tensor<8x16xi8>)
// expected-error@+1 {{expected sums of products u8 x i8 -> i32 for vpdpbusd, found i8 i8 i32}}
%0 = tile.contract + [m: 3, n: 16 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 1 dot k vpdpbusd> {
^bb0(%x: i8, %y: i8):
  %u = arith.extsi %x : i8 to i32
  %v = arith.extsi %y : i8 to i32
  %p = arith.muli %u, %v : i32
  tile.yield %p : i32
} : tensor<3x16xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x8xui8>, tensor<8x16xi8>)
// expected-error@+1 {{expected sums of products u8 x i8 -> i32 for vpdpbusd, found none}}
%0 = tile.contract + [m: 3, n: 16 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 1 dot k vpdpbusd> {
^bb0(%x: ui8, %y: i8):
  %u = arith.extui %x : ui8 to i32
  %v = arith.extsi %y : i8 to i32
  %p = arith.addi %u, %v : i32
  tile.yield %p : i32
} : tensor<3x16xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x8xui8>, tensor<8x16xi8>)
// expected-error@+1 {{expected a dot product over a reduced index other than that of the lanes}}
%0 = tile.contract + [m: 3, n: 16 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 16 by 1 dot m vpdpbusd> {
^bb0(%x: ui8, %y: i8):
  %u = arith.extui %x : ui8 to i32
  %v = arith.extsi %y : i8 to i32
  %p = arith.muli %u, %v : i32
  tile.yield %p : i32
} : tensor<3x16xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x8xui8>, tensor<8x16xi8>)
// expected-error@+1 {{expected a dot product over a reduced index other than that of the lanes}}
%0 = tile.contract + [m: 3, n: 16 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector k 4 by 1 dot k vpdpbusd> {
^bb0(%x: ui8, %y: i8):
  %u = arith.extui %x : ui8 to i32
  %v = arith.extsi %y : i8 to i32
  %p = arith.muli %u, %v : i32
  tile.yield %p : i32
} : tensor<3x16xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x8xui8>, tensor<8x16xi8>)
// expected-error@+1 {{expected a dot product beside a vector index}}
%0 = tile.contract + [m: 3, n: 16 | k: 8] (%a[m, k], %b[k, n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] dot k vpdpbusd> {
^bb0(%x: ui8, %y: i8):
  %u = arith.extui %x : ui8 to i32
  %v = arith.extsi %y : i8 to i32
  %p = arith.muli %u, %v : i32
  tile.yield %p : i32
} : tensor<3x16xi32>

// -----

// Where results of shared loops live.

// expected-error@+1 {{expected a step of one of the indices [i] that shared loops run over, found one of j}}
tile.kernel @step(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of j: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [p: 8, q: 16] (%0[p, q]) -> [p, q] at [p] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

// expected-error@+1 {{expected room for 2 x 16 elements in a step of i, found 1 x 16}}
tile.kernel @small(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of i: 1 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [p: 8, q: 16] (%0[p, q]) -> [p, q] at [p] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

// expected-error@+1 {{expected room for 2 x 16 elements in a step of i, found 32}}
tile.kernel @rank(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of i: 32 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [p: 8, q: 16] (%0[p, q]) -> [p, q] at [p] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

// A window of four rows.

// expected-error@+1 {{expected room for 4 x 16 elements in a step of i, found 2 x 16}}
tile.kernel @window(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i: step - 1 by 4] in a step of i: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [p: 8, q: 16] (%0[p, q]) -> [p, q] at [p] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

// expected-error@+1 {{a result that lives in a step of i is read outside it; let it live in memory}}
tile.kernel @outside(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of i: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [p: 8, q: 16] (%0[p, q]) -> [p, q] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

// expected-error@+1 {{a result that lives in a step of p is read outside it; let it live in memory}}
tile.kernel @returned(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of i: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [p: 8, q: 16] (%0[p, q]) -> [p, q] at [p] in a step of p: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

// Between two runs of the loop, a statement outside it reads all rows.

// expected-error@+1 {{a result that lives in a step of i is read outside it; let it live in memory}}
tile.kernel @between(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of i: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [i: 8, j: 16] (%0[i, j]) -> [i, j] at [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %2 = tile.contract > [j: 16 | i: 8] (%1[i, j]) -> [j] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<16xf32>
  %3 = tile.contract = [p: 8, q: 16] (%0[p, q], %2[q]) -> [p, q] at [p] {
  ^bb0(%v: f32, %m: f32):
    %d = arith.subf %v, %m : f32
    tile.yield %d : f32
  } : tensor<8x16xf32>
  tile.return %3 : tensor<8x16xf32>
}

// -----

// A statement that writes over a tensor does so in memory.

// expected-error@+1 {{a result that lives in a step of i is read outside it; let it live in memory}}
tile.kernel @over(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>) attributes {nest = #tile.nest<[8 by 2]>} {
  %0 = tile.contract = [i: 8, j: 16] (%x[i, j]) -> [i, j] at [i] in a step of i: 2 x 16 {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  %1 = tile.contract = [j: 16] (%x[0, j]) init %0 -> [0, j] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x16xf32>
  tile.return %1 : tensor<8x16xf32>
}

// -----

%x = "test.op"() : () -> tensor<4x4xf32>
// expected-error@+1 {{expected one running index at most, found i, j; an aggregate along two indices is two statements}}
%0 = tile.contract + [| i: 4 running, j: 4 running] (%x[i, j]) -> [i, j] {
^bb0(%a: f32):
  tile.yield %a : f32
} : tensor<4x4xf32>

// -----

%x = "test.op"() : () -> tensor<4x4xf32>
// expected-error@+1 {{[a] is written for each value of t, which is running}}
%0 = tile.contract + [a: 4 | t: 4 running] (%x[a, t]) -> [a] {
^bb0(%a: f32):
  tile.yield %a : f32
} : tensor<4xf32>

// -----

%x = "test.op"() : () -> tensor<4xf32>
// expected-error@+1 {{expected 0 <= t + 1 < 4 for all values of the running index t}}
%0 = tile.contract + [| t: 4 running] (%x[t]) -> [t + 1] {
^bb0(%a: f32):
  tile.yield %a : f32
} : tensor<4xf32>

// -----

%x = "test.op"() : () -> tensor<4x4xf32>
// expected-error@+1 {{expected a running index outside of other reduced ones}}
%0 = tile.contract + [| t: 4 running, k: 4] (%x[t, k]) -> [t] schedule #tile.schedule<[] reduce [k, t]> {
^bb0(%a: f32):
  tile.yield %a : f32
} : tensor<4xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected 1 coordinates, one for each scattered index, found 0}}
%0 = tile.contract + [j: 8 | i: 5 | r: 3] (%u[i, j]) init %e -> [r, j] {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v : f32
} : tensor<3x8xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected an init, which an indexed write writes into}}
%0 = tile.contract + [j: 8 | i: 5 | r: 3] (%u[i, j]) -> [r, j] {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v at %at : f32
} : tensor<3x8xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected at most 3 values of the scattered index r}}
%0 = tile.contract + [j: 8 | i: 5 | r: 4] (%u[i, j]) init %e -> [r, j] {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v at %at : f32
} : tensor<3x8xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected the scattered index r in one dimension of the output, alone}}
%0 = tile.contract + [j: 8 | i: 5 | r: 3] (%u[i, j]) init %e -> [r + 1, j] {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v at %at : f32
} : tensor<3x8xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected no coordinates without scattered indices}}
%0 = tile.contract + [j: 8, k: 3 | i: 5] (%u[i, j]) init %e -> [k, j] {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v at %at : f32
} : tensor<3x8xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected lanes over a free index}}
%0 = tile.contract + [j: 8 | i: 5 | r: 3] (%u[i, j]) init %e -> [r, j] schedule #tile.schedule<[j, i] reduce [] vector i 4 by 1> {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v at %at : f32
} : tensor<3x8xf32>

// -----

%u = "test.op"() : () -> tensor<5x8xf32>
%e = tile.empty : tensor<3x8xf32>
// expected-error@+1 {{expected the loops [j, i]}}
%0 = tile.contract + [j: 8 | i: 5 | r: 3] (%u[i, j]) init %e -> [r, j] schedule #tile.schedule<[j] reduce [i]> {
^bb0(%v: f32):
  %at = tile.index "i"
  tile.yield %v at %at : f32
} : tensor<3x8xf32>

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected the first 0 to 10 values of a row, found 11}}
%v, %p = tile.sort first 11 [a: 3 | b: 10] (%x[a, b]) -> [a, b] {
^bb0(%e: f32):
  tile.yield %e : f32
} : (tensor<3x10xf32>) -> (tensor<3x11xf32>, tensor<3x11xi64>)

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{expected one index after the bar, that of a row}}
%v, %p = tile.sort first 2 [a: 3, b: 10] (%x[a, b]) -> [a, b] {
^bb0(%e: f32):
  tile.yield %e : f32
} : (tensor<3x10xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)

// -----

%x = "test.op"() : () -> tensor<3x10xf32>
// expected-error@+1 {{[a, b + 1] leaves tensor<3x10xf32>}}
%v, %p = tile.sort first 2 [a: 3 | b: 10] (%x[a, b + 1]) -> [a, b] {
^bb0(%e: f32):
  tile.yield %e : f32
} : (tensor<3x10xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)

// -----

%x, %m = "test.op"() : () -> (tensor<3x10xf32>, tensor<3xi64>)
// expected-error@+1 {{[a, b + 1] leaves tensor<3x10xf32>}}
%p, %n = tile.suppress first 2 [a: 3 | b: 10] (%x[a, b + 1]) items (%x[a, b]) limit (%m[a]) {
^bb0(%e: f32):
  tile.yield %e : f32
} rules_out {
^bb0(%l: f32, %r: f32):
  %c = arith.cmpf ogt, %l, %r : f32
  tile.yield %c : i1
} : tensor<3x2xi64>, tensor<3xi64>

// -----

%x, %m = "test.op"() : () -> (tensor<3x10xf32>, tensor<3xi64>)
// expected-error@+1 {{the index b of [b] is not declared}}
%p, %n = tile.suppress first 2 [a: 3 | b: 10] (%x[a, b]) items (%x[a, b]) limit (%m[b]) {
^bb0(%e: f32):
  tile.yield %e : f32
} rules_out {
^bb0(%l: f32, %r: f32):
  %c = arith.cmpf ogt, %l, %r : f32
  tile.yield %c : i1
} : tensor<3x2xi64>, tensor<3xi64>

// -----

%x, %m = "test.op"() : () -> (tensor<3x10xf32>, tensor<3xi32>)
// expected-error@+1 {{expected a limit of i64, found tensor<3xi32>}}
%p, %n = tile.suppress first 2 [a: 3 | b: 10] (%x[a, b]) items (%x[a, b]) limit (%m[a]) {
^bb0(%e: f32):
  tile.yield %e : f32
} rules_out {
^bb0(%l: f32, %r: f32):
  %c = arith.cmpf ogt, %l, %r : f32
  tile.yield %c : i1
} : tensor<3x2xi64>, tensor<3xi64>

// -----

%x, %m = "test.op"() : () -> (tensor<3x10xf64>, tensor<3xi64>)
// expected-error@+1 {{expected keys of 8 to 32 bits, found f64}}
%p, %n = tile.suppress first 2 [a: 3 | b: 10] (%x[a, b]) items (%x[a, b]) limit (%m[a]) {
^bb0(%e: f64):
  tile.yield %e : f64
} rules_out {
^bb0(%l: f64, %r: f64):
  %c = arith.cmpf ogt, %l, %r : f64
  tile.yield %c : i1
} : tensor<3x2xi64>, tensor<3xi64>

// -----

%x, %m = "test.op"() : () -> (tensor<3x10xf32>, tensor<3xi64>)
// expected-error@+1 {{the second body yields f32, expected i1}}
%p, %n = tile.suppress first 2 [a: 3 | b: 10] (%x[a, b]) items (%x[a, b]) limit (%m[a]) {
^bb0(%e: f32):
  tile.yield %e : f32
} rules_out {
^bb0(%l: f32, %r: f32):
  %c = arith.cmpf ogt, %l, %r : f32
  tile.yield %l : f32
} : tensor<3x2xi64>, tensor<3xi64>

// -----

%x, %m = "test.op"() : () -> (tensor<3x10xf32>, tensor<3xi64>)
// expected-error@+1 {{expected tensor<3x2xi64>, found tensor<3x4xi64>}}
%p, %n = tile.suppress first 2 [a: 3 | b: 10] (%x[a, b]) items (%x[a, b]) limit (%m[a]) {
^bb0(%e: f32):
  tile.yield %e : f32
} rules_out {
^bb0(%l: f32, %r: f32):
  %c = arith.cmpf ogt, %l, %r : f32
  tile.yield %c : i1
} : tensor<3x4xi64>, tensor<3xi64>

// -----

%p, %n = "test.op"() : () -> (tensor<3x2xi64>, tensor<4xi64>)
// expected-error@+1 {{expected tensor<3xi64>, found tensor<4xi64>}}
%j, %k = tile.join %p, %n : tensor<6x2xi64>, tensor<i64>

// -----

// expected-error@+1 {{expected an argument that is written over to be no constant, and to become one result, found %x}}
tile.kernel @lost(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>) {
  %r = tile.contract = [i: 2] (%y[i]) init %x -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%r[i]) -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<2xf32>
  tile.return %s : tensor<2xf32>
}

// -----

tile.kernel @over(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 2] (%y[i]) init %x -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
tile.segment @step(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // expected-error@+1 {{@over writes over operand 0, which has to be a tensor that the segment makes or carries, and does not read later}}
  %r = tile.call @over(%x, %y) : tensor<4xf32>
  tile.return %r, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

tile.kernel @over(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 2] (%y[i]) init %x -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
tile.segment @step(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>) {
  %r = tile.call @over(%x, %y) : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{@step writes over an argument}}
  %r = rt.launch @step(%x, %y) : tensor<4xf32>
  func.return %r : tensor<4xf32>
}

// -----

tile.kernel @over(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 2] (%y[i]) init %x -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
tile.segment @step(%c: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = nn.weight @w : tensor<2xf32>
  %r = tile.call @over(%x, %y) : tensor<4xf32>
  tile.return %c, %r : tensor<4xf32>, tensor<4xf32>
}
tile.segment @segment_0(%c: tensor<4xf32>, %xs: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  // expected-error@+1 {{@step writes over an argument that is not carried}}
  %d, %ys = tile.scan @step(%c, %xs) carried 1 scanned 1 backward [] : tensor<4xf32>, tensor<3x4xf32>
  tile.return %d, %ys : tensor<4xf32>, tensor<3x4xf32>
}
