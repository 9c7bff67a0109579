// RUN: tessella-opt %s -p write-in-place --split-input-file | filecheck %s

// What a segment makes and does not read again is written over, one call after the other. The
// kernel that copies is left where it is called: for an input of the program.

// CHECK-LABEL: tile.kernel @write.in_place(%d: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>)
// CHECK-NEXT:    %r = tile.contract = [b: 4 | n: 2 | at: 9] (%i[n], %u[n, b]) init %d -> [at, b] checked {
// CHECK-LABEL: tile.kernel @write(
// CHECK-LABEL: tile.segment @segment_0
// CHECK:         %a = tile.call @write(%x, %i, %u)
// CHECK-NEXT:    %b = tile.call @write.in_place(%a, %i, %u)
// CHECK-NEXT:    %v = tile.view %b
// CHECK-NEXT:    %w = tile.view %v
// CHECK-NEXT:    %y = tile.call @write.in_place(%w, %i, %u)
tile.kernel @write(%d: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>) attributes {code = 0 : i64} {
  %c = tile.contract = [a: 9, b: 4] (%d[a, b]) -> [a, b] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<9x4xf32>
  %r = tile.contract = [b: 4 | n: 2 | at: 9] (%i[n], %u[n, b]) init %c -> [at, b] checked {
  ^bb0(%p: i64, %v: f32):
    %q = arith.index_cast %p : i64 to index
    tile.yield %v at %q : f32
  } : tensor<9x4xf32>
  tile.return %r : tensor<9x4xf32>
}
tile.kernel @neg(%x: tensor<9x4xf32>) -> (tensor<9x4xf32>) attributes {code = 1 : i64} {
  %r = tile.contract = [a: 9, b: 4] (%x[a, b]) -> [a, b] {
  ^bb0(%v: f32):
    %n = arith.negf %v : f32
    tile.yield %n : f32
  } : tensor<9x4xf32>
  tile.return %r : tensor<9x4xf32>
}
tile.segment @segment_0(%x: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>) {
  %a = tile.call @write(%x, %i, %u) : tensor<9x4xf32>
  %b = tile.call @write(%a, %i, %u) : tensor<9x4xf32>
  %v = tile.view %b : tensor<9x4xf32> -> tensor<36xf32>
  %w = tile.view %v : tensor<36xf32> -> tensor<9x4xf32>
  %y = tile.call @write(%w, %i, %u) : tensor<9x4xf32>
  tile.return %y : tensor<9x4xf32>
}

// -----

// What is read again, through a view too, or returned, or constant, is copied.

// CHECK-LABEL: tile.segment @segment_0
// CHECK-NOT:     in_place
// CHECK:         tile.return %b, %v, %d, %e
tile.kernel @write(%d: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>) attributes {code = 0 : i64} {
  %c = tile.contract = [a: 9, b: 4] (%d[a, b]) -> [a, b] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<9x4xf32>
  %r = tile.contract = [b: 4 | n: 2 | at: 9] (%i[n], %u[n, b]) init %c -> [at, b] checked {
  ^bb0(%p: i64, %v: f32):
    %q = arith.index_cast %p : i64 to index
    tile.yield %v at %q : f32
  } : tensor<9x4xf32>
  tile.return %r : tensor<9x4xf32>
}
tile.kernel @neg(%x: tensor<9x4xf32>) -> (tensor<9x4xf32>) attributes {code = 1 : i64} {
  %r = tile.contract = [a: 9, b: 4] (%x[a, b]) -> [a, b] {
  ^bb0(%v: f32):
    %n = arith.negf %v : f32
    tile.yield %n : f32
  } : tensor<9x4xf32>
  tile.return %r : tensor<9x4xf32>
}
tile.segment @segment_0(%x: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>, tensor<36xf32>, tensor<9x4xf32>, tensor<9x4xf32>) {
  %a = tile.call @neg(%x) : tensor<9x4xf32>
  %b = tile.call @write(%a, %i, %u) : tensor<9x4xf32>
  %c = tile.call @neg(%a) : tensor<9x4xf32>
  %v = tile.view %c : tensor<9x4xf32> -> tensor<36xf32>
  %d = tile.call @write(%c, %i, %u) : tensor<9x4xf32>
  %k = nn.weight @k : tensor<9x4xf32>
  %e = tile.call @write(%k, %i, %u) : tensor<9x4xf32>
  tile.return %b, %v, %d, %e : tensor<9x4xf32>, tensor<36xf32>, tensor<9x4xf32>, tensor<9x4xf32>
}

// -----

// What a loop carries is written over where the next value is that of the same number.

// CHECK-LABEL: tile.segment @step
// CHECK-NEXT:    %n = tile.call @neg(%s)
// CHECK-NEXT:    %a = tile.call @write.in_place(%s, %i, %u)
// CHECK-NEXT:    %b = tile.call @write.in_place(%a, %i, %u)
// CHECK-NEXT:    tile.return %b, %n
// CHECK-LABEL: tile.segment @exchange
// CHECK-NEXT:    %n = tile.call @write(%s, %i, %u)
// CHECK-NEXT:    tile.return %t, %n
// CHECK-LABEL: tile.segment @segment_0
tile.kernel @write(%d: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>) attributes {code = 0 : i64} {
  %c = tile.contract = [a: 9, b: 4] (%d[a, b]) -> [a, b] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<9x4xf32>
  %r = tile.contract = [b: 4 | n: 2 | at: 9] (%i[n], %u[n, b]) init %c -> [at, b] checked {
  ^bb0(%p: i64, %v: f32):
    %q = arith.index_cast %p : i64 to index
    tile.yield %v at %q : f32
  } : tensor<9x4xf32>
  tile.return %r : tensor<9x4xf32>
}
tile.kernel @neg(%x: tensor<9x4xf32>) -> (tensor<9x4xf32>) attributes {code = 1 : i64} {
  %r = tile.contract = [a: 9, b: 4] (%x[a, b]) -> [a, b] {
  ^bb0(%v: f32):
    %n = arith.negf %v : f32
    tile.yield %n : f32
  } : tensor<9x4xf32>
  tile.return %r : tensor<9x4xf32>
}
tile.segment @step(%s: tensor<9x4xf32>, %t: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
  %n = tile.call @neg(%s) : tensor<9x4xf32>
  %a = tile.call @write(%s, %i, %u) : tensor<9x4xf32>
  %b = tile.call @write(%a, %i, %u) : tensor<9x4xf32>
  tile.return %b, %n : tensor<9x4xf32>, tensor<9x4xf32>
}
tile.segment @exchange(%s: tensor<9x4xf32>, %t: tensor<9x4xf32>, %i: tensor<2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
  %n = tile.call @write(%s, %i, %u) : tensor<9x4xf32>
  tile.return %t, %n : tensor<9x4xf32>, tensor<9x4xf32>
}
tile.segment @segment_0(%s: tensor<9x4xf32>, %t: tensor<9x4xf32>, %is: tensor<7x2xi64>, %u: tensor<2x4xf32>) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
  %a, %b = tile.scan @step(%s, %t, %is, %u) carried 2 scanned 1 backward [] : tensor<9x4xf32>, tensor<9x4xf32>
  %c, %d = tile.scan @exchange(%a, %b, %is, %u) carried 2 scanned 1 backward [] : tensor<9x4xf32>, tensor<9x4xf32>
  tile.return %c, %d : tensor<9x4xf32>, tensor<9x4xf32>
}
