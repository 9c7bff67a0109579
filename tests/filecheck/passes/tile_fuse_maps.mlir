// RUN: tessella-opt %s -p tile-fuse-maps --split-input-file | filecheck %s

// The maps after a contraction run on its result before that is stored, in the contraction's own
// indices; the order of the operands is kept.

// CHECK-LABEL: tile.kernel @post
// CHECK-NEXT:    %r3 = tile.contract + [m: 4, n: 5 | k: 3] (%a[m, k], %b[k, n]) post (%c[n], %d[m, 0]) -> [m, n] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32, %[[Y:.*]]: f32):
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[X]], %[[Y]]
// CHECK-NEXT:      tile.yield %[[P]]
// CHECK-NEXT:    }, {
// CHECK-NEXT:    ^{{.*}}(%[[S:.*]]: f32, %[[C:.*]]: f32, %[[D:.*]]: f32):
// CHECK-NEXT:      %[[Q:.*]] = arith.addf %[[S]], %[[C]]
// CHECK-NEXT:      %[[R:.*]] = arith.subf %[[D]], %[[Q]]
// CHECK-NEXT:      tile.yield %[[R]]
// CHECK-NEXT:    } : tensor<4x5xf32>
// CHECK-NEXT:    tile.return %r3
tile.kernel @post(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>, %c: tensor<5xf32>, %d: tensor<4x1xf32>) -> (tensor<4x5xf32>) {
  %r1 = tile.contract + [m: 4, n: 5 | k: 3] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4x5xf32>
  %r2 = tile.contract = [d0: 4, d1: 5] (%r1[d0, d1], %c[d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4x5xf32>
  %r3 = tile.contract = [d0: 4, d1: 5] (%d[d0, 0], %r2[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.subf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4x5xf32>
  tile.return %r3 : tensor<4x5xf32>
}

// -----

// A map after a map becomes one map, which yields what the last one yields.

// CHECK-LABEL: tile.kernel @maps
// CHECK-NEXT:    %r2 = tile.contract = [i: 4, j: 5] (%a[j, i], %b[i, j]) -> [i, j] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32, %[[Y:.*]]: i32):
// CHECK-NEXT:      %[[E:.*]] = math.exp %[[X]] : f32
// CHECK-NEXT:      %[[C:.*]] = arith.sitofp %[[Y]] : i32 to f32
// CHECK-NEXT:      %[[L:.*]] = arith.cmpf olt, %[[E]], %[[C]] : f32
// CHECK-NEXT:      tile.yield %[[L]] : i1
// CHECK-NEXT:    } : tensor<4x5xi1>
// CHECK-NEXT:    tile.return %r2
tile.kernel @maps(%a: tensor<5x4xf32>, %b: tensor<4x5xi32>) -> (tensor<4x5xi1>) {
  %r1 = tile.contract = [i: 4, j: 5] (%a[j, i]) -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4x5xf32>
  %r2 = tile.contract = [d0: 4, d1: 5] (%r1[d0, d1], %b[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: i32):
    %p = arith.sitofp %y : i32 to f32
    %q = arith.cmpf olt, %x, %p : f32
    tile.yield %q : i1
  } : tensor<4x5xi1>
  tile.return %r2 : tensor<4x5xi1>
}

// -----

// Two maps that a third one reads join it both.

// CHECK-LABEL: tile.kernel @both
// CHECK-NEXT:    %r3 = tile.contract = [d0: 4] (%b[d0], %a[d0]) -> [d0] {
// CHECK-NEXT:    ^{{.*}}(%[[B:.*]]: f32, %[[A:.*]]: f32):
// CHECK-DAG:       %[[E:.*]] = math.exp %[[A]]
// CHECK-DAG:       %[[S:.*]] = math.sin %[[B]]
// CHECK-DAG:       %[[D:.*]] = arith.divf %[[E]], %[[S]]
// CHECK:           tile.yield %[[D]]
// CHECK-NEXT:    } : tensor<4xf32>
// CHECK-NEXT:    tile.return %r3
tile.kernel @both(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) {
  %r1 = tile.contract = [d0: 4] (%a[d0]) -> [d0] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [d0: 4] (%b[d0]) -> [d0] {
  ^bb0(%x: f32):
    %p = math.sin %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r3 = tile.contract = [d0: 4] (%r1[d0], %r2[d0]) -> [d0] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.divf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r3 : tensor<4xf32>
}

// -----

// Dimensions of size 1 need no index: the map's own become 0, and it may have none there.

// CHECK-LABEL: tile.kernel @units
// CHECK-NEXT:    %r2 = tile.contract > [n: 6 | k: 3] (%a[n, k]) post (%b[0, n]) -> [0, n] {
// CHECK:         %r4 = tile.contract > [n: 6 | k: 3] (%a[n, k]) post (%b[0, n]) -> [0, n] {
// CHECK:         %r6 = tile.contract > [m: 1, n: 6 | k: 3] (%a[n, k]) post (%b[0, n]) -> [0, n] {
// CHECK-NOT:     tile.contract
// CHECK:         tile.return %r2, %r4, %r6
tile.kernel @units(%a: tensor<6x3xf32>, %b: tensor<1x6xf32>) -> (tensor<1x6xf32>, tensor<1x6xf32>, tensor<1x6xf32>) {
  %r1 = tile.contract > [n: 6 | k: 3] (%a[n, k]) -> [0, n] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<1x6xf32>
  %r2 = tile.contract = [d0: 1, d1: 6] (%r1[d0, d1], %b[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<1x6xf32>
  %r3 = tile.contract > [n: 6 | k: 3] (%a[n, k]) -> [0, n] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<1x6xf32>
  %r4 = tile.contract = [d1: 6] (%r3[0, d1], %b[0, d1]) -> [0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<1x6xf32>
  %r5 = tile.contract > [m: 1, n: 6 | k: 3] (%a[n, k]) -> [0, n] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<1x6xf32>
  %r6 = tile.contract = [d0: 1, d1: 6] (%r5[0, d1], %b[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<1x6xf32>
  tile.return %r2, %r4, %r6 : tensor<1x6xf32>, tensor<1x6xf32>, tensor<1x6xf32>
}

// -----

// What a map reads twice is one operand. A result of the kernel stays one.

// CHECK-LABEL: tile.kernel @second_use
// CHECK-NEXT:    %r1 = tile.contract = [d0: 4] (%a[d0])
// CHECK:         %r3 = tile.contract = [d0: 4] (%r1[d0]) -> [d0] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32):
// CHECK-NEXT:      %[[S:.*]] = math.sin %[[X]]
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[S]], %[[S]]
// CHECK-NEXT:      tile.yield %[[P]]
// CHECK:         tile.return %r1, %r3
tile.kernel @second_use(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r1 = tile.contract = [d0: 4] (%a[d0]) -> [d0] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [d0: 4] (%r1[d0]) -> [d0] {
  ^bb0(%x: f32):
    %p = math.sin %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r3 = tile.contract = [d0: 4] (%r2[d0], %r2[d0]) -> [d0] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r1, %r3 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A map is computed where it is read: shifted, transposed, or one row. Not where that would compute
// much again, as exp here.

// CHECK-LABEL: tile.kernel @accesses
// CHECK-NEXT:    %r2 = tile.contract = [d0: 3, d1: 4] (%a[d0 + 1, d1]) -> [d0, d1] {
// CHECK:         %r4 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [j, i] {
// CHECK:         %r6 = tile.contract = [d0: 1, d1: 4] (%a[d0, d1]) -> [d0, d1] {
// CHECK:         %r7 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [i, j] {
// CHECK:         %r8 = tile.contract = [d0: 2, d1: 4, d2: 4] (%r7[d1, d2]) -> [d0, d1, d2] {
// CHECK-NOT:     tile.contract
// CHECK:         tile.return
tile.kernel @accesses(%a: tensor<4x4xf32>) -> (tensor<3x4xf32>, tensor<4x4xf32>, tensor<1x4xf32>, tensor<2x4x4xf32>) {
  %r1 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4x4xf32>
  %r2 = tile.contract = [d0: 3, d1: 4] (%r1[d0 + 1, d1]) -> [d0, d1] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<3x4xf32>
  %r3 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4x4xf32>
  %r4 = tile.contract = [d0: 4, d1: 4] (%r3[d1, d0]) -> [d0, d1] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4x4xf32>
  %r5 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4x4xf32>
  %r6 = tile.contract = [d0: 1, d1: 4] (%r5[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<1x4xf32>
  %r7 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4x4xf32>
  %r8 = tile.contract = [d0: 2, d1: 4, d2: 4] (%r7[d1, d2]) -> [d0, d1, d2] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<2x4x4xf32>
  tile.return %r2, %r4, %r6, %r8 : tensor<3x4xf32>, tensor<4x4xf32>, tensor<1x4xf32>, tensor<2x4x4xf32>
}

// -----

// Along the diagonal.

// CHECK-LABEL: tile.kernel @diagonal
// CHECK-NEXT:    tile.contract = [d0: 4, d1: 4] (%a[d0, d0]) -> [d0, d1] {
// CHECK-NOT:     tile.contract
tile.kernel @diagonal(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>) {
  %r1 = tile.contract = [i: 4, j: 4] (%a[i, j]) -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4x4xf32>
  %r2 = tile.contract = [d0: 4, d1: 4] (%r1[d0, d0]) -> [d0, d1] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4x4xf32>
  tile.return %r2 : tensor<4x4xf32>
}

// -----

// Inside a reduction.

// CHECK-LABEL: tile.kernel @reduction
// CHECK-NEXT:    %r2 = tile.contract + [| i: 4] (%a[i]) -> [] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32):
// CHECK-NEXT:      %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT:      tile.yield %[[E]]
// CHECK-NOT:     tile.contract
tile.kernel @reduction(%a: tensor<4xf32>) -> (tensor<f32>) {
  %r1 = tile.contract = [i: 4] (%a[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r2 = tile.contract + [| i: 4] (%r1[i]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  tile.return %r2 : tensor<f32>
}

// -----

// Not a map with a default, as the body would not be applied to it; one that reads into another
// with a default is computed where that reads.

// CHECK-LABEL: tile.kernel @defaults
// CHECK-NEXT:    %r1 = tile.contract = [i: 4] (%a[i - 1]) -> [i] default
// CHECK:         %r2 = tile.contract = [i: 4] (%r1[i]) -> [i] {
// CHECK:         %r4 = tile.contract = [i: 4] (%a[i], %a[i - 1]) -> [i] default
// CHECK-NOT:     tile.contract
// CHECK:         tile.return
tile.kernel @defaults(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r1 = tile.contract = [i: 4] (%a[i - 1]) -> [i] default 2.0 : f32 {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [i: 4] (%r1[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r3 = tile.contract = [i: 4] (%a[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r4 = tile.contract = [i: 4] (%r3[i], %a[i - 1]) -> [i] default 2.0 : f32 {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r2, %r4 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Statements that write the parts of a tensor get the map each, in their own indices.

// CHECK-LABEL: tile.kernel @chain
// CHECK-NEXT:    %e = tile.empty : tensor<4x6xi1>
// CHECK-NEXT:    %[[P:.*]] = tile.contract + [i: 4, j: 3 | k: 2] (%a[i, j, k]) post (%b[2*j], %c[i, 2*j]) init %e -> [i, 2*j] {
// CHECK:           tile.yield
// CHECK-NEXT:    }, {
// CHECK-NEXT:    ^{{.*}}(%[[S:.*]]: f32, %[[B:.*]]: f32, %[[C:.*]]: f32):
// CHECK-NEXT:      %[[T:.*]] = arith.addf %[[S]], %[[B]]
// CHECK-NEXT:      %[[L:.*]] = arith.cmpf olt, %[[T]], %[[C]]
// CHECK-NEXT:      tile.yield %[[L]] : i1
// CHECK:         %r4 = tile.contract = [i: 4, j: 3] (%b[2*j + 1], %c[i, 2*j + 1]) init %[[P]] -> [i, 2*j + 1] {
// CHECK-NOT:     tile.contract
// CHECK:         tile.return %r4
tile.kernel @chain(%a: tensor<4x3x2xf32>, %b: tensor<6xf32>, %c: tensor<4x6xf32>) -> (tensor<4x6xi1>) {
  %e = tile.empty : tensor<4x6xf32>
  %r1 = tile.contract + [i: 4, j: 3 | k: 2] (%a[i, j, k]) init %e -> [i, 2*j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4x6xf32>
  %r2 = tile.contract = [i: 4, j: 3] () init %r1 -> [i, 2*j + 1] {
    %z = arith.constant 0.0 : f32
    tile.yield %z : f32
  } : tensor<4x6xf32>
  %r3 = tile.contract = [d0: 4, d1: 6] (%r2[d0, d1], %b[d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4x6xf32>
  %r4 = tile.contract = [d0: 4, d1: 6] (%r3[d0, d1], %c[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.cmpf olt, %x, %y : f32
    tile.yield %p : i1
  } : tensor<4x6xi1>
  tile.return %r4 : tensor<4x6xi1>
}

// -----

// Not where one of them holds a default, or what one wrote is read.

// CHECK-LABEL: tile.kernel @broken_chains
// CHECK-COUNT-7: tile.contract
// CHECK-NOT:     tile.contract
// CHECK:         tile.return
tile.kernel @broken_chains(%a: tensor<2xf32>) -> (tensor<4xf32>, tensor<f32>, tensor<4xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r1 = tile.contract = [i: 2] (%a[i - 1]) init %e -> [i] default 2.0 : f32 {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [i: 2] (%a[i]) init %r1 -> [i + 2] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %r3 = tile.contract = [i: 4] (%r2[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %f = tile.empty : tensor<4xf32>
  %r4 = tile.contract = [i: 4] (%a[0]) init %f -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %sum = tile.contract + [| i: 4] (%r4[i]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  %r5 = tile.contract = [i: 2] (%a[i]) init %r4 -> [i + 2] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %r6 = tile.contract = [i: 4] (%r5[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r3, %sum, %r6 : tensor<4xf32>, tensor<f32>, tensor<4xf32>
}

// -----

// A map that writes a part of another tensor.

// CHECK-LABEL: tile.kernel @into
// CHECK-NEXT:    %e = tile.empty
// CHECK-NEXT:    tile.contract = [i: 4] (%a[i]) init %e -> [i] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32):
// CHECK-NEXT:      %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT:      tile.yield %[[E]]
// CHECK-NOT:     tile.contract
tile.kernel @into(%a: tensor<4xf32>) -> (tensor<4xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r1 = tile.contract = [i: 4] (%a[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [i: 4] (%r1[i]) init %e -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  tile.return %r2 : tensor<4xf32>
}

// -----

// The indices that a map reads have other names in the producer.

// CHECK-LABEL: tile.kernel @renamed
// CHECK-NEXT:    tile.contract + [m: 4, n: 8 | k: 2]
// CHECK:         tile.index "n"
// CHECK-NEXT:    tile.index "m"
// CHECK-NOT:     tile.contract
tile.kernel @renamed(%a: tensor<4x2xf32>, %b: tensor<2x8xf32>) -> (tensor<4x8xf32>) {
  %r1 = tile.contract + [m: 4, n: 8 | k: 2] (%a[m, k], %b[k, n]) -> [m, n] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4x8xf32>
  %r2 = tile.contract = [d0: 4, d1: 8] (%r1[d0, d1]) -> [d0, d1] {
  ^bb0(%x: f32):
    %zero = arith.constant 0.0 : f32
    %n = tile.index "d1"
    %m = tile.index "d0"
    %c = arith.cmpi sle, %n, %m : index
    %p = arith.select %c, %x, %zero : f32
    tile.yield %p : f32
  } : tensor<4x8xf32>
  tile.return %r2 : tensor<4x8xf32>
}

// -----

// A map that reads the value of an index keeps it.

// CHECK-LABEL: tile.kernel @index
// CHECK-NEXT:    %r2 = tile.contract = [d0: 4] (%a[d0]) -> [d0] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32):
// CHECK-NEXT:      %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT:      %[[N:.*]] = tile.index "d0"
// CHECK-NOT:     tile.contract
tile.kernel @index(%a: tensor<4xf32>, %t: tensor<4xf32>) -> (tensor<4xf32>) {
  %r1 = tile.contract = [i: 4] (%a[i]) -> [i] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [d0: 4] (%r1[d0]) -> [d0] {
  ^bb0(%x: f32):
    %n = tile.index "d0"
    %y = tile.extract %t[%n] : tensor<4xf32> -> f32
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r2 : tensor<4xf32>
}

// -----

// What both read at the same place is one operand, of the maps and after a contraction.

// CHECK-LABEL: tile.kernel @shared
// CHECK-NEXT:    %r2 = tile.contract = [i: 4] (%a[i], %b[i]) -> [i] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32, %[[Y:.*]]: f32):
// CHECK-NEXT:      %[[P:.*]] = arith.addf %[[X]], %[[Y]]
// CHECK-NEXT:      %[[Q:.*]] = arith.mulf %[[P]], %[[X]]
// CHECK-NEXT:      tile.yield %[[Q]]
// CHECK:         %r5 = tile.contract + [i: 4 | k: 3] (%c[i, k]) post (%a[i]) -> [i] {
// CHECK:         ^{{.*}}(%[[S:.*]]: f32, %[[A:.*]]: f32):
// CHECK-NEXT:      %[[U:.*]] = arith.addf %[[S]], %[[A]]
// CHECK-NEXT:      %[[V:.*]] = arith.mulf %[[U]], %[[A]]
// CHECK-NEXT:      tile.yield %[[V]]
tile.kernel @shared(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4x3xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r1 = tile.contract = [i: 4] (%a[i], %b[i]) -> [i] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r2 = tile.contract = [d0: 4] (%r1[d0], %a[d0]) -> [d0] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r3 = tile.contract + [i: 4 | k: 3] (%c[i, k]) -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %r4 = tile.contract = [d0: 4] (%r3[d0], %a[d0]) -> [d0] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  %r5 = tile.contract = [d0: 4] (%r4[d0], %a[d0]) -> [d0] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r2, %r5 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A map with several readers is computed in each of them, if it is cheap; in a product only where it
// moves elements.

// CHECK-LABEL: tile.kernel @readers
// CHECK-NEXT:    %r2 = tile.contract + [| i: 64] (%a[i]) -> [] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32):
// CHECK-NEXT:      %[[S:.*]] = arith.addf %[[X]], %[[X]]
// CHECK-NEXT:      tile.yield %[[S]]
// CHECK:         %r3 = tile.contract > [| i: 64] (%a[i]) -> [] {
// CHECK:         %r4 = tile.contract = [i: 64] (%a[i]) -> [i] {
// CHECK:         %r5 = tile.contract + [| i: 64] (%r4[i], %b[i]) -> [] {
// CHECK:         %r7 = tile.contract + [j: 4 | i: 64] (%c[i, j], %b[i]) -> [j] {
// CHECK-NEXT:    ^{{.*}}(%[[Y:.*]]: f32, %[[Z:.*]]: f32):
// CHECK-NEXT:      %[[P:.*]] = arith.mulf %[[Y]], %[[Z]]
// CHECK-NOT:     tile.contract
tile.kernel @readers(%a: tensor<64xf32>, %b: tensor<64xf32>, %c: tensor<64x4xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>) {
  %r1 = tile.contract = [i: 64] (%a[i]) -> [i] {
  ^bb0(%x: f32):
    %p = arith.addf %x, %x : f32
    tile.yield %p : f32
  } : tensor<64xf32>
  %r2 = tile.contract + [| i: 64] (%r1[i]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  %r3 = tile.contract > [| i: 64] (%r1[i]) -> [] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<f32>
  %r4 = tile.contract = [i: 64] (%a[i]) -> [i] {
  ^bb0(%x: f32):
    %p = arith.addf %x, %x : f32
    tile.yield %p : f32
  } : tensor<64xf32>
  %r5 = tile.contract + [| i: 64] (%r4[i], %b[i]) -> [] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<f32>
  %r6 = tile.contract = [j: 4, i: 64] (%c[i, j]) -> [j, i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4x64xf32>
  %r7 = tile.contract + [j: 4 | i: 64] (%r6[j, i], %b[i]) -> [j] {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r2, %r3, %r5, %r7 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// A map after a part of a tensor writes into its own; not where that would write over what is read.

// CHECK-LABEL: tile.kernel @parts
// CHECK-NEXT:    %e = tile.empty : tensor<4x6xf32>
// CHECK-NEXT:    %[[P:.*]] = tile.contract = [i: 2, j: 3] (%a[i, j]) init %e -> [i + 1, j] {
// CHECK:         %r3 = tile.contract = [i: 2, j: 3] (%a[i, j + 3]) init %[[P]] -> [i + 1, j + 3] {
// CHECK:         %r5 = tile.contract = [j: 6] (%r3[1, j]) -> [j] {
// CHECK:         %r6 = tile.contract = [j: 6] (%r5[j]) init %r3 -> [0, j] {
// CHECK-NOT:     tile.contract
tile.kernel @parts(%a: tensor<2x6xf32>) -> (tensor<4x6xf32>) {
  %e = tile.empty : tensor<4x6xf32>
  %f = tile.empty : tensor<2x6xf32>
  %r1 = tile.contract = [i: 2, j: 3] (%a[i, j]) init %f -> [i, j] {
  ^bb0(%x: f32):
    %p = math.exp %x : f32
    tile.yield %p : f32
  } : tensor<2x6xf32>
  %r2 = tile.contract = [i: 2, j: 3] (%a[i, j + 3]) init %r1 -> [i, j + 3] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<2x6xf32>
  %r3 = tile.contract = [d0: 2, d1: 6] (%r2[d0, d1]) init %e -> [d0 + 1, d1] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4x6xf32>
  %r5 = tile.contract = [j: 6] (%r3[1, j]) -> [j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<6xf32>
  %r6 = tile.contract = [j: 6] (%r5[j]) init %r3 -> [0, j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4x6xf32>
  tile.return %r6 : tensor<4x6xf32>
}

// -----

// A transposed map is not read again and again, as its vectors are not side by side.

// CHECK-LABEL: tile.kernel @transposed
// CHECK-NEXT:    tile.contract = [i: 64, j: 64] (%a[j, i]) -> [i, j] {
// CHECK:         tile.contract + [i: 64 | j: 64]
// CHECK:         tile.contract > [i: 64 | j: 64]
// CHECK:         tile.contract + [i: 64 | j: 64] (%a[j, i]) -> [i] {
// CHECK-NOT:     tile.contract
tile.kernel @transposed(%a: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  %r1 = tile.contract = [i: 64, j: 64] (%a[j, i]) -> [i, j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64x64xf32>
  %r2 = tile.contract + [i: 64 | j: 64] (%r1[i, j]) -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64xf32>
  %r3 = tile.contract > [i: 64 | j: 64] (%r1[i, j]) -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64xf32>
  %r4 = tile.contract > [i: 64 | j: 64] (%r1[i, j]) -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64xf32>
  %r5 = tile.contract = [i: 64, j: 64] (%a[j, i]) -> [i, j] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64x64xf32>
  %r6 = tile.contract + [i: 64 | j: 64] (%r5[i, j]) -> [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<64xf32>
  tile.return %r2, %r3, %r4, %r6 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// -----

// A map that depends on an index is computed in a sum over that index, which ends where the map is
// zero.

// CHECK-LABEL: tile.kernel @ending
// CHECK:         tile.contract + [i: 8 | k: 512] (%n[i], %x[i, k]) -> [i]
// CHECK-NOT:     tile.contract
tile.kernel @ending(%n: tensor<8xi64>, %x: tensor<8x512xf32>) -> (tensor<8xf32>) {
  %m = tile.contract = [a: 8, b: 512] (%n[a], %x[a, b]) -> [a, b] {
  ^bb0(%end: i64, %v: f32):
    %b = tile.index "b"
    %at = arith.index_cast %b : index to i64
    %inside = arith.cmpi slt, %at, %end : i64
    %zero = arith.constant 0.0 : f32
    %y = arith.select %inside, %v, %zero : f32
    tile.yield %y : f32
  } : tensor<8x512xf32>
  %s = tile.contract + [i: 8 | k: 512] (%m[i, k]) -> [i] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8xf32>
  tile.return %s : tensor<8xf32>
}

// -----

// In a sum over the other index, it is not.

// CHECK-LABEL: tile.kernel @not_ending
// CHECK:         tile.contract =
// CHECK:         tile.contract +
tile.kernel @not_ending(%n: tensor<8xi64>, %x: tensor<8x512xf32>) -> (tensor<512xf32>) {
  %m = tile.contract = [a: 8, b: 512] (%n[a], %x[a, b]) -> [a, b] {
  ^bb0(%end: i64, %v: f32):
    %b = tile.index "b"
    %at = arith.index_cast %b : index to i64
    %inside = arith.cmpi slt, %at, %end : i64
    %zero = arith.constant 0.0 : f32
    %y = arith.select %inside, %v, %zero : f32
    tile.yield %y : f32
  } : tensor<8x512xf32>
  %s = tile.contract + [k: 512 | i: 8] (%m[i, k]) -> [k] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<512xf32>
  tile.return %s : tensor<512xf32>
}
