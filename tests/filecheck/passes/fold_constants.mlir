// RUN: tessella-opt %s -p fold-constants --split-input-file | filecheck %s
// RUN: tessella-opt %s -p 'fold-constants{limit=64}' --split-input-file | filecheck %s --check-prefix=LIMIT

// What splats alone determine is computed without an array, whatever its size.

// CHECK-LABEL: func.func @splats
// CHECK-NEXT:    %v1 = nn.splat 7.500000e-01 : f32 : tensor<100000x200000xf32>
// CHECK-NEXT:    %v2 = nn.splat false : tensor<100000x200000xi1>
// CHECK-NEXT:    %v3 = nn.splat 7.500000e-01 : f32 : tensor<200000x100000xf32>
// CHECK-NEXT:    %v4 = nn.splat 7.500000e-01 : f32 : tensor<200000x200000xf32>
// CHECK-NEXT:    func.return %v1, %v2, %v3, %v4
func.func @splats() -> (tensor<100000x200000xf32>, tensor<100000x200000xi1>, tensor<200000x100000xf32>, tensor<200000x200000xf32>) {
  %a = nn.splat 0.5 : f32 : tensor<100000x200000xf32>
  %b = nn.splat 0.25 : f32 : tensor<200000xf32>
  %v1 = nn.add %a, %b : tensor<100000x200000xf32>
  %v2 = nn.less %v1, %b : tensor<100000x200000xi1>
  %v3 = nn.transpose %v1 : tensor<200000x100000xf32>
  %v4 = nn.concat %v3, %v3 axis 1 : tensor<200000x200000xf32>
  func.return %v1, %v2, %v3, %v4 : tensor<100000x200000xf32>, tensor<100000x200000xi1>, tensor<200000x100000xf32>, tensor<200000x200000xf32>
}

// -----

// Other results become weights, named after the op's node or else after its result. Results that
// are larger than the limit, and than what they are made of, are left to the run.

// CHECK-LABEL: func.func @weights
// CHECK-NEXT:    %v1 = nn.weight @v1 : tensor<8xf32>
// CHECK-NEXT:    %v2 = nn.weight @"the node" : tensor<8x2xf32>
// CHECK-NEXT:    %sum = nn.weight @sum : tensor<2x16xf32>
// CHECK-NEXT:    func.return %v1, %v2, %sum

// LIMIT-LABEL: func.func @weights
// LIMIT:         %v1 = nn.weight @v1 : tensor<8xf32>
// LIMIT-NEXT:    %v2 = nn.weight @"the node" : tensor<8x2xf32>
// LIMIT:         %sum = nn.concat %a, %b
// LIMIT-NEXT:    func.return %v1, %v2, %sum
func.func @weights() -> (tensor<8xf32>, tensor<8x2xf32>, tensor<2x16xf32>) {
  %v0 = nn.splat 1.0 : f32 : tensor<4xf32>
  %v5 = nn.splat 2.0 : f32 : tensor<4xf32>
  %v1 = nn.concat %v0, %v5 axis 0 : tensor<8xf32>
  %w = nn.reshape %v1 shape [8, 1] : tensor<8x1xf32>
  %v2 = nn.expand %w shape [8, 2] {node = "the node"} : tensor<8x2xf32>
  %a = nn.splat 1.0 : f32 : tensor<2x8xf32>
  %b = nn.splat 2.0 : f32 : tensor<2x8xf32>
  %sum = nn.concat %a, %b axis 1 : tensor<2x16xf32>
  func.return %v1, %v2, %sum : tensor<8xf32>, tensor<8x2xf32>, tensor<2x16xf32>
}

// -----

// Weights that the store does not hold, and what depends on arguments, stay.

// CHECK-LABEL: func.func @unknown
// CHECK-NEXT:    %w = nn.weight @w
// CHECK-NEXT:    %s = nn.splat 2.0
// CHECK-NEXT:    nn.mul %w, %s
// CHECK-NEXT:    nn.mul %x, %s
// CHECK-NEXT:    nn.neg
// CHECK-NEXT:    func.return
func.func @unknown(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %w = nn.weight @w : tensor<4xf32>
  %s = nn.splat 2.0 : f32 : tensor<4xf32>
  %v1 = nn.mul %w, %s : tensor<4xf32>
  %v2 = nn.mul %x, %s : tensor<4xf32>
  %v3 = nn.neg %v2 : tensor<4xf32>
  func.return %v1, %v3 : tensor<4xf32>, tensor<4xf32>
}

// -----

// So do ops whose kernel is picked, and ops that fail: the index is out of range.

// CHECK-LABEL: func.func @left_alone
// CHECK:         nn.neg %s {kernel = "neg"}
// CHECK-NEXT:    nn.gather %s, %i
// CHECK-NEXT:    func.return
func.func @left_alone() -> (tensor<4xf32>, tensor<2xf32>) {
  %s = nn.splat 2.0 : f32 : tensor<4xf32>
  %i = nn.splat 4 : i64 : tensor<2xi64>
  %v1 = nn.neg %s {kernel = "neg"} : tensor<4xf32>
  %v2 = nn.gather %s, %i : tensor<2xf32>
  func.return %v1, %v2 : tensor<4xf32>, tensor<2xf32>
}

// -----

// An op of any kind folds; it is known to give a splat where the result is small.

// CHECK-LABEL: func.func @small
// CHECK-NEXT:    nn.splat 6.000000e+00 : f32 : tensor<f32>
// CHECK-NEXT:    nn.splat 3.000000e+00 : f32 : tensor<2x2xf32>
// CHECK-NEXT:    nn.splat 2 : i64 : tensor<2xi64>
// CHECK-NEXT:    func.return
func.func @small() -> (tensor<f32>, tensor<2x2xf32>, tensor<2xi64>) {
  %v0 = nn.splat 1.0 : f32 : tensor<2x3xf32>
  %v1 = nn.reduce_sum %v0 : tensor<f32>
  %v2 = nn.matmul %v0, %v0 transpose_b true : tensor<2x2xf32>
  %v3 = nn.arg_max %v0 axis 1 select_last_index true : tensor<2xi64>
  func.return %v1, %v2, %v3 : tensor<f32>, tensor<2x2xf32>, tensor<2xi64>
}

// -----

// A tensor without elements is a constant. An op stays if it checks an index.

// CHECK-LABEL: func.func @empty
// CHECK-NEXT:    %x_1 = nn.splat 0.000000e+00 : f32 : tensor<0x4xf32>
// CHECK-NEXT:    %biased = nn.splat 0.000000e+00 : f32 : tensor<0x4xf32>
// CHECK-NEXT:    %sum = nn.splat 0.000000e+00 : f32 : tensor<4xf32>
// CHECK-NEXT:    %part = nn.splat 0.000000e+00 : f32 : tensor<3x0xf32>
// CHECK-NEXT:    %picked = nn.gather %part, %i
// CHECK-NEXT:    %none = nn.splat 0.000000e+00 : f32 : tensor<0x4xf32>
// CHECK-NEXT:    %all = nn.concat %x_1, %y
// CHECK-NEXT:    func.return
func.func @empty(%x: tensor<0x4xf32>, %y: tensor<3x4xf32>, %b: tensor<4xf32>, %i: tensor<2xi64>, %j: tensor<0xi64>) -> (tensor<0x4xf32>, tensor<4xf32>, tensor<2x0xf32>, tensor<0x4xf32>, tensor<3x4xf32>) {
  %biased = nn.add %x, %b : tensor<0x4xf32>
  %sum = nn.reduce_sum %biased axes [0] keepdims false : tensor<4xf32>
  %part = nn.slice %y starts [0, 2] sizes [3, 0] : tensor<3x0xf32>
  %picked = nn.gather %part, %i axis 0 : tensor<2x0xf32>
  %none = nn.gather %y, %j axis 0 : tensor<0x4xf32>
  %all = nn.concat %x, %y axis 0 : tensor<3x4xf32>
  func.return %biased, %sum, %picked, %none, %all : tensor<0x4xf32>, tensor<4xf32>, tensor<2x0xf32>, tensor<0x4xf32>, tensor<3x4xf32>
}
