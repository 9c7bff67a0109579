// RUN: TESSELLA_ROUNDTRIP

// CHECK-LABEL: func.func @unary(
// CHECK-NEXT:    %0 = nn.abs %x : tensor<2x3xf32>
// CHECK-NEXT:    %1 = nn.acos %x : tensor<2x3xf32>
// CHECK-NEXT:    %2 = nn.acosh %x : tensor<2x3xf32>
// CHECK-NEXT:    %3 = nn.asin %x : tensor<2x3xf32>
// CHECK-NEXT:    %4 = nn.asinh %x : tensor<2x3xf32>
// CHECK-NEXT:    %5 = nn.atan %x : tensor<2x3xf32>
// CHECK-NEXT:    %6 = nn.atanh %x : tensor<2x3xf32>
// CHECK-NEXT:    %7 = nn.ceil %x : tensor<2x3xf32>
// CHECK-NEXT:    %8 = nn.cos %x : tensor<2x3xf32>
// CHECK-NEXT:    %9 = nn.cosh %x : tensor<2x3xf32>
// CHECK-NEXT:    %10 = nn.erf %x : tensor<2x3xf32>
// CHECK-NEXT:    %11 = nn.exp %x : tensor<2x3xf32>
// CHECK-NEXT:    %12 = nn.floor %x : tensor<2x3xf32>
// CHECK-NEXT:    %13 = nn.gelu %x : tensor<2x3xf32>
// CHECK-NEXT:    %14 = nn.gelu_tanh %x : tensor<2x3xf32>
// CHECK-NEXT:    %15 = nn.hard_swish %x : tensor<2x3xf32>
// CHECK-NEXT:    %16 = nn.log %x : tensor<2x3xf32>
// CHECK-NEXT:    %17 = nn.neg %x : tensor<2x3xf32>
// CHECK-NEXT:    %18 = nn.reciprocal %x : tensor<2x3xf32>
// CHECK-NEXT:    %19 = nn.relu %x : tensor<2x3xf32>
// CHECK-NEXT:    %20 = nn.round %x : tensor<2x3xf32>
// CHECK-NEXT:    %21 = nn.sigmoid %x : tensor<2x3xf32>
// CHECK-NEXT:    %22 = nn.sign %x : tensor<2x3xf32>
// CHECK-NEXT:    %23 = nn.silu %x : tensor<2x3xf32>
// CHECK-NEXT:    %24 = nn.sin %x : tensor<2x3xf32>
// CHECK-NEXT:    %25 = nn.sinh %x : tensor<2x3xf32>
// CHECK-NEXT:    %26 = nn.softplus %x : tensor<2x3xf32>
// CHECK-NEXT:    %27 = nn.softsign %x : tensor<2x3xf32>
// CHECK-NEXT:    %28 = nn.sqrt %x : tensor<2x3xf32>
// CHECK-NEXT:    %29 = nn.tan %x : tensor<2x3xf32>
// CHECK-NEXT:    %30 = nn.tanh %x : tensor<2x3xf32>
// CHECK-NEXT:    %31 = nn.is_nan %x : tensor<2x3xi1>
// CHECK-NEXT:    %32 = nn.is_inf %x : tensor<2x3xi1>
// CHECK-NEXT:    %33 = nn.not %c : tensor<2x3xi1>
// CHECK-NEXT:    %34 = nn.log2 %x : tensor<2x3xf32>
// CHECK-NEXT:    %35 = nn.log10 %x : tensor<2x3xf32>
// CHECK-NEXT:    func.return
func.func @unary(%x: tensor<2x3xf32>, %c: tensor<2x3xi1>) {
  %0 = nn.abs %x : tensor<2x3xf32>
  %1 = nn.acos %x : tensor<2x3xf32>
  %2 = nn.acosh %x : tensor<2x3xf32>
  %3 = nn.asin %x : tensor<2x3xf32>
  %4 = nn.asinh %x : tensor<2x3xf32>
  %5 = nn.atan %x : tensor<2x3xf32>
  %6 = nn.atanh %x : tensor<2x3xf32>
  %7 = nn.ceil %x : tensor<2x3xf32>
  %8 = nn.cos %x : tensor<2x3xf32>
  %9 = nn.cosh %x : tensor<2x3xf32>
  %10 = nn.erf %x : tensor<2x3xf32>
  %11 = nn.exp %x : tensor<2x3xf32>
  %12 = nn.floor %x : tensor<2x3xf32>
  %13 = nn.gelu %x : tensor<2x3xf32>
  %14 = nn.gelu_tanh %x : tensor<2x3xf32>
  %15 = nn.hard_swish %x : tensor<2x3xf32>
  %16 = nn.log %x : tensor<2x3xf32>
  %17 = nn.neg %x : tensor<2x3xf32>
  %18 = nn.reciprocal %x : tensor<2x3xf32>
  %19 = nn.relu %x : tensor<2x3xf32>
  %20 = nn.round %x : tensor<2x3xf32>
  %21 = nn.sigmoid %x : tensor<2x3xf32>
  %22 = nn.sign %x : tensor<2x3xf32>
  %23 = nn.silu %x : tensor<2x3xf32>
  %24 = nn.sin %x : tensor<2x3xf32>
  %25 = nn.sinh %x : tensor<2x3xf32>
  %26 = nn.softplus %x : tensor<2x3xf32>
  %27 = nn.softsign %x : tensor<2x3xf32>
  %28 = nn.sqrt %x : tensor<2x3xf32>
  %29 = nn.tan %x : tensor<2x3xf32>
  %30 = nn.tanh %x : tensor<2x3xf32>
  %31 = nn.is_nan %x : tensor<2x3xi1>
  %32 = nn.is_inf %x : tensor<2x3xi1>
  %33 = nn.not %c : tensor<2x3xi1>
  %34 = nn.log2 %x : tensor<2x3xf32>
  %35 = nn.log10 %x : tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @complex(
// CHECK-NEXT:    %0 = nn.weight @w : tensor<3xcomplex<f32>>
// CHECK-NEXT:    %1 = nn.mul %z, %0 : tensor<2x3xcomplex<f32>>
// CHECK-NEXT:    %2 = nn.conj %1 : tensor<2x3xcomplex<f32>>
// CHECK-NEXT:    %3 = nn.abs %2 : tensor<2x3xf32>
// CHECK-NEXT:    %4 = nn.real %2 : tensor<2x3xf32>
// CHECK-NEXT:    %5 = nn.cast %2 to complex<f64> : tensor<2x3xcomplex<f64>>
// CHECK-NEXT:    %6 = nn.imag %5 : tensor<2x3xf64>
// CHECK-NEXT:    %7 = nn.cast %6 to complex<f32> : tensor<2x3xcomplex<f32>>
// CHECK-NEXT:    %8 = nn.equal %7, %1 : tensor<2x3xi1>
// CHECK-NEXT:    func.return
func.func @complex(%z: tensor<2x3xcomplex<f32>>) {
  %0 = nn.weight @w : tensor<3xcomplex<f32>>
  %1 = nn.mul %z, %0 : tensor<2x3xcomplex<f32>>
  %2 = nn.conj %1 : tensor<2x3xcomplex<f32>>
  %3 = nn.abs %2 : tensor<2x3xf32>
  %4 = nn.real %2 : tensor<2x3xf32>
  %5 = nn.cast %2 to complex<f64> : tensor<2x3xcomplex<f64>>
  %6 = nn.imag %5 : tensor<2x3xf64>
  %7 = nn.cast %6 to complex<f32> : tensor<2x3xcomplex<f32>>
  %8 = nn.equal %7, %1 : tensor<2x3xi1>
  func.return
}

// CHECK-LABEL: func.func @parametric(
// CHECK-NEXT:    %0 = nn.leaky_relu %x alpha 0.1 : tensor<2x3xf32>
// CHECK-NEXT:    %1 = nn.elu %x : tensor<2x3xf32>
// CHECK-NEXT:    %2 = nn.celu %x : tensor<2x3xf32>
// CHECK-NEXT:    %3 = nn.thresholded_relu %x : tensor<2x3xf32>
// CHECK-NEXT:    %4 = nn.hard_sigmoid %x : tensor<2x3xf32>
// CHECK-NEXT:    %5 = nn.selu %x alpha 1.5 beta 1.0 : tensor<2x3xf32>
// CHECK-NEXT:    %6 = nn.clip %x low 0.0 high 6.0 : tensor<2x3xf32>
// CHECK-NEXT:    %7 = nn.clip %i : tensor<2x3xi64>
// CHECK-NEXT:    %8 = nn.cast %x to i64 : tensor<2x3xi64>
// CHECK-NEXT:    %9 = nn.cast %i to i1 : tensor<2x3xi1>
// CHECK-NEXT:    %10 = nn.bitcast %i to f64 : tensor<2x3xf64>
// CHECK-NEXT:    func.return
func.func @parametric(%x: tensor<2x3xf32>, %i: tensor<2x3xi64>) {
  %0 = nn.leaky_relu %x alpha 0.1 : tensor<2x3xf32>
  %1 = nn.elu %x : tensor<2x3xf32>
  %2 = nn.celu %x : tensor<2x3xf32>
  %3 = nn.thresholded_relu %x : tensor<2x3xf32>
  %4 = nn.hard_sigmoid %x : tensor<2x3xf32>
  %5 = nn.selu %x alpha 1.5 beta 1.0 : tensor<2x3xf32>
  %6 = nn.clip %x low 0.0 high 6.0 : tensor<2x3xf32>
  %7 = nn.clip %i : tensor<2x3xi64>
  %8 = nn.cast %x to i64 : tensor<2x3xi64>
  %9 = nn.cast %i to i1 : tensor<2x3xi1>
  %10 = nn.bitcast %i to f64 : tensor<2x3xf64>
  func.return
}

// CHECK-LABEL: func.func @binary(
// CHECK-NEXT:    %0 = nn.add %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %1 = nn.div %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %2 = nn.fmod %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %3 = nn.max %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %4 = nn.min %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %5 = nn.mod %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %6 = nn.mul %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %7 = nn.pow %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %8 = nn.sub %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    %9 = nn.equal %x, %r : tensor<2x3xi1>
// CHECK-NEXT:    %10 = nn.greater %x, %r : tensor<2x3xi1>
// CHECK-NEXT:    %11 = nn.greater_equal %x, %r : tensor<2x3xi1>
// CHECK-NEXT:    %12 = nn.less %x, %r : tensor<2x3xi1>
// CHECK-NEXT:    %13 = nn.less_equal %x, %r : tensor<2x3xi1>
// CHECK-NEXT:    %14 = nn.and %c, %c : tensor<2x3xi1>
// CHECK-NEXT:    %15 = nn.or %c, %c : tensor<2x3xi1>
// CHECK-NEXT:    %16 = nn.xor %c, %c : tensor<2x3xi1>
// CHECK-NEXT:    %17 = nn.where %c, %x, %r : tensor<2x3xf32>
// CHECK-NEXT:    func.return
func.func @binary(%x: tensor<2x3xf32>, %r: tensor<3xf32>, %c: tensor<2x3xi1>) {
  %0 = nn.add %x, %r : tensor<2x3xf32>
  %1 = nn.div %x, %r : tensor<2x3xf32>
  %2 = nn.fmod %x, %r : tensor<2x3xf32>
  %3 = nn.max %x, %r : tensor<2x3xf32>
  %4 = nn.min %x, %r : tensor<2x3xf32>
  %5 = nn.mod %x, %r : tensor<2x3xf32>
  %6 = nn.mul %x, %r : tensor<2x3xf32>
  %7 = nn.pow %x, %r : tensor<2x3xf32>
  %8 = nn.sub %x, %r : tensor<2x3xf32>
  %9 = nn.equal %x, %r : tensor<2x3xi1>
  %10 = nn.greater %x, %r : tensor<2x3xi1>
  %11 = nn.greater_equal %x, %r : tensor<2x3xi1>
  %12 = nn.less %x, %r : tensor<2x3xi1>
  %13 = nn.less_equal %x, %r : tensor<2x3xi1>
  %14 = nn.and %c, %c : tensor<2x3xi1>
  %15 = nn.or %c, %c : tensor<2x3xi1>
  %16 = nn.xor %c, %c : tensor<2x3xi1>
  %17 = nn.where %c, %x, %r : tensor<2x3xf32>
  func.return
}
