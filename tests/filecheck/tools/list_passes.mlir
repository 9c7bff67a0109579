// RUN: tessella-opt --list-passes | filecheck %s

// A pass with what it declares and its summary, then its options with types and defaults; the
// project's passes first.

// CHECK: // passes of tessella and plugins
// CHECK: infer-shapes [statement; at nn, placed]: Recompute
// CHECK: pick-kernels [{{.*}}]: Set
// CHECK-NEXT: places: tuple[str, ...] =
// CHECK: print-op-stats [debug; at any stage]: Print
// CHECK: tile-schedule [{{.*}}]: Choose
// CHECK-NEXT: target: str = native
// CHECK: // passes of xDSL
// CHECK: canonicalize [program; at any stage]
