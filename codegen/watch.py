"""The functions that long-running loops call to find out whether they must stop.

One asks the caller now and then whether to interrupt the run (``runtime.watch``); the other takes
over the failures of other threads.
"""

from __future__ import annotations

from string import Template

from tessella.codegen.poolir.loops import loop
from tessella.runtime import watch
from tessella.runtime.pool import CONTEXT, LINE
from tessella.support import clock

WATCH = "watch"
"""``i1 @watch(ptr %context)``: returns whether a loop must end, and writes the status."""
FIND_FAILED = "find.failed"
"""``void @find.failed(ptr %context)``: copies a nonzero status of another share to share 0, if
any."""

_FIND_FAILED = (
    """\
define internal void @find.failed(ptr %context) noinline #0 {
entry:
  %shares.at = getelementptr i8, ptr %context, i64 $shares
  %shares = load i64, ptr %shares.at, align 8
"""
    + loop(
        """
  %offset = mul i64 %share, $line
  %other = getelementptr i8, ptr %context, i64 %offset
  %status = load atomic i64, ptr %other monotonic, align 8
  %is.fine = icmp eq i64 %status, 0
  br i1 %is.fine, label %fine, label %failed
failed:
  store i64 %status, ptr %context, align 8
  br label %end
fine:
""",
        over="share",
        first=1,
        limit="shares",
        before="entry",
        last="fine",
        after="end",
    )
    + """
  ret void
}
"""
)
_WATCH = """\
define internal i1 @watch(ptr %context) #0 {
  %slot = getelementptr i8, ptr %context, i64 $slot
  %watch = load ptr, ptr %slot, align 8
  %none = icmp eq ptr %watch, null
  br i1 %none, label %on, label %count
count:
  %before = load i64, ptr %watch, align 8
  %left = sub i64 %before, 1
  store i64 %left, ptr %watch, align 8
  %due = icmp slt i64 %left, 1
  br i1 %due, label %look, label %on
look:
  %ends = call i1 @watch.look(ptr %context, ptr %watch)
  ret i1 %ends
on:
  ret i1 false
}
define internal i1 @watch.look(ptr %context, ptr %watch) noinline #0 {
  %time = alloca [2 x i64], align 8
  %last.at = getelementptr i8, ptr %watch, i64 $last
  %asked.at = getelementptr i8, ptr %watch, i64 $asked
  %clock.at = getelementptr i8, ptr %watch, i64 $clock
  %ask.at = getelementptr i8, ptr %watch, i64 $ask
  %clock = load ptr, ptr %clock.at, align 8
  %failed = call i32 %clock(i32 $id, ptr %time)
  %nanoseconds.at = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time, align 8
  %nanoseconds = load i64, ptr %nanoseconds.at, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %nanoseconds
  %last = load i64, ptr %last.at, align 8
  store i64 %now, ptr %last.at, align 8
  %since = sub i64 %now, %last
  %is.short = icmp slt i64 %since, $short
  %left = select i1 %is.short, i64 $steps, i64 1
  store i64 %left, ptr %watch, align 8
  %asked = load i64, ptr %asked.at, align 8
  %waited = sub i64 %now, %asked
  %is.due = icmp sgt i64 %waited, $period
  br i1 %is.due, label %ask, label %on
ask:
  store i64 %now, ptr %asked.at, align 8
  %function = load ptr, ptr %ask.at, align 8
  %answer = call i64 %function()
  %ends = icmp ne i64 %answer, 0
  br i1 %ends, label %end, label %on
end:
  store i64 $interrupted, ptr %context, align 8
  ; loops around this one ask at their next step, and end, too
  store i64 0, ptr %watch, align 8
  store i64 0, ptr %asked.at, align 8
  ret i1 true
on:
  ret i1 false
}
"""


def watch_text() -> str:
    """Return the LLVM text of the function that asks the caller whether to interrupt the run."""
    offsets = {name: 8 * i for i, name in enumerate(watch.WATCH)}
    return Template(_WATCH).substitute(
        offsets,
        slot=8 * CONTEXT.index("watch"),
        id=clock.ID,
        short=watch.SHORT,
        steps=watch.STEPS,
        period=watch.PERIOD,
        interrupted=watch.INTERRUPTED,
    )


def find_failed_text() -> str:
    """Return the LLVM text of the function that copies the failure of another thread of the run, if
    there is one, to the status of the caller's thread."""
    return Template(_FIND_FAILED).substitute(line=LINE, shares=8 * CONTEXT.index("shares"))
