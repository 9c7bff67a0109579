// RUN: tessella-opt %s -p fuse-patterns --split-input-file | filecheck %s

// As PyTorch's exporter spells it, by tracing or not: both factors are scaled, and NaN is removed.

// CHECK-LABEL: func.func @torch
// CHECK:         %y = nn.attention %q, %k, %v, %mask scale 0.25 nan_as_zero true {node = "y", nn.pattern = "attention", nn.consumed = ["nn.transpose@kt", "nn.mul@qs", "nn.mul@ks", "nn.matmul@s", "nn.add@m", "nn.softmax@p", "nn.is_nan@n", "nn.where@w", "nn.matmul@y"]}
// CHECK-NEXT:    func.return %y
func.func @torch(%q: tensor<2x4x6x16xf32>, %k: tensor<2x4x10x16xf32>, %v: tensor<2x4x10x8xf32>, %mask: tensor<2x1x6x10xf32>) -> tensor<2x4x6x8xf32> {
  %half = nn.splat 0.5 : f32 : tensor<1xf32>
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %kt = nn.transpose %k perm [0, 1, 3, 2] {node = "kt"} : tensor<2x4x16x10xf32>
  %qs = nn.mul %q, %half {node = "qs"} : tensor<2x4x6x16xf32>
  %ks = nn.mul %kt, %half {node = "ks"} : tensor<2x4x16x10xf32>
  %s = nn.matmul %qs, %ks {node = "s"} : tensor<2x4x6x10xf32>
  %m = nn.add %s, %mask {node = "m"} : tensor<2x4x6x10xf32>
  %p = nn.softmax %m {node = "p"} : tensor<2x4x6x10xf32>
  %n = nn.is_nan %p {node = "n"} : tensor<2x4x6x10xi1>
  %w = nn.where %n, %zero, %p {node = "w"} : tensor<2x4x6x10xf32>
  %y = nn.matmul %w, %v {node = "y"} : tensor<2x4x6x8xf32>
  func.return %y : tensor<2x4x6x8xf32>
}

// -----

// By hand: the scores are divided, the mask is the first summand, the softmax is spelled out; k is
// transposed with its heads, which stays.

// CHECK-LABEL: func.func @bert
// CHECK:         %kt = nn.transpose %k
// CHECK-NEXT:    %y = nn.attention %q, %kt, %v, %mask scale 0.25 transposed_k true {
// CHECK-NEXT:    func.return %y
func.func @bert(%q: tensor<1x4x6x16xf32>, %k: tensor<1x10x4x16xf32>, %v: tensor<1x4x10x8xf32>, %mask: tensor<1x1x1x10xf32>) -> tensor<1x4x6x8xf32> {
  %four = nn.splat 4.0 : f32 : tensor<f32>
  %kt = nn.transpose %k perm [0, 2, 3, 1] : tensor<1x4x16x10xf32>
  %s = nn.matmul %q, %kt : tensor<1x4x6x10xf32>
  %d = nn.div %s, %four : tensor<1x4x6x10xf32>
  %m = nn.add %mask, %d : tensor<1x4x6x10xf32>
  %p1 = nn.reduce_max %m axes [3] keepdims true : tensor<1x4x6x1xf32>
  %p2 = nn.sub %m, %p1 : tensor<1x4x6x10xf32>
  %p3 = nn.exp %p2 : tensor<1x4x6x10xf32>
  %p4 = nn.reduce_sum %p3 axes [3] keepdims true : tensor<1x4x6x1xf32>
  %p = nn.div %p3, %p4 : tensor<1x4x6x10xf32>
  %y = nn.matmul %p, %v : tensor<1x4x6x8xf32>
  func.return %y : tensor<1x4x6x8xf32>
}

// -----

// Neither scale nor mask; v has no batches.

// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    %y = nn.attention %q, %k, %v scale 1.0 {nn.pattern = "attention", nn.consumed = ["nn.matmul", "nn.softmax", "nn.matmul"]}
// CHECK-NEXT:    func.return %y
func.func @plain(%q: tensor<3x6x16xf32>, %k: tensor<3x10x16xf32>, %v: tensor<10x8xf32>) -> tensor<3x6x8xf32> {
  %s = nn.matmul %q, %k transpose_b true : tensor<3x6x10xf32>
  %p = nn.softmax %s : tensor<3x6x10xf32>
  %y = nn.matmul %p, %v : tensor<3x6x8xf32>
  func.return %y : tensor<3x6x8xf32>
}

// -----

// The softmax is along the rows.

// CHECK-LABEL: func.func @other_axis
// CHECK-NOT:     nn.attention
func.func @other_axis(%q: tensor<3x6x16xf32>, %k: tensor<3x10x16xf32>, %v: tensor<3x10x8xf32>) -> tensor<3x6x8xf32> {
  %s = nn.matmul %q, %k transpose_b true : tensor<3x6x10xf32>
  %p = nn.softmax %s axis 1 : tensor<3x6x10xf32>
  %y = nn.matmul %p, %v : tensor<3x6x8xf32>
  func.return %y : tensor<3x6x8xf32>
}

// -----

// Somebody else reads the probabilities.

// CHECK-LABEL: func.func @second_use
// CHECK-NOT:     nn.attention
func.func @second_use(%q: tensor<3x6x16xf32>, %k: tensor<3x10x16xf32>, %v: tensor<3x10x8xf32>) -> (tensor<3x6x8xf32>, tensor<3x6x10xf32>) {
  %s = nn.matmul %q, %k transpose_b true : tensor<3x6x10xf32>
  %p = nn.softmax %s : tensor<3x6x10xf32>
  %y = nn.matmul %p, %v : tensor<3x6x8xf32>
  func.return %y, %p : tensor<3x6x8xf32>, tensor<3x6x10xf32>
}

// -----

// The mask, or v, has batches that the scores have not; v is read transposed.

// CHECK-LABEL: func.func @larger
// CHECK-NOT:     nn.attention
func.func @larger(%q: tensor<6x16xf32>, %k: tensor<10x16xf32>, %v: tensor<10x8xf32>, %mask: tensor<3x1x10xf32>, %w: tensor<3x10x8xf32>, %u: tensor<8x10xf32>) -> (tensor<3x6x8xf32>, tensor<3x6x8xf32>, tensor<6x8xf32>) {
  %s = nn.matmul %q, %k transpose_b true : tensor<6x10xf32>
  %m = nn.add %s, %mask : tensor<3x6x10xf32>
  %p = nn.softmax %m : tensor<3x6x10xf32>
  %y = nn.matmul %p, %v : tensor<3x6x8xf32>
  %s1 = nn.matmul %q, %k transpose_b true : tensor<6x10xf32>
  %p1 = nn.softmax %s1 : tensor<6x10xf32>
  %y1 = nn.matmul %p1, %w : tensor<3x6x8xf32>
  %s2 = nn.matmul %q, %k transpose_b true : tensor<6x10xf32>
  %p2 = nn.softmax %s2 : tensor<6x10xf32>
  %y2 = nn.matmul %p2, %u transpose_b true : tensor<6x8xf32>
  func.return %y, %y1, %y2 : tensor<3x6x8xf32>, tensor<3x6x8xf32>, tensor<6x8xf32>
}

// -----

// NaN becomes 1; what becomes 0 is where something else is NaN. The attention without it ends there.

// CHECK-LABEL: func.func @other_nan
// CHECK-NOT:     nn.attention
func.func @other_nan(%q: tensor<6x16xf32>, %k: tensor<10x16xf32>, %v: tensor<10x8xf32>, %o: tensor<6x10xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %zero = nn.splat 0.0 : f32 : tensor<f32>
  %one = nn.splat 1.0 : f32 : tensor<f32>
  %s = nn.matmul %q, %k transpose_b true : tensor<6x10xf32>
  %p = nn.softmax %s : tensor<6x10xf32>
  %n = nn.is_nan %p : tensor<6x10xi1>
  %w = nn.where %n, %one, %p : tensor<6x10xf32>
  %y = nn.matmul %w, %v : tensor<6x8xf32>
  %s1 = nn.matmul %q, %k transpose_b true : tensor<6x10xf32>
  %p1 = nn.softmax %s1 : tensor<6x10xf32>
  %n1 = nn.is_nan %o : tensor<6x10xi1>
  %w1 = nn.where %n1, %zero, %p1 : tensor<6x10xf32>
  %y1 = nn.matmul %w1, %v : tensor<6x8xf32>
  func.return %y, %y1 : tensor<6x8xf32>, tensor<6x8xf32>
}

// -----

// Heads of k and v, each for a group of two heads of q.

// CHECK-LABEL: func.func @grouped
// CHECK-NEXT:    %0 = nn.reshape %q shape [2, 3, 2, 6, 16]
// CHECK-NEXT:    %1 = nn.attention %0, %k, %v scale 1.0 : tensor<2x3x2x6x8xf32>
// CHECK-NEXT:    %y = nn.reshape %1 shape [2, 6, 6, 8]
// CHECK-SAME:    nn.pattern = "grouped-attention"
// CHECK-NEXT:    func.return %y
func.func @grouped(%q: tensor<2x6x6x16xf32>, %k: tensor<2x3x1x10x16xf32>, %v: tensor<2x3x1x10x8xf32>) -> tensor<2x6x6x8xf32> {
  %ke = nn.expand %k shape [2, 3, 2, 10, 16] : tensor<2x3x2x10x16xf32>
  %kr = nn.reshape %ke shape [2, 6, 10, 16] : tensor<2x6x10x16xf32>
  %ve = nn.expand %v shape [2, 3, 2, 10, 8] : tensor<2x3x2x10x8xf32>
  %vr = nn.reshape %ve shape [2, 6, 10, 8] : tensor<2x6x10x8xf32>
  %s = nn.matmul %q, %kr transpose_b true : tensor<2x6x6x10xf32>
  %p = nn.softmax %s axis 3 : tensor<2x6x6x10xf32>
  %y = nn.matmul %p, %vr : tensor<2x6x6x8xf32>
  func.return %y : tensor<2x6x6x8xf32>
}

// -----

// Each head is repeated as a whole, one after the other: groups of all heads.

// CHECK-LABEL: func.func @turns
// CHECK:         nn.expand %k
// CHECK:         nn.attention %q, %kr, %vr
func.func @turns(%q: tensor<6x6x16xf32>, %k: tensor<1x3x10x16xf32>, %v: tensor<1x3x10x8xf32>) -> tensor<6x6x8xf32> {
  %ke = nn.expand %k shape [2, 3, 10, 16] : tensor<2x3x10x16xf32>
  %kr = nn.reshape %ke shape [6, 10, 16] : tensor<6x10x16xf32>
  %ve = nn.expand %v shape [2, 3, 10, 8] : tensor<2x3x10x8xf32>
  %vr = nn.reshape %ve shape [6, 10, 8] : tensor<6x10x8xf32>
  %s = nn.matmul %q, %kr transpose_b true : tensor<6x6x10xf32>
  %p = nn.softmax %s axis 2 : tensor<6x6x10xf32>
  %y = nn.matmul %p, %vr : tensor<6x6x8xf32>
  func.return %y : tensor<6x6x8xf32>
}

// -----

// Keys that a cache has, of which there may be none: row i is position past + i.

// CHECK-LABEL: func.func @cached
// CHECK:         %y = nn.attention %q, %k, %v scale 0.25 {{.*}}causal true past [past]
// CHECK-NEXT:    func.return %y
builtin.module attributes {symbols = [#nn.symbol<m, 2 to 64>, #nn.symbol<past, 0 to 64>]} {
  func.func @cached(%q: tensor<2x[m]x16xf32>, %k: tensor<2x[m + past]x16xf32>, %v: tensor<2x[m + past]x8xf32>) -> tensor<2x[m]x8xf32> {
    %i = nn.iota count [m] : tensor<[m]xi64>
    %past = nn.sizes values [[past]] : tensor<1xi64>
    %row = nn.add %i, %past : tensor<[m]xi64>
    %rows = nn.reshape %row shape [[m], 1] : tensor<[m]x1xi64>
    %columns = nn.iota count [m + past] : tensor<[m + past]xi64>
    %c = nn.less_equal %columns, %rows : tensor<[m]x[m + past]xi1>
    %low = nn.splat -3.4e38 : f32 : tensor<f32>
    %quarter = nn.splat 0.25 : f32 : tensor<f32>
    %s = nn.matmul %q, %k transpose_b true : tensor<2x[m]x[m + past]xf32>
    %d = nn.mul %s, %quarter : tensor<2x[m]x[m + past]xf32>
    %w = nn.where %c, %d, %low : tensor<2x[m]x[m + past]xf32>
    %p = nn.softmax %w : tensor<2x[m]x[m + past]xf32>
    %y = nn.matmul %p, %v : tensor<2x[m]x8xf32>
    func.return %y : tensor<2x[m]x8xf32>
  }
}
