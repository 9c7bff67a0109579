// RUN: tessella-opt %s --split-input-file --verify-diagnostics

func.func @broadcast(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  // expected-error@+1 {{shapes do not broadcast}}
  %0 = nn.add %a, %b : tensor<2x3xf32>
  func.return
}

// -----

func.func @elements(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // expected-error@+1 {{nn.mul: element types differ}}
  %0 = nn.mul %a, %b : tensor<2xf32>
  func.return
}

// -----

func.func @booleans(%a: tensor<2xi1>) {
  // expected-error@+1 {{nn.neg takes numbers}}
  %0 = nn.neg %a : tensor<2xi1>
  func.return
}

// -----

func.func @result(%a: tensor<2xf32>) {
  // expected-error@+1 {{nn.relu (relu1): result 0: expected tensor<2xf32>, found tensor<3xf32>}}
  %0 = nn.relu %a {node = "relu1"} : tensor<3xf32>
  func.return
}

// -----

func.func @dynamic(%a: tensor<?xf32>) {
  // expected-error@+1 {{expected static shapes}}
  %0 = nn.relu %a : tensor<?xf32>
  func.return
}

// -----

func.func @missing_property(%a: tensor<2xf32>) {
  // expected-error@+1 {{property 'axis' expected}}
  %0 = nn.concat %a : tensor<2xf32>
  func.return
}

// -----

func.func @property_type(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{Expected attribute i64 but got i32}}
  %0 = nn.transpose %a {perm = array<i32: 1, 0>} : tensor<3x2xf32>
  func.return
}

// -----

func.func @splat() {
  // expected-error@+1 {{nn.splat: the value is not of the element type}}
  %0 = nn.splat 1.0 : f32 : tensor<2xf64>
  func.return
}

// -----

func.func @inner(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{the inner sizes differ}}
  %0 = nn.matmul %a, %a : tensor<2x3xf32>
  func.return
}

// -----

func.func @no_sums(%a: tensor<2x4xui8>, %b: tensor<4x5xi8>) {
  // expected-error@+1 {{nn.matmul: element types differ}}
  %0 = nn.matmul %a, %b : tensor<2x5xi32>
  func.return
}

// -----

func.func @sums(%a: tensor<2x4xi16>, %b: tensor<4x5xi8>) {
  // expected-error@+1 {{nn.matmul: no sums of this element}}
  %0 = nn.matmul %a, %b sums i32 : tensor<2x5xi32>
  func.return
}

// -----

func.func @bias(%a: tensor<2x4xi8>, %b: tensor<4x5xi8>, %c: tensor<5xi8>) {
  // expected-error@+1 {{nn.fc: expected i32 beside the sums}}
  %0 = nn.fc %a, %b, %c sums i32 : tensor<2x5xi32>
  func.return
}

// -----

func.func @channels(%x: tensor<1x3x8xf32>, %w: tensor<4x2x3xf32>) {
  // expected-error@+1 {{nn.conv: channels do not fit}}
  %0 = nn.conv %x, %w : tensor<1x4x6xf32>
  func.return
}

// -----

func.func @window(%x: tensor<1x3x2xf32>) {
  // expected-error@+1 {{a window is larger than the padded input}}
  %0 = nn.max_pool %x kernel_shape [3] : tensor<1x3x1xf32>
  func.return
}

// -----

func.func @axis(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{nn.softmax: an axis is out of range expected: in [0, 2) found: [-1]}}
  %0 = nn.softmax %x axis -1 : tensor<2x3xf32>
  func.return
}

// -----

func.func @twice(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{an axis is given twice}}
  %0 = nn.reduce_sum %x axes [1, 1] keepdims true : tensor<2x1xf32>
  func.return
}

// -----

func.func @scale(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error@+1 {{shapes do not broadcast}}
  %0 = nn.layer_norm %x, %s : tensor<2x3xf32>
  func.return
}

// -----

func.func @attention(%q: tensor<5x4xf32>, %k: tensor<7x4xf32>, %v: tensor<7x4xf32>, %mask: tensor<2x5x7xf32>) {
  // expected-error@+1 {{nn.attention: the dimensions of mask do not broadcast to those of the scores expected: at most 5x7 found: 2x5x7}}
  %0 = nn.attention %q, %k, %v, %mask scale 1.0 : tensor<5x4xf32>
  func.return
}

// -----

func.func @elements_change(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{nn.reshape: the number of elements changes expected: 6, as (2, 3) has found: 7 in (7,)}}
  %0 = nn.reshape %x shape [7] : tensor<7xf32>
  func.return
}

// -----

func.func @leaves(%x: tensor<4xf32>) {
  // expected-error@+1 {{nn.slice: the slice leaves x along axis 0 expected: indices in [0, 4) found: 1 to 4}}
  %0 = nn.slice %x starts [1] sizes [2] steps [3] : tensor<2xf32>
  func.return
}

// -----

func.func @mode(%x: tensor<4xf32>) {
  // expected-error@+1 {{unknown mode expected: one of constant, reflect, edge, wrap found: 'mirror'}}
  %0 = nn.pad %x low [1] high [1] mode "mirror" : tensor<6xf32>
  func.return
}

// -----

func.func @indices(%x: tensor<4xf32>) {
  // expected-error@+1 {{nn.gather takes indices of type i64 or i32}}
  %0 = nn.gather %x, %x : tensor<4xf32>
  func.return
}

// -----

func.func @updates(%x: tensor<4x3xf32>, %i: tensor<2x1xi64>) {
  // expected-error@+1 {{nn.scatter_nd: an operand has the wrong shape expected: 2x3}}
  %0 = nn.scatter_nd %x, %i, %x : tensor<4x3xf32>
  func.return
}

// -----

func.func @group(%x: tensor<4xf32>) {
  // expected-error@+1 {{the operand types differ from those in the region}}
  %0 = "nn.fused"(%x) ({
  ^bb0(%a: tensor<5xf32>):
    nn.yield %a : tensor<5xf32>
  }) : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @places(%x: tensor<4xf32>) {
  // expected-error@+1 {{nn.relu (nn.relu): expected 2 places, one for each operand and result, found 0}}
  %0 = nn.relu %x {kernel = "host", places = []} : tensor<4xf32>
  func.return
}

// -----

func.func @too_large(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{expected an integer of 64 bits}}
  %0 = nn.transpose %a perm [1, 340282366920938463463374607431768211456] : tensor<3x2xf32>
  func.return
}

// -----

func.func @too_small(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{expected an integer of 64 bits}}
  %0 = nn.softmax %a axis -9223372036854775809 : tensor<2x3xf32>
  func.return
}

// -----

func.func @nodes(%x: tensor<5x4xf32>, %t: tensor<8xf32>, %l: tensor<9xi32>, %v: tensor<9x2xf32>) {
  // expected-error@+1 {{nn.tree_ensemble: an operand has the wrong shape expected: 9}}
  %0 = nn.tree_ensemble %x, %t, %l, %v trees 2 levels 3 bits 2 : tensor<5x2xf32>
  func.return
}

// -----

func.func @bits(%x: tensor<5x4xf32>, %t: tensor<9xf32>, %l: tensor<9xi32>, %v: tensor<9x2xf32>) {
  // expected-error@+1 {{nn.tree_ensemble: bits is out of range expected: in [1, 31]}}
  %0 = nn.tree_ensemble %x, %t, %l, %v trees 2 levels 3 bits 32 : tensor<5x2xf32>
  func.return
}

// -----

func.func @order(%z: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{nn.less takes real numbers}}
  %0 = nn.less %z, %z : tensor<2xi1>
  func.return
}

// -----

func.func @parts(%z: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{nn.cast: the imaginary parts of complex numbers would be lost}}
  %0 = nn.cast %z to f32 : tensor<2xf32>
  func.return
}

// -----

func.func @complex_splat() {
  // expected-error@+1 {{nn.splat: the value is not of the element type}}
  %0 = nn.splat 1.0 : f32 : tensor<2xcomplex<f32>>
  func.return
}
