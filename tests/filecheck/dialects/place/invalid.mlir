// RUN: tessella-opt %s --split-input-file --verify-diagnostics

func.func @nothing_changes(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{the layout stays}}
  %0 = place.relayout %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<4xf32, #place.at<x86, f32, nchw>>
  func.return
}

// -----

func.func @too_much_changes(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{place.copy changes the device alone: from x86/f32/nchw to host/f16/nchw the precision differs}}
  %0 = place.copy %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<4xf16, #place.at<host, f16, nchw>>
  func.return
}

// -----

func.func @no_place(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected tensors with a place}}
  %0 = place.copy %x : tensor<4xf32> -> tensor<4xf32, #place.at<x86, f32, nchw>>
  func.return
}

// -----

func.func @shape(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{expected the shape (4,), found (5,)}}
  %0 = place.cast %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<5xf16, #place.at<x86, f16, nchw>>
  func.return
}

// -----

func.func @element_type(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{expected elements of the place's precision f64, found tensor<4xf32, #place.at<x86, f64, nchw>>}}
  %0 = place.cast %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<4xf32, #place.at<x86, f64, nchw>>
  func.return
}

// -----

// expected-error@+1 {{expected a device (host, x86, arm, opencl, any), found 'tpu'}}
func.func private @target(tensor<4xf32, #place.at<tpu, f32, nchw>>)

// -----

// expected-error@+1 {{expected a layout (nchw, nhwc, nchw<N>c, image, any, packed), found 'nwhc'}}
func.func private @layout(tensor<4xf32, #place.at<x86, f32, nwhc>>)

// -----

func.func @wanted(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{nn.relu (relu1): operand 0 (%x): the kernel x86.relu wants x86/f32/nhwc, found x86/f32/nchw}}
  %0 = nn.relu %x {node = "relu1", kernel = "x86.relu", places = [#place.at<x86, f32, nhwc>, #place.at<x86, f32, nhwc>]} : tensor<4xf32, #place.at<x86, f32, nhwc>>
  func.return
}

// -----

// The places of a value reach every op after it: the error names the value, the op, what its kernel
// wants, and what it is fed with.

func.func @fed(%x: tensor<1x8x6x6xf32, #place.at<x86, f32, nchw>>, %w: tensor<8x8x1x1xf32, #place.at<x86, f32, nchw>>) {
  %0 = place.relayout %x : tensor<1x8x6x6xf32, #place.at<x86, f32, nchw>> -> tensor<1x8x6x6xf32, #place.at<x86, f32, nhwc>>
  %a = nn.relu %0 {kernel = "relu", places = [#place.at<x86, f32, nhwc>, #place.at<x86, f32, nhwc>]} : tensor<1x8x6x6xf32, #place.at<x86, f32, nhwc>>
  // expected-error@+1 {{nn.add (sum): operand 1 (%x): the kernel add wants x86/f32/nhwc, found x86/f32/nchw}}
  %b = nn.add %a, %x {node = "sum", kernel = "add", places = [#place.at<x86, f32, nhwc>, #place.at<x86, f32, nhwc>, #place.at<x86, f32, nhwc>]} : tensor<1x8x6x6xf32, #place.at<x86, f32, nhwc>>
  func.return
}

// -----

func.func @target(%x: tensor<4xf32, #place.at<host, f32, nchw>>) {
  // expected-error@+1 {{nn.relu (nn.relu): operand 0 (%x): the kernel relu wants x86/f32/nchw, found host/f32/nchw}}
  %a = nn.relu %x {kernel = "relu", places = [#place.at<x86, f32, nchw>, #place.at<x86, f32, nchw>]} : tensor<4xf32, #place.at<x86, f32, nchw>>
  func.return
}

// -----

func.func @precision(%x: tensor<4xf32, #place.at<opencl, f32, image>>) {
  // expected-error@+1 {{nn.relu (nn.relu): operand 0 (%x): the kernel relu wants opencl/f16/image, found opencl/f32/image}}
  %a = nn.relu %x {kernel = "relu", places = [#place.at<opencl, f16, image>, #place.at<opencl, f16, image>]} : tensor<4xf16, #place.at<opencl, f16, image>>
  func.return
}

// -----

func.func @not_placed(%x: tensor<4xf32>, %y: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{nn.add (nn.add): operand 0 (%x): the kernel add wants x86/f32/nchw, found no place}}
  %a = nn.add %x, %y {kernel = "add", places = [#place.at<x86, f32, nchw>, #place.at<x86, f32, nchw>, #place.at<x86, f32, nchw>]} : tensor<4xf32, #place.at<x86, f32, nchw>>
  func.return
}

// -----

// A part that is `any` takes what there is.

func.func @any(%x: tensor<4xf32, #place.at<host, f32, nchw>>) {
  %a = nn.relu %x {kernel = "relu", places = [#place.at<any, any, any>, #place.at<x86, f32, nchw>]} : tensor<4xf32, #place.at<x86, f32, nchw>>
  func.return
}

// -----

// expected-error@+1 {{expected a layout (nchw, nhwc, nchw<N>c, image, any, packed), found 'nchw1c'}}
func.func private @block(tensor<4x4x4xf32, #place.at<x86, f32, nchw1c>>)
