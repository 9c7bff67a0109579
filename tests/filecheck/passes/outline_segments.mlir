// RUN: tessella-opt %s -p outline-segments --split-input-file | filecheck %s

// All ops are native: one segment. Only what is read outside is a result.

// CHECK-LABEL: tile.segment @segment_0(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:    %a = nn.add %x, %y {
// CHECK-NEXT:    %b = nn.relu %a {
// CHECK-NEXT:    %c = nn.neg %b {
// CHECK-NEXT:    tile.return %b, %c
// CHECK-NEXT:  }
// CHECK-NEXT:  func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
// CHECK-NEXT:    %b, %c = rt.launch @segment_0(%x, %y) : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:    func.return %c, %b, %x
// CHECK-NEXT:  }
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.add %x, %y {kernel = "add"} : tensor<4xf32>
  %b = nn.relu %a {kernel = "relu"} : tensor<4xf32>
  %c = nn.neg %b {kernel = "neg"} : tensor<4xf32>
  func.return %c, %b, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// An op that runs in NumPy stays a step of its own, between two segments; so do the copies.

// CHECK-LABEL: tile.segment @segment_0(%x: tensor<4xf32, #x86_f32_nchw>)
// CHECK-NEXT:    %a = nn.relu %x {
// CHECK-NEXT:    tile.return %a
// CHECK-LABEL: tile.segment @segment_1(
// CHECK-SAME:    tensor<2xf32, #x86_f32_nchw>) -> (tensor<2xf32, #x86_f32_nchw>)
// CHECK-NEXT:    %e = nn.neg %{{.*}} {
// CHECK-NEXT:    tile.return %e
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = rt.launch @segment_0(%x)
// CHECK-NEXT:    %b = place.copy %a
// CHECK-NEXT:    %c, %d = nn.topk %b k {{.*}} {kernel = "host"
// CHECK-NEXT:    %f = place.copy %c
// CHECK-NEXT:    %e = rt.launch @segment_1(%f)
// CHECK-NEXT:    func.return %e, %d
!x = tensor<4xf32, #place.at<x86, f32, nchw>>
!h = tensor<4xf32, #place.at<host, f32, nchw>>
!y = tensor<2xf32, #place.at<x86, f32, nchw>>
!g = tensor<2xf32, #place.at<host, f32, nchw>>
!i = tensor<2xi64, #place.at<host, i64, nchw>>
func.func @main(%x: !x) -> (!y, !i) {
  %a = nn.relu %x {kernel = "relu"} : !x
  %b = place.copy %a : !x -> !h
  %c, %d = nn.topk %b k 2 {kernel = "host"} : !g, !i
  %f = place.copy %c : !g -> !y
  %e = nn.neg %f {kernel = "neg"} : !y
  func.return %e, %d : !y, !i
}

// -----

// Few segments: native ops that do not wait for the host's are moved up to the first one.

// CHECK-LABEL: tile.segment @segment_0(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT:    %a = nn.relu %x {
// CHECK-NEXT:    %c = nn.neg %x {
// CHECK-NEXT:    tile.return %a, %c
// CHECK-LABEL: tile.segment @segment_1(%b: tensor<4xf32>, %c: tensor<4xf32>)
// CHECK-NEXT:    %d = nn.add %b, %c {
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a, %c = rt.launch @segment_0(%x)
// CHECK-NEXT:    %b = nn.exp %a {
// CHECK-NEXT:    %d = rt.launch @segment_1(%b, %c)
// CHECK-NEXT:    func.return %d
// CHECK-NOT:   @segment_2
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.relu %x {kernel = "relu"} : tensor<4xf32>
  %b = nn.exp %a {kernel = "host"} : tensor<4xf32>
  %c = nn.neg %x {kernel = "neg"} : tensor<4xf32>
  %d = nn.add %b, %c {kernel = "add"} : tensor<4xf32>
  func.return %d : tensor<4xf32>
}

// -----

// Segments hold the constants that they read; @main keeps those that its own steps read.

// CHECK-LABEL: tile.segment @segment_0(%x: tensor<4xf32>) -> (tensor<4xf32>)
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %v = nn.weight @v
// CHECK-NEXT:    %a = nn.add %x, %w {
// CHECK-NEXT:    %b = nn.add %a, %v {
// CHECK-NEXT:    tile.return %b
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %v = nn.weight @v
// CHECK-NEXT:    %s = nn.splat 1.000000e+00
// CHECK-NEXT:    %b = rt.launch @segment_0(%x)
// CHECK-NEXT:    %c = nn.add %b, %v {
// CHECK-NEXT:    func.return %c, %s
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %w = nn.weight @w : tensor<4xf32>
  %v = nn.weight @v : tensor<4xf32>
  %s = nn.splat 1.0 : f32 : tensor<4xf32>
  %a = nn.add %x, %w {kernel = "add"} : tensor<4xf32>
  %b = nn.add %a, %v {kernel = "add"} : tensor<4xf32>
  %c = nn.add %b, %v {kernel = "host"} : tensor<4xf32>
  func.return %c, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// A group is native as a whole. The host's own op may come first.

// CHECK-LABEL: tile.segment @segment_0(
// CHECK-NEXT:    nn.fused
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %a = nn.exp %x {
// CHECK-NEXT:    rt.launch @segment_0(%a)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.exp %x {kernel = "host"} : tensor<4xf32>
  %b = nn.fused(%y = %a) {
    %c = nn.relu %y {kernel = "relu"} : tensor<4xf32>
    %d = nn.neg %c {kernel = "neg"} : tensor<4xf32>
    nn.yield %d : tensor<4xf32>
  } : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// No segment where no op is native.

// CHECK-NOT:   @segment_0
// CHECK:       func.func @main
// CHECK-NEXT:    %a = nn.exp %x {
// CHECK-NEXT:    func.return %a
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.exp %x {kernel = "host"} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}

// -----

// Only @main is cut.

// CHECK-LABEL: func.func @other
// CHECK-NEXT:    %a = nn.relu %x {
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    func.return
func.func @other(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.relu %x {kernel = "relu"} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}

// -----

// A kernel that is there already is native: its call goes into a segment, the kernel stays.

// CHECK:       tile.kernel @double(
// CHECK-LABEL: tile.segment @segment_0(%x: tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:    %y = tile.call @double(%x)
// CHECK-NEXT:    tile.return %y
// CHECK-NEXT:  }
// CHECK-NEXT:  func.func @main(
// CHECK-NEXT:    %y = rt.launch @segment_0(%x)
tile.kernel @double(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%x[i]) -> [i] {
  ^bb0(%a: f32):
    %b = arith.addf %a, %a : f32
    tile.yield %b : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tile.call @double(%x) : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// The function of a native loop becomes a segment, that of another one is cut as @main is.

// CHECK-LABEL: tile.segment @native(%h: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:    %a = nn.add %h, %x {
// CHECK-NEXT:    tile.return %a
// CHECK-LABEL: tile.segment @segment_0(%h: tensor<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>) {
// CHECK-NEXT:    %a = nn.add %h, %x {
// CHECK-LABEL: func.func @mixed(
// CHECK-NEXT:    %a = rt.launch @segment_0(%h, %x)
// CHECK-NEXT:    %b = nn.exp %a {
// CHECK-LABEL: tile.segment @segment_1(
// CHECK-NEXT:    %a = nn.scan @native %h, %xs carried 1 scanned 1
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %a = rt.launch @segment_1(%h, %xs)
// CHECK-NEXT:    %b = nn.scan @mixed %a, %xs carried 1 scanned 1
func.func @native(%h: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.add %h, %x {kernel = "add"} : tensor<4xf32>
  func.return %a : tensor<4xf32>
}
func.func @mixed(%h: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.add %h, %x {kernel = "add"} : tensor<4xf32>
  %b = nn.exp %a {kernel = "host"} : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
func.func @main(%h: tensor<4xf32>, %xs: tensor<3x4xf32>) -> tensor<4xf32> {
  %a = nn.scan @native %h, %xs carried 1 scanned 1 {kernel = "loop"} : tensor<4xf32>
  %b = nn.scan @mixed %a, %xs carried 1 scanned 1 {kernel = "host"} : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// An op with a symbol stays behind the op that defines it, though it reads no result of it. So do
// a constant, and a loop whose function has the symbol.

// CHECK-LABEL: tile.segment @segment_0(%x: tensor<9xi64>)
// CHECK-NEXT:    %y = nn.neg %x {
// CHECK-NEXT:    tile.return %y
// CHECK-LABEL: tile.segment @segment_1() -> (tensor<[k]xi64>) {
// CHECK-NEXT:    %i = nn.iota count [k] {
// CHECK-NEXT:    tile.return %i
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %y = rt.launch @segment_0(%x)
// CHECK-NEXT:    %t = nn.trim %y, %c sizes {{\[\[k\]\]}} {
// CHECK-NEXT:    %z = nn.splat 0 : i64 : tensor<[k]xi64>
// CHECK-NEXT:    %h = nn.scan @step %c, %x carried
// CHECK-NEXT:    %i = rt.launch @segment_1()
// CHECK-NEXT:    func.return %t, %i, %z, %h
builtin.module attributes {symbols = [#nn.symbol<k, 0 to 9>]} {
  func.func @step(%h: tensor<i64>, %e: tensor<i64>) -> tensor<i64> {
    %s = nn.sizes values [[k]] {kernel = "host"} : tensor<1xi64>
    %r = nn.reshape %s shape [] {kernel = "host"} : tensor<i64>
    func.return %r : tensor<i64>
  }
  func.func @main(%x: tensor<9xi64>, %c: tensor<i64>) -> (tensor<[k]xi64>, tensor<[k]xi64>, tensor<[k]xi64>, tensor<i64>) {
    %y = nn.neg %x {kernel = "neg"} : tensor<9xi64>
    %t = nn.trim %y, %c sizes [[k]] {kernel = "trim"} : tensor<[k]xi64>
    %i = nn.iota count [k] {kernel = "iota"} : tensor<[k]xi64>
    %z = nn.splat 0 : i64 : tensor<[k]xi64>
    %h = nn.scan @step %c, %x carried 1 scanned 1 {kernel = "host"} : tensor<i64>
    func.return %t, %i, %z, %h : tensor<[k]xi64>, tensor<[k]xi64>, tensor<[k]xi64>, tensor<i64>
  }
}
