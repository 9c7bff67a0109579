"""LLVM IR of the pool for its helpers, the threads that run parts of programs: how they are
started, recruited by a run, and released."""

from __future__ import annotations

from tessella.codegen.poolir.loops import loop

HELPERS = (
    """
; have a helper that is free serve a slot
define internal void @recruit(ptr %team, ptr %record, i64 %share) #0 {
entry:
  %slot = call ptr @line(ptr %record, i64 0, i64 %share)
  %size.at = call ptr @at(ptr %team, i64 $team_size)
  %size = load atomic i64, ptr %size.at acquire, align 8
  %first = call i64 @number(ptr %slot, i64 $slot_last)
  %start = ptrtoint ptr %record to i64
  %all = ptrtoint ptr %team to i64
  %distance = sub i64 %start, %all
  %offset = sub i64 %distance, $records
  ; records are so many lines that this is the number of the record, times the most shares
  %index = udiv i64 %offset, $line
  %word = add i64 %index, %share
  call void @show(ptr %slot, i64 $slot_server, i64 1)
"""
    + loop(
        """
  %a = add i64 %first, %n
  %b = sub i64 %a, %size
  %over = icmp sge i64 %b, 0
  %helper = select i1 %over, i64 %b, i64 %a
  %box = call ptr @line(ptr %team, i64 $helpers, i64 %helper)
  %serves = call i64 @seen(ptr %box, i64 0)
  %free = icmp eq i64 %serves, 0
  br i1 %free, label %take, label %busy
take:
  %pair = cmpxchg ptr %box, i64 0, i64 %word seq_cst monotonic, align 8
  %ours = extractvalue { i64, i1 } %pair, 1
  br i1 %ours, label %found, label %busy
busy:
""",
        over="n",
        first=0,
        limit="size",
        before="entry",
        last="busy",
        after="none",
    )
    + """
  call void @show(ptr %slot, i64 $slot_server, i64 0)
  ret void
found:
  call void @put(ptr %slot, i64 $slot_last, i64 %helper)
  call void @wake(ptr %team, ptr %box)
  ret void
}
; the core that a thread is on
define internal i64 @core(ptr %team) #0 {
  %where = call ptr @pointer(ptr %team, i64 $team_sched_getcpu)
  %short = call i32 %where()
  %core = sext i32 %short to i64
  ret i64 %core
}
; whether a helper is on another core than its caller, or may be beside it
define internal i1 @is_elsewhere(ptr %team, ptr %record) #0 {
  %core = call i64 @core(ptr %team)
  %other = call i64 @seen(ptr %record, i64 $record_core)
  %elsewhere = icmp ne i64 %core, %other
  %elastic = call i64 @number(ptr %team, i64 $team_elastic)
  %rigid = icmp eq i64 %elastic, 0
  %apart = or i1 %elsewhere, %rigid
  ret i1 %apart
}
; whether as many threads as cores want to run in the system, at most, or nobody knows
define internal i1 @has_idle_core(ptr %team) #0 {
entry:
  %text = alloca [64 x i8], align 16
  %running = alloca i64, align 8
  call void @put(ptr %running, i64 0, i64 0)
  %open = call ptr @pointer(ptr %team, i64 $team_open)
  %file = call i32 (ptr, i32, ...) %open(ptr @load, i32 $close_on_exec)
  %found = icmp sge i32 %file, 0
  br i1 %found, label %look, label %end
look:
  %read = call ptr @pointer(ptr %team, i64 $team_read)
  %close = call ptr @pointer(ptr %team, i64 $team_close)
  %scan = call ptr @pointer(ptr %team, i64 $team_sscanf)
  %length = call i64 %read(i32 %file, ptr %text, i64 63)
  call i32 %close(i32 %file)
  %some = call i64 @llvm.smax.i64(i64 %length, i64 0)
  %stop = call ptr @at(ptr %text, i64 %some)
  store i8 0, ptr %stop, align 1
  call i32 (ptr, ptr, ...) %scan(ptr %text, ptr @fourth, ptr %running)
  br label %end
end:
  %wanted = call i64 @number(ptr %running, i64 0)
  %cores = call i64 @number(ptr %team, i64 $team_online)
  %idle = icmp sle i64 %wanted, %cores
  ret i1 %idle
}
@load = private constant [14 x i8] c"/proc/loadavg\\00"
@fourth = private constant [17 x i8] c"%*s %*s %*s %ld/\\00"
; leave the core that a helper is on, and have the same choice of cores as before
define internal void @hop(ptr %team) #0 {
entry:
  %all = alloca [128 x i8], align 16
  %others = alloca [128 x i8], align 16
  %read = call ptr @pointer(ptr %team, i64 $team_sched_getaffinity)
  %set = call ptr @pointer(ptr %team, i64 $team_sched_setaffinity)
  %failed = call i32 %read(i32 0, i64 128, ptr %all)
  %known = icmp eq i32 %failed, 0
  %core = call i64 @core(ptr %team)
  %listed = icmp ult i64 %core, 1024
  %both = and i1 %known, %listed
  br i1 %both, label %move, label %end
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %others, ptr %all, i64 128, i1 false)
  %index = lshr i64 %core, 3
  %bit = and i64 %core, 7
  %shift = trunc i64 %bit to i8
  %one = shl i8 1, %shift
  %rest = xor i8 %one, -1
  %byte = getelementptr i8, ptr %others, i64 %index
  %old = load i8, ptr %byte, align 1
  %new = and i8 %old, %rest
  store i8 %new, ptr %byte, align 1
  call i32 %set(i32 0, i64 128, ptr %others)
  call i32 %set(i32 0, i64 128, ptr %all)
  br label %end
end:
  ret void
}
; whether a helper has another core than its caller. If not, it moves to an idle one; where none is,
; the run is narrowed for a while, which doubles each time
define internal i1 @is_apart(ptr %team, ptr %record) #0 {
entry:
  %elsewhere = call i1 @is_elsewhere(ptr %team, ptr %record)
  br i1 %elsewhere, label %end, label %look
look:
  %idle = call i1 @has_idle_core(ptr %team)
  br i1 %idle, label %move, label %collision
move:
  call void @hop(ptr %team)
  %moved = call i1 @is_elsewhere(ptr %team, ptr %record)
  br i1 %moved, label %end, label %collision
collision:
  %time = call i64 @now(ptr %team)
  %pause = call i64 @seen(ptr %record, i64 $record_backoff)
  %until = add i64 %time, %pause
  %twice = shl i64 %pause, 1
  call void @show(ptr %record, i64 $record_alone, i64 %until)
  call void @show(ptr %record, i64 $record_backoff, i64 %twice)
  br label %end
end:
  %apart = phi i1 [ true, %entry ], [ true, %move ], [ false, %collision ]
  ret i1 %apart
}
; compute the shares of a slot, and those that others are late for, until it is time to leave
define internal void @serve(ptr %team, i64 %word) #0 {
entry:
  %share = urem i64 %word, $most
  %first = sub i64 %word, %share
  %record = call ptr @line(ptr %team, i64 $records, i64 %first)
  %alone.there = call i1 @is_apart(ptr %team, ptr %record)
  br i1 %alone.there, label %again, label %leave
again:
  %since = phi i64 [ 0, %entry ], [ 0, %served ], [ 0, %help ], [ %began, %wait ]
  br label %look
look:
  %n = phi i64 [ 0, %again ], [ %next, %later ]
  %offer = call i64 @offer(ptr %record, i64 %share)
  %offered = icmp ne i64 %offer, 0
  br i1 %offered, label %served, label %later
later:
  call void $pause
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, $looks
  br i1 %more, label %look, label %others
served:
  call i1 @compute(ptr %team, ptr %record, i64 %share, i64 %offer)
  br label %again
others:
  %apart = call i1 @is_apart(ptr %team, ptr %record)
  br i1 %apart, label %help, label %leave
help:
  %late.shares = call i64 @compute_others(ptr %team, ptr %record)
  %helped = icmp ne i64 %late.shares, 0
  br i1 %helped, label %again, label %late
late:
  %time = call i64 @now(ptr %team)
  %is.first = icmp eq i64 %since, 0
  %began = select i1 %is.first, i64 %time, i64 %since
  %waited = sub i64 %time, %began
  %runs = call i64 @seen(ptr %record, i64 $record_taken)
  %goes.on = icmp ne i64 %runs, 0
  %longest = select i1 %goes.on, i64 $within, i64 $between
  %patient = icmp slt i64 %waited, %longest
  %shares = call i64 @width(ptr %team, ptr %record)
  %wanted = icmp slt i64 %share, %shares
  %stays = and i1 %patient, %wanted
  br i1 %stays, label %wait, label %leave
wait:
  br label %again
leave:
  %slot = call ptr @line(ptr %record, i64 0, i64 %share)
  call void @show(ptr %slot, i64 $slot_server, i64 0)
  ret void
}
define internal ptr @helper(ptr %box) #0 {
entry:
  %team = call ptr @pointer(ptr %box, i64 $team)
  br label %loop
loop:
  call i64 @wait(ptr %team, ptr %box, i64 1, i64 0)
  %word = load atomic i64, ptr %box acquire, align 8
  call void @serve(ptr %team, i64 %word)
  store atomic i64 0, ptr %box release, align 8
  br label %loop
}
@name = private constant [12 x i8] c"tessella-%d\\00"
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
  %number = ptrtoint ptr %team to i64
  %box = call ptr @line(ptr %team, i64 $helpers, i64 %have)
  call void @put(ptr %box, i64 $team, i64 %number)
  %failed = call i32 %create(ptr %id, ptr %attributes, ptr @helper, ptr %box)
  %started = icmp eq i32 %failed, 0
  br i1 %started, label %made, label %end
made:
  %more = add i64 %have, 1
  %at = call ptr @at(ptr %team, i64 $team_size)
  store atomic i64 %more, ptr %at release, align 8
  %short = trunc i64 %more to i32
  call i32 (ptr, i64, ptr, ...) %print(ptr %text, i64 16, ptr @name, i32 %short)
  %handle = load i64, ptr %id, align 8
  call i32 %rename(i64 %handle, ptr %text)
  br label %next
end:
  call i32 %mask(i32 $setmask, ptr %old, ptr null)
  ret void
}
"""
)
