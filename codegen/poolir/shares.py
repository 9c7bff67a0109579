"""LLVM IR of the pool for phases, which are divided into shares: how a phase's caller offers them,
threads take and compute them, and the caller waits for all of them."""

from __future__ import annotations

from tessella.codegen.poolir.loops import loop

MEMORY = """
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
define internal void @add(ptr %block, i64 %offset, i64 %value) #1 {
  %before = call i64 @number(ptr %block, i64 %offset)
  %sum = add i64 %before, %value
  call void @put(ptr %block, i64 %offset, i64 %sum)
  ret void
}
; what several threads read and write, where no other memory depends on it
define internal i64 @seen(ptr %block, i64 %offset) #1 {
  %address = getelementptr i8, ptr %block, i64 %offset
  %value = load atomic i64, ptr %address monotonic, align 8
  ret i64 %value
}
define internal void @show(ptr %block, i64 %offset, i64 %value) #1 {
  %address = getelementptr i8, ptr %block, i64 %offset
  store atomic i64 %value, ptr %address monotonic, align 8
  ret void
}
define internal ptr @line(ptr %block, i64 %first, i64 %index) #1 {
  %a = mul i64 %index, $line
  %b = add i64 %a, %first
  %address = getelementptr i8, ptr %block, i64 %b
  ret ptr %address
}
"""

WAITING = """
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
; the nanoseconds until the number of a box is a value or more; 0 for few
define internal i64 @wait(ptr %team, ptr %box, i64 %value, i64 %spin) #0 {
entry:
  %early = call i1 @look(ptr %box, i64 %value)
  br i1 %early, label %end, label %late
late:
  %began = call i64 @now(ptr %team)
  br label %again
again:
  %time = call i64 @now(ptr %team)
  %waited = sub i64 %time, %began
  %more = icmp slt i64 %waited, %spin
  br i1 %more, label %more.looks, label %sleepy
more.looks:
  %raised = call i1 @look(ptr %box, i64 %value)
  br i1 %raised, label %over, label %again
sleepy:
  %asleep = call ptr @at(ptr %box, i64 $asleep)
  store atomic i64 1, ptr %asleep seq_cst, align 8
  br label %check
check:
  %number = load atomic i64, ptr %box seq_cst, align 8
  %done = icmp sge i64 %number, %value
  br i1 %done, label %awake, label %sleep
sleep:
  %syscall = call ptr @pointer(ptr %team, i64 $team_syscall)
  %low = and i64 %number, 4294967295
  call i64 (i64, ...) %syscall(i64 $futex, ptr %box, i64 $sleep, i64 %low, i64 0, i64 0, i64 0)
  br label %check
awake:
  store atomic i64 0, ptr %asleep monotonic, align 8
  br label %over
over:
  %last = call i64 @now(ptr %team)
  %all = sub i64 %last, %began
  br label %end
end:
  %result = phi i64 [ 0, %entry ], [ %all, %over ]
  ret i64 %result
}
; wake who sleeps at a box; call it after a change of the number
define internal void @wake(ptr %team, ptr %box) #0 {
entry:
  %asleep = call ptr @at(ptr %box, i64 $asleep)
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
"""

SHARES = (
    """
; whether a helper of a run has found itself on its caller's core, a while ago at most
define internal i1 @collided(ptr %team, ptr %record) #0 {
entry:
  %until = call i64 @seen(ptr %record, i64 $record_alone)
  %never = icmp eq i64 %until, 0
  br i1 %never, label %end, label %ask
ask:
  %time = call i64 @now(ptr %team)
  %lately = icmp slt i64 %time, %until
  br label %end
end:
  %result = phi i1 [ false, %entry ], [ %lately, %ask ]
  ret i1 %result
}
; how many shares a phase has: what the run may have, and its part of the cores
define internal i64 @width(ptr %team, ptr %record) #0 {
entry:
  %threads = call i64 @seen(ptr %record, i64 $record_threads)
  %planned = call i64 @seen(ptr %record, i64 $record_level)
  %collided = call i1 @collided(ptr %team, ptr %record)
  %halvings = zext i1 %collided to i64
  %level = add i64 %planned, %halvings
  %halved = lshr i64 %threads, %level
  %narrowed = call i64 @llvm.smax.i64(i64 %halved, i64 1)
  %entered = call i64 @seen(ptr %team, i64 $entered)
  %left = call i64 @seen(ptr %team, i64 $left_runs)
  %here = sub i64 %entered, %left
  %crowd = call i64 @seen(ptr %record, i64 $record_crowd)
  %runs = call i64 @llvm.smax.i64(i64 %here, i64 %crowd)
  %is.only = icmp slt i64 %runs, 2
  br i1 %is.only, label %only, label %several
only:
  ret i64 %narrowed
several:
  %cores = call i64 @number(ptr %team, i64 $team_cores)
  %limit = call i64 @llvm.smax.i64(i64 %cores, i64 %threads)
  %part = udiv i64 %limit, %runs
  %least = call i64 @llvm.smin.i64(i64 %narrowed, i64 %part)
  %shares = call i64 @llvm.smax.i64(i64 %least, i64 1)
  ret i64 %shares
}
; take a share that is offered under a number, and compute it
define internal i1 @compute(ptr %team, ptr %record, i64 %share, i64 %offer) #0 {
entry:
  %slot = call ptr @line(ptr %record, i64 0, i64 %share)
  %taken = add i64 %offer, 1
  %pair = cmpxchg ptr %slot, i64 %offer, i64 %taken acquire monotonic, align 8
  %ours = extractvalue { i64, i1 } %pair, 1
  br i1 %ours, label %run, label %end
run:
  %function = call ptr @pointer(ptr %slot, i64 $slot_function)
  %shares = call i64 @number(ptr %slot, i64 $slot_shares)
  %args = call ptr @at(ptr %slot, i64 $slot_contexts)
  call void %function(ptr %args, i64 %share, i64 %shares)
  %done = add i64 %offer, 2
  store atomic i64 %done, ptr %slot seq_cst, align 8
  call void @wake(ptr %team, ptr %slot)
  br label %end
end:
  ret i1 %ours
}
; the number under which a share is offered, or 0
define internal i64 @offer(ptr %record, i64 %share) #0 {
  %slot = call ptr @line(ptr %record, i64 0, i64 %share)
  %number = load atomic i64, ptr %slot acquire, align 8
  %state = and i64 %number, 3
  %offered = icmp eq i64 %state, $offered
  %result = select i1 %offered, i64 %number, i64 0
  ret i64 %result
}
; compute the shares that nobody has begun; how many there were
define internal i64 @compute_others(ptr %team, ptr %record) #0 {
entry:
  %shares = call i64 @seen(ptr %record, i64 $record_shares)
"""
    + loop(
        """
  %offer = call i64 @offer(ptr %record, i64 %share)
  %offered = icmp ne i64 %offer, 0
  br i1 %offered, label %run, label %seen
run:
  %ours = call i1 @compute(ptr %team, ptr %record, i64 %share, i64 %offer)
  br label %seen
seen:
  %here = phi i1 [ false, %step.share ], [ %ours, %run ]
  %one = zext i1 %here to i64
  %more = add i64 %count, %one
""",
        over="share",
        first=1,
        limit="shares",
        before="entry",
        last="seen",
        after="end",
        carried=[("i64", "count", "0", "%more")],
    )
    + """
  ret i64 %count
}
define internal void @launch(ptr %context, ptr %phase, ptr %args) #0 {
entry:
  %record = call ptr @pointer(ptr %context, i64 $context_record)
  %team = call ptr @pointer(ptr %context, i64 $context_team)
  %shares = call i64 @width(ptr %team, ptr %record)
  %several = icmp sgt i64 %shares, 1
  br i1 %several, label %together, label %alone
alone:
  call void %phase(ptr %args, i64 0, i64 1)
  ret void
together:
  %before = call i64 @number(ptr %record, i64 $record_phase)
  %number = add i64 %before, 4
  call void @put(ptr %record, i64 $record_phase, i64 %number)
  %function = ptrtoint ptr %phase to i64
  call void @show(ptr %record, i64 $record_shares, i64 %shares)
  %offer = add i64 %number, $offered
"""
    + loop(
        """
  %slot = call ptr @line(ptr %record, i64 0, i64 %share)
  %copy = call ptr @at(ptr %slot, i64 $slot_contexts)
  call void @llvm.memcpy.p0.p0.i64(ptr %copy, ptr %args, i64 $arguments_bytes, i1 false)
  call void @put(ptr %slot, i64 $slot_function, i64 %function)
  call void @put(ptr %slot, i64 $slot_shares, i64 %shares)
  store atomic i64 %offer, ptr %slot release, align 8
  %server = call i64 @seen(ptr %slot, i64 $slot_server)
  %served = icmp ne i64 %server, 0
  br i1 %served, label %offered, label %search
search:
  call void @recruit(ptr %team, ptr %record, i64 %share)
  br label %offered
offered:
""",
        over="share",
        first=1,
        limit="shares",
        before="together",
        last="offered",
        after="work",
        once=True,
    )
    + """
  call void %phase(ptr %args, i64 0, i64 %shares)
  %others = call i64 @compute_others(ptr %team, ptr %record)
  %own = add i64 %others, 1
  call void @add(ptr %record, i64 $record_own, i64 %own)
  call void @add(ptr %record, i64 $record_all, i64 %shares)
  %done = add i64 %number, $done
"""
    + loop(
        """
  %box = call ptr @line(ptr %record, i64 0, i64 %late)
  %time = call i64 @wait(ptr %team, ptr %box, i64 %done, i64 $for_a_share)
  %sum = add i64 %waited, %time
""",
        over="late",
        first=1,
        limit="shares",
        before="work",
        last="loop.late",
        after="end",
        carried=[("i64", "waited", "0", "%sum")],
        once=True,
    )
    + """
  call void @add(ptr %record, i64 $record_waited, i64 %sum)
  %in.time = icmp eq i64 %sum, 0
  br i1 %in.time, label %return, label %moved
moved:
  call void @be_at(ptr %team, ptr %record)
  br label %return
return:
  ret void
}
; tell helpers the core of their caller, which changes where it has waited
define internal void @be_at(ptr %team, ptr %record) #0 {
  %core = call i64 @core(ptr %team)
  call void @show(ptr %record, i64 $record_core, i64 %core)
  ret void
}
"""
)
