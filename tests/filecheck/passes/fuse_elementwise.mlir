// RUN: tessella-opt %s -p fuse-elementwise --split-input-file | filecheck %s

// A producer and the elementwise ops after it are one group; what it reads becomes its operands.

// CHECK-LABEL: func.func @chain
// CHECK-NEXT:    %c = nn.fused(%[[X:.*]] = %x, %[[W:.*]] = %w, %[[S:.*]] = %skip) {
// CHECK-NEXT:      %a = nn.matmul %[[X]], %[[W]] {kernel = "matmul"
// CHECK-NEXT:      %b = nn.add %a, %[[S]] {kernel = "add"}
// CHECK-NEXT:      %[[C:.*]] = nn.relu %b {kernel = "relu"}
// CHECK-NEXT:      nn.yield %[[C]] : tensor<2x4xf32>
// CHECK-NEXT:    } : tensor<2x4xf32>
// CHECK-NEXT:    func.return %c
func.func @chain(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %skip: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = nn.matmul %x, %w {kernel = "matmul"} : tensor<2x4xf32>
  %b = nn.add %a, %skip {kernel = "add"} : tensor<2x4xf32>
  %c = nn.relu %b {kernel = "relu"} : tensor<2x4xf32>
  func.return %c : tensor<2x4xf32>
}

// -----

// Operand by operand: an operand that is read twice is one operand of the group; constants stay
// outside; a smaller tensor may be broadcast to the producer's shape.

// CHECK-LABEL: func.func @operands
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %c = nn.fused(%[[X:.*]] = %x, %[[W:.*]] = %w) {
// CHECK-NEXT:      %a = nn.exp %[[X]] {
// CHECK-NEXT:      %b = nn.sub %[[W]], %a {
// CHECK-NEXT:      %[[C:.*]] = nn.mul %b, %[[X]] {
// CHECK-NEXT:      nn.yield %[[C]]
func.func @operands(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = nn.weight @w : tensor<4xf32>
  %a = nn.exp %x {kernel = "exp"} : tensor<2x4xf32>
  %b = nn.sub %w, %a {kernel = "sub"} : tensor<2x4xf32>
  %c = nn.mul %b, %x {kernel = "mul"} : tensor<2x4xf32>
  func.return %c : tensor<2x4xf32>
}

// -----

// Of two producers the later one is joined: the other one's result is there by then.

// CHECK-LABEL: func.func @two_producers
// CHECK-NEXT:    %a = nn.matmul %x, %w {
// CHECK-NEXT:    %c = nn.fused(%[[X:.*]] = %x, %[[V:.*]] = %v, %[[A:.*]] = %a) {
// CHECK-NEXT:      %b = nn.matmul %[[X]], %[[V]] {
// CHECK-NEXT:      %[[C:.*]] = nn.add %[[A]], %b {
// CHECK-NEXT:      nn.yield %[[C]]
func.func @two_producers(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %v: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %a = nn.matmul %x, %w {kernel = "matmul"} : tensor<2x4xf32>
  %b = nn.matmul %x, %v {kernel = "matmul"} : tensor<2x4xf32>
  %c = nn.add %a, %b {kernel = "add"} : tensor<2x4xf32>
  func.return %c : tensor<2x4xf32>
}

// -----

// The group stands where its last op stood, after what that reads.

// CHECK-LABEL: func.func @in_between
// CHECK-NEXT:    %b = nn.softmax %x {
// CHECK-NEXT:    %c = nn.fused({{.*}} = %x, {{.*}} = %b) {
// CHECK:           nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %c, %b
func.func @in_between(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %a = nn.relu %x {kernel = "relu"} : tensor<2x4xf32>
  %b = nn.softmax %x {kernel = "softmax"} : tensor<2x4xf32>
  %c = nn.add %a, %b {kernel = "add"} : tensor<2x4xf32>
  func.return %c, %b : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// A result with other uses is one of the group's results.

// CHECK-LABEL: func.func @second_use
// CHECK-NEXT:    %a, %b = nn.fused(%[[X:.*]] = %x) {
// CHECK-NEXT:      %[[A:.*]] = nn.exp %[[X]]
// CHECK-NEXT:      %[[B:.*]] = nn.relu %[[A]]
// CHECK-NEXT:      nn.yield %[[A]], %[[B]]
// CHECK-NEXT:    }
// CHECK-NEXT:    %d = nn.fused(%[[X:.*]] = %x) {
// CHECK-NEXT:      %[[C:.*]] = nn.neg %[[X]]
// CHECK-NEXT:      %[[D:.*]] = nn.mul %[[C]], %[[C]]
// CHECK-NEXT:      nn.yield %[[D]]
func.func @second_use(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.exp %x {kernel = "exp"} : tensor<4xf32>
  %b = nn.relu %a {kernel = "relu"} : tensor<4xf32>
  %c = nn.neg %x {kernel = "neg"} : tensor<4xf32>
  %d = nn.mul %c, %c {kernel = "mul"} : tensor<4xf32>
  func.return %a, %b, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// No group: the consumer's result is larger than what is produced.

// CHECK-LABEL: func.func @broadcast
// CHECK-NOT:     nn.fused
func.func @broadcast(%x: tensor<4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = nn.exp %x {kernel = "exp"} : tensor<4xf32>
  %b = nn.add %a, %y {kernel = "add"} : tensor<2x4xf32>
  func.return %b : tensor<2x4xf32>
}

// -----

// Before a reduction, which reads each element once; so does a product with one column.

// CHECK-LABEL: func.func @before
// CHECK-NEXT:    %b = nn.fused
// CHECK-NEXT:      %a = nn.exp
// CHECK-NEXT:      nn.softmax %a
// CHECK:         %d = nn.fused
// CHECK-NEXT:      %c = nn.transpose
// CHECK-NEXT:      nn.matmul %c
// CHECK:         %e = nn.transpose
// CHECK-NEXT:    %f = nn.matmul %e, %w
func.func @before(%x: tensor<2x4xf32>, %v: tensor<2x1xf32>, %w: tensor<2x5xf32>) -> (tensor<2x4xf32>, tensor<4x1xf32>, tensor<4x5xf32>) {
  %a = nn.exp %x {kernel = "exp"} : tensor<2x4xf32>
  %b = nn.softmax %a {kernel = "softmax"} : tensor<2x4xf32>
  %c = nn.transpose %x {kernel = "transpose"} : tensor<4x2xf32>
  %d = nn.matmul %c, %v {kernel = "matmul"} : tensor<4x1xf32>
  %e = nn.transpose %x {kernel = "transpose"} : tensor<4x2xf32>
  %f = nn.matmul %e, %w {kernel = "matmul"} : tensor<4x5xf32>
  func.return %b, %d, %f : tensor<2x4xf32>, tensor<4x1xf32>, tensor<4x5xf32>
}

// -----

// A value that is read twice inside, and several producers. Only one of them may be a product: the
// later one.

// CHECK-LABEL: func.func @diamond
// CHECK-NEXT:    %m = nn.matmul %x, %w
// CHECK-NEXT:    %f = nn.fused
// CHECK-NEXT:      %a = nn.matmul
// CHECK-NEXT:      %b = nn.sigmoid %a
// CHECK-NEXT:      %c = nn.mul %a, %b
// CHECK-NEXT:      %d = nn.exp
// CHECK-NEXT:      %e = nn.add %c, %d
// CHECK-NEXT:      nn.add %e
func.func @diamond(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %m = nn.matmul %x, %w {kernel = "matmul"} : tensor<2x4xf32>
  %a = nn.matmul %x, %w {kernel = "matmul"} : tensor<2x4xf32>
  %b = nn.sigmoid %a {kernel = "sigmoid"} : tensor<2x4xf32>
  %c = nn.mul %a, %b {kernel = "mul"} : tensor<2x4xf32>
  %d = nn.exp %y {kernel = "exp"} : tensor<2x4xf32>
  %e = nn.add %c, %d {kernel = "add"} : tensor<2x4xf32>
  %f = nn.add %e, %m {kernel = "add"} : tensor<2x4xf32>
  func.return %f : tensor<2x4xf32>
}

// -----

// Moves join what reads them, even where it reads elements again, and what they read; a reshape
// joins where it stands between two members.

// CHECK-LABEL: func.func @moves
// CHECK-NEXT:    %[[V:.*]] = nn.reshape %x
// CHECK-NEXT:    %g = nn.fused
// CHECK-NEXT:      %a = nn.exp
// CHECK-NEXT:      %b = nn.slice %a
// CHECK-NEXT:      %c = nn.reshape %b
// CHECK-NEXT:      %d = nn.slice
// CHECK-NEXT:      %e = nn.add %c, %d
// CHECK-NEXT:      %f = nn.neg
// CHECK-NEXT:      nn.concat %e, %f
func.func @moves(%x: tensor<24xf32>, %y: tensor<5x3xf32>, %z: tensor<1x3xf32>) -> tensor<5x3xf32> {
  %v = nn.reshape %x shape [4, 6] {kernel = "view"} : tensor<4x6xf32>
  %a = nn.exp %v {kernel = "exp"} : tensor<4x6xf32>
  %b = nn.slice %a starts [0, 1] sizes [4, 3] {kernel = "slice"} : tensor<4x3xf32>
  %c = nn.reshape %b shape [4, 3] {kernel = "view"} : tensor<4x3xf32>
  %d = nn.slice %y starts [1, 0] sizes [4, 3] {kernel = "slice"} : tensor<4x3xf32>
  %e = nn.add %c, %d {kernel = "add"} : tensor<4x3xf32>
  %f = nn.neg %z {kernel = "neg"} : tensor<1x3xf32>
  %g = nn.concat %e, %f axis 0 {kernel = "concat"} : tensor<5x3xf32>
  func.return %g : tensor<5x3xf32>
}

// -----

// No group that a path leaves and enters again: the host runs the softmax between the two.

// CHECK-LABEL: func.func @convex
// CHECK-NEXT:    %a = nn.exp
// CHECK-NEXT:    %b = nn.softmax %a
// CHECK-NEXT:    %c = nn.add %a, %b
func.func @convex(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %a = nn.exp %x {kernel = "exp"} : tensor<2x4xf32>
  %b = nn.softmax %a {kernel = "host"} : tensor<2x4xf32>
  %c = nn.add %a, %b {kernel = "add"} : tensor<2x4xf32>
  func.return %c : tensor<2x4xf32>
}

// -----

// What reads a group's result before the group's last op stood, stands after the group.

// CHECK-LABEL: func.func @sorted
// CHECK-NEXT:    %a, %d = nn.fused
// CHECK:           nn.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    %b = nn.softmax %a
// CHECK-NEXT:    %c = nn.softmax %b
func.func @sorted(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %a = nn.exp %x {kernel = "exp"} : tensor<2x4xf32>
  %b = nn.softmax %a {kernel = "softmax"} : tensor<2x4xf32>
  %c = nn.softmax %b {kernel = "softmax"} : tensor<2x4xf32>
  %d = nn.neg %a {kernel = "neg"} : tensor<2x4xf32>
  func.return %c, %d : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// No group: one of the two is no native code, or no kernel has been picked.

// CHECK-LABEL: func.func @kernels
// CHECK-NOT:     nn.fused
func.func @kernels(%x: tensor<2x4xf32>, %y: tensor<8xf32>) {
  %a = nn.exp %x {kernel = "host"} : tensor<2x4xf32>
  %b = nn.relu %a {kernel = "relu"} : tensor<2x4xf32>
  %c = nn.exp %x {kernel = "exp"} : tensor<2x4xf32>
  %d = nn.relu %c {kernel = "host"} : tensor<2x4xf32>
  %e = nn.reshape %y shape [2, 4] {kernel = "view"} : tensor<2x4xf32>
  %f = nn.relu %e {kernel = "relu"} : tensor<2x4xf32>
  %g = nn.exp %x : tensor<2x4xf32>
  %h = nn.relu %g : tensor<2x4xf32>
  %i, %j = nn.topk %x k 4 {kernel = "host"} : tensor<2x4xf32>, tensor<2x4xi64>
  %k = nn.relu %i {kernel = "relu"} : tensor<2x4xf32>
  func.return
}

// -----

// No group: a conversion stands between, or the result lies otherwise in memory.

// CHECK-LABEL: func.func @places
// CHECK-NOT:     nn.fused
#nchw = #place.at<x86, f32, nchw>
#nhwc = #place.at<x86, f32, nhwc>
!a = tensor<1x8x2x2xf32, #nchw>
!b = tensor<1x8x2x2xf32, #nhwc>
func.func @places(%x: !a) {
  %a = nn.exp %x {kernel = "exp"} : !a
  %b = place.relayout %a : !a -> !b
  %c = nn.relu %b {kernel = "relu"} : !b
  %d = nn.exp %x {kernel = "exp"} : !a
  %e = nn.relu %d {kernel = "relu"} : !b
  func.return
}

// -----

// What a concat makes of parts is read by ops on elements, and not at several places: the concat is
// a kernel of its own then.

// CHECK-LABEL: func.func @steps
// CHECK-NEXT:    %b = nn.fused
// CHECK-NEXT:      %a = nn.neg
// CHECK-NEXT:      nn.concat
// CHECK:         %e = nn.fused
// CHECK-NEXT:      %c = nn.slice
// CHECK-NEXT:      %d = nn.slice
// CHECK-NEXT:      nn.add %c, %d
// CHECK:         %g = nn.fused
// CHECK-NEXT:      %f = nn.concat
// CHECK-NEXT:      nn.exp %f
func.func @steps(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<5xf32>, tensor<6xf32>) {
  %a = nn.neg %x {kernel = "neg"} : tensor<4xf32>
  %b = nn.concat %a, %y axis 0 {kernel = "concat"} : tensor<6xf32>
  %c = nn.slice %b starts [0] sizes [5] {kernel = "slice"} : tensor<5xf32>
  %d = nn.slice %b starts [1] sizes [5] {kernel = "slice"} : tensor<5xf32>
  %e = nn.add %c, %d {kernel = "add"} : tensor<5xf32>
  %f = nn.concat %x, %y axis 0 {kernel = "concat"} : tensor<6xf32>
  %g = nn.exp %f {kernel = "exp"} : tensor<6xf32>
  func.return %e, %g : tensor<5xf32>, tensor<6xf32>
}

// -----

// Of nine operations, each would be computed twice for two slices.

// CHECK-LABEL: func.func @heavy
// CHECK-NEXT:    %i = nn.fused
// CHECK-COUNT-9:   nn.
// CHECK:         %l = nn.fused
// CHECK-NEXT:      %j = nn.slice
// CHECK-NEXT:      %k = nn.slice
// CHECK-NEXT:      nn.add %j, %k
func.func @heavy(%x: tensor<4xf32>) -> tensor<3xf32> {
  %a = nn.neg %x {kernel = "neg"} : tensor<4xf32>
  %b = nn.exp %a {kernel = "exp"} : tensor<4xf32>
  %c = nn.neg %b {kernel = "neg"} : tensor<4xf32>
  %d = nn.exp %c {kernel = "exp"} : tensor<4xf32>
  %e = nn.neg %d {kernel = "neg"} : tensor<4xf32>
  %f = nn.exp %e {kernel = "exp"} : tensor<4xf32>
  %g = nn.neg %f {kernel = "neg"} : tensor<4xf32>
  %h = nn.exp %g {kernel = "exp"} : tensor<4xf32>
  %i = nn.neg %h {kernel = "neg"} : tensor<4xf32>
  %j = nn.slice %i starts [0] sizes [3] {kernel = "slice"} : tensor<3xf32>
  %k = nn.slice %i starts [1] sizes [3] {kernel = "slice"} : tensor<3xf32>
  %l = nn.add %j, %k {kernel = "add"} : tensor<3xf32>
  func.return %l : tensor<3xf32>
}

// -----

// For most open sizes, the exponential of a column would be computed for each element of its row.

// CHECK-LABEL: func.func @open
// CHECK-NEXT:    %a = nn.exp
// CHECK-NEXT:    %b = nn.add %a
// CHECK-NEXT:    func.return
builtin.module attributes {symbols = [#nn.symbol<n, 1 to 9>, #nn.symbol<m, 1 to 9>]} {
  func.func @open(%x: tensor<[n]x1xf32>, %y: tensor<[n]x[m]xf32>) -> tensor<[n]x[m]xf32> {
    %a = nn.exp %x {kernel = "exp"} : tensor<[n]x1xf32>
    %b = nn.add %a, %y {kernel = "add"} : tensor<[n]x[m]xf32>
    func.return %b : tensor<[n]x[m]xf32>
  }
}

// -----

// Gathers whose results are combined are one group, with what moves their indices.

// CHECK-LABEL: func.func @embeddings
// CHECK-NEXT:    %z = nn.fused
// CHECK-NEXT:      %a = nn.gather
// CHECK-NEXT:      %e = nn.expand
// CHECK-NEXT:      %b = nn.gather_elements
// CHECK-NEXT:      %s = nn.add %a, %b
// CHECK-NEXT:      %c = nn.gather
// CHECK-NEXT:      %[[Z:.*]] = nn.mul %s, %c
// CHECK-NEXT:      nn.yield %[[Z]]
func.func @embeddings(%t: tensor<9x4xf32>, %u: tensor<5x4xf32>, %i: tensor<3xi64>, %j: tensor<3x1xi64>) -> tensor<3x4xf32> {
  %a = nn.gather %t, %i {kernel = "gather"} : tensor<3x4xf32>
  %e = nn.expand %j shape [3, 4] {kernel = "expand"} : tensor<3x4xi64>
  %b = nn.gather_elements %u, %e {kernel = "gather_elements"} : tensor<3x4xf32>
  %s = nn.add %a, %b {kernel = "add"} : tensor<3x4xf32>
  %c = nn.gather %t, %i {kernel = "gather"} : tensor<3x4xf32>
  %z = nn.mul %s, %c {kernel = "mul"} : tensor<3x4xf32>
  func.return %z : tensor<3x4xf32>
}

// -----

// A gather from what was gathered is a kernel of its own, and so is one that others read.

// CHECK-LABEL: func.func @again
// CHECK-NEXT:    %a = nn.gather %t, %i
// CHECK-NEXT:    %z = nn.fused
// CHECK-NEXT:      %b = nn.gather
// CHECK-NEXT:      %[[Z:.*]] = nn.add
// CHECK-NEXT:      nn.yield %[[Z]]
func.func @again(%t: tensor<9x4xf32>, %x: tensor<3x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf32> {
  %a = nn.gather %t, %i {kernel = "gather"} : tensor<3x4xf32>
  %b = nn.gather %a, %i {kernel = "gather"} : tensor<3x4xf32>
  %z = nn.add %a, %b {kernel = "add"} : tensor<3x4xf32>
  func.return %z : tensor<3x4xf32>
}
