// RUN: tessella-opt %s -p 'pick-kernels{places="x86/f32/image"}' | filecheck %s
// RUN: not tessella-opt %s -p 'pick-kernels{places="x86/f32/image" fallback=error}' 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not tessella-opt %s -p 'pick-kernels{fallback=error strategy=grade target=avx512}' 2>&1 | filecheck %s --check-prefix=HOST

// A kernel at one of the places, else one in any layout, else NumPy. What falls back says so.

// CHECK-LABEL: func.func @steps
// CHECK-NEXT:    %a = nn.max_pool %x {{.*}} {node = "pool", kernel = "max_pool", places = [#x86_f32_nchw, #x86_f32_nchw], fallback = "layout"
// CHECK-NEXT:    %b = nn.relu %a {kernel = "relu", places = [#x86_f32_nchw, #x86_f32_nchw]}
// CHECK-NEXT:    %c = nn.cumsum %n axis 1 {node = "sums", kernel = "host", places = [#host_i4_nchw, #host_i4_nchw], fallback = "host"

// Where fallbacks are refused, every op without a kernel is named, with each candidate and why it
// is out.

// ERROR:      2 unsupported things in the model
// ERROR-NEXT:   - nn.max_pool (node 'pool'): max_pool at x86/f32/nhwc: a fallback (layout), and those are refused; max_pool at x86/f32/nchw: a fallback (layout), and those are refused; host at host/f32/nchw: a fallback (host), and those are refused
// ERROR-NEXT:   - nn.cumsum (node 'sums'): cumsum at x86/i4/any: it reads {{.*}} not i4; host at host/i4/nchw: a fallback (host), and those are refused

// HOST:       1 unsupported thing in the model
// HOST-NEXT:    - nn.cumsum (node 'sums'): cumsum at x86/i4/any: it reads {{.*}} not i4; host at host/i4/nchw: a fallback (host), and those are refused
func.func @steps(%x: tensor<1x8x6x6xf32>, %n: tensor<1x8xi4>) {
  %a = nn.max_pool %x kernel_shape [1, 1] {node = "pool"} : tensor<1x8x6x6xf32>
  %b = nn.relu %a : tensor<1x8x6x6xf32>
  %c = nn.cumsum %n axis 1 {node = "sums"} : tensor<1x8xi4>
  func.return
}
