// RUN: tessella-opt %s | tessella-opt | filecheck %s

// A kernel of a device, with symbolic sizes as arguments and as numbers of work-groups.

builtin.module attributes {symbols = [#nn.symbol<n, 2 to 64>]} {
  // CHECK: device.kernel @k(tensor<[n]xf32, #opencl_1_nchw>) -> (tensor<[n]xf32, #opencl_1_nchw>) device "opencl:1"
  // CHECK-SAME: groups {{\[}}[((n + 31) floordiv 32)]] items [256] sizes [3, [4 * n]]
  device.kernel @k(tensor<[n]xf32, #place.at<opencl:1, f32, nchw>>) -> (tensor<[n]xf32, #place.at<opencl:1, f32, nchw>>) device "opencl:1" text "kernel" entry "k" groups [[(n + 31) floordiv 32]] items [256] sizes [3, [4 * n]]
  // CHECK: device.kernel @fixed({{.*}}) -> ({{.*}}) device "opencl" text "kernel" entry "k" groups [2] items [8]
  device.kernel @fixed(tensor<4xf32, #place.at<opencl, f32, nchw>>) -> (tensor<4xf32, #place.at<opencl, f32, nchw>>) device "opencl" text "kernel" entry "k" groups [2] items [8]
}
