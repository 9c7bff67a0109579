// RUN: tessella-opt %s -p 'tile-schedule{target=avx2 log=true}' --split-input-file 2>&1 | filecheck %s

// The reasoning: the statement with its strides, candidates with what their cycles are spent on, best first, the choice.

// CHECK:      Contraction conv on avx2:
// CHECK-NEXT: O[n, x, y, co : 1, 14, 14, 64] = +(D[n, x + i - 1, y + j - 1, ci], K[i, j, co, ci])
// CHECK-NEXT:              Range         O         D         K
// CHECK-NEXT:       ci        64         0         1         1
// CHECK-NEXT:       co        64         1         0        64
// CHECK-NEXT:        i         3         0       896     12288
// CHECK-NEXT:        j         3         0        64      4096
// CHECK-NEXT:        x        14       896       896         0
// CHECK-NEXT:        y        14        64        64         0
// CHECK-NEXT:      off                   0      -960         0
// CHECK-NEXT: Computing cost for <[co, {{.*}}] reduce [i, j, ci] vector co 8 by
// CHECK-NEXT:   cycles: arithmetic=451584 loads={{[0-9.]+}} latency={{[0-9.]+}} core={{[0-9.]+}} L2={{[0-9.]+}} L3={{[0-9.]+}} memory=0
// CHECK-NEXT:   registers={{[0-9]+}}/16 cycles={{[0-9.]+}} microseconds={{[0-9.]+}}
// CHECK:        ... and {{[0-9]+}} more, up to cycles=
// CHECK-NEXT: Chosen of {{[0-9]+}}: <
// CHECK-NEXT:   cycles:
// CHECK-NEXT:   registers=
// CHECK-NEXT:   operand 1 packed as packed<[2 floordiv
// CHECK-NEXT:   operand 0: broadcast f32, stride 0, row stride 64
// CHECK-NEXT:   operand 1: packed f32, stride 1
// CHECK-NEXT:   result: contiguous f32, stride 1, row stride 64
// CHECK-NEXT:   constraint 0 <= y + j - 1 < 14: loops over the rows that are inside
// CHECK-NEXT:   constraint 0 <= x + i - 1 < 14: loop bound
// CHECK-NEXT:   threads: x by {{[0-9]+}}: 2 are 100% busy, 4 are
tile.kernel @conv(%D: tensor<1x14x14x64xf32>, %K: tensor<3x3x64x64xf32> {tile.constant}) -> (tensor<1x14x14x64xf32>) {
  %O = tile.contract + [n: 1, x: 14, y: 14, co: 64 | i: 3, j: 3, ci: 64] (%D[n, x + i - 1, y + j - 1, ci], %K[i, j, co, ci]) -> [n, x, y, co] {
  ^bb0(%d: f32, %k: f32):
    %p = arith.mulf %d, %k : f32
    tile.yield %p : f32
  } : tensor<1x14x14x64xf32>
  tile.return %O : tensor<1x14x14x64xf32>
}

// Shared loops: how many steps, and why they are as large as they are. An index that ends early does so in each of them.

// CHECK:      Contraction triangle on avx2:
// CHECK:      One of 16 steps of shared loops: m of 512 by 32
// CHECK-NEXT:   tensors of 1026 KiB; 64 KiB of them in a step, for which no share of L1 has room
// CHECK-NEXT:   n ends at m + 3: 91% of it are run
tile.kernel @triangle(%a: tensor<512x256xf32>) -> (tensor<512xf32>) attributes {nest = #tile.nest<[512 by 32]>} {
  %s = tile.contract = [m: 512, n: 256] (%a[m, n]) -> [m, n] at [m] in a step of m: 32 x 256 {
  ^bb0(%x: f32):
    %o = arith.constant 3 : i32
    %n = tile.index "n"
    %n32 = arith.index_cast %n : index to i32
    %m = tile.index "m"
    %m32 = arith.index_cast %m : index to i32
    %e = arith.addi %m32, %o : i32
    %c = arith.cmpi sle, %n32, %e : i32
    %f = arith.constant 0.0 : f32
    %y = arith.select %c, %x, %f : f32
    tile.yield %y : f32
  } : tensor<512x256xf32>
  %t = tile.contract + [i: 512 | j: 256] (%s[i, j]) -> [i] at [i] {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<512xf32>
  tile.return %t : tensor<512xf32>
}

// -----

// A statement of open sizes: no table of strides, and cycles for the usual sizes.

// CHECK:      Contraction open on avx2:
// CHECK-NEXT: Computing cost for
// CHECK:      Chosen of {{[0-9]+}}: <
// CHECK:        constraint 0 <= m + [-n] < n: mask
// CHECK-NEXT:   threads: m by 1: 2 are 100% busy
builtin.module attributes {symbols = [#nn.symbol<n, 1 to 512>]} {
  tile.kernel @open(%x: tensor<[n]x64xf32>) -> (tensor<[2 * n]x64xf32>) {
    %y = tile.contract = [m: 2 * n, c: 64] (%x[m + [-1 * n], c]) -> [m, c] default 0.0 : f32 {
    ^bb0(%a: f32):
      tile.yield %a : f32
    } : tensor<[2 * n]x64xf32>
    tile.return %y : tensor<[2 * n]x64xf32>
  }
}
