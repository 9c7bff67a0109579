// RUN: tessella-opt --list-passes | filecheck %s

// A pass with its summary, then its options with types and defaults; the project's passes first.

// CHECK: pick-kernels: Name a kernel
// CHECK-NEXT: places: tuple[str, ...] = x86/f32/nhwc
// CHECK: tile-schedule: Choose
// CHECK-NEXT: target: str = host
// CHECK: canonicalize
