// RUN: tessella-opt %s -p convert-tile-to-loops --split-input-file | filecheck %s

// A map by lanes: as many vectors at a time as the schedule says. The last of them lie over those
// before. What is equal in all lanes stays scalar.

// CHECK-LABEL: rt.kernel @relu(%x: memref<36xf32>) outs(%r: memref<36xf32>) threads(%thread, %threads) attributes {code = 3 : i64, nodes = ["n"]} {
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C36:.*]] = arith.constant 36 : index
// CHECK-DAG:     %[[C20:.*]] = arith.constant 20 : index
// CHECK-DAG:     %[[C16:.*]] = arith.constant 16 : index
// CHECK-DAG:     %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK:         scf.for %i_j = %[[C0]] to %[[C36]] step %[[C16]] {
// CHECK-NEXT:      %[[I:.*]] = arith.minsi %i_j, %[[C20]] : index
// CHECK-NEXT:      %[[A:.*]] = vector.load %x[%[[I]]] : memref<36xf32>, vector<8xf32>
// CHECK-NEXT:      %[[Z:.*]] = vector.broadcast %[[ZERO]] : f32 to vector<8xf32>
// CHECK-NEXT:      %[[P:.*]] = arith.maximumf %[[A]], %[[Z]] : vector<8xf32>
// CHECK-NEXT:      %[[J:.*]] = affine.apply affine_map<(d0) -> ((d0 + 8))> (%[[I]])
// CHECK-NEXT:      %[[B:.*]] = vector.load %x[%[[J]]]
// CHECK-NEXT:      %[[Q:.*]] = arith.maximumf %[[B]], %[[Z]]
// CHECK-NEXT:      vector.store %[[P]], %r[%[[I]]] : memref<36xf32>, vector<8xf32>
// CHECK-NEXT:      vector.store %[[Q]], %r[%[[J]]]
// CHECK-NEXT:    }
// CHECK-NEXT:    rt.return
tile.kernel @relu(%x: tensor<4x9xf32>) -> (tensor<4x9xf32>) attributes {code = 3 : i64, nodes = ["n"]} {
  %r = tile.contract = [i_j(i: 4, j: 9)] (%x[i, j]) -> [i, j] schedule #tile.schedule<[i_j] reduce [] vector i_j 8 by 2> {
  ^bb0(%a: f32):
    %z = arith.constant 0.0 : f32
    %p = arith.maximumf %a, %z : f32
    tile.yield %p : f32
  } : tensor<4x9xf32>
  tile.return %r : tensor<4x9xf32>
}

// -----

// Fewer elements than a tile has: under a mask.

// CHECK-LABEL: rt.kernel @few
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK:         %[[M:.*]] = vector.create_mask %[[C4]] : vector<8xi1>
// CHECK:         %[[R:.*]] = vector.maskedload %x[%[[C0]]], %[[M]], %{{.*}} : memref<4xf32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
// CHECK:         %[[S:.*]] = arith.negf %[[R]]
// CHECK-NEXT:    vector.maskedstore %r[%[[C0]]], %[[M]], %[[S]]
// CHECK-NEXT:    rt.return
tile.kernel @few(%x: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%x[i]) -> [i] schedule #tile.schedule<[i] reduce [] vector i 8 by 2> {
  ^bb0(%a: f32):
    %p = arith.negf %a : f32
    tile.yield %p : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}

// -----

// A register tile: two rows at a time share what they load of %b, accumulators stay in registers,
// the post body runs before the one store. The rest is a tile of one row.

// CHECK-LABEL: rt.kernel @matmul(%a: memref<15xf32>, %b: memref<24xf32>, %c: memref<8xf32>) outs(%r: memref<40xf32>) threads(%thread, %threads) {
// CHECK:         scf.for %m = %{{.*}} to %{{.*}} step %{{.*}} {
// CHECK:           %[[ZERO:.*]] = vector.broadcast %{{.*}} : f32 to vector<8xf32>
// CHECK-NEXT:      %[[S0:.*]], %[[S1:.*]] = scf.for %k = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[T0:[0-9]+]] = %[[ZERO]], %[[T1:[0-9]+]] = %[[ZERO]]) -> (vector<8xf32>, vector<8xf32>) {
// CHECK:             %[[A0:.*]] = memref.load %a
// CHECK-NEXT:        %[[B:.*]] = vector.load %b
// CHECK-NEXT:        %[[V0:.*]] = vector.broadcast %[[A0]]
// CHECK-NEXT:        %[[F0:.*]] = vector.fma %[[V0]], %[[B]], %[[T0]] : vector<8xf32>
// CHECK:             %[[A1:.*]] = memref.load %a
// CHECK-NEXT:        %[[V1:.*]] = vector.broadcast %[[A1]]
// CHECK-NEXT:        %[[F1:.*]] = vector.fma %[[V1]], %[[B]], %[[T1]]
// CHECK-NEXT:        scf.yield %[[F0]], %[[F1]]
// CHECK:           %[[C:.*]] = vector.load %c
// CHECK-NEXT:      %[[R0:.*]] = arith.addf %[[S0]], %[[C]]
// CHECK-NEXT:      vector.store %[[R0]], %r
// CHECK-NEXT:      %[[R1:.*]] = arith.addf %[[S1]], %[[C]]
// CHECK:           vector.store %[[R1]], %r
// CHECK-NEXT:    }
// CHECK:         iter_args(%[[T2:[0-9]+]] = %{{[0-9]+}}) -> (vector<8xf32>) {
// CHECK-COUNT-1:   vector.fma
// CHECK-NOT:       vector.fma
// CHECK:         rt.return
tile.kernel @matmul(%a: tensor<5x3xf32>, %b: tensor<3x8xf32>, %c: tensor<8xf32>) -> (tensor<5x8xf32>) {
  %r = tile.contract + [m: 5, n: 8 | k: 3] (%a[m, k], %b[k, n]) post (%c[n]) -> [m, n] schedule #tile.schedule<[n, m] reduce [k] vector n 8 by 1 rows m 2> {
  ^bb0(%x: f32, %y: f32):
    %p = arith.mulf %x, %y : f32
    tile.yield %p : f32
  }, {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    tile.yield %p : f32
  } : tensor<5x8xf32>
  tile.return %r : tensor<5x8xf32>
}

// -----

// A sum over lanes: they accumulate apart and are added up at the end. Those beyond the end keep
// what they have.

// CHECK-LABEL: rt.kernel @sum(%x: memref<76xf32>) outs(%r: memref<4xf32>)
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG:     %[[C16:.*]] = arith.constant 16 : index
// CHECK:         %[[M:.*]] = vector.create_mask %[[C3]] : vector<8xi1>
// CHECK:         scf.for %i =
// CHECK:           %[[S:.*]] = scf.for %j = %{{.*}} to %[[C16]] step %{{.*}} iter_args(%[[T:[0-9]+]] = %{{.*}}) -> (vector<8xf32>) {
// CHECK:             %[[X:.*]] = vector.load %x
// CHECK-NEXT:        %[[U:.*]] = arith.addf %[[T]], %[[X]]
// CHECK-NEXT:        scf.yield %[[U]]
// CHECK:           %[[Y:.*]] = vector.maskedload %x
// CHECK-NEXT:      %[[V:.*]] = arith.addf %[[S]], %[[Y]]
// CHECK-NEXT:      %[[W:.*]] = arith.select %[[M]], %[[V]], %[[S]] : vector<8xi1>, vector<8xf32>
// CHECK-NEXT:      %[[R:.*]] = vector.reduction <add>, %[[W]] : vector<8xf32> into f32
// CHECK-NEXT:      memref.store %[[R]], %r[%i]
tile.kernel @sum(%x: tensor<4x19xf32>) -> (tensor<4xf32>) {
  %r = tile.contract + [i: 4 | j: 19] (%x[i, j]) -> [i] schedule #tile.schedule<[i] reduce [j] vector j 8 by 1> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4xf32>
  tile.return %r : tensor<4xf32>
}

// -----

// The identities: the least and the greatest number for a maximum and a minimum, 1 for a product.

// CHECK-LABEL: rt.kernel @identities
// CHECK-DAG:     arith.constant 0xff800000 : f32
// CHECK-DAG:     arith.constant 127 : i8
// CHECK-DAG:     arith.constant 1 : i64
// CHECK:         arith.maximumf
// CHECK:         arith.minsi
// CHECK:         arith.muli
tile.kernel @identities(%x: tensor<4x2xf32>, %y: tensor<4x2xi8>, %z: tensor<4x2xi64>) -> (tensor<4xf32>, tensor<4xi8>, tensor<4xi64>) {
  %p = tile.contract > [i: 4 | j: 2] (%x[i, j]) -> [i] schedule #tile.schedule<[i] reduce [j]> {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<4xf32>
  %q = tile.contract < [i: 4 | j: 2] (%y[i, j]) -> [i] schedule #tile.schedule<[i] reduce [j]> {
  ^bb0(%a: i8):
    tile.yield %a : i8
  } : tensor<4xi8>
  %r = tile.contract * [i: 4 | j: 2] (%z[i, j]) -> [i] schedule #tile.schedule<[i] reduce [j]> {
  ^bb0(%a: i64):
    tile.yield %a : i64
  } : tensor<4xi64>
  tile.return %p, %q, %r : tensor<4xf32>, tensor<4xi8>, tensor<4xi64>
}

// -----

// Points outside of an operand: a map gives its default and reads some element inside; for a
// reduction the loop's bounds leave them out.

// CHECK-LABEL: rt.kernel @outside(%a: memref<4xf32>) outs(%r: memref<4xf32>, %s: memref<4xf32>)
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : index
// CHECK-DAG:     %[[C4:.*]] = arith.constant 4 : index
// CHECK-DAG:     %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK:         scf.for %i =
// CHECK-NEXT:      %[[J:.*]] = affine.apply affine_map<(d0) -> ((d0 + -1))> (%i)
// CHECK-NEXT:      %[[IN:.*]] = arith.cmpi ult, %[[J]], %[[C4]] : index
// CHECK-NEXT:      %[[AT:.*]] = arith.select %[[IN]], %[[J]], %[[C0]] : index
// CHECK-NEXT:      %[[X:.*]] = memref.load %a[%[[AT]]]
// CHECK-NEXT:      %[[Y:.*]] = arith.select %[[IN]], %[[X]], %[[TWO]] : f32
// CHECK-NEXT:      memref.store %[[Y]], %r[%i]
// CHECK:         scf.for %y =
// CHECK:           %[[LOW:.*]] = arith.maxsi %[[C0]], %{{.*}} : index
// CHECK:           %[[HIGH:.*]] = arith.minsi %[[C3]], %{{.*}} : index
// CHECK-NEXT:      scf.for %k = %[[LOW]] to %[[HIGH]]
// CHECK-NOT:       arith.cmpi
// CHECK:         rt.return
tile.kernel @outside(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %r = tile.contract = [i: 4] (%a[i - 1]) -> [i] default 2.0 : f32 schedule #tile.schedule<[i] reduce []> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %s = tile.contract > [y: 4 | k: 3] (%a[y + k - 1]) -> [y] schedule #tile.schedule<[y] reduce [k]> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  tile.return %r, %s : tensor<4xf32>, tensor<4xf32>
}

// -----

// Rows at the boundary: a loop over the values of the reduced index for each set of rows that they
// touch. The first is empty but for rows 0 and 1, the last but for rows 4 and 5.

// CHECK-LABEL: rt.kernel @edges
// CHECK:         scf.for %y =
// CHECK:           %[[A:.*]], %[[B:.*]] = scf.for %k = {{.*}} iter_args(%[[C:.*]] = {{.*}}, %{{.*}} = {{.*}})
// CHECK-COUNT-1:     arith.maximumf
// CHECK-NEXT:        scf.yield %[[C]], %{{.*}}
// CHECK:           scf.for %k_1 = {{.*}} iter_args(%{{.*}} = %[[A]], %{{.*}} = %[[B]])
// CHECK-COUNT-2:     arith.maximumf
// CHECK-NEXT:        scf.yield
// CHECK:           scf.for %k_2 = {{.*}} iter_args(%{{.*}} = {{.*}}, %[[D:.*]] = {{.*}})
// CHECK-COUNT-1:     arith.maximumf
// CHECK-NEXT:        scf.yield %{{.*}}, %[[D]]
// CHECK-NOT:       arith.maximumf
// CHECK:         rt.return
tile.kernel @edges(%a: tensor<6x8xf32>) -> (tensor<6x8xf32>) {
  %r = tile.contract > [y: 6, c: 8 | k: 3] (%a[y + k - 1, c]) -> [y, c] schedule #tile.schedule<[c, y] reduce [k] vector c 8 by 1 rows y 2> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<6x8xf32>
  tile.return %r : tensor<6x8xf32>
}

// -----

// Where the reduced index is unrolled, tiles at the boundary have code of their own, its values
// unrolled. Rows 0 and 1 take 5 of 6 values, the middle is a loop, rows 4 and 5 take 5 again.

// CHECK-LABEL: rt.kernel @unrolled_edges
// CHECK-NOT:     scf.for
// CHECK-COUNT-5: arith.maximumf
// CHECK-NOT:     arith.maximumf
// CHECK:         scf.for %k =
// CHECK-COUNT-2: arith.maximumf
// CHECK:         scf.yield
// CHECK-COUNT-5: arith.maximumf
// CHECK-NOT:     arith.maximumf
// CHECK:         rt.return
tile.kernel @unrolled_edges(%a: tensor<6x8xf32>) -> (tensor<6x8xf32>) {
  %r = tile.contract > [y: 6, c: 8 | k: 3] (%a[y + k - 1, c]) -> [y, c] schedule #tile.schedule<[c, y] reduce [k] vector c 8 by 1 rows y 2 unroll 3> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<6x8xf32>
  tile.return %r : tensor<6x8xf32>
}

// -----

// An element at a computed coordinate is read after a check, which carries the kernel's code.

// CHECK-LABEL: rt.kernel @gather(%d: memref<80xf32>, %i: memref<6xi64>) outs(%r: memref<48xf32>) threads(%thread, %threads) attributes {code = 7 : i64} {
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG:     %[[C10:.*]] = arith.constant 10 : index
// CHECK:         %[[I:.*]] = memref.load %i
// CHECK-NEXT:    %[[AT:.*]] = arith.index_cast %[[I]] : i64 to index
// CHECK:         %[[OK:.*]] = arith.cmpi ult, %[[AT]], %[[C10]] : index
// CHECK-NEXT:    rt.check %[[OK]], 7
// CHECK-NEXT:    %[[ROW:.*]] = arith.select %[[OK]], %[[AT]], %[[C0]] : index
// CHECK-NEXT:    %[[FLAT:.*]] = affine.apply affine_map<(d0) -> ((d0 * 8))> (%[[ROW]])
// CHECK-NEXT:    vector.load %d[%[[FLAT]]] : memref<80xf32>, vector<8xf32>
tile.kernel @gather(%d: tensor<10x8xf32>, %i: tensor<6xi64>) -> (tensor<6x8xf32>) attributes {code = 7 : i64} {
  %r = tile.contract = [a: 6, b: 8] (%i[a]) -> [a, b] schedule #tile.schedule<[a, b] reduce [] vector b 8 by 1> {
  ^bb0(%x: i64):
    %at = arith.index_cast %x : i64 to index
    %n = tile.index "b"
    %e = tile.extract %d[%at, %n] : tensor<10x8xf32> -> f32
    tile.yield %e : f32
  } : tensor<6x8xf32>
  tile.return %r : tensor<6x8xf32>
}

// -----

// Lanes whose elements lie anywhere are checked at once, those that do not count apart.

// CHECK-LABEL: rt.kernel @lanes(%d: memref<80xf32>, %i: memref<6xi64>) outs(%r: memref<60xf32>)
// CHECK:         %[[I:.*]] = vector.maskedload %i
// CHECK-NEXT:    %[[AT:.*]] = arith.index_cast %[[I]] : vector<8xi64> to vector<8xindex>
// CHECK:         %[[IN:.*]] = arith.cmpi ult, %[[AT]], %{{.*}} : vector<8xindex>
// CHECK:         %[[OK:.*]] = arith.select %[[MASK:.*]], %[[IN]], %{{.*}} : vector<8xi1>, vector<8xi1>
// CHECK-NEXT:    %[[ALL:.*]] = vector.reduction <and>, %[[OK]] : vector<8xi1> into i1
// CHECK-NEXT:    rt.check %[[ALL]], 7
// CHECK-NEXT:    %[[COL:.*]] = arith.select %[[IN]], %[[AT]], %{{.*}} : vector<8xi1>, vector<8xindex>
// CHECK-NEXT:    %[[SAFE:.*]] = arith.select %[[MASK]], %[[COL]], %{{.*}} : vector<8xi1>, vector<8xindex>
// CHECK-NEXT:    rt.gather %d[%{{.*}}] at %[[SAFE]] : memref<80xf32>, vector<8xindex> -> vector<8xf32>
tile.kernel @lanes(%d: tensor<10x8xf32>, %i: tensor<6xi64>) -> (tensor<10x6xf32>) attributes {code = 7 : i64} {
  %r = tile.contract = [a: 10, b: 6] (%i[b]) -> [a, b] schedule #tile.schedule<[a, b] reduce [] vector b 8 by 1> {
  ^bb0(%x: i64):
    %at = arith.index_cast %x : i64 to index
    %n = tile.index "a"
    %e = tile.extract %d[%n, %at] : tensor<10x8xf32> -> f32
    tile.yield %e : f32
  } : tensor<10x6xf32>
  tile.return %r : tensor<10x6xf32>
}

// -----

// The layout of an operand gives its strides: here channels are the fastest.

// CHECK-LABEL: rt.kernel @layout(%a: memref<30xf32>) outs(%r: memref<30xf32>)
// CHECK:         scf.for %c =
// CHECK-NEXT:      %[[C:.*]] = affine.apply affine_map<(d0) -> ((d0 * 15))> (%c)
// CHECK-NEXT:      scf.for %y_x =
// CHECK-DAG:         affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 2)))> (%c, %y_x)
// CHECK-DAG:         affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%[[C]], %y_x)
// CHECK:             memref.load %a
// CHECK-NEXT:        memref.store
#nhwc = #place.at<x86, f32, nhwc>
tile.kernel @layout(%a: tensor<1x2x3x5xf32, #nhwc>) -> (tensor<1x2x3x5xf32>) {
  %r = tile.contract = [n: 1, c: 2, y_x(y: 3, x: 5)] (%a[n, c, y, x]) -> [n, c, y, x] schedule #tile.schedule<[c, y_x] reduce []> {
  ^bb0(%b: f32):
    tile.yield %b : f32
  } : tensor<1x2x3x5xf32>
  tile.return %r : tensor<1x2x3x5xf32>
}

// -----

// Statements that write parts of a tensor write into one buffer. Tensors between statements are
// scratch, which the segment allocates.

// CHECK-LABEL: rt.kernel @parts(%a: memref<4xf32>) outs(%e: memref<4xf32>) scratch(%r: memref<4xf32>) threads(%thread, %threads) {
// CHECK:         memref.store %{{.*}}, %r[
// CHECK:         memref.load %r[
// CHECK-NEXT:    memref.store %{{.*}}, %e[
// CHECK:         memref.load %r[
// CHECK-NEXT:    memref.store %{{.*}}, %e[
// CHECK-LABEL: rt.segment @segment_0(%{{.*}}: memref<4xf32>) outs(%b: memref<4xf32>) threads(%thread, %threads) attributes {brief} {
// CHECK-NEXT:    %[[T0:.*]] = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    %[[T1:.*]] = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    rt.call @parts(%{{.*}}) outs(%[[T0]]) scratch(%[[T1]]) threads(%thread, %threads)
// CHECK-NEXT:    %[[T2:.*]] = memref.alloc() : memref<4xf32>
// CHECK-NEXT:    rt.call @parts(%[[T0]]) outs(%b) scratch(%[[T2]])
// CHECK-NEXT:    rt.return
tile.kernel @parts(%a: tensor<4xf32>) -> (tensor<4xf32>) {
  %e = tile.empty : tensor<4xf32>
  %r = tile.contract = [i: 4] (%a[i]) -> [i] schedule #tile.schedule<[i] reduce []> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %s = tile.contract = [i: 2] (%r[i]) init %e -> [i] schedule #tile.schedule<[i] reduce []> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  %t = tile.contract = [i: 2] (%r[i + 2]) init %s -> [i + 2] schedule #tile.schedule<[i] reduce []> {
  ^bb0(%x: f32):
    tile.yield %x : f32
  } : tensor<4xf32>
  tile.return %t : tensor<4xf32>
}
tile.segment @segment_0(%x: tensor<4xf32>) -> (tensor<4xf32>) attributes {brief} {
  %a = tile.call @parts(%x) : tensor<4xf32>
  %b = tile.call @parts(%a) : tensor<4xf32>
  tile.return %b : tensor<4xf32>
}

// -----

// A segment's results: written in place by a kernel, through views too; copied where they are an
// input, a weight, or returned before. Padding of split dimensions takes room. @main stays.

// CHECK-LABEL: rt.segment @segment_0
// CHECK-SAME:    (%[[X:[^:]*]]: memref<8xf32>) outs(%[[A:[^:]*]]: memref<8xf32>, %[[B:[^:]*]]: memref<8xf32>, %[[Y:[^:]*]]: memref<8xf32>, %[[Z:[^:]*]]: memref<8xf32>) threads(%[[T:.*]], %[[N:.*]]) {
// CHECK-NEXT:    %[[W:.*]] = rt.weight @w : memref<8xf32>
// CHECK-NEXT:    %[[P:.*]] = rt.weight @p : memref<12xf32>
// CHECK-NEXT:    rt.call @k(%[[X]], %[[P]]) outs(%[[A]]) threads(%[[T]], %[[N]])
// CHECK-NEXT:    "memref.copy"(%[[A]], %[[B]])
// CHECK-NEXT:    "memref.copy"(%[[X]], %[[Y]])
// CHECK-NEXT:    "memref.copy"(%[[W]], %[[Z]])
// CHECK-NEXT:    rt.return
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    rt.launch @segment_0(%x) : 
#packed = #place.at<x86, f32, packed<[1 floordiv 3, 0, 1 mod 3]>>
!t = tensor<2x4xf32>
!v = tensor<8xf32>
!p = tensor<2x4xf32, #packed>
tile.kernel @k(%a: !t, %p: !p {tile.constant}) -> (!t) {
  %r = tile.contract = [i: 2, j: 4] (%a[i, j], %p[i, j]) -> [i, j] schedule #tile.schedule<[i, j] reduce [] vector j 3 by 1> {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tile.yield %s : f32
  } : !t
  tile.return %r : !t
}
tile.segment @segment_0(%x: !t) -> (!v, !t, !t, !v) {
  %w = nn.weight @w : !v
  %p = nn.weight @p : !p
  %a = tile.call @k(%x, %p) : !t
  %b = tile.view %a : !t -> !v
  tile.return %b, %a, %x, %w : !v, !t, !t, !v
}
func.func @main(%x: !t) -> (!v, !t, !t, !v) {
  %a, %b, %c, %d = rt.launch @segment_0(%x) : !v, !t, !t, !v
  func.return %a, %b, %c, %d : !v, !t, !t, !v
}

// -----

// Threads that write to different columns of a tensor need not wait for each other, whoever writes
// what.

// CHECK-LABEL: rt.kernel @beside(
// CHECK-SAME:    #rt.part<any>]
// CHECK-NOT:   rt.kernel @beside.1
// CHECK-LABEL: rt.kernel @over(
// CHECK:       rt.kernel @over.1(
tile.kernel @beside(%x: tensor<64x1xf32>, %y: tensor<64x63xf32>) -> (tensor<64x64xf32>) {
  %e = tile.empty : tensor<64x64xf32>
  %a = tile.contract = [m: 64, c: 1] (%x[m, c]) init %e -> [m, c] schedule #tile.schedule<[m] reduce [] parallel m 8> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<64x64xf32>
  %b = tile.contract = [m: 64, d: 63] (%y[m, d]) init %a -> [m, d + 1] schedule #tile.schedule<[m, d] reduce [] vector d 16 by 1 parallel m 1> {
  ^bb0(%v: f32):
    %w = math.absf %v : f32
    tile.yield %w : f32
  } : tensor<64x64xf32>
  tile.return %b : tensor<64x64xf32>
}
tile.kernel @over(%x: tensor<64x2xf32>, %y: tensor<64x63xf32>) -> (tensor<64x64xf32>) {
  %e = tile.empty : tensor<64x64xf32>
  %a = tile.contract = [m: 64, c: 2] (%x[m, c]) init %e -> [m, c] schedule #tile.schedule<[m, c] reduce [] parallel m 8> {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<64x64xf32>
  %b = tile.contract = [m: 64, d: 63] (%y[m, d]) init %a -> [m, d + 1] schedule #tile.schedule<[m, d] reduce [] vector d 16 by 1 parallel m 1> {
  ^bb0(%v: f32):
    %w = math.absf %v : f32
    tile.yield %w : f32
  } : tensor<64x64xf32>
  tile.return %b : tensor<64x64xf32>
}
