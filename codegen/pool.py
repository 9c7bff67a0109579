"""The native code of ``runtime.pool``: how threads wait, meet and run segments.

    grow(team, size)         starts threads until there are so many
    run(team, segment, ..)   runs a segment on them
    barrier(context)         what a context's slot 1 points to

A box holds a number that only rises. `post` raises it, and calls the system only if the other
thread sleeps. `wait` looks at it, first all the time, then with turns for other threads in between,
and after a while sleeps. The sleeper says so before it looks again, the other one looks for a
sleeper after it has written, and both orders are sequentially consistent: nobody sleeps for ever.

A brief run is not worth waking threads for, unless another one follows at once: it leaves those
that sleep asleep if they would be so, too, had they taken part in the one before.

A thread that slept is kept off the core of the one that wakes it: systems like to wake a thread
where its waker is, in the hope that this one sleeps soon, and move it only milliseconds later.

A run starts and ends along a tree: thread `i` calls threads `i + 1`, `i + 2`, `i + 4`, ... up to
its lowest set bit, and waits for them in the end. A barrier is that of Hensgen, Finkel and Manber
("Two algorithms for barrier synchronization", 1988): in round `k`, thread `i` tells thread
`i + 2^k`, and waits for thread `i - 2^k`. A line is written by one thread, apart from sleepers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from string import Template

from tessella.codegen import kernel_cache
from tessella.codegen.llvm import Machine, emit_object
from tessella.codegen.module_text import module_text
from tessella.runtime import pool
from tessella.targets import Target

LOOKS = 64
"""How often `wait` looks before it asks for the time."""

BETWEEN_RUNS = 50_000
"""Nanoseconds that a thread looks for the next run before it sleeps: about what it takes to sleep
and to be woken, so that waiting costs at most about twice what the better of the two would."""

IN_A_RUN = 1_000_000
"""Nanoseconds that a thread looks for others in a run, where its core has nothing better to do, and
gives turns to those that have. It sleeps if the others are likely to have no core."""

NAME = "tessella.pool"
"""The module among those that a program is linked from."""

_PAUSE = {"x86": "@llvm.x86.sse2.pause()", "arm": "@llvm.aarch64.isb(i32 15)"}
_FUTEX, _GETTID = {"x86": 202, "arm": 98}, {"x86": 186, "arm": 178}
"""The numbers of system calls."""
_CONSTANTS: Mapping[str, object] = {
    "looks": LOOKS,
    "between": BETWEEN_RUNS,
    "within": IN_A_RUN,
    # the operations of the call, on memory of one process
    "sleep": 128,
    "wake": 129,
    # CLOCK_MONOTONIC, SIG_SETMASK
    "monotonic": 1,
    "setmask": 2,
    "taken": pool.TAKEN,
    "left": pool.LEFT,
    "boxes": pool.BOXES,
    "line": pool.LINE,
    "thread": pool.BOXES_OF_A_THREAD * pool.LINE,
    "start": pool.START,
    "done": pool.DONE,
    "rounds": pool.ROUNDS,
    "grow": pool.GROW,
    "enter": pool.ENTER,
}


@functools.cache
def pool_object(target: Target) -> bytes:
    """The object for a target: compiled once, and kept on disk."""
    text, machine = emit_pool(target), Machine.of(target)
    found = kernel_cache.get(text, machine)
    if found is None:
        found = emit_object(text, machine)
        kernel_cache.put(text, machine, found)
    return found


def emit_pool(target: Target) -> str:
    """The LLVM module."""
    values: dict[str, object] = {
        **_CONSTANTS,
        "pause": _PAUSE[target.arch],
        "futex": _FUTEX[target.arch],
        "gettid": _GETTID[target.arch],
        **_offsets("team", 0, pool.TABLE),
        **_offsets("run", pool.JOB, (*pool.RUN, *pool.RUN_NUMBERS)),
        **_offsets("context", 0, pool.CONTEXT),
    }
    values["stores"] = _stores(values)
    text = "".join(Template(part).substitute(values) for part in _PARTS)
    return module_text(target, text.splitlines())


def _offsets(prefix: str, start: int, names: Sequence[str]) -> Mapping[str, int]:
    return {f"{prefix}_{name}": start + 8 * i for i, name in enumerate(names)}


def _stores(offsets: Mapping[str, object]) -> str:
    """Lines that store the arguments of a run."""
    lines: list[str] = []
    for name in pool.RUN:
        lines.append(f"  %{name}.at = call ptr @at(ptr %team, i64 {offsets[f'run_{name}']})")
        lines.append(f"  store ptr %{name}, ptr %{name}.at, align 8")
    return "\n".join(lines)


_BOXES = """
define internal ptr @at(ptr %block, i64 %offset) #1 {
  %address = getelementptr i8, ptr %block, i64 %offset
  ret ptr %address
}
define internal i64 @number(ptr %block, i64 %offset) #1 {
  %address = getelementptr i8, ptr %block, i64 %offset
  %value = load i64, ptr %address, align 8
  ret i64 %value
}
define internal ptr @pointer(ptr %block, i64 %offset) #1 {
  %address = getelementptr i8, ptr %block, i64 %offset
  %value = load ptr, ptr %address, align 8
  ret ptr %value
}
define internal void @put(ptr %block, i64 %offset, i64 %value) #1 {
  %address = getelementptr i8, ptr %block, i64 %offset
  store i64 %value, ptr %address, align 8
  ret void
}
define internal ptr @box(ptr %team, i64 %thread, i64 %kind) #1 {
  %a = mul i64 %thread, $thread
  %b = mul i64 %kind, $line
  %c = add i64 %a, %b
  %d = add i64 %c, $boxes
  %box = getelementptr i8, ptr %team, i64 %d
  ret ptr %box
}
"""

_WAITING = """
define internal i64 @now(ptr %team) #0 {
  %time = alloca [2 x i64], align 8
  %clock = call ptr @pointer(ptr %team, i64 $team_clock_gettime)
  call i32 %clock(i32 $monotonic, ptr %time)
  %seconds = call i64 @number(ptr %time, i64 0)
  %nanoseconds = call i64 @number(ptr %time, i64 8)
  %a = mul i64 %seconds, 1000000000
  %b = add i64 %a, %nanoseconds
  ret i64 %b
}
define internal i1 @look(ptr %box, i64 %value) #0 {
entry:
  br label %again
again:
  %n = phi i64 [ 0, %entry ], [ %next, %later ]
  %number = load atomic i64, ptr %box acquire, align 8
  %raised = icmp sge i64 %number, %value
  br i1 %raised, label %end, label %later
later:
  call void $pause
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, $looks
  br i1 %more, label %again, label %end
end:
  ret i1 %raised
}
define internal void @wait(ptr %team, ptr %box, i64 %value, i64 %spin) #0 {
entry:
  %early = call i1 @look(ptr %box, i64 %value)
  br i1 %early, label %end, label %late
late:
  %impatient = icmp eq i64 %spin, 0
  br i1 %impatient, label %sleepy, label %patient
patient:
  %began = call i64 @now(ptr %team)
  br label %again
again:
  %yield = call ptr @pointer(ptr %team, i64 $team_sched_yield)
  call i32 %yield()
  %raised = call i1 @look(ptr %box, i64 %value)
  br i1 %raised, label %end, label %longer
longer:
  %time = call i64 @now(ptr %team)
  %waited = sub i64 %time, %began
  %more = icmp slt i64 %waited, %spin
  br i1 %more, label %again, label %sleepy
sleepy:
  %asleep = call ptr @at(ptr %box, i64 8)
  %syscall = call ptr @pointer(ptr %team, i64 $team_syscall)
  store atomic i64 1, ptr %asleep seq_cst, align 8
  br label %check
check:
  %number = load atomic i64, ptr %box seq_cst, align 8
  %done = icmp sge i64 %number, %value
  br i1 %done, label %awake, label %sleep
sleep:
  %low = and i64 %number, 4294967295
  call i64 (i64, ...) %syscall(i64 $futex, ptr %box, i64 $sleep, i64 %low, i64 0, i64 0, i64 0)
  br label %check
awake:
  store atomic i64 0, ptr %asleep monotonic, align 8
  br label %end
end:
  ret void
}
define internal void @post(ptr %team, ptr %box, i64 %value) #0 {
entry:
  store atomic i64 %value, ptr %box seq_cst, align 8
  %asleep = call ptr @at(ptr %box, i64 8)
  %sleeps = load atomic i64, ptr %asleep seq_cst, align 8
  %nobody = icmp eq i64 %sleeps, 0
  br i1 %nobody, label %end, label %wake
wake:
  %syscall = call ptr @pointer(ptr %team, i64 $team_syscall)
  call i64 (i64, ...) %syscall(i64 $futex, ptr %box, i64 $wake, i64 1, i64 0, i64 0, i64 0)
  br label %end
end:
  ret void
}
define internal void @start(ptr %team, ptr %box, i64 %value) #0 {
entry:
  %asleep = call ptr @at(ptr %box, i64 8)
  %sleeps = load atomic i64, ptr %asleep monotonic, align 8
  %spin = call i64 @number(ptr %team, i64 $run_spin)
  %a = icmp ne i64 %sleeps, 0
  %b = icmp ne i64 %spin, 0
  %move = and i1 %a, %b
  br i1 %move, label %elsewhere, label %end
elsewhere:
  call void @keep_off(ptr %team, ptr %box)
  br label %end
end:
  call void @post(ptr %team, ptr %box, i64 %value)
  ret void
}
define internal void @keep_off(ptr %team, ptr %box) #0 {
entry:
  %set = alloca [$line x i8], align 8
  %all = call ptr @pointer(ptr %team, i64 $team_cpus)
  call void @llvm.memcpy.p0.p0.i64(ptr %set, ptr %all, i64 $line, i1 false)
  %where = call ptr @pointer(ptr %team, i64 $team_sched_getcpu)
  %cpu = call i32 %where()
  %known = icmp ult i32 %cpu, 1024
  br i1 %known, label %without, label %end
without:
  %number = zext i32 %cpu to i64
  %word = lshr i64 %number, 6
  %offset = shl i64 %word, 3
  %shift = and i64 %number, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %old = call i64 @number(ptr %set, i64 %offset)
  %new = and i64 %old, %others
  call void @put(ptr %set, i64 %offset, i64 %new)
  %limit = call ptr @pointer(ptr %team, i64 $team_sched_setaffinity)
  %thread = call i64 @number(ptr %box, i64 32)
  %short = trunc i64 %thread to i32
  call i32 %limit(i32 %short, i64 $line, ptr %set)
  br label %end
end:
  ret void
}
define internal void @barrier(ptr %context) #0 {
entry:
  %team = call ptr @pointer(ptr %context, i64 $context_team)
  %thread = call i64 @number(ptr %context, i64 $context_thread)
  %threads = call i64 @number(ptr %context, i64 $context_threads)
  %before = call i64 @number(ptr %context, i64 $context_phase)
  %spin = call i64 @number(ptr %team, i64 $run_spin)
  %phase = add i64 %before, 1
  call void @put(ptr %context, i64 $context_phase, i64 %phase)
  br label %head
head:
  %round = phi i64 [ $rounds, %entry ], [ %following, %body ]
  %distance = phi i64 [ 1, %entry ], [ %twice, %body ]
  %more = icmp slt i64 %distance, %threads
  br i1 %more, label %body, label %end
body:
  %right = add i64 %thread, %distance
  %wrapped = sub i64 %right, %threads
  %over = icmp sge i64 %wrapped, 0
  %other = select i1 %over, i64 %wrapped, i64 %right
  %theirs = call ptr @box(ptr %team, i64 %other, i64 %round)
  call void @post(ptr %team, ptr %theirs, i64 %phase)
  %ours = call ptr @box(ptr %team, i64 %thread, i64 %round)
  call void @wait(ptr %team, ptr %ours, i64 %phase, i64 %spin)
  %following = add i64 %round, 1
  %twice = shl i64 %distance, 1
  br label %head
end:
  ret void
}
"""

_PART = """
define internal i1 @calls(i64 %thread, i64 %distance, i64 %threads) #1 {
  %a = icmp slt i64 %distance, %threads
  %bit = and i64 %thread, %distance
  %b = icmp eq i64 %bit, 0
  %both = and i1 %a, %b
  ret i1 %both
}
define internal i64 @merged(i64 %a, i64 %b) #1 {
  %c = sub i64 %a, 1
  %d = sub i64 %b, 1
  %e = call i64 @llvm.umin.i64(i64 %c, i64 %d)
  %f = add i64 %e, 1
  ret i64 %f
}
define internal ptr @bound(ptr %team, i64 %thread, i64 %threads) #1 {
  %contexts = call ptr @pointer(ptr %team, i64 $run_contexts)
  %phase = call i64 @number(ptr %team, i64 $run_phase)
  %offset = mul i64 %thread, $line
  %context = call ptr @at(ptr %contexts, i64 %offset)
  %number = ptrtoint ptr %team to i64
  call void @put(ptr %context, i64 $context_barrier, i64 ptrtoint (ptr @barrier to i64))
  call void @put(ptr %context, i64 $context_team, i64 %number)
  call void @put(ptr %context, i64 $context_thread, i64 %thread)
  call void @put(ptr %context, i64 $context_threads, i64 %threads)
  call void @put(ptr %context, i64 $context_phase, i64 %phase)
  ret ptr %context
}
define internal i64 @part(ptr %team, i64 %thread, i64 %number) #0 {
entry:
  %threads = call i64 @number(ptr %team, i64 $run_threads)
  %spin = call i64 @number(ptr %team, i64 $run_spin)
  br label %next
next:
  %distance = phi i64 [ 1, %entry ], [ %twice, %called ]
  %more = call i1 @calls(i64 %thread, i64 %distance, i64 %threads)
  br i1 %more, label %other, label %work
other:
  %child = add i64 %thread, %distance
  %there = icmp slt i64 %child, %threads
  br i1 %there, label %call, label %called
call:
  %start = call ptr @box(ptr %team, i64 %child, i64 $start)
  call void @start(ptr %team, ptr %start, i64 %number)
  br label %called
called:
  %twice = shl i64 %distance, 1
  br label %next
work:
  %context = call ptr @bound(ptr %team, i64 %thread, i64 %threads)
  %segment = call ptr @pointer(ptr %team, i64 $run_segment)
  %inputs = call ptr @pointer(ptr %team, i64 $run_inputs)
  %outputs = call ptr @pointer(ptr %team, i64 $run_outputs)
  %weights = call ptr @pointer(ptr %team, i64 $run_weights)
  %arena = call ptr @pointer(ptr %team, i64 $run_arena)
  call void %segment(ptr %context, ptr %inputs, ptr %outputs, ptr %weights, ptr %arena,
                     i64 %thread, i64 %threads)
  %own = call i64 @number(ptr %context, i64 $context_status)
  br label %last
last:
  %far = phi i64 [ 1, %work ], [ %farther, %ended ]
  %status = phi i64 [ %own, %work ], [ %worse, %ended ]
  %left = call i1 @calls(i64 %thread, i64 %far, i64 %threads)
  br i1 %left, label %one, label %end
one:
  %called.thread = add i64 %thread, %far
  %exists = icmp slt i64 %called.thread, %threads
  br i1 %exists, label %meet, label %ended
meet:
  %done = call ptr @box(ptr %team, i64 %called.thread, i64 $done)
  call void @wait(ptr %team, ptr %done, i64 %number, i64 %spin)
  %theirs = call i64 @number(ptr %done, i64 16)
  %merged = call i64 @merged(i64 %status, i64 %theirs)
  br label %ended
ended:
  %worse = phi i64 [ %status, %one ], [ %merged, %meet ]
  %farther = shl i64 %far, 1
  br label %last
end:
  %first = icmp eq i64 %thread, 0
  br i1 %first, label %return, label %tell
tell:
  %ours = call ptr @box(ptr %team, i64 %thread, i64 $done)
  call void @put(ptr %ours, i64 16, i64 %status)
  call void @post(ptr %team, ptr %ours, i64 %number)
  br label %return
return:
  ret i64 %status
}
"""

_THREADS = """
@name = private constant [12 x i8] c"tessella-%d\\00"
define internal ptr @thread(ptr %start) #0 {
entry:
  %team = call ptr @pointer(ptr %start, i64 16)
  %thread = call i64 @number(ptr %start, i64 24)
  %syscall = call ptr @pointer(ptr %team, i64 $team_syscall)
  %id = call i64 (i64, ...) %syscall(i64 $gettid)
  call void @put(ptr %start, i64 32, i64 %id)
  br label %loop
loop:
  %before = phi i64 [ 0, %entry ], [ %number, %loop ]
  %patience = phi i64 [ $between, %entry ], [ %short, %loop ]
  %least = add i64 %before, 1
  call void @wait(ptr %team, ptr %start, i64 %least, i64 %patience)
  %number = load atomic i64, ptr %start acquire, align 8
  %spin = call i64 @number(ptr %team, i64 $run_spin)
  %short = call i64 @llvm.smin.i64(i64 %spin, i64 $between)
  call i64 @part(ptr %team, i64 %thread, i64 %number)
  br label %loop
}
define void @"$grow"(ptr %team, i64 %size) #0 {
entry:
  %old = alloca [128 x i8], align 16
  %id = alloca i64, align 8
  %text = alloca [32 x i8], align 16
  %signals = call ptr @pointer(ptr %team, i64 $team_signals)
  %attributes = call ptr @pointer(ptr %team, i64 $team_attributes)
  %mask = call ptr @pointer(ptr %team, i64 $team_pthread_sigmask)
  %create = call ptr @pointer(ptr %team, i64 $team_pthread_create)
  %print = call ptr @pointer(ptr %team, i64 $team_snprintf)
  %rename = call ptr @pointer(ptr %team, i64 $team_pthread_setname_np)
  call i32 %mask(i32 $setmask, ptr %signals, ptr %old)
  br label %next
next:
  %have = call i64 @number(ptr %team, i64 $team_size)
  %fewer = icmp slt i64 %have, %size
  br i1 %fewer, label %new, label %end
new:
  %thread = add i64 %have, 1
  %number = ptrtoint ptr %team to i64
  %start = call ptr @box(ptr %team, i64 %thread, i64 $start)
  call void @put(ptr %start, i64 16, i64 %number)
  call void @put(ptr %start, i64 24, i64 %thread)
  %failed = call i32 %create(ptr %id, ptr %attributes, ptr @thread, ptr %start)
  %started = icmp eq i32 %failed, 0
  br i1 %started, label %made, label %end
made:
  %at = call ptr @at(ptr %team, i64 $team_size)
  store atomic i64 %thread, ptr %at release, align 8
  %short = trunc i64 %thread to i32
  call i32 (ptr, i64, ptr, ...) %print(ptr %text, i64 16, ptr @name, i32 %short)
  %handle = load i64, ptr %id, align 8
  call i32 %rename(i64 %handle, ptr %text)
  br label %next
end:
  call i32 %mask(i32 $setmask, ptr %old, ptr null)
  ret void
}
"""

_ENTRY = """
define void @"$enter"(ptr %team, ptr %segment, ptr %contexts, ptr %inputs, ptr %outputs,
                      ptr %weights, ptr %arena, i64 %wanted, i64 %brief) #0 {
entry:
  %at = call ptr @at(ptr %team, i64 $team_size)
  %size = load atomic i64, ptr %at acquire, align 8
  %most = add i64 %size, 1
  %threads = call i64 @llvm.smin.i64(i64 %most, i64 %wanted)
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %look, label %alone
look:
  %flag = call ptr @at(ptr %team, i64 $taken)
  %others = load atomic i64, ptr %flag monotonic, align 8
  %free = icmp eq i64 %others, 0
  br i1 %free, label %unused, label %alone
unused:
  %rest = call i1 @rest(ptr %team, i64 %brief)
  br i1 %rest, label %leave, label %take
take:
  %pair = cmpxchg ptr %flag, i64 0, i64 1 acquire monotonic, align 8
  %ours = extractvalue { i64, i1 } %pair, 1
  br i1 %ours, label %run, label %alone
run:
$stores
  %cores = call i64 @number(ptr %team, i64 $team_cores)
  %fits = icmp sle i64 %threads, %cores
  %spin = select i1 %fits, i64 $within, i64 0
  %before = call i64 @number(ptr %team, i64 $run_number)
  %number = add i64 %before, 1
  call void @put(ptr %team, i64 $run_threads, i64 %threads)
  call void @put(ptr %team, i64 $run_spin, i64 %spin)
  call void @put(ptr %team, i64 $run_number, i64 %number)
  %status = call i64 @part(ptr %team, i64 0, i64 %number)
  %phase = call i64 @number(ptr %contexts, i64 $context_phase)
  call void @put(ptr %team, i64 $run_phase, i64 %phase)
  call void @put(ptr %contexts, i64 $context_status, i64 %status)
  store atomic i64 0, ptr %flag release, align 8
  ret void
alone:
  call void %segment(ptr %contexts, ptr %inputs, ptr %outputs, ptr %weights, ptr %arena,
                     i64 0, i64 1)
  ret void
leave:
  call void %segment(ptr %contexts, ptr %inputs, ptr %outputs, ptr %weights, ptr %arena,
                     i64 0, i64 1)
  %left = call ptr @at(ptr %team, i64 $left)
  %time = call i64 @now(ptr %team)
  store atomic i64 %time, ptr %left monotonic, align 8
  ret void
}
define internal i1 @rest(ptr %team, i64 %brief) #0 {
entry:
  %start = call ptr @box(ptr %team, i64 1, i64 $start)
  %asleep = call ptr @at(ptr %start, i64 8)
  %sleeps = load atomic i64, ptr %asleep monotonic, align 8
  %both = and i64 %sleeps, %brief
  %may = icmp ne i64 %both, 0
  br i1 %may, label %since, label %end
since:
  %left = call ptr @at(ptr %team, i64 $left)
  %before = load atomic i64, ptr %left monotonic, align 8
  %time = call i64 @now(ptr %team)
  %pause = sub i64 %time, %before
  %long = icmp sgt i64 %pause, $between
  br label %end
end:
  %result = phi i1 [ false, %entry ], [ %long, %since ]
  ret i1 %result
}
"""

_PARTS = (_BOXES, _WAITING, _PART, _THREADS, _ENTRY)
