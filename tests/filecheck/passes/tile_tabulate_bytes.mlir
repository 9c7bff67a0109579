// RUN: tessella-opt %s -p 'tile-tabulate-bytes{target=avx2}' --split-input-file | filecheck %s

// A map of bytes that takes long is looked up. The scale is the same at all points.

// CHECK-LABEL: tile.kernel @long
// CHECK:         %[[T:.*]] = tile.contract = [byte: 256] (%s[0]) -> [byte] {
// CHECK:           tile.index "byte"
// CHECK:           arith.trunci {{.*}} : i32 to ui8
// CHECK:           math.exp
// CHECK:         } : tensor<256xui8>
// CHECK:         tile.contract = [i: 65536] (%x[i]) -> [i] {
// CHECK-NOT:       math.exp
// CHECK:           arith.extui {{.*}} : ui8 to i32
// CHECK:           tile.extract %[[T]][
tile.kernel @long(%x: tensor<65536xui8>, %s: tensor<1xf32>) -> (tensor<65536xui8>) {
  %y = tile.contract = [i: 65536] (%x[i], %s[0]) -> [i] {
  ^bb0(%v: ui8, %scale: f32):
    %f = arith.uitofp %v : ui8 to f32
    %m = arith.mulf %f, %scale : f32
    %e = math.exp %m : f32
    %g = math.exp %e : f32
    %k = math.exp %g : f32
    %h = arith.mulf %k, %scale : f32
    %r = arith.fptoui %h : f32 to ui8
    tile.yield %r : ui8
  } : tensor<65536xui8>
  tile.return %y : tensor<65536xui8>
}

// -----

// A few elements take less time than a table.

// CHECK-LABEL: tile.kernel @few
// CHECK-NOT:     byte
tile.kernel @few(%x: tensor<64xui8>) -> (tensor<64xf32>) {
  %y = tile.contract = [i: 64] (%x[i]) -> [i] {
  ^bb0(%v: ui8):
    %f = arith.uitofp %v : ui8 to f32
    %e = math.exp %f : f32
    %g = math.exp %e : f32
    %k = math.exp %g : f32
    tile.yield %k : f32
  } : tensor<64xf32>
  tile.return %y : tensor<64xf32>
}

// -----

// A short body takes less time than a lookup.

// CHECK-LABEL: tile.kernel @short
// CHECK-NOT:     byte
tile.kernel @short(%x: tensor<65536xi8>) -> (tensor<65536xf32>) {
  %y = tile.contract = [i: 65536] (%x[i]) -> [i] {
  ^bb0(%v: i8):
    %f = arith.sitofp %v : i8 to f32
    tile.yield %f : f32
  } : tensor<65536xf32>
  tile.return %y : tensor<65536xf32>
}

// -----

// Two operands that differ from point to point have no table.

// CHECK-LABEL: tile.kernel @two
// CHECK-NOT:     byte
tile.kernel @two(%x: tensor<65536xui8>, %s: tensor<65536xf32>) -> (tensor<65536xf32>) {
  %y = tile.contract = [i: 65536] (%x[i], %s[i]) -> [i] {
  ^bb0(%v: ui8, %w: f32):
    %f = arith.uitofp %v : ui8 to f32
    %m = arith.mulf %f, %w : f32
    %e = math.exp %m : f32
    %g = math.exp %e : f32
    %k = math.exp %g : f32
    tile.yield %k : f32
  } : tensor<65536xf32>
  tile.return %y : tensor<65536xf32>
}
