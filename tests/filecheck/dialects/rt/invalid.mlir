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

%c = "test.op"() : () -> memref<2xi1>
// expected-error@+2 {{memref<1xi1>}}
rt.stop %c : memref<2xi1>
