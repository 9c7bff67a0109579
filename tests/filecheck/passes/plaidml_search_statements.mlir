// RUN: tessella-opt %s -p plaidml-search --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=LOG
// RUN: tessella-opt %s -p 'plaidml-search{log=false}' --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'plaidml-search{hardware=cpu}' --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=CPU
// RUN: tessella-opt %s -p 'plaidml-search{mem-width=4 max-regs=500}' --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=SMALL
// RUN: not tessella-opt %s -p 'plaidml-search{hardware=nvidea}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: plaidml-search: unknown hardware 'nvidea'
// UNKNOWN-NEXT: expected: one of article, amd, nvidia, intel-gpu, mali-t760, cpu
// UNKNOWN-NEXT: found: 'nvidea'
// UNKNOWN-NEXT: hint: did you mean 'nvidia'?

// A product with a bias. The post body is one operation more at each point, and its input is read
// with each step: mr = (64*16/8 + 64*16/8) * 32 + 64*64/8 * 4.

// LOG:      Contraction matmul:
// LOG-NEXT: C[m, n : 512, 1024] = +(A[m, k], B[k, n])
// LOG-NEXT: Range C A B
// LOG-NEXT: k 768 0 1 1024
// LOG-NEXT: m 512 1024 768 0
// LOG-NEXT: n 1024 1 0 1
// LOG-NEXT: off 0 0 0
// LOG:      Computing cost for tile size: [16, 64, 64]
// LOG-NEXT:   Compute score: to=1207959552 wg=128 il=48 sm=8320 or=16384 mr=10240 mw=16384 op=256 rp=0 tu=256
// LOG-NEXT:   flops_per_byte=18.5806 occupancy=20
// LOG-NEXT:   roof_ratio=0.929032 occ_ratio=1 thread_ratio=1 score=0.929032
// LOG:      Tile size: [k: 16, m: 64, n: 64]
// LOG-NEXT:   198 tiles evaluated, 131 expanded, 1 with score 0.929032
// LOG-NEXT: Memory layout of A:
// LOG-NEXT: Range Global Local
// LOG-NEXT: k 16 1 65
// LOG-NEXT: m 64 768 1
// LOG-NEXT: Memory layout of B:
// LOG-NEXT: Range Global Local
// LOG-NEXT: k 16 1024 65
// LOG-NEXT: n 64 1 1

// Without a constraint vectors of 4 run along the output's innermost index; nothing is copied to
// local memory. The attribute counts elements, the log vectors.

// CPU-LABEL: Contraction matmul:
// CPU:      n 256 1 0 1
// CPU-NEXT: off 0 0 0
// CPU-NEXT: vec 4 1 4
// CPU-NEXT: Computing cost for tile size: [1, 1, 1]
// CPU-NEXT: to=1207959552 wg=131072 il=768 sm=0 or=16 mr=132 mw=64 op=1 rp=0 tu=1
// CPU-NOT:  Memory layout

// SMALL: remark: plaidml-search skips %C of @matmul: no tile fits into max-mem and max-regs

// CHECK-LABEL: tile.kernel @matmul
// CHECK:         -> [m, n] attributes {tile.sizes = #tile.indices[m: 64, n: 64 | k: 16]} {
tile.kernel @matmul(%A: tensor<512x768xf32>, %B: tensor<768x1024xf32>, %bias: tensor<1024xf32>) -> (tensor<512x1024xf32>) {
  %C = tile.contract + [m: 512, n: 1024 | k: 768] (%A[m, k], %B[k, n]) post (%bias[n]) -> [m, n] {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  }, {
  ^bb0(%s: f32, %t: f32):
    %q = arith.addf %s, %t : f32
    tile.yield %q : f32
  } : tensor<512x1024xf32>
  tile.return %C : tensor<512x1024xf32>
}

// -----

// A convolution with stride 2: 4 outputs along y and 3 taps read 9 rows. One tap along x leaves
// the 2 outputs there apart. A tile of K that is 8 of 32 channels takes a quarter of each line.

// LOG:      Contraction strided:
// LOG-NEXT: O[n, x, y, co : 8, 28, 28, 64] = +(D[n, 2*x + i - 1, 2*y + j - 1, ci], K[i, j, co, ci])
// LOG:      x 28 1792 3584 0
// LOG-NEXT: y 28 64 64 0
// LOG-NEXT: off 0 -1824 0
// LOG:      Tile size: [ci: 8, co: 64, i: 1, j: 3, n: 8, x: 2, y: 4]
// LOG-NEXT:   388 tiles evaluated, 141 expanded, 2 with score 0.811268
// LOG-NEXT: Memory layout of D:
// LOG-NEXT: Range Global Local
// LOG-NEXT: j_y 9 32 1
// LOG-NEXT: ci 8 1 9
// LOG-NEXT: i 1 1792 9
// LOG-NEXT: n 8 100352 73
// LOG-NEXT: x 2 3584 585
// LOG-NEXT: Memory layout of K:
// LOG-NEXT: Range Global Local
// LOG-NEXT: co_j_i 192 32 1
// LOG-NEXT: ci 8 1 193

// A constraint forbids vectors.

// CPU-LABEL: Contraction strided:
// CPU-NOT:   vec
// CPU:       Computing cost

// CHECK-LABEL: tile.kernel @strided
// CHECK:         attributes {tile.sizes = #tile.indices[n: 8, x: 2, y: 4, co: 64 | i: 1, j: 3, ci: 8]} {
tile.kernel @strided(%D: tensor<8x56x56x32xf32>, %K: tensor<3x3x64x32xf32>) -> (tensor<8x28x28x64xf32>) {
  %O = tile.contract + [n: 8, x: 28, y: 28, co: 64 | i: 3, j: 3, ci: 32] (%D[n, 2*x + i - 1, 2*y + j - 1, ci], %K[i, j, co, ci]) -> [n, x, y, co] {
  ^bb0(%d: f32, %k: f32):
    %p = arith.mulf %d, %k : f32
    tile.yield %p : f32
  } : tensor<8x28x28x64xf32>
  tile.return %O : tensor<8x28x28x64xf32>
}

// -----

// A map that runs backwards, with an index of range 1; an aggregation to one element, for which
// 256 threads add up their sums in 8 steps; and a maximum.

// LOG:      Contraction statements:
// LOG-NEXT: flip[i, j, u : 64, 100, 1] = =(A[i, -j + 99], B[j])
// LOG-NEXT: Range flip A B
// LOG-NEXT: i 64 100 100 0
// LOG-NEXT: j 100 1 -1 1
// LOG-NEXT: off 0 99 0
// LOG-NEXT: Computing cost for tile size: [1, 1]
// LOG-NEXT:   Compute score: to=12800 wg=6400
// LOG:      Contraction statements:
// LOG-NEXT: out[] = +(A[i, j])
// LOG:      Computing cost for tile size: [8, 100]
// LOG-NEXT:   Compute score: to=12800 wg=1 il=8 sm=8448 or=2048 mr=6400 mw=32 op=256 rp=8 tu=256
// LOG:      Contraction statements:
// LOG-NEXT: out[i : 64] = >(A[i, j])

// SMALL: remark: plaidml-search skips %flip of @statements: 8 bytes of flip do not fit into mem-width
// SMALL: remark: plaidml-search skips statement 2 of @statements

// CHECK-LABEL: tile.kernel @statements
// CHECK:         -> [i, j, u] attributes {tile.sizes = #tile.indices[i: {{[0-9]+}}, j: {{[0-9]+}}, u: 1]} {
// CHECK:         -> [] attributes {tile.sizes = #tile.indices[| i: {{[0-9]+}}, j: {{[0-9]+}}]} {
// CHECK:         -> [i] attributes {tile.sizes = #tile.indices[i: {{[0-9]+}} | j: {{[0-9]+}}]} {
tile.kernel @statements(%A: tensor<64x100xf64>, %B: tensor<100xf64>) -> (tensor<64x100x1xf64>, tensor<f64>, tensor<64xf64>) {
  %flip = tile.contract = [i: 64, j: 100, u: 1] (%A[i, -j + 99], %B[j]) -> [i, j, u] {
  ^bb0(%a: f64, %b: f64):
    %s = arith.addf %a, %b : f64
    %t = arith.mulf %s, %s : f64
    tile.yield %t : f64
  } : tensor<64x100x1xf64>
  %0 = tile.contract + [| i: 64, j: 100] (%A[i, j]) -> [] {
  ^bb0(%a: f64):
    tile.yield %a : f64
  } : tensor<f64>
  %1 = tile.contract > [i: 64 | j: 100] (%A[i, j]) -> [i] {
  ^bb0(%a: f64):
    tile.yield %a : f64
  } : tensor<64xf64>
  tile.return %flip, %0, %1 : tensor<64x100x1xf64>, tensor<f64>, tensor<64xf64>
}

// -----

// Statements that the model cannot describe are left as they are.

// LOG:      remark: plaidml-search skips %gathered of @refused: it reads elements at computed coordinates
// LOG-NEXT: remark: plaidml-search skips %split of @refused: the layout of S splits an index, which has two strides then
// LOG-NEXT: remark: plaidml-search skips statement 3 of @refused: P has no layout yet
// LOG-NEXT: remark: plaidml-search skips statement 4 of @refused: the elements of X, index, have no size in bytes
// LOG-NEXT: remark: plaidml-search skips %empty of @refused: it has no points

// CHECK-LABEL: tile.kernel @refused
// CHECK-NOT:   attributes
// CHECK:         tile.return
#split = #place.at<x86, f32, packed<[0 floordiv 8, 1, 0 mod 8]>>
#open = #place.at<opencl, f32, any>
tile.kernel @refused(%A: tensor<64x100xf32>, %J: tensor<64xi64>, %S: tensor<64x100xf32, #split>, %X: tensor<64xindex>, %E: tensor<0x4xf32>) -> (tensor<64xf32>) {
  %P = "test.op"() : () -> tensor<64xf32, #open>
  %gathered = tile.contract = [i: 64] (%J[i]) -> [i] {
  ^bb0(%j: i64):
    %at = arith.index_cast %j : i64 to index
    %n = tile.index "i"
    %e = tile.extract %A[%n, %at] : tensor<64x100xf32> -> f32
    tile.yield %e : f32
  } : tensor<64xf32>
  %split = tile.contract = [i: 64, j: 100] (%S[i, j]) -> [i, j] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<64x100xf32>
  %0 = tile.contract = [i: 64] (%P[i]) -> [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<64xf32>
  %1 = tile.contract = [i: 64] (%X[i]) -> [i] {
  ^bb0(%a: index):
    tile.yield %a : index
  } : tensor<64xindex>
  %empty = tile.contract = [i: 0, j: 4] (%E[i, j]) -> [i, j] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<0x4xf32>
  tile.return %gathered : tensor<64xf32>
}

// -----

// LOG: remark: plaidml-search skips %y of @open: how many points it has, 64 * n, depends on symbols

// CHECK-LABEL: tile.kernel @open
// CHECK-NEXT:    %y = tile.contract = [i: n, c: 64] (%x[i, c]) -> [i, c] {
builtin.module attributes {symbols = [#nn.symbol<n, 1 to 512>]} {
  tile.kernel @open(%x: tensor<[n]x64xf32>) -> (tensor<[n]x64xf32>) {
    %y = tile.contract = [i: n, c: 64] (%x[i, c]) -> [i, c] {
    ^bb0(%a: f32):
      tile.yield %a : f32
    } : tensor<[n]x64xf32>
    tile.return %y : tensor<[n]x64xf32>
  }
}
