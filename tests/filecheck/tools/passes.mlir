// RUN: tessella-opt %s -p 'cse,plan-arena' --print-ir-after-all 2>&1 >/dev/null | filecheck %s --check-prefix=ALL
// RUN: tessella-opt %s -p 'cse,plan-arena' --print-ir-after-change 2>&1 >/dev/null | filecheck %s --check-prefix=CHANGE
// RUN: tessella-opt %s -p 'cse,plan-arena' --print-ir-before=plan-arena --print-ir-after=cse 2>&1 >/dev/null | filecheck %s --check-prefix=NAMED
// RUN: tessella-opt %s -p 'cse,plan-arena' --print-ir-before-all 2>&1 >/dev/null | filecheck %s --check-prefix=BEFORE
// RUN: not tessella-opt %s -p 'cse,plan-arena' --print-ir-after=plan-weights 2>&1 | filecheck %s --check-prefix=NOT-RUN
// RUN: tessella-opt %s --pass-pipeline 'builtin.module(cse,plan-arena)' | filecheck %s
// RUN: not tessella-opt %s -p 'plan-aren' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not tessella-opt %s -p 'tile-schedule{taget=avx2}' 2>&1 | filecheck %s --check-prefix=OPTION

// ALL: IR Dump After {{.*}} (cse)
// ALL-NEXT: (unchanged)
// ALL: IR Dump After PlanArenaPass (plan-arena)
// ALL-NEXT: builtin.module
// ALL: rt.arena 0

// CHANGE-NOT: (cse)
// CHANGE: IR Dump After PlanArenaPass (plan-arena)
// CHANGE-NEXT: @@ -1,
// CHANGE: -{{.*}}memref.alloc
// CHANGE: +{{.*}}rt.arena 0

// NAMED: IR Dump After {{.*}} (cse)
// NAMED-NEXT: (unchanged)
// NAMED: IR Dump Before PlanArenaPass (plan-arena)
// NAMED-NEXT: builtin.module
// NAMED-NOT: rt.arena

// BEFORE: IR Dump Before {{.*}} (cse)
// BEFORE-NEXT: builtin.module
// BEFORE: IR Dump Before PlanArenaPass (plan-arena)
// BEFORE-NEXT: builtin.module

// NOT-RUN: --print-ir-after: no pass 'plan-weights' runs
// NOT-RUN-NEXT: expected: some of cse, plan-arena

// CHECK: rt.arena 0 : memref<4xf32>

// UNKNOWN: error: unknown pass 'plan-aren'
// UNKNOWN-NEXT: hint: did you mean 'plan-arena'?

// OPTION: error: cannot read the pipeline: {{.*}}"taget"

rt.segment @segment_0(%x: memref<4xf32>) outs(%y: memref<4xf32>) threads(%thread, %threads) {
  %0 = memref.alloc() : memref<4xf32>
  rt.call @k(%x) outs(%0) threads(%thread, %threads)
  rt.call @k(%0) outs(%y) threads(%thread, %threads)
  rt.return
}

rt.kernel @k(%x: memref<4xf32>) outs(%y: memref<4xf32>) threads(%thread, %threads) {
  rt.return
}
