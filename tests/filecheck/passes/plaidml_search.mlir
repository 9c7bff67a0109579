// RUN: tessella-opt %s -p 'plaidml-search{threads=256 mem-width=32 max-mem=16384 max-regs=16384 goal-groups=20 goal-flops-per-byte=20}' 2>&1 >/dev/null | filecheck %s --check-prefix=LOG --strict-whitespace
// RUN: tessella-opt %s -p 'plaidml-search{log=false}' 2>&1 >/dev/null | filecheck %s --check-prefix=SILENT --allow-empty
// RUN: tessella-opt %s -p 'plaidml-search{log=false}' | tessella-opt | filecheck %s

// The convolution of PlaidML's article on kernel generation, with its numbers:
//   O[n, x, y, co : N, X, Y, CO] = +(D[n, x+i-1, y+j-1, ci] * K[i, j, co, ci]);
//   R = (O > 0 ? O : 0);

// LOG:      Contraction kernel_ID_0:
// LOG-NEXT: O[n, x, y, co : 32, 224, 224, 64] = +(D[n, x + i - 1, y + j - 1, ci], K[i, j, co, ci])
// LOG-NEXT: {{^}}             Range         O         D         K{{$}}
// LOG-NEXT: {{^}}      ci        64         0         1         1{{$}}
// LOG-NEXT: {{^}}      co        64         1         0        64{{$}}
// LOG-NEXT: {{^}}       i         3         0     14336     12288{{$}}
// LOG-NEXT: {{^}}       j         3         0        64      4096{{$}}
// LOG-NEXT: {{^}}       n        32   3211264   3211264         0{{$}}
// LOG-NEXT: {{^}}       x       224     14336     14336         0{{$}}
// LOG-NEXT: {{^}}       y       224        64        64         0{{$}}
// LOG-NEXT: {{^}}     off                   0    -14400         0{{$}}
// LOG-NEXT: Computing cost for tile size: [1, 1, 1, 1, 1, 1, 1]

// These four follow each other in the article too.

// LOG:      Computing cost for tile size: [8, 32, 1, 3, 16, 8, 2]
// LOG-NEXT:   Compute score: to=236760072192 wg=12544 il=24 sm=20656 or=32768 mr=19456 mw=32768 op=256 rp=0 tu=256
// LOG-NEXT:   over memory
// LOG-NEXT: Computing cost for tile size: [8, 32, 1, 3, 16, 4, 4]
// LOG-NEXT:   Compute score: to=236760072192 wg=12544 il=24 sm=16272 or=32768 mr=15360 mw=32768 op=256 rp=0 tu=256
// LOG-NEXT:   over regs
// LOG-NEXT: Computing cost for tile size: [16, 32, 1, 1, 16, 2, 2]
// LOG-NEXT:   Compute score: to=236760072192 wg=50176 il=36 sm=6488 or=8192 mr=6144 mw=8192 op=256 rp=0 tu=256
// LOG-NEXT:   flops_per_byte=20.5714 occupancy=20
// LOG-NEXT:   roof_ratio=1 occ_ratio=1 thread_ratio=1 score=1
// LOG-NEXT: Computing cost for tile size: [8, 32, 2, 1, 16, 2, 2]
// LOG-NEXT:   Compute score: to=236760072192 wg=50176 il=48 sm=5264 or=8192 mr=5120 mw=8192 op=256 rp=0 tu=256
// LOG-NEXT:   flops_per_byte=18.5806 occupancy=20
// LOG-NEXT:   roof_ratio=0.929032 occ_ratio=1 thread_ratio=1 score=0.929032

// The last tile that is scored is the one that is chosen.

// LOG:      Computing cost for tile size: [8, 32, 2, 3, 16, 2, 2]
// LOG-NEXT:   Compute score: to=236760072192 wg=50176 il=16 sm=12648 or=8192 mr=12288 mw=8192 op=256 rp=0 tu=256
// LOG-NEXT:   flops_per_byte=23.04 occupancy=20
// LOG-NEXT:   roof_ratio=1 occ_ratio=1 thread_ratio=1 score=1
// LOG-NEXT: Tile size: [ci: 8, co: 32, i: 2, j: 3, n: 16, x: 2, y: 2]
// LOG-NEXT:   505 tiles evaluated, 156 expanded, 112 with score 1
// LOG-NEXT: Memory layout of D:
// LOG-NEXT: {{^}}         Range    Global     Local{{$}}
// LOG-NEXT: {{^}} i_x         3     14336         1{{$}}
// LOG-NEXT: {{^}} j_y         4        64       393{{$}}
// LOG-NEXT: {{^}}  ci         8         1        49{{$}}
// LOG-NEXT: {{^}}   n        16   3211264         3{{$}}
// LOG-NEXT: Memory layout of K:
// LOG-NEXT: {{^}}         Range    Global     Local{{$}}
// LOG-NEXT: {{^}} j_i         6      4096       265{{$}}
// LOG-NEXT: {{^}}  ci         8         1        33{{$}}
// LOG-NEXT: {{^}}  co        32        64         1{{$}}
// LOG-NOT: {{.}}

// SILENT-NOT: {{.}}

// CHECK-LABEL: tile.kernel @kernel_ID_0
// CHECK-NEXT:    %O = tile.contract + [n: 32, x: 224, y: 224, co: 64 | i: 3, j: 3, ci: 64] ({{.*}}) post () -> [n, x, y, co] attributes {tile.sizes = #tile.indices[n: 16, x: 2, y: 2, co: 32 | i: 2, j: 3, ci: 8]} {
tile.kernel @kernel_ID_0(%D: tensor<32x224x224x64xf32>, %K: tensor<3x3x64x64xf32>) -> (tensor<32x224x224x64xf32>) {
  %O = tile.contract + [n: 32, x: 224, y: 224, co: 64 | i: 3, j: 3, ci: 64] (%D[n, x + i - 1, y + j - 1, ci], %K[i, j, co, ci]) post () -> [n, x, y, co] {
  ^bb0(%d: f32, %k: f32):
    %p = arith.mulf %d, %k : f32
    tile.yield %p : f32
  }, {
  ^bb0(%o: f32):
    %zero = arith.constant 0.0 : f32
    %positive = arith.cmpf ogt, %o, %zero : f32
    %r = arith.select %positive, %o, %zero : f32
    tile.yield %r : f32
  } : tensor<32x224x224x64xf32>
  tile.return %O : tensor<32x224x224x64xf32>
}
