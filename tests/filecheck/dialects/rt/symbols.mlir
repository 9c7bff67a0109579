// RUN: tessella-opt %s --split-input-file --verify-diagnostics | filecheck %s

// %b ends before %a begins: its offset is at most 128, and the rest of the offset of %a is its size
// rounded up.

// CHECK: rt.call @sub(%{{.*}}) outs(%{{.*}})
builtin.module attributes {symbols = [#nn.symbol<n2, 2 to 15>, #nn.symbol<n4, 2 to 15>]} {
  rt.kernel @sub(%a: memref<[n2]xi64>) outs(%b: memref<[n2]xi64>) threads(%thread, %threads) attributes {code = 0 : i64, nodes = ["n"]} {
    rt.return
  }
  rt.segment @segment_0(%x: memref<[n2]xi64>) threads(%thread, %threads) attributes {arena_bytes = #nn.size<64 * ((8 * n2 + 63) floordiv 64) + 256>} {
    %b = rt.arena [64 * ((8 * n4 + 63) floordiv 64)] : memref<[n2]xi64>
    %a = rt.arena [64 * ((8 * n2 + 63) floordiv 64) + 128] : memref<[n2]xi64>
    rt.call @sub(%a) outs(%b) threads(%thread, %threads)
    rt.return
  }
}

// -----

builtin.module attributes {symbols = [#nn.symbol<n2, 2 to 15>, #nn.symbol<n4, 2 to 17>]} {
  rt.kernel @sub(%a: memref<[n2]xi64>) outs(%b: memref<[n2]xi64>) threads(%thread, %threads) attributes {code = 0 : i64, nodes = ["n"]} {
    rt.return
  }
  rt.segment @segment_0(%x: memref<[n2]xi64>) threads(%thread, %threads) attributes {arena_bytes = #nn.size<64 * ((8 * n2 + 63) floordiv 64) + 320>} {
    %b = rt.arena [64 * ((8 * n4 + 63) floordiv 64)] : memref<[n2]xi64>
    %a = rt.arena [64 * ((8 * n2 + 63) floordiv 64) + 128] : memref<[n2]xi64>
    // expected-error@+1 {{@sub writes to a buffer that overlaps another one of the call}}
    rt.call @sub(%a) outs(%b) threads(%thread, %threads)
    rt.return
  }
}
