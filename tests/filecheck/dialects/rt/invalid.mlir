// RUN: tessella-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{expected an offset that is a multiple of 64, found 100}}
%a = rt.arena 100 : memref<16xf32>

// -----

%x = "test.op"() : () -> f32
// expected-error@+1 {{i1}}
rt.check %x, 3

// -----

%b, %i = "test.op"() : () -> (memref<16xf32>, index)
// expected-error@+1 {{expected a cache of level 1 or 2}}
rt.prefetch %b[%i] {level = 3 : i64} : memref<16xf32>

// -----

rt.kernel @k(%a: memref<16xf32>) outs(%c: memref<16xf32>) scratch(%t: memref<16xf32>) threads(%thread, %threads) attributes {parts = [#rt.part<any>, #rt.part<any>, #rt.part<own>]} {
  rt.return
}
// expected-error@+1 {{a barrier lies between uses of memory that shares have for themselves}}
rt.segment @s(%a: memref<16xf32>) outs(%c: memref<16xf32>) threads(%thread, %threads) attributes {private_bytes = 64 : i64} {
  %t = rt.arena 0 {private} : memref<16xf32>
  rt.call @k(%a) outs(%c) scratch(%t) threads(%thread, %threads)
  rt.barrier %threads
  rt.call @k(%a) outs(%c) scratch(%t) threads(%thread, %threads)
  rt.return
}

// -----

%c, %a, %b = "test.op"() : () -> (vector<16xi32>, vector<4xui8>, vector<64xi8>)
// expected-error@+1 {{expected one of vpdpbusd}}
%r = rt.dot %c, %a, %b {instruction = "vpdq"} : vector<16xi32>, vector<4xui8>, vector<64xi8> -> vector<16xi32>

// -----

%c, %a, %b = "test.op"() : () -> (vector<16xi32>, vector<4xi8>, vector<64xi8>)
// expected-error@+1 {{expected u8 and i8 added to i32, found i8 and i8 added to i32}}
%r = rt.dot %c, %a, %b {instruction = "vpdpbusd"} : vector<16xi32>, vector<4xi8>, vector<64xi8> -> vector<16xi32>

// -----

%c, %a, %b = "test.op"() : () -> (vector<16xi32>, vector<4xui8>, vector<4xi8>)
// expected-error@+1 {{expected groups of 4, one or one for each of 16 lanes, found 4 and 4 values}}
%r = rt.dot %c, %a, %b {instruction = "vpdpbusd"} : vector<16xi32>, vector<4xui8>, vector<4xi8> -> vector<16xi32>

// -----

%c, %a, %b = "test.op"() : () -> (vector<16xi32>, vector<3xui8>, vector<64xi8>)
// expected-error@+1 {{found 3 and 64 values}}
%r = rt.dot %c, %a, %b {instruction = "vpdpbusd"} : vector<16xi32>, vector<3xui8>, vector<64xi8> -> vector<16xi32>

// -----

%c, %a, %b = "test.op"() : () -> (vector<4xi32>, vector<8xi8>, vector<16xi8>)
// expected-error@+1 {{expected groups of 8 for 2 rows, and for the columns of 4 lanes, found 8 and 16 values}}
%r = rt.dot %c, %a, %b {instruction = "smmla"} : vector<4xi32>, vector<8xi8>, vector<16xi8> -> vector<4xi32>

// -----

%c, %a, %b = "test.op"() : () -> (vector<16xi32>, vector<4xui8>, vector<64xi8>)
// expected-error@+1 {{expected a result of vector<16xi32>, found vector<8xi32>}}
%r = rt.dot %c, %a, %b {instruction = "vpdpbusd"} : vector<16xi32>, vector<4xui8>, vector<64xi8> -> vector<8xi32>

// -----

rt.segment @step(%h: memref<4xf32>, %x: memref<1xf32>) outs(%k: memref<4xf32>) threads(%thread, %threads) {
  "memref.copy"(%h, %k) : (memref<4xf32>, memref<4xf32>) -> ()
  rt.return
}
rt.segment @segment_0(%k: memref<4xf32>, %x: memref<3xf32>) outs(%y: memref<4xf32>) threads(%thread, %threads) {
  // expected-error@+1 {{@step reads a carried value that it writes over}}
  rt.scan @step(%y, %x) outs(%y) scratch(%y) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.return
}

// -----

rt.segment @step(%h: memref<4xf32>, %x: memref<1xf32>) outs(%k: memref<4xf32>) threads(%thread, %threads) {
  rt.return
}
rt.segment @segment_0(%k: memref<4xf32>, %x: memref<3xf32>) outs(%y: memref<4xf32>) threads(%thread, %threads) {
  // expected-error@+1 {{@step writes to a buffer that overlaps another one of the call}}
  rt.scan @step(%y, %x) outs(%y) scratch(%k) threads(%thread, %threads) steps 3 carried 1 scanned 1 backward []
  rt.return
}

// -----

%c = "test.op"() : () -> memref<2xi1>
// expected-error@+2 {{memref<1xi1>}}
rt.stop %c : memref<2xi1>
