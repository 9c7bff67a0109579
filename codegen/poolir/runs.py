"""LLVM IR of the pool for runs of programs: how they queue, how many shares their work is divided
into, and how they begin and end."""

from __future__ import annotations

from tessella.codegen.poolir.loops import loop

TURNS = (
    """
; wait until a place is free, in the order in which runs have come. A run also goes on if none has
; left for a long time, as those that have places may have no end
define internal void @wait_turn(ptr %team, i64 %ticket) #0 {
entry:
  %period = alloca [2 x i64], align 8
  call void @put(ptr %period, i64 0, i64 0)
  call void @put(ptr %period, i64 8, i64 $longest_turn)
  %places = call i64 @number(ptr %team, i64 $team_places)
  %left.at = call ptr @at(ptr %team, i64 $left_runs)
  %place = urem i64 %ticket, $ring
  %box = call ptr @line(ptr %team, i64 $turns, i64 %place)
  br label %again
again:
  %number = load atomic i64, ptr %box seq_cst, align 8
  %left = load atomic i64, ptr %left.at seq_cst, align 8
  %before = sub i64 %ticket, %left
  %ours = icmp slt i64 %before, %places
  br i1 %ours, label %end, label %sleep
sleep:
  %began = call i64 @now(ptr %team)
  %low = and i64 %number, 4294967295
  %syscall = call ptr @pointer(ptr %team, i64 $team_syscall)
  call i64 (i64, ...) %syscall(i64 $futex, ptr %box, i64 $sleep, i64 %low, ptr %period,
                               i64 0, i64 0)
  %time = call i64 @now(ptr %team)
  %slept = sub i64 %time, %began
  %long = icmp sge i64 %slept, $longest_turn
  %left.since = load atomic i64, ptr %left.at seq_cst, align 8
  %none = icmp eq i64 %left.since, %left
  %stuck = and i1 %long, %none
  br i1 %stuck, label %end, label %again
end:
  ret void
}
; a run has left: wake the one whose turn it is
define internal void @leave(ptr %team) #0 {
entry:
  %entered.at = call ptr @at(ptr %team, i64 $entered)
  %left.at = call ptr @at(ptr %team, i64 $left_runs)
  %before = atomicrmw add ptr %left.at, i64 1 seq_cst, align 8
  %places = call i64 @number(ptr %team, i64 $team_places)
  %ticket = add i64 %before, %places
  %entered = load atomic i64, ptr %entered.at seq_cst, align 8
  %waits = icmp sgt i64 %entered, %ticket
  br i1 %waits, label %tell, label %end
tell:
  %place = urem i64 %ticket, $ring
  %box = call ptr @line(ptr %team, i64 $turns, i64 %place)
  %old = atomicrmw add ptr %box, i64 1 seq_cst, align 8
  %syscall = call ptr @pointer(ptr %team, i64 $team_syscall)
  call i64 (i64, ...) %syscall(i64 $futex, ptr %box, i64 $wake, i64 $everyone, i64 0, i64 0, i64 0)
  br label %end
end:
  ret void
}
; a record that no run has, or null
define internal ptr @take(ptr %team) #0 {
entry:
  %places = call i64 @number(ptr %team, i64 $team_places)
"""
    + loop(
        """
  %offset = mul i64 %n, $record_bytes
  %start = add i64 %offset, $records
  %record = call ptr @at(ptr %team, i64 %start)
  %taken = call i64 @seen(ptr %record, i64 $record_taken)
  %free = icmp eq i64 %taken, 0
  br i1 %free, label %try, label %busy
try:
  %flag = call ptr @at(ptr %record, i64 $record_taken)
  %pair = cmpxchg ptr %flag, i64 0, i64 1 acquire monotonic, align 8
  %ours = extractvalue { i64, i1 } %pair, 1
  br i1 %ours, label %found, label %busy
busy:
""",
        over="n",
        first=0,
        limit="places",
        before="entry",
        last="busy",
        after="none",
    )
    + """
  ret ptr null
found:
  ret ptr %record
}
"""
)

ELASTIC = """
; how far a run that begins is narrowed: once the time is over, one run tries more shares
define internal i64 @level(ptr %team, i64 %time) #0 {
entry:
  %level = call i64 @seen(ptr %team, i64 $elastic_level)
  %narrowed = icmp ne i64 %level, 0
  br i1 %narrowed, label %look, label %same
look:
  %until = call i64 @seen(ptr %team, i64 $elastic_until)
  %over = icmp sge i64 %time, %until
  br i1 %over, label %try, label %same
try:
  %pause = call i64 @seen(ptr %team, i64 $elastic_pause)
  %following = add i64 %time, %pause
  call void @show(ptr %team, i64 $elastic_until, i64 %following)
  %less = sub i64 %level, 1
  ret i64 %less
same:
  ret i64 %level
}
; among how many runs one that begins divides the cores, at least: those that were there just before
define internal i64 @crowd(ptr %team, i64 %time) #0 {
entry:
  %entered = call i64 @seen(ptr %team, i64 $entered)
  %left = call i64 @seen(ptr %team, i64 $left_runs)
  %runs = sub i64 %entered, %left
  %several = icmp sgt i64 %runs, 1
  br i1 %several, label %tell, label %look
tell:
  call void @show(ptr %team, i64 $elastic_crowd, i64 %runs)
  call void @show(ptr %team, i64 $elastic_crowded, i64 %time)
  ret i64 %runs
look:
  %when = call i64 @seen(ptr %team, i64 $elastic_crowded)
  %since = sub i64 %time, %when
  %elastic = call i64 @number(ptr %team, i64 $team_elastic)
  %counts = icmp ne i64 %elastic, 0
  %short = icmp slt i64 %since, $crowded_for
  %recent = and i1 %short, %counts
  %before = call i64 @seen(ptr %team, i64 $elastic_crowd)
  %crowd = select i1 %recent, i64 %before, i64 1
  ret i64 %crowd
}
; narrow the runs that follow if this one waited longer than helpers saved: where its caller
; computed 5 of 8 shares, it alone would have taken 8/5 of the time in which it did not wait. A run
; whose helpers have no core of their own at its end says nothing
define internal void @learn(ptr %team, ptr %record, i64 %time) #0 {
entry:
  %threads = call i64 @seen(ptr %record, i64 $record_threads)
  %level = call i64 @seen(ptr %record, i64 $record_level)
  %shares = lshr i64 %threads, %level
  %several = icmp sgt i64 %shares, 1
  %elastic = call i64 @number(ptr %team, i64 $team_elastic)
  %learns = icmp ne i64 %elastic, 0
  %both = and i1 %several, %learns
  br i1 %both, label %look, label %end
look:
  %collided = call i1 @collided(ptr %team, ptr %record)
  br i1 %collided, label %end, label %judge
judge:
  %began = call i64 @number(ptr %record, i64 $record_began)
  %waited = call i64 @number(ptr %record, i64 $record_waited)
  %elapsed = sub i64 %time, %began
  %busy = sub i64 %elapsed, %waited
  %own = call i64 @number(ptr %record, i64 $record_own)
  %all = call i64 @number(ptr %record, i64 $record_all)
  %together = mul i64 %elapsed, %own
  %alone = mul i64 %busy, %all
  %lost = icmp sgt i64 %together, %alone
  %pause = call i64 @seen(ptr %team, i64 $elastic_pause)
  br i1 %lost, label %narrow, label %widen
narrow:
  %twice = shl i64 %pause, 1
  %longer = call i64 @llvm.smax.i64(i64 %twice, i64 $least_pause)
  %next = call i64 @llvm.smin.i64(i64 %longer, i64 $longest_pause)
  %until = add i64 %time, %next
  %more = add i64 %level, 1
  call void @show(ptr %team, i64 $elastic_pause, i64 %next)
  call void @show(ptr %team, i64 $elastic_until, i64 %until)
  call void @show(ptr %team, i64 $elastic_level, i64 %more)
  ret void
widen:
  %known = call i64 @seen(ptr %team, i64 $elastic_level)
  %wider = icmp slt i64 %level, %known
  br i1 %wider, label %show, label %calm
show:
  call void @show(ptr %team, i64 $elastic_level, i64 %level)
  br label %calm
calm:
  %narrow.before = icmp ne i64 %pause, 0
  br i1 %narrow.before, label %shorten, label %end
shorten:
  %part = lshr i64 %pause, 3
  %shorter = sub i64 %pause, %part
  call void @show(ptr %team, i64 $elastic_pause, i64 %shorter)
  br label %end
end:
  ret void
}
"""

ENTRY = (
    """
define internal i64 @merged(i64 %a, i64 %b) #1 {
  %c = sub i64 %a, 1
  %d = sub i64 %b, 1
  %e = call i64 @llvm.umin.i64(i64 %c, i64 %d)
  %f = add i64 %e, 1
  ret i64 %f
}
; give the first context the smallest status that is not 0
define internal void @merge(ptr %contexts, i64 %threads) #0 {
entry:
"""
    + loop(
        """
  %context = call ptr @line(ptr %contexts, i64 0, i64 %share)
  %own = call i64 @number(ptr %context, i64 $context_status)
  %worse = call i64 @merged(i64 %status, i64 %own)
""",
        over="share",
        first=0,
        limit="threads",
        before="entry",
        last="loop.share",
        after="end",
        carried=[("i64", "status", "0", "%worse")],
        once=True,
    )
    + """
  call void @put(ptr %contexts, i64 $context_status, i64 %worse)
  ret void
}
; whether helpers sleep since the last brief run
define internal i1 @rests(ptr %team) #0 {
  %time = call i64 @now(ptr %team)
  %before = call i64 @seen(ptr %team, i64 $elastic_left)
  %pause = sub i64 %time, %before
  %long = icmp sgt i64 %pause, $between
  ret i1 %long
}
define void @"$enter"(ptr %team, ptr %segment, ptr %args, i64 %wanted, i64 %brief) #0 {
entry:
  %contexts = load ptr, ptr %args, align 8
  %size.at = call ptr @at(ptr %team, i64 $team_size)
  %size = load atomic i64, ptr %size.at acquire, align 8
  %most = add i64 %size, 1
  %threads = call i64 @llvm.smin.i64(i64 %most, i64 %wanted)
  %entered.at = call ptr @at(ptr %team, i64 $entered)
  %ticket = atomicrmw add ptr %entered.at, i64 1 seq_cst, align 8
  %is.brief = icmp ne i64 %brief, 0
  br i1 %is.brief, label %brief.run, label %queue
brief.run:
  %rests = call i1 @rests(ptr %team)
  br i1 %rests, label %alone, label %go
queue:
  call void @wait_turn(ptr %team, i64 %ticket)
  br label %go
go:
  %record = call ptr @take(ptr %team)
  %none = icmp eq ptr %record, null
  br i1 %none, label %alone, label %together
alone:
  call void %segment(ptr %args)
  br label %left
together:
  %began = call i64 @now(ptr %team)
  %level = call i64 @level(ptr %team, i64 %began)
  call void @show(ptr %record, i64 $record_threads, i64 %threads)
  %crowd = call i64 @crowd(ptr %team, i64 %began)
  call void @show(ptr %record, i64 $record_level, i64 %level)
  call void @show(ptr %record, i64 $record_crowd, i64 %crowd)
  call void @put(ptr %record, i64 $record_began, i64 %began)
  call void @put(ptr %record, i64 $record_waited, i64 0)
  call void @put(ptr %record, i64 $record_own, i64 0)
  call void @put(ptr %record, i64 $record_all, i64 0)
  call void @show(ptr %record, i64 $record_alone, i64 0)
  call void @show(ptr %record, i64 $record_backoff, i64 $backoff)
  call void @be_at(ptr %team, ptr %record)
  %team.number = ptrtoint ptr %team to i64
  %record.number = ptrtoint ptr %record to i64
  call void @put(ptr %contexts, i64 $context_launch, i64 ptrtoint (ptr @launch to i64))
  call void @put(ptr %contexts, i64 $context_team, i64 %team.number)
  call void @put(ptr %contexts, i64 $context_record, i64 %record.number)
  call void @put(ptr %contexts, i64 $context_shares, i64 %threads)
  call void %segment(ptr %args)
  call void @put(ptr %contexts, i64 $context_launch, i64 0)
  call void @merge(ptr %contexts, i64 %threads)
  %ended = call i64 @now(ptr %team)
  call void @learn(ptr %team, ptr %record, i64 %ended)
  %taken = call ptr @at(ptr %record, i64 $record_taken)
  store atomic i64 0, ptr %taken release, align 8
  br label %left
left:
  br i1 %is.brief, label %tell, label %end
tell:
  %last = call i64 @now(ptr %team)
  call void @show(ptr %team, i64 $elastic_left, i64 %last)
  br label %end
end:
  call void @leave(ptr %team)
  ret void
}
"""
)
