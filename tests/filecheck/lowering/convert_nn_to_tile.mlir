// RUN: tessella-opt %s -p convert-nn-to-tile --split-input-file | filecheck %s

// Equal kernels are one, whatever the names of the values; it knows the nodes that it computes,
// and the code that its failed checks give.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.kernel @relu_0(%x: tensor<4xf32, #nchw>) -> (tensor<4xf32, #nchw>) attributes {code = 0 : i64, nodes = ["first", "second"]} {
// CHECK-NEXT:    %a = tile.contract = [d0: 4] (%x[d0]) -> [d0] {
// CHECK-NEXT:    ^{{.*}}(%[[X:.*]]: f32):
// CHECK-NEXT:      %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %[[MAX:.*]] = arith.maximumf %[[X]], %[[ZERO]] : f32
// CHECK-NEXT:      tile.yield %[[MAX]] : f32
// CHECK-NEXT:    } : tensor<4xf32, #nchw>
// CHECK-NEXT:    tile.return %a
// CHECK-NEXT:  }
// CHECK-NEXT:  tile.segment @segment_0(%x: tensor<4xf32, #nchw>) -> (tensor<4xf32, #nchw>) {
// CHECK-NEXT:    %a = tile.call @relu_0(%x) {nodes = ["first"]} : tensor<4xf32, #nchw>
// CHECK-NEXT:    %b = tile.call @relu_0(%a) {nodes = ["second"]}
// CHECK-NEXT:    tile.return %b
#p = #place.at<x86, f32, nchw>
!t = tensor<4xf32, #p>
tile.segment @segment_0(%x: !t) -> (!t) {
  %a = nn.relu %x {node = "first", kernel = "relu", places = [#p, #p]} : !t
  %b = nn.relu %a {node = "second", kernel = "relu", places = [#p, #p]} : !t
  tile.return %b : !t
}

// -----

// Two kernels where shapes or properties differ. In any order they have codes of their own.

// CHECK-LABEL: builtin.module
// CHECK-DAG:   tile.kernel @relu_0({{.*}} attributes {code = 0 : i64, nodes = ["first"]}
// CHECK-DAG:   tile.kernel @relu_1({{.*}} attributes {code = 1 : i64, nodes = ["second"]}
// CHECK-DAG:   tile.kernel @leaky_relu_2({{.*}} attributes {code = 2 : i64, nodes = ["third"]}
// CHECK-DAG:   tile.kernel @leaky_relu_3({{.*}} attributes {code = 3 : i64, nodes = ["fourth"]}
// CHECK:       tile.segment @segment_0
// CHECK-NEXT:    tile.call @relu_0(%x)
// CHECK-NEXT:    tile.call @relu_1(%y)
// CHECK-NEXT:    tile.call @leaky_relu_2(%x)
// CHECK-NEXT:    tile.call @leaky_relu_3(%x)
#p = #place.at<x86, f32, nchw>
!t = tensor<4xf32, #p>
!u = tensor<5xf32, #p>
tile.segment @segment_0(%x: !t, %y: !u) -> () {
  %a = nn.relu %x {node = "first", kernel = "relu", places = [#p, #p]} : !t
  %b = nn.relu %y {node = "second", kernel = "relu", places = [#p, #p]} : !u
  %c = nn.leaky_relu %x alpha 0.1 {node = "third", kernel = "leaky_relu", places = [#p, #p]} : !t
  %d = nn.leaky_relu %x alpha 0.2 {node = "fourth", kernel = "leaky_relu", places = [#p, #p]} : !t
  tile.return
}

// -----

// A group is one kernel. The body holds the values of splats that it reads element by element;
// arguments that are weights are marked.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.kernel @matmul_add_mul_0(%x: {{.*}}, %w: {{.*}} {tile.constant}, %y: {{.*}}) -> (tensor<2x4xf32, #nchw>) attributes {code = 0 : i64, nodes = ["nn.matmul", "nn.add", "nn.mul"]} {
// CHECK-NEXT:    %a = tile.contract + [m: 2, n: 4 | k: 4] (%x[m, k], %w[k, n]) -> [m, n] {
// CHECK:         %b = tile.contract = [d0: 2, d1: 4] (%a[d0, d1]) -> [d0, d1] {
// CHECK-NEXT:    ^{{.*}}(%[[A:.*]]: f32):
// CHECK-NEXT:      %[[S:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      arith.addf %[[A]], %[[S]] : f32
// CHECK:         %c = tile.contract = [d0: 2, d1: 4] (%y[0, d1], %b[d0, d1]) -> [d0, d1] {
// CHECK:         tile.return %c
// CHECK:       tile.segment @segment_0(%x: {{.*}}, %y: {{.*}}) -> {{.*}} {
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %z = tile.call @matmul_add_mul_0(%x, %w, %y)
// CHECK-NEXT:    tile.return %z
#p = #place.at<x86, f32, nchw>
!t = tensor<2x4xf32, #p>
!w = tensor<4x4xf32, #p>
!v = tensor<4xf32, #p>
!y = tensor<1x4xf32, #p>
tile.segment @segment_0(%x: !t, %y: !y) -> (!t) {
  %w = nn.weight @w : !w
  %s = nn.splat 2.0 : f32 : !v
  %z = nn.fused(%i = %x, %j = %w, %k = %s, %l = %y) {
    %a = nn.matmul %i, %j {kernel = "matmul", places = [#p, #p, #p]} : !t
    %b = nn.add %a, %k {kernel = "add", places = [#p, #p, #p]} : !t
    %c = nn.mul %l, %b {kernel = "mul", places = [#p, #p, #p]} : !t
    nn.yield %c : !t
  } : !t
  tile.return %z : !t
}

// -----

// A splat that is read from memory, seen under another shape, or returned is a weight.

// CHECK-LABEL: builtin.module
// CHECK:       tile.kernel @matmul_0(%x: {{.*}}, %{{.*}}: tensor<4x4xf32, {{.*}} {tile.constant})
// CHECK:       tile.segment @segment_0
// CHECK-NEXT:    %[[R:.*]] = nn.weight @splat_1 : tensor<2x2xf32, #nchw>
// CHECK-NEXT:    %[[S:.*]] = nn.weight @splat : tensor<4x4xf32, #nchw>
// CHECK-NEXT:    %a = tile.call @matmul_0(%x, %[[S]])
// CHECK-NEXT:    %b = tile.view %[[R]] : tensor<2x2xf32, #nchw> -> tensor<4xf32,
// CHECK-NEXT:    tile.return %[[R]], %a, %b
#p = #place.at<x86, f32, nchw>
!t = tensor<2x4xf32, #p>
!w = tensor<4x4xf32, #p>
!r = tensor<2x2xf32, #p>
!v = tensor<4xf32, #p>
tile.segment @segment_0(%x: !t) -> (!r, !t, !v) {
  %r = nn.splat 1.0 : f32 : !r
  %s = nn.splat 2.0 : f32 : !w
  %a = nn.matmul %x, %s {kernel = "matmul", places = [#p, #p, #p]} : !t
  %b = nn.reshape %r shape [4] {kernel = "view", places = [#p, #p]} : !v
  tile.return %r, %a, %b : !r, !t, !v
}

// -----

// One of an open shape is written by a kernel.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.kernel @splat_0() -> (tensor<[n]x4xf32, #nchw>)
// CHECK-NEXT:    %[[FULL:.*]] = tile.contract = [d0: n, d1: 4] () -> [d0, d1] {
// CHECK-NEXT:      %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK-NEXT:      tile.yield %[[TWO]]
// CHECK:       tile.segment @segment_0
// CHECK-NEXT:    %s = tile.call @splat_0()
// CHECK-NEXT:    tile.return %s
#p = #place.at<x86, f32, nchw>
builtin.module attributes {symbols = [#nn.symbol<n, 2 to 15>]} {
  tile.segment @segment_0(%x: tensor<[n]x4xf32, #p>) -> (tensor<[n]x4xf32, #p>) {
    %s = nn.splat 2.0 : f32 : tensor<[n]x4xf32, #p>
    tile.return %s : tensor<[n]x4xf32, #p>
  }
}

// -----

// An operand that is read twice is one argument. A relayout is a copy into another order. A view
// has no code.

// CHECK-LABEL: builtin.module
// CHECK-DAG:   tile.kernel @relayout_0(%x: tensor<1x2x3x4xf32, #nchw>) -> (tensor<1x2x3x4xf32, #nhwc>)
// CHECK-DAG:   tile.kernel @mul_1(%x: tensor<1x2x3x4xf32, #nchw>) ->
// CHECK-DAG:     = tile.contract = [d0: 1, d1: 2, d2: 3, d3: 4] (%x[d0, d1, d2, d3]) -> [d0, d1, d2, d3] {
// CHECK-DAG:     = tile.contract = [d0: 1, d1: 2, d2: 3, d3: 4] (%x[d0, d1, d2, d3], %x[d0, d1, d2, d3]) -> [d0, d1, d2, d3] {
// CHECK:       tile.segment @segment_0
// CHECK-NEXT:    %a = tile.call @relayout_0(%x)
// CHECK-NEXT:    %b = tile.call @mul_1(%x)
// CHECK-NEXT:    %c = tile.view %b :
// CHECK-NEXT:    tile.return %a, %c
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, nhwc>
!t = tensor<1x2x3x4xf32, #p>
!u = tensor<1x2x3x4xf32, #q>
!v = tensor<2x12xf32, #p>
tile.segment @segment_0(%x: !t) -> (!u, !v) {
  %a = place.relayout %x : !t -> !u
  %b = nn.mul %x, %x {kernel = "mul", places = [#p, #p, #p]} : !t
  %c = nn.reshape %b shape [2, 12] {kernel = "view", places = [#p, #p]} : !v
  tile.return %a, %c : !u, !v
}

// -----

// A kernel may want a weight under another shape, and bring along weights of its own.

// CHECK-LABEL: builtin.module
// CHECK-DAG:   tile.kernel @conv_0(%x: {{.*}}, %{{.*}}: tensor<2x2x3x1x1xf32, #nchw> {tile.constant})
// CHECK-DAG:   tile.kernel @avg_pool_1(%{{.*}}: {{.*}}, %{{.*}}: tensor<3x2xf32> {tile.constant})
// CHECK:       tile.segment @segment_0
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %[[V:.*]] = tile.view %w : tensor<4x3x1x1xf32, {{.*}} -> tensor<2x2x3x1x1xf32,
// CHECK-NEXT:    %a = tile.call @conv_0(%x, %[[V]])
// CHECK-NEXT:    %[[S:.*]] = nn.weight @window_scale : tensor<3x2xf32>
// CHECK-NEXT:    %b = tile.call @avg_pool_1(%a, %[[S]])
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, nhwc>
!x = tensor<1x6x2x2xf32, #q>
!w = tensor<4x3x1x1xf32, #p>
!y = tensor<1x4x2x2xf32, #q>
!z = tensor<1x4x3x2xf32, #q>
tile.segment @segment_0(%x: !x) -> (!z) {
  %w = nn.weight @w : !w
  %a = nn.conv %x, %w groups 2 {kernel = "conv", places = [#q, #p, #q]} : !y
  %b = nn.avg_pool %a kernel_shape [2, 1] pads [1, 0, 1, 0] {kernel = "avg_pool", places = [#q, #q]} : !z
  tile.return %b : !z
}

// -----

// A transposed convolution is a convolution for each phase of the output: outputs 0 and 1 of three
// take one tap, those at 2 two. Variable weights are gathered for each.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.kernel @conv_transpose_0(%x: {{.*}}, %w: {{.*}})
// CHECK-NEXT:    %[[R:.*]] = tile.empty : tensor<1x6x15xf32,
// CHECK-NEXT:    %[[V:.*]] = tile.contract = [r0: 2, k0: 1, g: 1, c: 4, o: 6] (%w[4*g + c, o, r0 - 3*k0 + 1]) -> [r0, k0, g, c, o] {
// CHECK:         %[[S:.*]] = tile.contract + [n: 1, g: 1, o: 6, r0: 2, x0: 5 | k0: 1, c: 4] (%x[n, 4*g + c, x0 + k0], %[[V]][r0, k0, g, c, o]) init %[[R]] -> [n, 6*g + o, 3*x0 + r0] {
// CHECK:         %[[W:.*]] = tile.contract = [r0: 1, k0: 2, g: 1, c: 4, o: 6] (%w[4*g + c, o, -3*k0 + 3]) -> [r0, k0, g, c, o] {
// CHECK:         %y = tile.contract + [n: 1, g: 1, o: 6, r0: 1, x0: 5 | k0: 2, c: 4] (%x[n, 4*g + c, x0 + k0], %[[W]][r0, k0, g, c, o]) init %[[S]] -> [n, 6*g + o, 3*x0 + 2] {
// CHECK:         tile.return %y
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, nhwc>
!x = tensor<1x4x5xf32, #q>
!w = tensor<4x6x4xf32, #p>
!y = tensor<1x6x15xf32, #q>
tile.segment @segment_0(%x: !x, %w: !w) -> (!y) {
  %y = nn.conv_transpose %x, %w strides [3] pads [1, 0] {kernel = "conv_transpose", places = [#q, #p, #q]} : !y
  tile.return %y : !y
}

// -----

// The same as products of all taps, which each phase adds up; no tap reaches the outputs at 2.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.kernel @col2im_0(%x: {{.*}}, %w: {{.*}})
// CHECK-NEXT:    %[[W:.*]] = tile.contract = [g: 1, c: 4, i0: 2, o: 6] (%w[4*g + c, o, i0]) -> [g, c, i0, o] {
// CHECK:         %[[P:.*]] = tile.contract + [n: 1, g: 1, q0: 4, i0: 2, o: 6 | c: 4] (%x[n, 4*g + c, q0], %[[W]][g, c, i0, o]) -> [n, g, q0, i0, o] {
// CHECK:         %[[R:.*]] = tile.empty : tensor<1x6x11xf32,
// CHECK-NEXT:    %[[S:.*]] = tile.contract + [n: 1, g: 1, o: 6, r0: 2, x0: 4 | k0: 1] (%[[P]][n, g, x0 + k0, r0 - 3*k0, o]) init %[[R]] -> [n, 6*g + o, 3*x0 + r0] {
// CHECK:         %y = tile.contract = [n: 1, g: 1, o: 6, r0: 1, x0: 3] () init %[[S]] -> [n, 6*g + o, 3*x0 + 2] {
// CHECK-NEXT:      %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      tile.yield %[[Z]]
// CHECK:         tile.return %y
#p = #place.at<x86, f32, nchw>
#q = #place.at<x86, f32, nhwc>
!x = tensor<1x4x4xf32, #q>
!w = tensor<4x6x2xf32, #p>
!y = tensor<1x6x11xf32, #q>
tile.segment @segment_0(%x: !x, %w: !w) -> (!y) {
  %y = nn.conv_transpose %x, %w strides [3] {kernel = "col2im", places = [#q, #p, #q]} : !y
  tile.return %y : !y
}

// -----

// Nothing but segments is lowered.

// CHECK-LABEL: builtin.module
// CHECK-NEXT:  tile.segment @segment_0
// CHECK-NEXT:    tile.return %x
// CHECK-NEXT:  }
// CHECK-NEXT:  func.func @main
// CHECK-NEXT:    %a = nn.relu %x {kernel = "relu"
#p = #place.at<x86, f32, nchw>
!t = tensor<4xf32, #p>
tile.segment @segment_0(%x: !t) -> (!t) {
  tile.return %x : !t
}
func.func @main(%x: !t) -> !t {
  %a = nn.relu %x {kernel = "relu", places = [#p, #p]} : !t
  func.return %a : !t
}
