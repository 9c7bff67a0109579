// RUN: tessella-opt %s --split-input-file --verify-diagnostics

func.func @nothing_changes(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{the layout stays}}
  %0 = place.relayout %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<4xf32, #place.at<x86, f32, nchw>>
  func.return
}

// -----

func.func @too_much_changes(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{place.copy changes the target alone: from x86/f32/nchw to host/f16/nchw the precision differs}}
  %0 = place.copy %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<4xf32, #place.at<host, f16, nchw>>
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
  %0 = place.cast %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<5xf32, #place.at<x86, f16, nchw>>
  func.return
}

// -----

func.func @element_type(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{expected the element type f32, found f64}}
  %0 = place.cast %x : tensor<4xf32, #place.at<x86, f32, nchw>> -> tensor<4xf64, #place.at<x86, f64, nchw>>
  func.return
}

// -----

// expected-error@+1 {{expected a target (host, x86, arm, opencl, cuda, any), found 'tpu'}}
func.func private @target(tensor<4xf32, #place.at<tpu, f32, nchw>>)

// -----

// expected-error@+1 {{expected a layout (nchw, nhwc, any, packed), found 'nwhc'}}
func.func private @layout(tensor<4xf32, #place.at<x86, f32, nwhc>>)

// -----

func.func @wanted(%x: tensor<4xf32, #place.at<x86, f32, nchw>>) {
  // expected-error@+1 {{nn.relu (relu1): operand 0 (%x): the kernel x86.relu wants x86/f32/nhwc, found x86/f32/nchw}}
  %0 = nn.relu %x {node = "relu1", kernel = "x86.relu", places = [#place.at<x86, f32, nhwc>, #place.at<x86, f32, nhwc>]} : (tensor<4xf32, #place.at<x86, f32, nchw>>) -> tensor<4xf32, #place.at<x86, f32, nhwc>>
  func.return
}
